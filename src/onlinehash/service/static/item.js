// The page of an item: what is stored, its code, its neighbours, and changes.

import { write } from "./api.js";
import { bitsOf, strip } from "./bits.js";
import { count, html, isImageData, labelsOf, titleOf } from "./elements.js";
import { Changes } from "./item-changes.js";
import { fetchItem, findNeighbours } from "./lookups.js";
import { findPicture, picture } from "./picture.js";
import { Results } from "./results.js";

const NEIGHBOURS = 8;
const LONG_TEXT = 60;
const MOST_DATA = 60; // characters of a data URL in the payload

export class ItemView {
  constructor(app) {
    this.app = app;
    this.title = html("h2", { id: "item-title", class: "break" });
    this.labels = html("p", { class: "facts-line" });
    this.picture = html("div", { class: "item-picture" });
    this.texts = html("div", { class: "texts-in-full" });
    this.payload = html("pre", { tabindex: "0", "aria-label": "Payload", role: "region" });
    this.facts = html("dl", { class: "item-facts" });
    this.code = html("div");
    this.vector = html("details", {}, html("summary", {}, "Show the vector"), html("pre", { tabindex: "0", "aria-label": "Vector", role: "region" }));
    this.changes = new Changes(app, { onChanged: () => this.load(), onDeleted: () => this.showGone("This item was deleted.") });
    this.results = new Results(app);
    this.gone = html("p", { class: "card", role: "status", hidden: true });
    this.similar = html("a", { class: "button" }, "Search with this item");
    const about = html("section", { class: "card", "aria-labelledby": "item-title" },
      html("div", { class: "head" }, this.title, this.similar), this.labels, this.picture, this.texts,
      html("h3", {}, app.explain("payload", "Payload")), this.payload);
    const state = html("section", { class: "card", "aria-labelledby": "code-title" },
      html("h2", { id: "code-title" }, app.explain("code", "Code")), this.code, this.facts, this.vector, this.changes.element);
    const near = html("section", { class: "card wide", "aria-labelledby": "near-title" },
      html("h2", { id: "near-title" }, app.explain("neighbour", "Neighbours")), this.results.element);
    this.content = html("div", { class: "item" }, about, state, near);
    this.element = html("section", {}, html("p", { class: "back" }, html("a", { href: app.href("#/items") }, "All items")), this.gone, this.content);
  }

  async show({ parts }) {
    this.id = parts.join("/");
    this.content.hidden = this.gone.hidden = true;
    await this.load();
  }

  async load() {
    const { id } = this;
    try {
      const item = await fetchItem(this.app, id);
      if (id === this.id) await this.draw(item);
    } catch (error) {
      if (error.status !== 404 || id !== this.id) throw error;
      this.showGone(error.message);
    }
  }

  showGone(text) {
    this.item = null;
    this.content.hidden = true;
    this.gone.hidden = false;
    this.gone.textContent = text;
  }

  async update(stats) {
    const state = [stats.sequence, stats.version, stats.n_items].join();
    if (state === this.state || this.changes.isBusy) return;
    this.state = state;
    if (this.item && !this.results.element.contains(document.activeElement)) await this.load();
  }

  async draw(item) {
    const { app } = this, { stats } = app;
    this.item = item;
    this.state = [stats.sequence, stats.version, stats.n_items].join();
    this.content.hidden = false;
    this.gone.hidden = true;
    this.title.textContent = shorten(titleOf(item), 160);
    this.similar.href = app.href(`#/search?id=${encodeURIComponent(item.id)}`);
    this.labels.replaceChildren(...labelsOf(item.labels).map((label) => html("a", { class: "chip-label", href: app.linkTo(label) }, String(label))));
    const known = write(item.payload);
    if (known !== this.drawn?.payload || item.id !== this.drawn?.id) this.drawPayload(item);
    this.drawn = { id: item.id, payload: known };
    this.drawFacts(item, stats);
    this.changes.show(item);
    await Promise.all([this.drawCode(item), this.drawNeighbours(item)]);
  }

  drawPayload(item) {
    const { payload } = item;
    const large = picture(this.app, item, `Picture of item ${item.id}`, "long");
    this.picture.replaceChildren(...(large ? [large] : []));
    this.picture.classList.toggle("tiny", Boolean(findPicture(payload)?.data));
    const texts = payload !== null && typeof payload === "object" ? Object.entries(payload) : [["text", payload]];
    const long = texts.filter(([, value]) => typeof value === "string" && value.length > LONG_TEXT && !isImageData(value) && value !== this.title.textContent);
    this.texts.replaceChildren(...long.flatMap(([name, value]) => [html("h3", {}, name), html("p", { class: "full" }, value)]));
    this.payload.textContent = write(payload, 2).replace(/"data:image\/[^"]*"/g, (data) => (data.length > MOST_DATA ? `${data.slice(0, MOST_DATA)}…"` : data));
  }

  drawFacts(item, stats) {
    const { app } = this;
    const facts = [
      [app.explain("id", "id"), String(item.id)],
      [app.explain("version"), item.version === null ? "none yet" : count(item.version)],
      ...(item.generation == null ? [] : [[app.explain("generation"), count(item.generation)]]),
      [app.explain("vector", "numbers per vector"), count(item.vectors?.length ?? stats.n_features)],
    ];
    this.facts.replaceChildren(...facts.map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", { class: "break" }, value))));
    this.vector.lastChild.textContent = item.vectors ? `[${item.vectors.join(", ")}]` : "";
    this.vector.hidden = !item.vectors;
  }

  async drawCode(item) {
    let { code } = item, nBits = this.app.stats.n_bits;
    if (code === undefined && item.version !== null) {
      const encoded = await this.app.ask("POST", "/encode", { vectors: [item.vectors] });
      [code, nBits] = [encoded.codes[0], encoded.n_bits];
    }
    if (item !== this.item) return;
    if (!code) return this.code.replaceChildren(html("p", { class: "hint" }, "No code yet: it waits for the first encoder or for the next refresh."));
    const bits = bitsOf(code, nBits);
    this.code.replaceChildren(strip(bits, null, `The code: ${bits.join("")}`), html("p", { class: "hint break" }, html("code", {}, code)));
  }

  async drawNeighbours(item) {
    const found = await findNeighbours(this.app, { item }, { k: NEIGHBOURS });
    if (item === this.item) this.results.show({ item }, found);
  }
}

const shorten = (text, most) => (text.length > most ? `${text.slice(0, most)}…` : text);
