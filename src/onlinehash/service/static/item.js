// The page of an item: what is stored, its code, its neighbours, and changes.

import { write } from "./api.js";
import { count, field, html, isImageData, labelsOf, titleOf } from "./elements.js";
import { labelNamed } from "./inputs.js";
import { bitsOf, fetchItem, findNeighbours, findPicture, picture, Results, strip } from "./items.js";

const NEIGHBOURS = 8;
const LONG_TEXT = 60;
const MOST_DATA = 60; // characters of a data URL in the payload

export default class ItemView {
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

// ---------------------------------------------------------------------- changes

// Relabel, delete, and delete with unlearning, each confirmed where it cannot be undone.
class Changes {
  constructor(app, { onChanged, onDeleted }) {
    this.app = app;
    this.onChanged = onChanged;
    this.onDeleted = onDeleted;
    this.isBusy = false;
    this.running = Promise.resolve();
    this.box = html("textarea", { id: "new-labels", rows: "1", autocomplete: "off", spellcheck: "false" });
    this.save = html("button", { type: "submit" }, "Save labels");
    this.says = html("p", { class: "hint", role: "status" });
    const form = html("form", { class: "relabel" }, field(app.explain("label", "Labels, one per line"), this.box), this.save);
    this.remove = html("button", { type: "button", class: "danger" }, "Delete");
    this.unlearn = html("button", { type: "button", class: "danger" }, "Delete and unlearn");
    this.dialog = html("dialog", { "aria-labelledby": "confirm-title" },
      html("form", { method: "dialog" }, html("h2", { id: "confirm-title" }), html("p"),
        html("div", { class: "row" }, html("button", { value: "", autofocus: true }, "Keep it"), html("button", { value: "yes", class: "danger" }, "Delete"))));
    this.element = html("section", { class: "changes", "aria-label": "Changes" }, html("h3", {}, "Change this item"), form,
      html("div", { class: "row start" }, this.remove, this.unlearn), this.says, this.dialog);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!this.isBusy) this.run(() => this.relabel()); // else it was clicked twice
    });
    this.remove.addEventListener("click", () => this.run(() => this.delete(false)));
    this.unlearn.addEventListener("click", () => this.run(() => this.delete(true)));
  }

  show(item) {
    const { app } = this;
    this.element.hidden = app.readonly;
    this.unlearn.hidden = !app.stats.unlearns;
    const isOther = item.id !== this.item?.id;
    this.item = item;
    if (isOther) this.says.textContent = "";
    if (!isOther && document.activeElement === this.box) return; // it is being edited
    this.box.value = labelsOf(item.labels).join("\n");
    this.box.rows = Math.max(1, labelsOf(item.labels).length);
  }

  // Changes run one after another: a click during one is not lost.
  run(change) {
    const mine = this.running.catch(() => {}).then(change).catch((error) => this.app.tell(error)).finally(() => {
      this.isBusy = this.running !== mine;
    });
    this.running = mine;
    this.isBusy = true;
  }

  async relabel() {
    const texts = this.box.value.split("\n").map((text) => text.trim()).filter(Boolean);
    const labels = texts.map((text) => labelNamed(text, this.app.labels));
    await this.app.ask("PATCH", "/items", { ids: [this.item.id], labels: [labels.length > 1 ? labels : labels[0] ?? null] });
    this.says.textContent = labels.length ? `Labelled ${texts.join(", ")}.` : "The label was removed.";
    this.box.blur();
    await this.app.changed();
    await this.onChanged();
  }

  async delete(unlearn) {
    const sentence = unlearn
      ? "The item is deleted, and the hasher becomes as if it had never learned from it. This cannot be undone."
      : "The item is deleted. What the hasher learned from it stays. This cannot be undone.";
    if (!(await this.confirm(`Delete item ${this.item.id}?`, sentence))) return;
    await this.app.ask("POST", "/items/delete", { ids: [this.item.id], unlearn });
    this.onDeleted();
    await this.app.changed();
  }

  confirm(title, sentence) {
    const [heading, text] = this.dialog.querySelectorAll("h2, p");
    [heading.textContent, text.textContent] = [title, sentence];
    this.dialog.returnValue = "";
    this.dialog.showModal();
    return new Promise((resolve) => this.dialog.addEventListener("close", () => resolve(this.dialog.returnValue === "yes"), { once: true }));
  }
}
