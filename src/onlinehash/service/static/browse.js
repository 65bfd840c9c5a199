// The view Browse: all items as a table, by label, filter and order.

import { ApiError, parse, write } from "./api.js";
import { count, field, html, isImageData, labelsOf, labelText, select, titleField } from "./elements.js";
import { Filters } from "./filters.js";
import { picture, findPicture } from "./picture.js";
import { ScrollTable } from "./scroll-table.js";

const PAGE = 100;
const MOST_COLUMNS = 6;
const LONGEST = 200; // characters of a cell
const [NARROWEST, WIDEST, WIDEST_ON_PHONES] = [9, 48, 20]; // of a column, in characters
const ORDERS = { id: "by id", "id-": "by id, last first", arrival: "oldest first", "arrival-": "newest first" };

export class ItemsView {
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
    this.table = new ScrollTable("Table of items", { pageSize: PAGE, read: (cursor, page) => this.read(cursor, page), row: (item) => this.cells(item) });
    this.table.onError = (error) => app.tell(error);
    this.element = html("section", { class: "card browse", "aria-labelledby": "items-title" },
      html("h2", { id: "items-title" }, "Items"), form, this.says, this.table.element);
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
    const first = await this.read(null, 0);
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
    this.table.element.hidden = !n;
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
