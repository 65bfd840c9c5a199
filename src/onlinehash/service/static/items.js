// Items: how they are read, what is found for a query, their pictures, and how both are shown.

import { ApiError } from "./api.js";
import { count, html, isImageData, labelsOf, labelText, nameOf, svg, titleField, titleOf } from "./elements.js";
import { saveCsv, tableOf } from "./inputs.js";

// ---------------------------------------------------------------------- reading

// Ids that cannot be part of an address: browsers resolve dots, other routes have these names, and routes end at a line.
const NOT_IN_PATHS = /^(|\.\.?|get|list|count|delete)$|[\n\r]/;

export async function fetchItem(app, text) {
  const isNumber = /^-?\d+$/.test(text);
  if (app.stats.id_type === "int" && !isNumber) throw new ApiError(`“${text}” is not an id of this collection, whose ids are integers.`, 404);
  if (!NOT_IN_PATHS.test(text)) return app.ask("GET", `/items/${encodeURIComponent(text)}`);
  return (await app.ask("POST", "/items/get", { ids: [text] })).items[0];
}

// A query is { item } of a stored item, { vector }, { text } or { image }; this is it as fields of a request.
export function asked(query, byId = true) {
  if (query.image) return { images: [query.image] };
  if (query.text !== undefined) return { documents: [query.text] };
  return query.vector || !byId ? { vectors: [query.vector ?? query.item.vectors] } : { by_id: [query.item.id] };
}

// What a search finds; options are k, compare, labels and where, and whether to read the bits of the codes.
export async function findNeighbours(app, query, { compare = "auto", bits = false, ...body }) {
  const options = { ...body, include: ["labels", "payload"] };
  if (compare === "asymmetric") options.asymmetric = true;
  if (compare !== "auto") options.rescore = ["cosine", "l2"].includes(compare) ? compare : null;
  for (let tries = 0; ; tries++) {
    const answer = await app.ask("POST", "/search", { ...asked(query), ...options });
    const hits = neighbours(answer);
    if (answer.version === null || !hits.length) return { hits, version: answer.version };
    const isLearned = compare === "auto" && app.stats.decides;
    const [coded, byVector] = await Promise.all([bits ? codes(app, query, hits) : null, isLearned ? app.ask("POST", "/search", { ...asked(query), ...body, rescore: "cosine" }) : null]);
    if (byVector) for (const hit of hits) hit.found = byVector.ids[0].includes(hit.id) ? "vector" : "class";
    // The codes may have been refreshed between the two requests.
    if (!coded || coded.version === answer.version || tries === 2) return { hits, version: answer.version, ...coded };
  }
}

// The neighbours of one query of an answer, one object each.
export function neighbours({ ids, distances, labels, payload }, query = 0) {
  return ids[query].map((id, i) => ({ id, distance: distances[query][i], labels: labels[query][i], payload: payload[query][i] }));
}

// The codes of the query (null for a text or an image) and of the items found.
async function codes(app, query, hits) {
  const ids = [...(query.item && !query.vector ? [query.item.id] : []), ...hits.map(({ id }) => id)];
  const vectors = (await app.ask("POST", "/items/get", { ids })).items.map((item) => item.vectors);
  if (query.vector) vectors.unshift(query.vector);
  const encoded = await app.ask("POST", "/encode", { vectors });
  const bits = encoded.codes.map((code) => bitsOf(code, encoded.n_bits));
  return { version: encoded.version, own: bits.length > hits.length ? bits.shift() : null, codes: bits };
}

// ---------------------------------------------------------------------- bits

const [SIDE, PITCH, PER_LINE] = [10, 12, 32];

// Codes are hexadecimal digits: bit i is bit i % 8 of byte i // 8.
export function bitsOf(code, nBits) {
  return Array.from({ length: nBits }, (_, i) => (parseInt(code.substr((i >> 3) * 2, 2), 16) >> (i & 7)) & 1);
}

