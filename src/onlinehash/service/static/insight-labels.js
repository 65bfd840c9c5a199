// The labels of a collection with the number of their items, and a search box within them.

import { count, html } from "./elements.js";

const FIRST = 60; // rows before "Show all"

export class LabelCounts {
  constructor(app) {
    this.app = app;
    this.counts = [];
    this.rows = new Map();
    this.all = false;
    this.find = html("input", { type: "search", id: "label-find", autocomplete: "off", spellcheck: "false", placeholder: "Find a label" });
    this.order = html("select", { id: "label-order" },
      html("option", { value: "most" }, "most items first"),
      html("option", { value: "fewest" }, "fewest items first"),
      html("option", { value: "label" }, "by label"));
    this.says = html("p", { class: "hint", role: "status" });
    this.list = html("ul", { class: "label-counts", "aria-label": "Labels" });
    this.more = html("button", { type: "button", class: "quiet", hidden: true });
    this.controls = html("div", { class: "row" },
      html("label", { for: "label-find", class: "unseen" }, "Find a label"), this.find,
      html("label", { for: "label-order", class: "unseen" }, "Order"), this.order);
    this.element = html("section", { class: "card", "aria-labelledby": "labels-title" },
      html("div", { class: "head" }, html("h2", { id: "labels-title" }, app.explain("label", "Labels")), this.controls),
      this.says, this.list, this.more);
    this.find.addEventListener("input", () => this.draw());
    this.order.addEventListener("change", () => this.draw());
    this.more.addEventListener("click", () => {
      this.all = true;
      this.draw();
      this.list.querySelectorAll("a")[FIRST]?.focus();
    });
  }

  update() {
    this.counts = this.app.labels;
    this.unlabelled = this.app.nUnlabelled;
    this.controls.hidden = this.counts.length < 2;
    this.draw();
  }

  draw() {
    const wanted = this.find.value.trim().toLowerCase();
    const found = this.counts.filter(({ label }) => String(label).toLowerCase().includes(wanted));
    const by = { most: (a, b) => b.n_items - a.n_items, fewest: (a, b) => a.n_items - b.n_items, label: () => 0 }[this.order.value];
    found.sort(by);
    const shown = this.all ? found : found.slice(0, FIRST);
    const most = this.counts.reduce((top, { n_items: n }) => Math.max(top, n), 1);
    const total = this.counts.reduce((sum, { n_items: n }) => sum + n, this.unlabelled);
    const rows = new Map(shown.map((one) => [one.label, this.row(one, most, total)]));
    this.rows = rows;
    if (!same([...this.list.children], [...rows.values()])) this.list.replaceChildren(...rows.values());
    this.more.hidden = shown.length === found.length;
    this.more.textContent = `Show all ${count(found.length)}`;
    this.says.textContent = this.sentence(found.length, wanted);
  }

  // A row is kept while its label is shown, so that the focus stays where it is.
  row({ label, n_items: n }, most, total) {
    const row = this.rows.get(label) ?? html("li", {}, html("a", { href: this.app.linkTo(label) }, String(label)),
      html("span", { class: "amount" }, html("span")), html("span", { class: "number" }));
    const [, amount, number] = row.children;
    amount.firstChild.style.width = `${(100 * n) / most}%`;
    const share = (100 * n) / total;
    number.textContent = `${count(n)} · ${share >= 9.95 ? Math.round(share) : share.toFixed(1)} %`;
    return row;
  }

  sentence(nFound, wanted) {
    const n = this.counts.length;
    const without = this.unlabelled ? ` ${count(this.unlabelled)} items have no label: they are searched, but not learned from.` : "";
    if (!n) return this.unlabelled ? `No item has a label yet.${without}` : "There are no items yet.";
    const labels = `${count(n)} label${n === 1 ? "" : "s"}`;
    if (wanted) return `${count(nFound)} of ${labels} contain “${wanted}”.`;
    return `${labels}. Choose one to browse its items.${without}`;
  }
}

const same = (one, other) => one.length === other.length && one.every((row, i) => row === other[i]);
