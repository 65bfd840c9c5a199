// The view Browse: all items as a table, by label, filter and order.

import { ApiError, parse, write } from "./api.js";
import { count, field, html, isImageData, labelsOf, labelText, select, titleField } from "./elements.js";
import { Filters, saveCsv, tableOf } from "./inputs.js";
import { findPicture, picture } from "./items.js";

const PAGE = 100;
const MOST_COLUMNS = 6;
const LONGEST = 200; // characters of a cell
const [NARROWEST, WIDEST, WIDEST_ON_PHONES] = [9, 48, 20]; // of a column, in characters
const MOST_SAVED = 100_000; // rows of a CSV file
const ORDERS = { id: "by id", "id-": "by id, last first", arrival: "oldest first", "arrival-": "newest first" };

export default class ItemsView {
  constructor(app) {
    this.app = app;
    this.filters = new Filters(app, () => app.go(this.address()));
    this.order = select(ORDERS, { id: "order" });
    this.order.addEventListener("change", () => app.go(this.address()));
    this.jump = html("input", { id: "jump", type: "search", autocomplete: "off", spellcheck: "false", size: "12" });
    const form = html("form", { class: "row options" }, ...this.filters.elements, field(app.explain("arrival", "Order"), this.order), field("Go to id", this.jump));
    form.addEventListener("submit", (event) => event.preventDefault());
    this.jump.addEventListener("change", () => this.go(this.jump.value.trim()));
    this.says = html("p", { class: "sentence", role: "status" });
    this.save = html("button", { type: "button", class: "quiet" }, "Save as CSV");
    this.save.addEventListener("click", () => this.saveAll().catch((error) => app.tell(error)));
    this.table = new ScrollTable("Table of items", { pageSize: PAGE, read: (cursor, page) => this.read(cursor, page), row: (item) => this.cells(item) });
    this.table.onError = (error) => app.tell(error);
    this.element = html("section", { class: "card browse", "aria-labelledby": "items-title" },
      html("h2", { id: "items-title" }, "Items"), form, html("div", { class: "row" }, this.says, this.save), this.table.element);
  }

  async show({ query }) {
    this.filters.read(query);
    this.order.value = query.get("order") in ORDERS ? query.get("order") : "id";
    this.from = query.get("from");
    this.jump.value = this.from ?? "";
    this.body = { ...this.filters.body, order: this.order.value.replace("-", ""), descending: this.order.value.endsWith("-") };
    await this.restart();
  }

  address(from = null) {
    const query = new URLSearchParams();
    this.filters.write(query);
    if (this.order.value !== "id") query.set("order", this.order.value);
    if (from !== null) query.set("from", from);
    return query.size ? `#/items?${query}` : "#/items";
  }

  go(id) {
    if (id && this.order.value.startsWith("arrival")) this.order.value = "id";
    this.app.go(this.address(id || null));
  }

  async restart() {
    this.columns = null;
    this.table.clear(); // what it still reads has the cursors of another order
    const { body } = this;
    const first = await this.read(null, 0);
    if (body !== this.body) return; // meanwhile another order or filter was chosen
    this.columns = columnsOf(first.items, this.app.stats.media);
    this.first = first;
    await this.table.restart(this.headings(first.items));
    await this.say();
    this.app.allIsWell();
  }

  // A page of items; the very first was read to find the columns.
  async read(cursor, page) {
    const known = page === 0 && this.columns && this.first;
    this.first = null;
    if (known) return known;
    const body = { ...this.body, limit: PAGE, include: ["labels", "payload"] };
    if (cursor !== null) return this.app.ask("POST", "/items/list", { ...body, cursor });
    if (this.from === null) return this.app.ask("POST", "/items/list", body);
    const id = this.app.stats.id_type === "int" ? integer(this.from) : this.from;
    const [own, rest] = await Promise.all([this.one(id), this.app.ask("POST", "/items/list", { ...body, after: id })]);
    return { ...rest, items: [...own, ...rest.items] };
  }

  // All items that pass, with their payloads, up to a limit.
  async saveAll() {
    this.save.disabled = true;
    try {
      const items = [];
      for (let cursor = null; items.length < MOST_SAVED;) {
        const page = await this.app.ask("POST", "/items/list", { ...this.body, limit: 1000, include: ["labels", "payload"], ...(cursor === null ? {} : { cursor }) });
        items.push(...page.items);
        this.save.textContent = `Reading: ${count(items.length)}`;
        if ((cursor = page.cursor) === null) break;
      }
      saveCsv("items", tableOf(items));
    } finally {
      this.save.textContent = "Save as CSV";
      this.save.disabled = false;
    }
  }