// A code as a strip of small squares; bits that differ from another code are round.
export function strip(bits, others, label) {
  const shapes = bits.map((bit, i) => {
    const [x, y] = [(i % PER_LINE) * PITCH + 1, Math.floor(i / PER_LINE) * PITCH + 1];
    const names = `bit${bit ? " one" : ""}`;
    if (others && others[i] !== bit) return svg("circle", { cx: x + SIDE / 2, cy: y + SIDE / 2, r: SIDE / 2 - 0.5, class: `${names} other` });
    return svg("rect", { x: x + 0.5, y: y + 0.5, width: SIDE - 1, height: SIDE - 1, rx: 2, class: names });
  });
  const columns = Math.min(bits.length, PER_LINE);
  const box = svg("svg", { viewBox: `0 0 ${columns * PITCH} ${Math.ceil(bits.length / PER_LINE) * PITCH}`, role: "img", "aria-label": label }, ...shapes);
  box.style.maxWidth = `${columns * PITCH * 1.2}px`; // few bits are no larger than many
  return html("div", { class: "strip" }, box);
}

// ---------------------------------------------------------------------- pictures

// The picture of an item: part of its payload, a file of the media folder, or on another site, where it is loaded only when the user asks.


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

// ---------------------------------------------------------------------- results

const FACTS = 4; // further fields of the payload in a row

// What a search found: as rows, with the bits of the codes if they were read, or as tiles.
export class Results {
  constructor(app) {
    this.app = app;
    this.says = html("p", { class: "sentence", role: "status" });
    this.save = html("button", { type: "button", class: "quiet", hidden: true }, "Save as CSV");
    this.save.addEventListener("click", () => saveCsv("results", tableOf(this.found, { distance: ({ distance: far }) => far, found_by: ({ found }) => found ?? "" })));
    this.query = html("div", { class: "hit query" });
    this.hits = html("ol", { class: "hits", "aria-label": "Neighbours, nearest first" });
    this.legend = html("p", { class: "legend", "aria-hidden": "true" },
      html("span", { class: "bit one" }), "bit is 1 ", html("span", { class: "bit" }), "bit is 0 ",
      this.differs = html("span", {}, html("span", { class: "bit other" }), html("span", { class: "bit other hollow" }), " differs from the query"));
    this.element = html("div", { class: "results" }, html("div", { class: "row" }, this.says, this.save), this.query, this.hits, this.legend);
    this.clear();
  }

  clear(text = "") {
    this.says.textContent = text;
    for (const part of [this.query, this.hits]) part.replaceChildren();
    for (const part of [this.query, this.legend, this.save]) part.hidden = true;
  }

  show(query, { hits, own, codes: read, version }, layout = "rows") {
    if (version === null) return this.clear("No item has a code yet: the hasher needs labelled items first.");
    const asTiles = layout === "tiles";
    this.found = hits;
    this.inBits = hits.every(({ distance: value }) => Number.isInteger(value));
    this.element.classList.toggle("tiled", asTiles);
    this.says.textContent = sentence(query, hits);
    this.save.hidden = !hits.length;
    this.query.hidden = asTiles;
    this.query.replaceChildren(this.face(query.item ?? query), html("div", { class: "what" }, html("b", { class: "clamp" }, query.name ?? (query.item ? titleOf(query.item) : query.text ?? "")),
      html("div", { class: "facts-line" }, ...this.labels(query, query.item ?? {}))),
    own ? strip(own, null, `The code of the query: ${own.join("")}`) : "", html("div", { class: "distance" }, "query"));
    this.hits.replaceChildren(...hits.map((hit, i) => (asTiles ? this.tile(query, hit) : this.row(query, hit, own, read?.[i]))));
    this.legend.hidden = asTiles || !read;
    this.differs.hidden = !own;
  }

  face(item) {
    return html("div", { class: "face" }, picture(this.app, item, "", "short") ?? "");
  }

