// Elements of the page, built from text only: content of a collection is never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

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

// The face of an item: its image, its title or its id.
export function face(item) {
  const payload = item.payload ?? {};
  const name = nameOf(item);
  if (typeof payload.image === "string" && payload.image.startsWith("data:image/")) {
    return html("img", { src: payload.image, alt: name, class: "picture", draggable: "false" });
  }
  return html("span", { class: "card-text" }, typeof payload.title === "string" ? payload.title : String(item.id));
}

export function nameOf(item) {
  const label = labelText(item.labels);
  const title = typeof item.payload?.title === "string" ? item.payload.title : `item ${item.id}`;
  return label ? `${title}, label ${label}` : title;
}

export function labelText(labels) {
  if (labels == null) return "";
  return Array.isArray(labels) ? labels.join(", ") : String(labels);
}

export function shareLabel(a, b) {
  const [mine, other] = [a, b].map((labels) => (labels == null ? [] : [].concat(labels)));
  return mine.length && other.length ? mine.some((label) => other.includes(label)) : null;
}

export const count = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");

export const passed = (milliseconds) => new Promise((resolve) => setTimeout(resolve, Math.max(0, milliseconds)));
