// Elements of the page, built from text only: content of a collection is never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const TITLES = ["title", "name", "document", "text", "sentence", "description", "caption", "summary"];

export const byId = (id) => document.getElementById(id);

export function html(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

let named = 0;

// A control with its name, which may be a word that is explained.
export function field(name, control) {
  if (typeof name === "string") return html("label", { class: "field" }, html("span", {}, name), control);
  name.id ||= `name-${++named}`; // a label cannot hold the button of an explained word: it would name that button
  control.setAttribute("aria-labelledby", name.id);
  return html("div", { class: "field" }, name, control);
}

// A choice: options are { value: text }.
export function select(options, attributes = {}) {
  return fillSelect(html("select", attributes), options);
}

export function fillSelect(element, options) {
  const known = Object.keys(options).join();
  if (element.dataset.options === known) return element;
  element.dataset.options = known;
  element.replaceChildren(...Object.entries(options).map(([value, text]) => html("option", { value }, String(text))));
  return element;
}

export const isImageData = (value) => typeof value === "string" && /^data:image\/[\w.+-]+[;,]/.test(value);

// What a person would call an item: a title or text in its payload, else its id.
export function titleOf({ id, payload }) {
  const name = titleField(payload);
  return name === undefined ? `item ${id}` : name === "" ? payload : payload[name];
}

// The field of a payload that has the title; "" if the payload itself is one, undefined if there is none.
export function titleField(payload) {
  const isText = (value) => typeof value === "string" && value.trim() && !isImageData(value);
  if (isText(payload)) return "";
  return payload !== null && typeof payload === "object" ? TITLES.find((name) => isText(payload[name])) : undefined;
}

export function nameOf(item) {
  const label = labelText(item.labels);
  return label ? `${titleOf(item)}, label ${label}` : titleOf(item);
}

export const labelsOf = (labels) => (labels == null ? [] : [].concat(labels));

export const labelText = (labels) => labelsOf(labels).join(", ");

// Whether two items have a label in common; null if one of them has none.
export function shareLabel(a, b) {
  const [mine, others] = [labelsOf(a), labelsOf(b)];
  return mine.length && others.length ? mine.some((label) => others.includes(label)) : null;
}

export const count = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");

export const passed = (milliseconds) => new Promise((resolve) => setTimeout(resolve, Math.max(0, milliseconds)));