  row(query, hit, own, code) {
    const differing = own && code?.reduce((sum, bit, i) => sum + (bit !== own[i]), 0);
    return html("li", { class: "hit" }, this.face(hit),
      html("div", { class: "what" },
        html("a", { class: "clamp", href: this.app.linkToItem(hit.id) }, titleOf(hit)),
        html("div", { class: "facts-line" }, ...this.labels(query, hit), ...foundBy(hit), ...facts(hit), this.similar(hit))),
      code ? strip(code, own, own ? `${code.length - differing} of ${code.length} bits match` : `Code ${code.join("")}`) : "",
      distance(hit, this.inBits));
  }

  tile(query, hit) {
    return html("li", { class: "hit-tile" },
      html("a", { href: this.app.linkToItem(hit.id), "aria-label": nameOf(hit) },
        picture(this.app, hit, "") ?? html("span", { class: "clamp" }, titleOf(hit))),
      html("div", { class: "facts-line" }, ...this.labels(query, hit), ...foundBy(hit), distance(hit, this.inBits), this.similar(hit)));
  }

  labels(query, hit) {
    const own = labelsOf(query.item?.labels);
    return labelsOf(hit.labels).map((label) => {
      const verdict = !own.length || hit === query.item ? "" : own.includes(label) ? " same" : " not-same";
      return html("a", { class: `chip-label${verdict}`, title: verdict === " not-same" ? "another label than the query" : "Browse this label", href: this.app.linkTo(label) }, String(label));
    });
  }

  similar({ id }) {
    return html("a", { class: "similar", href: this.app.href(`#/search?id=${encodeURIComponent(id)}`), "aria-label": `Search with item ${id}` }, "similar");
  }
}

const WHY = { class: "Its class brought it here: by their vectors alone, others are nearer.", vector: "It is also among the nearest by their vectors alone." };
const foundBy = ({ found }) => (found ? [html("span", { class: `found ${found}`, title: WHY[found] }, `found by ${found}`)] : []);

function distance({ distance: value }, inBits) {
  const [number, unit] = inBits ? [count(value), value === 1 ? " bit" : " bits"] : [value.toFixed(3), ""];
  return html("div", { class: "distance" }, html("span", { class: "unseen" }, "distance "), html("b", {}, number), html("small", {}, unit));
}

// The id and a few short fields of the payload, other than the title and the picture.
function facts(item) {
  const title = titleField(item.payload);
  const found = title === undefined ? [] : [html("span", { class: "fact" }, String(item.id))];
  if (item.payload === null || typeof item.payload !== "object") return found;
  const shown = [title, findPicture(item.payload, true)?.name];
  for (const [name, value] of Object.entries(item.payload)) {
    if (shown.includes(name) || value === null || typeof value === "object" || value === titleOf(item) || found.length > FACTS) continue;
    found.push(html("span", { class: "fact" }, `${name} `, html("b", {}, String(value))));
  }
  return found;
}

function sentence(query, hits) {
  if (!hits.length) return "Nothing found: no other item passes the filter.";
  const many = `${hits.length} neighbour${hits.length === 1 ? "" : "s"}`, own = labelsOf(query.item?.labels);
  const byClass = hits.filter(({ found }) => found === "class").length;
  const learned = byClass ? ` ${byClass} of them by class: their vectors alone are farther than others.` : "";
  const having = (test) => hits.filter(({ labels }) => test(labelsOf(labels))).length;
  if (own.length === 1) return `${having((labels) => labels.includes(own[0]))} of ${many} have the label of the query, ${own[0]}.${learned}`;
  if (own.length) {
    const [all, some] = [having((labels) => own.every((label) => labels.includes(label))), having((labels) => own.some((label) => labels.includes(label)))];
    return `${all} of ${many} have all labels of the query (${labelText(own)}), ${some} at least one of them.${learned}`;
  }
  const votes = new Map();
  for (const { labels } of hits) for (const label of labelsOf(labels)) votes.set(label, (votes.get(label) ?? 0) + 1);
  const [best, n] = [...votes].sort((a, b) => b[1] - a[1])[0] ?? [];
  return (n ? `${n} of ${many} have the label ${best}.` : `${many}, nearest first.`) + learned;
}
