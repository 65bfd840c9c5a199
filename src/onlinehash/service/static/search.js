// The view Search: by id, vector, text, file or example; what is found is shown with its bits.

import { ApiError } from "./api.js";
import { count, field, fillSelect, html, select } from "./elements.js";
import { Examples } from "./examples.js";
import { Filters } from "./filters.js";
import { fetchItem, findNeighbours } from "./lookups.js";
import { Results } from "./results.js";
import { numbersIn, readNpy } from "./vectors.js";

const COMPARISONS = { auto: "as learned", bits: "bits with bits", asymmetric: "real numbers with bits", cosine: "bits, then cosine", l2: "bits, then Euclidean" };
const HINTS = { id: "The id of a stored item", vector: "Numbers, separated by commas or spaces", text: "Describe what you look for" };

export class SearchView {
  constructor(app) {
    this.app = app;
    this.query = null;
    this.turn = 0;
    this.asked = 0; // counts what was asked for: what comes late gives way
    this.typed = 0; // counts changes of the box by its user
    this.examples = new Examples(app);
    this.results = new Results(app);
    this.filters = new Filters(app, () => this.optionsChanged());
    this.by = select({ id: "by id" }, { id: "by", "aria-label": "Search by" });
    this.box = html("textarea", { id: "query-text", rows: "1", autocomplete: "off", spellcheck: "false", "aria-label": "What to search for" });
    this.file = html("input", { type: "file", id: "query-file", class: "unseen", accept: ".npy" });
    this.row = html("input", { type: "number", id: "query-row", min: "1", value: "1" });
    this.rowField = html("p", { class: "row start", hidden: true }, field("Row", this.row), html("span", { id: "rows-say", class: "hint" }));
    this.k = select(Object.fromEntries([5, 10, 20, 50, 100].map((k) => [k, k])), { id: "k" });
    this.compare = select(COMPARISONS, { id: "compare" });
    this.layout = select({ rows: "rows", tiles: "tiles" }, { id: "layout" });
    this.lead = html("p", { class: "lead" });
    this.empty = html("div", { class: "card", hidden: true });
    this.form = html("form", { role: "search", class: "ask" }, this.by, this.box,
      html("button", { type: "submit", class: "main" }, "Search"),
      html("label", { for: "query-file", class: "button" }, this.fileName = html("span", {}, "File (.npy)")), this.file);
    this.options = html("form", { class: "row options" },
      field(app.explain("neighbour", "Neighbours"), this.k), ...this.filters.elements,
      field(app.explain("distance", "Compare"), this.compare), field("Show as", this.layout));
    this.found = html("section", { class: "card", "aria-labelledby": "found-title" },
      html("h2", { id: "found-title", class: "unseen" }, "Results"), this.options, this.results.element);
    this.element = html("section", { class: "search" },
      html("section", { class: "card", "aria-labelledby": "search-title" }, html("h2", { id: "search-title" }, "Find similar items"), this.lead, this.form, this.rowField, this.examples.element),
      this.empty, this.found);
    this.listen();
  }