  // The item of an id, if there is one.
  async one(id) {
    try {
      return (await this.app.ask("POST", "/items/get", { ids: [id] })).items;
    } catch (error) {
      if (error.status !== 404) throw error;
      return [];
    }
  }

  async update(stats) {
    const state = [stats.sequence, stats.n_items, stats.version].join();
    if (state === this.state || this.table.element.contains(document.activeElement) && document.activeElement !== this.table.element) return;
    if (this.table.isEmpty) await this.restart();
    else await this.table.refresh();
    await this.say();
  }

  async say() {
    const { stats } = this.app;
    this.state = [stats.sequence, stats.n_items, stats.version].join();
    const { labels, where } = this.body;
    const isAll = labels === undefined && where === undefined;
    const n = isAll ? stats.n_items : (await this.app.ask("POST", "/items/count", { labels, where })).n_items;
    const many = `${count(n)} item${n === 1 ? "" : "s"}`;
    this.says.textContent = (isAll ? (n ? `${many}.` : "This collection is empty. Items appear here as they arrive.") : `${many} of ${count(stats.n_items)}.`)
      + (this.from === null ? "" : ` From id ${this.from} on.`);
    this.table.table.setAttribute("aria-rowcount", String(n + 1));
    this.table.element.hidden = this.save.hidden = !n;
  }

  // Headings as wide as the longest texts of the first page.
  headings(items) {
    const texts = [(item) => String(item.id), (item) => labelText(item.labels), ...this.columns.map((name) => (item) => textOf(this.app, item, name))];
    const widest = innerWidth < 560 ? WIDEST_ON_PHONES : WIDEST;
    let total = 0;
    const made = ["id", "label", ...this.columns].map((name, i) => {
      const longest = items.reduce((most, item) => Math.max(most, texts[i](item).length), name.length);
      const width = Math.min(widest, Math.max(NARROWEST, longest + 3));
      total += width;
      const heading = html("th", { scope: "col" }, i < 2 ? this.app.explain(name) : name || this.app.explain("payload"));
      heading.style.width = `${width}ch`;
      return heading;
    });
    this.table.table.style.width = `${total}ch`;
    return made;
  }

  cells(item) {
    const { app } = this;
    const labels = labelsOf(item.labels).map((label) => html("a", { class: "chip-label", href: app.linkTo(label) }, String(label)));
    return [
      html("th", { scope: "row" }, html("a", { href: app.linkToItem(item.id) }, String(item.id) || "(empty)")),
      html("td", {}, ...labels),
      ...this.columns.map((name) => html("td", {}, cell(app, item, name))),
    ];
  }
}

// Names of fields in the payloads: the picture, the title, then the most frequent; "" if payloads are no objects.
function columnsOf(items, hasMedia) {
  const seen = new Map();
  for (const { payload } of items) {
    if (payload === null || payload === undefined) continue;
    const names = typeof payload === "object" && !Array.isArray(payload) ? Object.keys(payload) : [""];
    for (const name of names) seen.set(name, (seen.get(name) ?? 0) + 1);
  }
  const first = items.flatMap(({ payload }) => (payload && typeof payload === "object" ? [findPicture(payload, hasMedia)?.name, titleField(payload)] : []));
  const rank = (name) => (first.includes(name) ? Infinity : seen.get(name));
  return [...seen.keys()].sort((a, b) => (rank(a) === rank(b) ? 0 : rank(b) - rank(a))).slice(0, MOST_COLUMNS);
}

const isPicture = (app, item, name) => findPicture(item.payload, app.stats.media)?.name === name;

