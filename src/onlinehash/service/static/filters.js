// Which items: a label and conditions on the payload, as text and as the API takes them.

import { ApiError, parse, write } from "./api.js";
import { count, field, html } from "./elements.js";

const OPERATORS = { "=": "$eq", "==": "$eq", "!=": "$ne", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte", in: "$in" };
const CONDITION = /^\s*([^\s<>=!]+)\s*(<=|>=|!=|==|=|<|>|\sin\s)\s*(.+?)\s*$/s;
const PARTS = /(?:"(?:[^"\\]|\\.)*"|(?!\s+and\s)[^"])+/gi;
const OFFERED = 1000;
let made = 0;

// The filter that a text describes: JSON, or conditions such as: price < 20 and brand = "acme"
export function parseWhere(text) {
  if (!text.trim()) return null;
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

export function labelInput(app, attributes = {}) {
  const list = html("datalist", { id: `labels-${++made}` });
  const input = html("input", { list: list.id, autocomplete: "off", spellcheck: "false", ...attributes });
  input.addEventListener("focus", () => {
    const some = app.labels.length > OFFERED ? [...app.labels].sort((a, b) => b.n_items - a.n_items).slice(0, OFFERED) : app.labels;
    list.replaceChildren(...some.map(({ label, n_items: n }) => html("option", { value: String(label) }, `${count(n)} items`)));
  });
  return { input, list };
}

// Two boxes, and their content as part of an address.
export class Filters {
  constructor(app, onChange) {
    this.app = app;
    const { input, list } = labelInput(app, { type: "search", placeholder: "any", class: "label-box" });
    this.labelBox = input;
    this.whereBox = html("input", { type: "search", autocomplete: "off", spellcheck: "false", placeholder: "price < 20 and brand = acme", class: "where-box" });
    this.elements = [field(app.explain("label", "Label"), input), list, field(app.explain("filter", "Filter"), this.whereBox)];
    for (const box of [input, this.whereBox]) box.addEventListener("change", onChange);
  }

  read(query) {
    this.given = query.has("label") ? readValue(query.get("label")) : undefined;
    this.labelBox.value = this.given === undefined ? "" : String(this.given);
    this.whereBox.value = query.get("where") ?? "";
  }

  // The label in the box: that of the address, of whatever type, until the user changes it.
  get label() {
    const text = this.labelBox.value;
    if (this.given !== undefined && text === String(this.given)) return this.given;
    return text === "" ? undefined : labelNamed(text, this.app.labels);
  }

  write(query) {
    if (this.label !== undefined) query.set("label", write(this.label));
    if (this.whereBox.value.trim()) query.set("where", this.whereBox.value.trim());
  }

  // As fields of a request.
  get body() {
    const where = parseWhere(this.whereBox.value);
    return { ...(this.label === undefined ? {} : { labels: this.label }), ...(where === null ? {} : { where }) };
  }
}