  listen() {
    const { app } = this;
    const guarded = (action) => (event) => Promise.resolve().then(() => action(event)).catch((error) => app.tell(error));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      guarded(() => this.submit())();
    });
    this.box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.form.requestSubmit();
    });
    this.box.addEventListener("input", () => this.typed++);
    this.by.addEventListener("change", () => this.showHint());
    this.file.addEventListener("change", guarded(() => this.file.files.length && this.take(this.file.files[0])));
    this.form.addEventListener("dragover", (event) => event.preventDefault());
    this.form.addEventListener("drop", (event) => {
      event.preventDefault();
      guarded(() => event.dataTransfer.files.length && this.take(event.dataTransfer.files[0]))();
    });
    this.row.addEventListener("change", guarded(() => this.takeRow()));
    this.options.addEventListener("submit", (event) => event.preventDefault());
    for (const one of [this.k, this.compare, this.layout]) one.addEventListener("change", () => this.optionsChanged());
  }

  // ------------------------------------------------------------------ the route

  async show({ query }) {
    const { stats } = this.app, asked = ++this.asked, { typed } = this;
    const text = query.get("id") ?? query.get("text") ?? "";
    const inBox = () => (typed === this.typed ? text : null);
    const mayBe = { ...(stats.embeds === "text" ? { text: "by text" } : {}), id: "by id", vector: "by vector" };
    fillSelect(this.by, mayBe);
    this.file.accept = stats.embeds === "image" ? ".npy,image/*" : ".npy";
    this.fileName.textContent = stats.embeds === "image" ? "Image or .npy" : "File (.npy)";
    this.filters.read(query);
    this.k.value = query.get("k") ?? "10";
    this.compare.value = query.get("compare") ?? "auto";
    this.layout.value = query.get("as") ?? "rows";
    for (const one of [this.k, this.compare, this.layout]) if (one.selectedIndex < 0) one.selectedIndex = 0;
    this.say();
    this.showHint();
    if (!this.examples.items.length) await this.examples.offer();
    if (asked !== this.asked) return;
    if (query.has("id")) {
      this.query = null;
      const item = await fetchItem(this.app, text);
      if (asked !== this.asked) return;
      this.setQuery({ item }, "id", inBox());
    } else if (query.has("text") && stats.embeds === "text") this.setQuery({ text }, "text", inBox());
    else if (!this.query?.vector && !this.query?.image) this.pickFirst(inBox());
    this.showHint();
    await this.run();
  }

  // Before anything is asked, the first example shows what a search finds.
  pickFirst(text) {
    const [item] = this.examples.items;
    this.setQuery(item ? { item, isFirst: true } : null, null, text);
  }

  // The box keeps what is being typed if the text is null.
  setQuery(query, by, text) {
    this.query = query;
    if (text !== null) {
      if (by && [...this.by.options].some(({ value }) => value === by)) this.by.value = by;
      this.box.value = text;
    }
    this.rowField.hidden = !query?.rows;
    this.examples.mark(query?.item?.id);
  }

  address(query = this.query) {
    const params = new URLSearchParams();
    if (query?.item && !query.isFirst) params.set("id", query.item.id);
    if (query?.text !== undefined) params.set("text", query.text);
    if (this.k.value !== "10") params.set("k", this.k.value);
    if (this.compare.value !== "auto") params.set("compare", this.compare.value);
    if (this.layout.value !== "rows") params.set("as", this.layout.value);
    this.filters.write(params);
    return params.size ? `#/search?${params}` : "#/search";
  }

  optionsChanged() {
    this.app.replace(this.address());
    return this.run();
  }

  // ------------------------------------------------------------------ queries

  async submit() {
    const text = this.box.value.trim();
    if (!text) return this.box.focus();
    const numbers = numbersIn(text);
    if (this.by.value !== "vector" && numbers?.length === this.app.stats.n_features && numbers.length > 1) this.by.value = "vector";
    if (this.by.value === "vector") return this.askVector(numbers, "your vector", text);
    const asked = ++this.asked;
    const query = this.by.value === "text" ? { text } : { item: await fetchItem(this.app, text) };
    if (asked !== this.asked) return;
    const to = this.app.href(this.address(query));
    if (to === location.hash) await this.app.route();
    else location.hash = to;
  }

  askVector(vector, name, text = "", rows = null) {
    const width = this.app.stats.n_features;
    if (!vector?.length) throw new ApiError("This is no vector: paste numbers, separated by commas or spaces.", 422);
    if (width !== null && vector.length !== width) throw new ApiError(`This vector has ${count(vector.length)} numbers, those of this collection have ${count(width)}.`, 422);
    this.asked++;
    this.setQuery({ vector, name, rows }, "vector", text);
    this.app.replace(this.address());
    return this.run();
  }

  // A file: rows of an array, or an image.
  async take(file) {
    this.file.value = "";
    if (file.type.startsWith("image/")) {
      if (this.app.stats.embeds !== "image") throw new ApiError("This collection has no embedder for images; give a vector (.npy).", 422);
      const asked = ++this.asked, image = await dataUrl(file);
      if (asked !== this.asked) return;
      this.setQuery({ image: image.slice(image.indexOf(",") + 1), name: file.name, payload: { image } }, null, "");
      this.app.replace(this.address());
      return this.run();
    }
    this.rows = { name: file.name, ...readNpy(await file.arrayBuffer()) };
    this.row.max = this.rows.n;
    this.row.value = 1;
    this.rowField.lastChild.textContent = `of ${count(this.rows.n)} in ${file.name}`;
    return this.takeRow();
  }

  takeRow() {
    const i = Math.min(this.rows.n, Math.max(1, Math.round(Number(this.row.value)) || 1));
    this.row.value = i;
    return this.askVector(this.rows.row(i - 1), `row ${count(i)} of ${this.rows.name}`, "", this.rows);
  }

  // Repeat the last search: options, items or codes may have changed.
  async run() {
    const { query } = this;
    const turn = ++this.turn;
    this.seen = [this.app.stats.version, this.app.stats.n_searchable].join();
    if (!query) return this.results.clear();
    if (query !== this.shown) this.results.clear("Searching …");
    try {
      const options = { k: Number(this.k.value), compare: this.compare.value, ...this.filters.body };
      const answer = await findNeighbours(this.app, query, options);
      if (turn !== this.turn) return;
      this.shown = query;
      this.results.show(query, answer, this.layout.value);
      this.app.allIsWell();
    } catch (error) {
      if (turn !== this.turn) return;
      if (query !== this.shown) this.results.clear();
      this.app.tell(error);
    }
  }

  async update(stats) {
    this.say();
    if ([stats.version, stats.n_searchable].join() === this.seen || this.found.contains(document.activeElement)) return;
    if (!this.examples.items.length) await this.examples.offer();
    if (!this.query) this.pickFirst(null);
    await this.run();
  }

  // ------------------------------------------------------------------ words

  showHint() {
    this.box.placeholder = HINTS[this.by.value];
  }

  say() {
    const { app } = this, { stats } = app;
    const key = [stats.n_items > 0, stats.version === null, stats.n_bits].join();
    if (key === this.said) return;
    this.said = key;
    this.lead.replaceChildren("Give one item, and see those most like it. Every ", app.explain("item"), " has a short ", app.explain("code"), ` of ${count(stats.n_bits)} `, app.explain("bits"),
      ", learned so that items with the same ", app.explain("label"), " get similar codes. The nearest differ in the fewest bits.");
    this.found.hidden = stats.version === null;
    this.empty.hidden = stats.version !== null;
    this.empty.replaceChildren(stats.n_items
      ? "Items are stored, but there are no codes yet: the hasher needs labelled items first. This page goes on by itself."
      : "This collection is empty. Store items with the command line, the client or the HTTP API; they appear here as they arrive.");
  }
}

function dataUrl(file) {
  const reader = new FileReader();
  reader.readAsDataURL(file);
  return new Promise((resolve) => reader.addEventListener("load", () => resolve(reader.result)));
}
