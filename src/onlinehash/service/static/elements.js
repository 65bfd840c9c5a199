// Elements of the page, built from text only: content of a collection is never parsed as HTML. Below, technical words in plain language.

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
export function field(name, control, whole = control) {
  if (typeof name === "string") return html("label", { class: "field" }, html("span", {}, name), whole);
  name.id ||= `name-${++named}`; // a label cannot hold the button of an explained word: it would name that button
  control.setAttribute("aria-labelledby", name.id);
  return html("div", { class: "field" }, name, whole);
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

export const count = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");

export const passed = (milliseconds) => new Promise((resolve) => setTimeout(resolve, Math.max(0, milliseconds)));

// ---------------------------------------------------------------------- words

export const WORDS = {
  "arrival": "The order in which the items were stored. An item that is stored again arrives again.",
  "bits": "Zeros and ones. More bits per item tell items apart better and take more space.",
  "classify": "Say what an item is, by what was learned of all labels. If it is not sure enough, it is left to a person.",
  "code": "The short row of zeros and ones that stands for an item. Similar items get similar codes, so searching means counting the bits that differ.",
  "collection": "All stored items with their labels and codes, and what was learned from them. It lives in one file or database.",
  "coverage": "The share of the sampled items that any of these searches returns. Items that no search returns are stored, but never seen.",
  "distance": "How far an item is from the query. Codes find the candidates by the number of bits that differ; they are then ordered by what was learned, if the method scores classes, or as you choose. 0 means the same.",
  "embedder": "The model that turns a text or an image into a vector, so that you can search by text or by image.",
  "encoder": "The rule that turns a vector into a code. It is fixed, and replaced by a newer one when the codes are refreshed.",
  "filter": "Conditions on the payload of the items, such as price < 20 and brand = acme, or as JSON. Only items that pass are shown.",
  "generation": "One set of codes for all items, made by one encoder. Every refresh makes the next generation.",
  "id": "The name of an item, a number or a text. It is unique within the collection.",
  "index": "How codes are searched. “memory” and “gpu” compare the query with every code; faiss and Milvus may read only the most promising.",
  "item": "One thing that is stored: an id, a vector, perhaps a label, and perhaps a payload.",
  "label": "What an item is, as somebody has said: a category, a topic, a person. The codes are learned so that items with the same label get similar codes.",
  "learned": "Every labelled item that was stored changed the rule for making codes a little. The number says how many did.",
  "map": "Mean average precision, between 0 and 1: how well items with the query's label are ranked before all others. 1 is a perfect ranking.",
  "max error": "The share of wrong labels among those that are given, at most. Fewer errors mean that more items are left to a person.",
  "method": "The name of the learning algorithm, for example HROH.",
  "neighbour": "An item whose code is close to that of the query.",
  "payload": "Anything else you stored with an item, as JSON: a title, a text, a picture, a price.",
  "precision": "The share of the nearest items that have the query's label. 1 means that all of them have it.",
  "prequential": "Test first, then learn: new labelled items, some of every batch, are queries before they are learned from. So quality is measured on items that the hasher has never seen, and no test set is needed.",
  "read only": "This service shows a collection that another program writes to. Nothing can be changed here.",
  "refresh": "Encode all items again with what has been learned by now. Searches go on meanwhile.",
  "searchable": "Items that have a code. The others wait until enough has been learned for a first encoder.",
  "self-recall": "The share of the sampled items that are among the first 10 when their own vector is searched for. It is low where many items share one code.",
  "staleness": "How many items were learned from since the codes were made. A refresh brings it to 0.",
  "vector": "The list of numbers that describes an item, for example the output of a neural network.",
  "version": "How many items the encoder had learned from when it was made.",
};

const GAP = 6;
const LEAVING = 150; // milliseconds to move the pointer from the word to its explanation
const tips = new Map(); // one per word, shared by all its buttons
let open = null; // { tip, button }
let leaving = 0;

// A button that shows the explanation of a word by hover, focus or tap; its text may differ from the word.
export function explain(word, text = word) {
  const name = word.toLowerCase();
  if (!(name in WORDS)) return html("span", {}, text);
  if (!tips.has(name)) tips.set(name, makeTip(name));
  const tip = tips.get(name);
  const button = html("button", { type: "button", class: "explain", "aria-describedby": tip.id }, text);
  button.addEventListener("pointerenter", () => show(tip, button));
  button.addEventListener("pointerleave", leave);
  button.addEventListener("focus", () => show(tip, button));
  button.addEventListener("blur", hide);
  button.addEventListener("click", (event) => {
    event.preventDefault(); // of a label or a summary around it
    show(tip, button);
  });
  return button;
}

function makeTip(name) {
  const id = `word-${name.replaceAll(" ", "-")}`;
  const tip = html("p", { id, class: "tip", role: "tooltip", popover: "manual" }, WORDS[name]);
  tip.addEventListener("pointerenter", () => clearTimeout(leaving));
  tip.addEventListener("pointerleave", leave);
  (document.querySelector("main") ?? document.body).append(tip);
  return tip;
}

function show(tip, button) {
  clearTimeout(leaving);
  if (open && open.tip !== tip) hide();
  if (!open) {
    tip.showPopover();
    addEventListener("scroll", place, { capture: true, passive: true });
    addEventListener("keydown", escape, { capture: true });
  }
  open = { tip, button };
  place();
}

function hide() {
  if (!open) return;
  removeEventListener("scroll", place, { capture: true });
  removeEventListener("keydown", escape, { capture: true });
  open.tip.hidePopover();
  open = null;
}

function leave() {
  clearTimeout(leaving);
  leaving = setTimeout(() => open && document.activeElement !== open.button && hide(), LEAVING);
}

function escape(event) {
  if (event.key === "Escape") hide();
}

function place() {
  const { tip, button } = open;
  if (!button.isConnected) return hide();
  const [at, size] = [button.getBoundingClientRect(), tip.getBoundingClientRect()];
  const isBelow = at.bottom + GAP + size.height <= innerHeight || at.top < size.height + GAP;
  tip.style.top = `${isBelow ? at.bottom + GAP : at.top - GAP - size.height}px`;
  tip.style.left = `${Math.max(GAP, Math.min(at.left, innerWidth - size.width - GAP))}px`;
}
