// What a search found: as rows with the bits of the codes, or as tiles.

import { differing, strip } from "./bits.js";
import { count, html, labelsOf, labelText, nameOf, shareLabel, titleField, titleOf } from "./elements.js";
import { findPicture, picture } from "./picture.js";

const PER_LINE = 32; // bits
const FACTS = 4; // further fields of the payload in a row

export class Results {
  constructor(app) {
    this.app = app;
    this.says = html("p", { class: "sentence", role: "status" });
    this.query = html("div", { class: "hit query" });
    this.hits = html("ol", { class: "hits", "aria-label": "Neighbours, nearest first" });
    this.contrast = html("p", { class: "hint contrast" }, "For contrast, the nearest item with another ", app.explain("label"), ":");
    this.others = html("ol", { class: "hits", "aria-label": "Nearest item with another label" });
    this.legend = html("p", { class: "legend", "aria-hidden": "true" },
      html("span", { class: "bit one" }), "bit is 1 ", html("span", { class: "bit" }), "bit is 0 ",
      this.differs = html("span", {}, html("span", { class: "bit other" }), html("span", { class: "bit other hollow" }), " differs from the query"));
    this.element = html("div", { class: "results" }, this.says, this.query, this.hits, this.contrast, this.others, this.legend);
    this.clear();
  }

  clear(text = "") {
    this.says.textContent = text;
    for (const part of [this.query, this.hits, this.others]) part.replaceChildren();
    for (const part of [this.query, this.contrast, this.legend]) part.hidden = true;
  }

  show(query, { hits, others, own, codes, version }, layout = "rows") {
    if (version === null) return this.clear("No item has a code yet: the hasher needs labelled items first.");
    const asTiles = layout === "tiles";
    this.inBits = [...hits, ...others].every(({ distance: value }) => Number.isInteger(value));
    this.element.classList.toggle("tiled", asTiles);
    this.says.textContent = sentence(query, hits);
    this.query.hidden = asTiles || !(own || query.image);
    this.query.replaceChildren(...(this.query.hidden ? [] : [
      this.face(query.item ?? query), html("div", { class: "what" }, html("b", { class: "clamp" }, nameOfQuery(query)),
        html("div", { class: "facts-line" }, ...this.labels(query, query.item ?? {}))),
      own ? strip(own, null, `The code of the query: ${own.join("")}`, PER_LINE) : html("span"), html("div", { class: "distance" }, "query")]));
    const made = [...hits, ...others].map((hit, i) => (asTiles ? this.tile(query, hit) : this.row(query, hit, own, codes?.[i])));
    this.hits.replaceChildren(...made.slice(0, hits.length));
    this.others.replaceChildren(...made.slice(hits.length));
    this.contrast.hidden = !others.length;
    this.legend.hidden = asTiles || !codes;
    this.differs.hidden = !own;
  }

  face(item) {
    return html("div", { class: "face" }, picture(this.app, item, "", "short") ?? "");
  }

  row(query, hit, own, code) {
    const strips = code ? strip(code, own, own ? `${code.length - differing(code, own)} of ${code.length} bits match` : `Code ${code.join("")}`, PER_LINE) : "";
    return html("li", { class: "hit" }, this.face(hit),
      html("div", { class: "what" },
        html("a", { class: "clamp", href: this.app.linkToItem(hit.id) }, titleOf(hit)),
        html("div", { class: "facts-line" }, ...this.labels(query, hit), ...facts(hit), this.similar(hit))),
      strips, distance(hit, this.inBits));
  }

  tile(query, hit) {
    return html("li", { class: "hit-tile" },
      html("a", { href: this.app.linkToItem(hit.id), "aria-label": nameOf(hit) },
        picture(this.app, hit, "") ?? html("span", { class: "clamp" }, titleOf(hit))),
      html("div", { class: "facts-line" }, ...this.labels(query, hit), distance(hit, this.inBits), this.similar(hit)));
  }

  labels(query, hit) {
    const own = query.item?.labels;
    const verdict = shareLabel(own, hit.labels);
    return labelsOf(hit.labels).map((label) => html("a", {
      class: `chip-label${verdict === null ? "" : labelsOf(own).includes(label) ? " same" : " not-same"}`,
      title: verdict === false ? "another label than the query" : "Browse this label", href: this.app.linkTo(label),
    }, String(label)));
  }

  similar({ id }) {
    return html("a", { class: "similar", href: this.app.href(`#/search?id=${encodeURIComponent(id)}`), "aria-label": `Search with item ${id}` }, "similar");
  }
}

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

function nameOfQuery(query) {
  if (query.name) return query.name;
  return query.item ? titleOf(query.item) : query.text ?? "";
}

function sentence(query, hits) {
  if (!hits.length) return "Nothing found: no other item passes the filter.";
  const many = `${hits.length} neighbour${hits.length === 1 ? "" : "s"}`;
  if (labelsOf(query.item?.labels).length) {
    const right = hits.filter(({ labels }) => shareLabel(query.item.labels, labels)).length;
    return `${right} of ${many} have the label of the query, ${labelText(query.item.labels)}.`;
  }
  const votes = new Map();
  for (const { labels } of hits) for (const label of labelsOf(labels)) votes.set(label, (votes.get(label) ?? 0) + 1);
  const [best, n] = [...votes].sort((a, b) => b[1] - a[1])[0] ?? [];
  return n ? `${n} of ${many} have the label ${best}.` : `${many}, nearest first.`;
}
