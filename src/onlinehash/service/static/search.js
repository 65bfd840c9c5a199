// The view Search: by id, vector, text, file or example.

import { ApiError } from "./api.js";
import { count, field, fillSelect, html, labelText, nameOf, select, titleOf } from "./elements.js";
import { dataUrl, Filters, numbersIn, readNpy } from "./inputs.js";
import { asked, fetchItem, findNeighbours, findPicture, neighbours, picture, Results } from "./items.js";

const COMPARISONS = { auto: "as learned", bits: "bits with bits", asymmetric: "real numbers with bits", cosine: "bits, then cosine", l2: "bits, then Euclidean" };
const MOST_IN_ADDRESS = 200; // numbers
const HINTS = { id: "The id of a stored item", vector: "Numbers, separated by commas or spaces", text: "Describe what you look for" };

export default class SearchView {
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
    this.layout = select({ rows: "rows", tiles: "tiles", bits: "rows with bits" }, { id: "layout" });
    this.decided = html("p", { class: "decided", role: "status", hidden: true });
    this.lead = html("p", { class: "lead" });
    this.empty = html("div", { class: "card", hidden: true });
    this.form = html("form", { role: "search", class: "ask" }, this.by, this.box,
      html("button", { type: "submit", class: "main" }, "Search"),
      html("label", { for: "query-file", class: "button" }, this.fileName = html("span", {}, "File (.npy)")), this.file);
    this.options = html("form", { class: "row options" },
      field(app.explain("neighbour", "Neighbours"), this.k), ...this.filters.elements,
      field(app.explain("distance", "Compare"), this.compare), field("Show as", this.layout));
    this.found = html("section", { class: "card", "aria-labelledby": "found-title" },
      html("h2", { id: "found-title", class: "unseen" }, "Results"), this.options, this.decided, this.results.element);
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
    } else if (query.has("vector")) {
      const vector = numbersIn(query.get("vector"));
      this.setQuery(vector && { vector, name: "your vector" }, "vector", typed === this.typed ? query.get("vector") : null);
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
    if (query !== this.query) this.decided.hidden = true;
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
    if (query?.vector && !query.rows && query.vector.length <= MOST_IN_ADDRESS) params.set("vector", query.vector.join(" "));
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
      const options = { k: Number(this.k.value), compare: this.compare.value, bits: this.layout.value === "bits", ...this.filters.body };
      const [answer] = await Promise.all([findNeighbours(this.app, query, options), this.decide(query)]);
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

  // What classify says of the query.
  async decide(query) {
    if (!this.app.stats.decides || query.isFirst || query === this.shown) return;
    const item = query.item && !query.item.vectors ? await fetchItem(this.app, String(query.item.id)) : query.item;
    const { decisions: [{ label, score, alternatives, known }] } = await this.app.ask("POST", "/classify", { ...asked({ ...query, item }, false) });
    if (query !== this.query) return;
    const sure = `${Math.round(100 * score)} %`;
    this.decided.hidden = false;
    this.decided.replaceChildren(this.app.explain("classify", "Classified"), " ", ...(label === null
      ? [html("b", {}, "left to a person"), known ? `: ${alternatives[0][0]} is most probable, ${sure}.` : ": it is unlike everything learned."]
      : ["as ", html("a", { class: "chip-label", href: this.app.linkTo(label) }, String(label)), `, ${sure}.`]));
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
    this.lead.replaceChildren("Give one ", app.explain("item"), ", and see those most like it, by what was learned of their ", app.explain("label", "labels"), " and by their ", app.explain("vector", "vectors"), ".");
    this.found.hidden = stats.version === null;
    this.empty.hidden = stats.version !== null;
    this.empty.replaceChildren(stats.n_items
      ? "Items are stored, but there are no codes yet: the hasher needs labelled items first. This page goes on by itself."
      : "This collection is empty. Store items with the command line, the client or the HTTP API; they appear here as they arrive.");
  }
}

