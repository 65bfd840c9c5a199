// Vectors that a user gives: numbers as text, or the rows of an array in a .npy file, as numpy.save writes it.

import { ApiError } from "./api.js";

const READERS = { f2: "Uint16", f4: "Float32", f8: "Float64", i1: "Int8", i2: "Int16", i4: "Int32", i8: "BigInt64", u1: "Uint8", u2: "Uint16", u4: "Uint32", u8: "BigUint64" };

const wrong = (text) => new ApiError(`This file ${text}.`, 422);

// The numbers of a text such as [1, 2.5, -3e-2]; null if there is anything else.
export function numbersIn(text) {
  const parts = text.replace(/^[\s[(]+|[\s\])]+$/g, "").split(/[\s,;]+/);
  const numbers = parts.map((part) => (part === "" ? NaN : Number(part)));
  return numbers.every(Number.isFinite) ? numbers : null;
}

// The rows of an array of one or two dimensions: { n, width, row(i) -> numbers }.
export function readNpy(buffer) {
  const bytes = new Uint8Array(buffer);
  if (bytes.length < 12 || String.fromCharCode(...bytes.slice(1, 6)) !== "NUMPY") throw wrong("is no .npy file; write one with numpy.save");
  const view = new DataView(buffer);
  const [start, length] = bytes[6] === 1 ? [10, view.getUint16(8, true)] : [12, view.getUint32(8, true)];
  const header = new TextDecoder().decode(bytes.slice(start, start + length));
  const [, order, type] = /'descr':\s*'([<>|=])(\w+)'/.exec(header) ?? [];
  const shape = (/'shape':\s*\(([^)]*)\)/.exec(header)?.[1] ?? "").split(",").filter((part) => part.trim()).map(Number);
  if (!(type in READERS)) throw wrong(`holds ${type ?? "records"}; save real numbers`);
  if (![1, 2].includes(shape.length)) throw wrong(`holds an array of ${shape.length} dimensions; save one row of numbers per vector`);
  const [n, width] = shape.length === 1 ? [1, shape[0]] : shape;
  const [size, isColumns] = [Number(type[1]), /'fortran_order':\s*True/.test(header)];
  if (!n || !width || bytes.length < start + length + n * width * size) throw wrong(`ends early or is empty: its shape is ${n} × ${width}`);
  const number = type === "f2" ? half : Number;
  const at = (i, j) => number(view[`get${READERS[type]}`](start + length + size * (isColumns ? j * n + i : i * width + j), order !== ">"));
  return { n, width, row: (i) => Array.from({ length: width }, (_, j) => at(i, j)) };
}

// The number that 16 bits of a half-precision float stand for.
function half(bits) {
  const [sign, power, rest] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (power === 31) return rest ? NaN : sign * Infinity;
  return sign * (power ? 2 ** (power - 15) * (1 + rest / 1024) : 2 ** -14 * (rest / 1024));
}
