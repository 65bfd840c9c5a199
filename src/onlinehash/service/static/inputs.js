// What people give and take: labels and filters, vectors and tables in files, CSV.

import { ApiError, parse, write } from "./api.js";
import { count, field, html } from "./elements.js";

const OPERATORS = { "=": "$eq", "==": "$eq", "!=": "$ne", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte", in: "$in" };
const CONDITION = /^\s*([^\s<>=!]+)\s*(<=|>=|!=|==|=|<|>|\sin\s)\s*(.+?)\s*$/s;
const PARTS = /(?:"(?:[^"\\]|\\.)*"|(?!\s+and\s)[^"])+/gi;
const OFFERED = 8; // labels
let made = 0;

// ---------------------------------------------------------------------- filters

// The filter that a text describes: JSON, or conditions such as: price < 20 and brand = "acme"
export function parseWhere(text) {
  if (text.trim().startsWith("{")) return readJson(text);
  const parts = text.match(PARTS).map((part) => condition(part.replace(/^\s*and\s+/i, "")));
  return parts.length === 1 ? parts[0] : { $and: parts };
}

function condition(text) {
  const [, path, operator, value] = CONDITION.exec(text) ?? [];
  if (!path) throw new ApiError(`“${text.trim()}” is no condition; write for example: price < 20 and brand = acme`, 422);
  return { [path]: { [OPERATORS[operator.trim()]]: readValue(value) } };
}

function readValue(text) {
  try {
    return parse(text);
  } catch {
    return text;
  }
}

function readJson(text) {
  try {
    return parse(text);
  } catch {
    throw new ApiError("The filter begins with { but is no JSON; write for example {\"price\": {\"$lt\": 20}}", 422);
  }
}

// The label that a text names: one of the collection, else of the type that its labels have.
export function labelNamed(text, labels) {
  const known = labels.find(({ label }) => String(label) === text);
  if (known) return known.label;
  const areNumbers = labels.length > 0 && labels.every(({ label }) => typeof label !== "string");
  return areNumbers && /^-?\d+$/.test(text) ? parse(text) : text;
}

// A box that completes labels as one types: Enter takes the one marked, the arrow keys mark another.
export class LabelBox {
  constructor(app, { onPick, onCancel = () => {}, mayBeNew = true, ...attributes }) {
    Object.assign(this, { app, onPick, onCancel, mayBeNew, options: [], at: 0 });
    this.list = html("ul", { id: `labels-${++made}`, role: "listbox", "aria-label": "Labels", hidden: true });
    this.input = html("input", { role: "combobox", "aria-expanded": "false", "aria-controls": this.list.id, "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", ...attributes });
    this.element = html("span", { class: "combo" }, this.input, this.list);
    this.input.addEventListener("input", () => this.offer());
    this.input.addEventListener("focus", () => this.offer());
    this.input.addEventListener("blur", () => this.close());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("pointerdown", (event) => event.preventDefault()); // keeps the focus
  }

  clear() {
    this.input.value = "";
    this.close();
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  offer() {
    const text = this.input.value.trim(), wanted = text.toLowerCase();
    const rank = (label) => {
      const name = String(label).toLowerCase(), at = name.indexOf(wanted);
      return name === wanted ? 0 : at === 0 ? 1 : at > 0 ? (/[\s_./-]/.test(name[at - 1]) ? 2 : 3) : 9;
    };
    const found = this.app.labels.map(({ label, n_items: n }) => ({ label, n, rank: rank(label) })).filter((one) => one.rank < 9);
    this.options = found.sort((a, b) => a.rank - b.rank || b.n - a.n).slice(0, OFFERED);
    if (this.mayBeNew && text && this.options[0]?.rank !== 0) this.options.push({ label: labelNamed(text, this.app.labels), isNew: true });
    this.list.replaceChildren(...this.options.map(({ label, n, isNew }, i) => {
      const option = html("li", { id: `${this.list.id}-${i}`, role: "option" }, html("span", {}, String(label)), html("small", {}, isNew ? "new label" : count(n)));
      option.addEventListener("click", () => this.pick(label));
      return option;
    }));
    this.list.hidden = !this.options.length;
    this.input.setAttribute("aria-expanded", String(!this.list.hidden));
    this.mark(0);
  }

  mark(at) {
    this.at = (at + this.options.length) % (this.options.length || 1);
    [...this.list.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === this.at)));
    if (this.options.length) this.input.setAttribute("aria-activedescendant", `${this.list.id}-${this.at}`);
  }

  key(event) {
    if (event.isComposing) return;
    if (event.key === "Enter" && this.input.value.trim()) this.pick(this.options[this.at]?.label ?? labelNamed(this.input.value.trim(), this.app.labels));
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") this.mark(this.at + (event.key === "ArrowDown" ? 1 : -1));
    else if (event.key === "Escape") this.cancel();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  cancel() {
    this.clear();
    this.onCancel();
  }

  pick(label) {
    this.clear();
    this.onPick(label);
  }
}

