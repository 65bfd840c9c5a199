// Client of the HTTP API. Paths are relative to the page. The user enters an API key once if the server requires it; it is kept in memory only.

import { byId } from "./elements.js";

let key = null;
let asking = null;
let isDeclined = false; // the dialog was left without a key

const NEEDS_KEY = "This server requires an API key.";

export class ApiError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }

  // Whether the server is away for a while: not reached, restarting, or behind a proxy that does not reach it.
  get isAway() {
    return [0, 502, 503, 504].includes(this.status);
  }
}

// Send JSON and return the JSON of the answer.
export async function ask(method, path, body) {
  const answer = await askRaw(method, path, body === undefined ? undefined : write(body), "application/json");
  return parse(await read(answer));
}

// Send anything and return the response.
export async function askRaw(method, path, body, type) {
  for (;;) {
    const used = key;
    const answer = await send(method, path, body, type);
    if (answer.ok) return answer;
    if (answer.status !== 401) {
      const { detail } = await read(answer).then(parse).catch(() => ({}));
      throw new ApiError(detail ?? `The server answered ${answer.status}.`, answer.status);
    }
    if (key === used) await askForKey(used !== null);
  }
}

async function send(method, path, body, type) {
  const headers = {};
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = type;
  try {
    return await fetch(path, { method, headers, body });
  } catch {
    throw new ApiError("The server does not answer.");
  }
}

async function read(answer) {
  try {
    return await answer.text();
  } catch {
    throw new ApiError("The connection to the server broke.");
  }
}

// Ask again for a key after the dialog was left.
export function offerKey() {
  isDeclined = false;
}

function askForKey(wasWrong) {
  if (isDeclined) throw new ApiError(NEEDS_KEY, 401);
  asking ??= new Promise((resolve, reject) => {
    const dialog = byId("key-dialog"), input = byId("api-key");
    if (wasWrong) byId("key-says").textContent = "The server does not accept this key. Try another.";
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      const given = input.value.trim();
      input.value = "";
      asking = null;
      isDeclined = !given || dialog.returnValue !== "use"; // Escape
      if (isDeclined) return reject(new ApiError(NEEDS_KEY, 401));
      key = given;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

// JSON with exact integers: those that a number cannot hold become BigInt. They pass through JSON.parse as strings that
// begin with a mark, which is random so that no text of the data can pretend to be one.

const MARK = `integer-${crypto.getRandomValues(new Uint32Array(4)).join("-")}:`;
const LONG = /[[:,\s]-?\d{16,}[\]},\s]/;
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, "g");

const isLarge = (token) => /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token));

export function parse(text) {
  if (!LONG.test(` ${text} `)) return JSON.parse(text);
  const marked = text.replace(TOKENS, (token) => (isLarge(token) ? `"${MARK}${token}"` : token));
  return JSON.parse(marked, (_, value) => (typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value));
}

export function write(value, indent) {
  const text = JSON.stringify(value, (_, one) => (typeof one === "bigint" ? MARK + one : one), indent);
  return text.replace(MARKED, "$1");
}
