// The picture of an item: part of its payload, a file of the media folder, or on another site, where it is loaded only when the user asks.

import { html, isImageData } from "./elements.js";

const FILE = /\.(png|jpe?g|gif|webp|avif)$/i;
const NAMES = /^(image|img|picture|photo|thumbnail)/i;
const allowed = new Set(); // hosts whose pictures the user wants to see in this tab
const waiting = new Map(); // host -> what shows its pictures

// Where the picture of a payload is, as { data }, { url } or { path }; null if it has none.
export function findPicture(payload, hasMedia) {
  const fields = typeof payload === "string" ? [["", payload]] : payload !== null && typeof payload === "object" ? Object.entries(payload) : [];
  for (const [name, value] of fields) {
    if (typeof value !== "string") continue;
    if (isImageData(value)) return { name, data: value };
    const url = URL.canParse(value) ? new URL(value) : null;
    if (url?.protocol === "https:" && (FILE.test(url.pathname) || NAMES.test(name))) return { name, url };
    if (url === null && hasMedia && FILE.test(value)) return { name, path: value };
  }
  return null;
}

// An element with the picture, or null. What is on another site needs a button to ask for it: "long", "short", or none.
export function picture(app, item, alt, button = "none") {
  const found = findPicture(item.payload, app.stats.media);
  if (found?.data) return image(found.data, alt);
  if (found?.path) return fromMedia(app, found.path, alt);
  if (!found || (button === "none" && !allowed.has(found.url.host))) return null;
  return fromElsewhere(found.url, alt, button);
}

const image = (src, alt) => html("img", { src, alt, class: "picture", draggable: "false", referrerpolicy: "no-referrer" });

function fromMedia(app, path, alt) {
  const place = html("span", { class: "picture-place" });
  const parts = path.replace(/^\/+/, "").split("/").map(encodeURIComponent).join("/");
  app.askRaw("GET", `/media/${parts}`).then((answer) => answer.blob()).then((blob) => {
    const url = URL.createObjectURL(blob);
    const made = image(url, alt);
    made.addEventListener("load", () => URL.revokeObjectURL(url));
    place.replaceWith(made);
  }).catch(() => place.replaceChildren(html("small", {}, `no picture ${path}`)));
  return place;
}

function fromElsewhere(url, alt, kind) {
  if (allowed.has(url.host)) return image(url.href, alt);
  const button = html("button", { type: "button", class: "quiet picture-ask", "aria-label": `Load pictures from ${url.host}`, title: `Load pictures from ${url.host}` }, kind === "short" ? "show" : `Load pictures from ${url.host}`);
  const shows = waiting.get(url.host) ?? new Set();
  waiting.set(url.host, shows.add(() => button.isConnected && button.replaceWith(image(url.href, alt))));
  button.addEventListener("click", () => {
    allowed.add(url.host);
    for (const show of shows) show();
    waiting.delete(url.host);
  });
  return button;
}