// Labels and conditions as chips that can be taken away, and two boxes to add some; all of it is part of an address.
export class Filters {
  constructor(app, onChange) {
    Object.assign(this, { app, onChange, labels: [], conditions: [] });
    this.box = new LabelBox(app, { onPick: (label) => this.add("labels", label), placeholder: "any", class: "label-box" });
    this.whereBox = html("input", { autocomplete: "off", spellcheck: "false", placeholder: "price < 20 and brand = acme", class: "where-box" });
    this.whereBox.addEventListener("change", () => this.whereBox.value.trim() && this.addCondition());
    this.chips = html("ul", { class: "chips", "aria-label": "In use", hidden: true });
    this.elements = [field(app.explain("label", "Label"), this.box.input, this.box.element), field(app.explain("filter", "Filter"), this.whereBox), this.chips];
  }

  addCondition() {
    const text = this.whereBox.value.trim();
    try {
      parseWhere(text);
    } catch (error) {
      return this.app.tell(error);
    }
    this.whereBox.value = "";
    this.add("conditions", text);
  }

  add(kind, value) {
    if (!this[kind].includes(value)) this[kind].push(value);
    this.draw();
    this.onChange();
  }

  draw() {
    const chip = (kind, value, text) => {
      const button = html("button", { type: "button", class: "chip", "aria-label": `Remove the filter ${text}` }, text, html("span", { "aria-hidden": "true" }, "×"));
      button.addEventListener("click", () => {
        this[kind] = this[kind].filter((one) => one !== value);
        this.draw();
        this.onChange();
        (this.chips.querySelector("button") ?? this.box.input).focus();
      });
      return html("li", {}, button);
    };
    this.chips.replaceChildren(...this.labels.map((label) => chip("labels", label, `label ${label}`)), ...this.conditions.map((text) => chip("conditions", text, text)));
    this.chips.hidden = !this.chips.childElementCount;
  }

  read(query) {
    this.labels = query.getAll("label").map(readValue);
    this.conditions = query.getAll("where").filter((text) => text.trim());
    this.draw();
  }

  write(query) {
    for (const label of this.labels) query.append("label", write(label));
    for (const text of this.conditions) query.append("where", text);
  }

  // As fields of a request.
  get body() {
    const tests = this.conditions.map(parseWhere);
    return { ...(this.labels.length ? { labels: this.labels } : {}), ...(tests.length ? { where: tests.length > 1 ? { $and: tests } : tests[0] } : {}) };
  }
}

// ---------------------------------------------------------------------- vectors

const READERS = { f2: "Uint16", f4: "Float32", f8: "Float64", i1: "Int8", i2: "Int16", i4: "Int32", i8: "BigInt64", u1: "Uint8", u2: "Uint16", u4: "Uint32", u8: "BigUint64" };

const wrong = (text) => new ApiError(`This file ${text}.`, 422);

// The numbers of a text such as [1, 2.5, -3e-2]; null if there is anything else.
export function numbersIn(text) {
  const parts = text.replace(/^[\s[(]+|[\s\])]+$/g, "").split(/[\s,;]+/);
  const numbers = parts.map((part) => (part === "" ? NaN : Number(part)));
  return numbers.every(Number.isFinite) ? numbers : null;
}

// The rows of an array of one or two dimensions, as numpy.save writes it: { n, width, row(i) -> numbers }.
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

export function dataUrl(file) {
  const reader = new FileReader();
  reader.readAsDataURL(file);
  return new Promise((resolve) => reader.addEventListener("load", () => resolve(reader.result)));
}

// ---------------------------------------------------------------------- CSV

// The rows of a CSV file (RFC 4180), separated by commas, semicolons or tabs.
export function readCsv(text) {
  const first = text.slice(0, (text + "\n").indexOf("\n"));
  const separator = ["\t", ";", ","].find((one) => first.includes(one)) ?? ",";
  const rows = [[]];
  const cell = new RegExp(`("(?:[^"]|"")*"|[^"${separator}\\r\\n][^${separator}\\r\\n]*|)(${separator}|\\r?\\n|$)`, "gy");
  for (let found; cell.lastIndex < text.length && (found = cell.exec(text));) {
    const [, value, end] = found;
    rows.at(-1).push(value.startsWith("\"") ? value.slice(1, -1).replaceAll("\"\"", "\"") : value);
    if (end !== separator) rows.push([]);
  }
  return rows.filter((row) => row.some((value) => value !== ""));
}

// A file of rows, which the browser saves. Cells that a spreadsheet would take for a formula begin with an apostrophe.
export function saveCsv(name, rows) {
  const cell = (value) => {
    const text = value == null ? "" : typeof value === "object" ? write(value) : String(value);
    const safe = typeof value === "string" && /^[=+@\t\r-]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll("\"", "\"\"")}"` : safe;
  };
  const url = URL.createObjectURL(new Blob([rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("")], { type: "text/csv" }));
  html("a", { href: url, download: `${name}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// Columns of items for a table: the fields of their payloads, or the payload itself, pictures left out.
export function tableOf(items, own = {}) {
  const names = [...new Set(items.flatMap(({ payload }) => (payload !== null && typeof payload === "object" && !Array.isArray(payload) ? Object.keys(payload) : [])))];
  const value = (one) => (typeof one === "string" && one.startsWith("data:image/") ? "" : one);
  const rows = items.map((item) => [item.id, [].concat(item.labels ?? []).join("; "), ...Object.values(own).map((read) => read(item)),
    ...(names.length ? names.map((name) => value(item.payload?.[name])) : [value(item.payload)])]);
  return [["id", "label", ...Object.keys(own), ...(names.length ? names : ["payload"])], ...rows];
}