// ---------------------------------------------------------------------- examples

// Examples to click: items near random vectors, of as many labels as possible, so that any collection can show some.
const SHOWN = 20;
const SHOWN_TEXTS = 6;
const PER_VECTOR = 8;

class Examples {
  constructor(app) {
    this.app = app;
    this.items = [];
    this.grid = html("div", { class: "examples", role: "listbox", "aria-labelledby": "examples-title" });
    const others = html("button", { type: "button", class: "quiet", id: "others" }, "Show others");
    others.addEventListener("click", () => this.offer().catch((error) => app.tell(error)));
    this.grid.addEventListener("keydown", (event) => this.move(event));
    this.element = html("div", { hidden: true },
      html("div", { class: "row" }, html("h3", { id: "examples-title" }, "or click an example"), others), this.grid);
  }

  async offer() {
    const { stats } = this.app;
    this.items = stats.version === null || !stats.n_searchable ? [] : await this.find(stats.n_features);
    const pictures = this.items.some(({ payload }) => findPicture(payload, stats.media));
    if (!pictures) this.items = this.items.slice(0, this.items.some((item) => titleOf(item).length > 14) ? SHOWN_TEXTS : SHOWN);
    this.grid.classList.toggle("texts", !pictures);
    this.element.hidden = !this.items.length;
    this.grid.replaceChildren(...this.items.map((item) => this.tile(item)));
    this.mark(this.chosen);
  }

  async find(width) {
    const answer = await this.app.ask("POST", "/search", { vectors: randomVectors(SHOWN, width), k: PER_VECTOR, include: ["labels", "payload"] });
    const found = new Map(answer.ids.flatMap((_, i) => neighbours(answer, i)).map((item) => [item.id, item]));
    const byLabel = new Map();
    for (const item of shuffled([...found.values()])) {
      const same = byLabel.get(labelText(item.labels)) ?? [];
      byLabel.set(labelText(item.labels), [...same, item]);
    }
    const rounds = Array.from({ length: SHOWN }, (_, i) => [...byLabel.values()].flatMap((same) => same.slice(i, i + 1)));
    return rounds.flat().slice(0, SHOWN);
  }

  tile(item) {
    const tile = html("button", { type: "button", role: "option", class: "tile", "aria-label": nameOf(item), "aria-selected": "false", tabindex: "-1" },
      picture(this.app, item, "") ?? html("span", { class: "card-text" }, titleOf(item)));
    tile.addEventListener("click", () => this.app.go(`#/search?id=${encodeURIComponent(item.id)}`));
    return tile;
  }

  // The arrow keys move between examples; only one of them takes part in the order of Tab.
  move(event) {
    const tiles = [...this.grid.children];
    const at = tiles.indexOf(document.activeElement);
    const columns = tiles.filter((tile) => tile.offsetTop === tiles[0].offsetTop).length;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -at, End: tiles.length - 1 - at };
    const to = at + steps[event.key];
    if (at < 0 || !(to >= 0 && to < tiles.length)) return;
    event.preventDefault();
    this.rove(to);
    tiles[to].focus();
  }

  rove(to) {
    [...this.grid.children].forEach((tile, i) => tile.setAttribute("tabindex", i === to ? "0" : "-1"));
  }

  mark(id) {
    this.chosen = id;
    const at = this.items.findIndex((item) => item.id === id);
    [...this.grid.children].forEach((tile, i) => tile.setAttribute("aria-selected", String(i === at)));
    this.rove(Math.max(0, at));
  }
}

function randomVectors(n, width) {
  const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  return Array.from({ length: n }, () => Array.from({ length: width }, () => Number(normal().toFixed(4))));
}

function shuffled(list) {
  const copy = [...list];
  for (let i = copy.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [copy[i], copy[j]] = [copy[j], copy[i]];
  }
  return copy;
}
