// A table of any length: pages are read as they come into view and dropped as they leave it; only their cursors are kept.

import { html } from "./elements.js";

const ROW = 38; // pixels, as in style.css
const MOST_PAGES = 3000; // of a height that browsers can lay out; beyond, the table shifts

export class ScrollTable {
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