function textOf(app, item, name) {
  const value = name === "" ? item.payload : item.payload?.[name];
  if (value === undefined || value === null && name === "" || isPicture(app, item, name)) return "";
  const text = typeof value === "string" ? value : write(value);
  return isImageData(text) ? "image" : text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

function cell(app, item, name) {
  return isPicture(app, item, name) ? picture(app, item, "", "short") ?? "" : textOf(app, item, name);
}

function integer(text) {
  if (!/^-?\d+$/.test(text)) throw new ApiError(`“${text}” is not an id of this collection, whose ids are integers.`, 422);
  return parse(text);
}

// ---------------------------------------------------------------------- the table

// A table of any length: pages are read as they come into view and dropped as they leave it; only their cursors are kept.
const ROW = 38; // pixels, as in style.css
const MOST_PAGES = 3000; // of a height that browsers can lay out; beyond, the table shifts

class ScrollTable {
  // read(cursor) -> { items, cursor }; row(item) -> cells
  constructor(label, { pageSize, read, row }) {
    Object.assign(this, { pageSize, read, row });
    this.pageHeight = pageSize * ROW;
    this.head = html("thead");
    this.above = html("tbody", { "aria-hidden": "true" }, html("tr", {}, html("td")));
    this.below = html("tbody", { "aria-hidden": "true" }, html("tr", {}, html("td")));
    this.table = html("table", {}, this.head, this.above, this.below);
    this.element = html("div", { class: "scroll-table", tabindex: "0", role: "region", "aria-label": label }, this.table);
    this.element.addEventListener("scroll", () => this.fill().catch(this.onError), { passive: true });
    this.clear();
  }

  clear() {
    this.turn = (this.turn ?? 0) + 1;
    this.cursors = [null]; // by page; the first needs none
    for (const { body } of this.pages?.values() ?? []) body.remove();
    this.pages = new Map();
    this.origin = 0; // the page at the top of the scrolled area
    this.filling = null;
    this.lay();
  }

  // Start with the first page.
  async restart(columns) {
    this.head.replaceChildren(html("tr", {}, ...columns));
    this.clear();
    this.element.scrollTop = 0;
    await this.fill();
  }

  // Read the pages in view once more.
  async refresh() {
    const { turn } = this;
    for (const i of [...this.pages.keys()]) await this.load(i, turn);
    await this.fill();
  }

  get isEmpty() {
    return this.pages.size === 1 && this.pages.get(0)?.n === 0;
  }

  fill() {
    this.filling ??= this.fillAll(this.turn).finally(() => (this.filling = null));
    return this.filling;
  }

  async fillAll(turn) {
    for (let missing; (missing = this.arrange()) !== undefined && turn === this.turn;) await this.load(missing, turn);
  }

  // Drop pages out of view; return one in view that is missing.
  arrange() {
    this.shift();
    const at = this.origin + Math.floor(this.element.scrollTop / this.pageHeight);
    const wanted = [at, at + 1, at - 1].filter((i) => i >= 0 && i < this.cursors.length);
    for (const [i, { body }] of this.pages) {
      if (Math.abs(i - at) <= 2) continue;
      body.remove();
      this.pages.delete(i);
    }
    this.lay();
    return wanted.find((i) => !this.pages.has(i));
  }

  async load(i, turn) {
    const { items, cursor } = await this.read(this.cursors[i], i);
    if (turn !== this.turn) return;
    const rows = items.map((item, j) => html("tr", { "aria-rowindex": i * this.pageSize + j + 2 }, ...this.row(item)));
    const body = html("tbody", {}, ...rows);
    this.pages.get(i)?.body.remove();
    this.pages.set(i, { body, n: rows.length });
    const next = [...this.pages.keys()].filter((other) => other > i).sort((a, b) => a - b)[0];
    (next === undefined ? this.below : this.pages.get(next).body).before(body);
    if (cursor !== null) this.cursors[i + 1] = cursor;
    else this.cursors.length = i + 1;
    this.lay();
  }

  lay() {
    const shown = [...this.pages.keys()].sort((a, b) => a - b);
    const [first, last] = [shown[0] ?? 0, shown.at(-1) ?? -1];
    this.above.hidden = first === this.origin;
    this.above.firstChild.style.height = `${(first - this.origin) * this.pageHeight}px`;
    this.below.hidden = last >= this.cursors.length - 1;
    this.below.firstChild.style.height = `${(this.cursors.length - 1 - last) * this.pageHeight}px`;
  }

  shift() {
    const { element } = this;
    const top = element.scrollTop; // before the height changes
    const page = Math.floor(top / this.pageHeight);
    const by = page > MOST_PAGES ? MOST_PAGES / 2 : page < 1 && this.origin > 0 ? -Math.min(this.origin, MOST_PAGES / 2) : 0;
    if (!by) return;
    this.origin += by;
    this.lay();
    element.scrollTop = top - by * this.pageHeight;
  }
}
