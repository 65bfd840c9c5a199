// A map of items, coloured by label: two principal components, drawn on a canvas.

import { count, html, labelText } from "./elements.js";
import { SHAPES, trace } from "./insight-shapes.js";

const COLOURS = 8; // --label-0 to --label-7 in insight.css, also told apart by colour-blind people
const STYLES = COLOURS * SHAPES.length;
const SIZE = 4;
const MARGIN = 14;
const REACH = 14; // pixels around the pointer
const NAMES = 40; // pixels of the map's width per label that is written into it
const NONE = "no label";
const dark = matchMedia("(prefers-color-scheme: dark)");

export class ItemMap {
  constructor(app) {
    this.app = app;
    this.points = [];
    this.labels = [];
    this.chosen = null; // a label picked in the legend
    this.at = null; // the point named now
    this.says = html("p", { class: "hint", role: "status" });
    this.canvas = html("canvas", { tabindex: "0", role: "application", "aria-roledescription": "map", "aria-labelledby": "map-title", "aria-describedby": "map-help map-names" });
    this.names = html("p", { id: "map-names", class: "sentence map-names", role: "status" });
    this.find = html("input", { type: "search", id: "legend-find", autocomplete: "off", spellcheck: "false", placeholder: "Find a label" });
    this.legend = html("ul", { class: "map-legend", "aria-label": "Legend; choose a label to see only its items" });
    this.help = html("p", { class: "hint", id: "map-help" }, "Point at an item to name it, click to open it. With the keyboard: arrow keys move to the next item in a direction, Enter opens it.");
    this.element = html("section", { class: "card wide", "aria-labelledby": "map-title" },
      html("div", { class: "head" }, html("h2", { id: "map-title" }, "Map of items")),
      html("p", { class: "hint" }, "Items with similar values lie close together, along the two ", app.explain("principal components"), ". Far from the middle, distances are shortened."),
      this.says,
      html("div", { class: "mapped" },
        html("div", {}, html("div", { class: "map-frame" }, this.canvas), this.names, this.help),
        html("div", { class: "map-side" }, html("label", { for: "legend-find", class: "unseen" }, "Find a label in the legend"), this.find, this.legend)));
    this.listen();
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("pointermove", (event) => this.name(this.nearest(event.offsetX, event.offsetY)));
    canvas.addEventListener("pointerleave", () => document.activeElement !== canvas && this.name(null));
    canvas.addEventListener("click", (event) => this.open(this.nearest(event.offsetX, event.offsetY)));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && this.at === null && this.name(this.visible()[0] ?? null));
    canvas.addEventListener("blur", () => this.name(null));
    this.find.addEventListener("input", () => this.drawLegend());
    new ResizeObserver(() => this.draw()).observe(canvas);
    dark.addEventListener("change", () => {
      this.draw();
      this.drawLegend();
    });
  }

  async update() {
    const answer = await this.app.ask("POST", "/map", { limit: 2000 });
    const sizes = new Map();
    this.points = answer.ids.map((id, i) => {
      const labels = answer.labels[i];
      const label = labels == null || labels.length === 0 ? null : [].concat(labels)[0];
      sizes.set(label, (sizes.get(label) ?? 0) + 1);
      return { id, labels, label, x: answer.x[i], y: answer.y[i] };
    });
    const order = sizes.size > STYLES ? (a, b) => b.n - a.n || compare(a.label, b.label) : (a, b) => compare(a.label, b.label);
    this.labels = [...sizes].map(([label, n]) => ({ label, n })).sort(order);
    this.styles = new Map(this.labels.filter(({ label }) => label !== null).map(({ label }, i) => [label, i % STYLES]));
    if (this.chosen !== null && !sizes.has(this.chosen)) this.chosen = null;
    this.answer = answer;
    this.at = null;
    this.element.classList.toggle("empty", !this.points.length);
    this.says.textContent = this.sentence();
    this.draw();
    this.drawLegend();
  }

  sentence() {
    if (!this.points.length) return "There is nothing to show yet: the hasher needs labelled items first.";
    const [a, b] = this.answer.explained ?? [];
    const repeated = this.styles.size > STYLES ? ` Colours and shapes repeat after ${STYLES} labels.` : "";
    const shares = a === undefined ? "" : ` They show ${Math.round(100 * (a + b))} % of all differences.`;
    return `${count(this.points.length)} items${this.app.stats?.n_items > this.points.length ? `, a random sample of ${count(this.app.stats.n_items)}` : ""}.${shares}${repeated}`;
  }

  visible() {
    return this.chosen === null ? this.points : this.points.filter(({ label }) => label === this.chosen);
  }

  draw() {
    const { canvas } = this;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width || !this.points.length) return;
    const ratio = devicePixelRatio || 1;
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    this.pen = canvas.getContext("2d");
    this.pen.scale(ratio, ratio);
    this.scale(width, height);
    const style = getComputedStyle(canvas);
    this.colours = Array.from({ length: COLOURS }, (_, i) => style.getPropertyValue(`--label-${i}`).trim());
    [this.ink, this.paper, this.soft] = ["--ink", "--card", "--soft"].map((name) => style.getPropertyValue(name).trim());
    this.pen.clearRect(0, 0, width, height);
    for (const point of this.points) if (this.chosen !== null && point.label !== this.chosen) this.mark(point, 0.12);
    for (const point of this.visible()) this.mark(point, 0.8);
    this.write(style.fontFamily);
    if (this.at) this.ring(this.at);
  }

  scale(width, height) {
    const across = places(this.points.map(({ x }) => x), width);
    const down = places(this.points.map(({ y }) => -y), height);
    this.points.forEach((point, i) => ([point.px, point.py] = [across[i], down[i]]));
  }

  mark({ label, px, py }, opacity) {
    const style = this.styles.get(label);
    const colour = style === undefined ? this.soft : this.colours[style % COLOURS];
    this.pen.globalAlpha = style === undefined ? opacity / 2 : opacity;
    trace(this.pen, SHAPES[style === undefined ? 0 : Math.floor(style / COLOURS)], px, py, SIZE, colour);
    this.pen.globalAlpha = 1;
  }

  // The names of the largest labels, where their items are, unless two would overlap.
  write(family) {
    const taken = [];
    this.pen.font = `600 12px ${family}`;
    this.pen.textAlign = "center";
    this.pen.textBaseline = "middle";
    const largest = this.labels.toSorted((a, b) => b.n - a.n).slice(0, this.canvas.clientWidth / NAMES);
    const shown = this.chosen === null ? largest : this.labels.filter(({ label }) => label === this.chosen);
    for (const { label } of shown) {
      if (label === null || this.labels.length === 1) continue;
      const mine = this.points.filter((point) => point.label === label);
      const text = shortened(String(label));
      const half = this.pen.measureText(text).width / 2 + 3;
      const x = Math.min(Math.max(median(mine.map(({ px }) => px)), half), this.canvas.clientWidth - half);
      const y = median(mine.map(({ py }) => py));
      if (taken.some((other) => Math.abs(other.x - x) < other.half + half && Math.abs(other.y - y) < 16)) continue;
      taken.push({ x, y, half });
      this.pen.lineWidth = 4;
      this.pen.lineJoin = "round";
      this.pen.strokeStyle = this.paper;
      this.pen.strokeText(text, x, y);
      this.pen.fillStyle = this.ink;
      this.pen.fillText(text, x, y);
    }
  }

  ring({ px, py }) {
    this.pen.lineWidth = 2.5;
    this.pen.strokeStyle = this.ink;
    this.pen.beginPath();
    this.pen.arc(px, py, SIZE + 5, 0, 2 * Math.PI);
    this.pen.stroke();
  }

  nearest(x, y) {
    let [best, least] = [null, REACH ** 2];
    for (const point of this.visible()) {
      const far = (point.px - x) ** 2 + (point.py - y) ** 2;
      if (far < least) [best, least] = [point, far];
    }
    return best;
  }

  name(point) {
    if (point === this.at) return;
    this.at = point;
    this.canvas.style.cursor = point ? "pointer" : "";
    this.names.textContent = point ? `Item ${point.id}, ${point.label === null ? NONE : `label ${labelText(point.labels)}`}` : "";
    this.draw();
  }

  open(point) {
    if (point) location.hash = this.app.linkToItem(point.id);
  }

  key(event) {
    const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Enter") this.open(this.at);
    else if (direction) this.name(this.next(...direction));
    else if (event.key === "Escape" && this.chosen !== null) this.choose(null);
    else return;
    event.preventDefault();
  }

  // The nearest point in a direction: within 45 degrees of it, else anywhere on that side.
  next(dx, dy) {
    const from = this.at ?? this.visible()[0];
    let [best, least] = [from, Infinity];
    for (const point of this.visible()) {
      const ahead = (point.px - from.px) * dx + (point.py - from.py) * dy;
      const aside = Math.abs((point.px - from.px) * dy) + Math.abs((point.py - from.py) * dx);
      if (ahead <= 0.01) continue;
      const far = Math.hypot(ahead, aside) * (aside > ahead ? 4 : 1);
      if (far < least) [best, least] = [point, far];
    }
    return best;
  }

  choose(label) {
    this.chosen = label;
    this.name(null);
    this.draw();
    for (const button of this.legend.querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.label === label));
  }

  drawLegend() {
    const wanted = this.find.value.trim().toLowerCase();
    const found = this.labels.filter(({ label }) => String(label ?? NONE).toLowerCase().includes(wanted));
    this.find.hidden = this.labels.length < 12;
    const focused = this.legend.contains(document.activeElement) ? document.activeElement.label : undefined;
    const rows = found.map(({ label, n }) => {
      const button = html("button", { type: "button", "aria-pressed": String(label !== null && label === this.chosen) }, this.sample(label),
        html("span", { class: "legend-name" }, label === null ? NONE : String(label)), html("span", { class: "number" }, count(n)));
      button.label = label;
      button.disabled = label === null;
      button.addEventListener("click", () => this.choose(this.chosen === label ? null : label));
      return html("li", {}, button);
    });
    this.legend.replaceChildren(...(rows.length ? rows : [html("li", { class: "hint" }, "No such label in the sample.")]));
    if (focused !== undefined) [...this.legend.querySelectorAll("button")].find((button) => button.label === focused)?.focus();
  }

  sample(label) {
    const ratio = devicePixelRatio || 1;
    const canvas = html("canvas", { class: "legend-sample", width: 14 * ratio, height: 14 * ratio, "aria-hidden": "true" });
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const style = this.styles.get(label);
    const name = style === undefined ? "--soft" : `--label-${style % COLOURS}`;
    const colour = getComputedStyle(this.element).getPropertyValue(name).trim();
    trace(pen, SHAPES[style === undefined ? 0 : Math.floor(style / COLOURS)], 7, 7, 5, colour);
    return canvas;
  }
}

const compare = (a, b) => (a === null) - (b === null) || String(a).localeCompare(String(b), "en", { numeric: true });
// Pixels along an axis. Far from the middle they are denser, so that a few items far off do not press the others together.
function places(values, length) {
  const middle = median(values);
  const unit = 2 * median(values.map((value) => Math.abs(value - middle))) || 1;
  const bent = values.map((value) => Math.asinh((value - middle) / unit));
  const [least, most] = [Math.min(...bent), Math.max(...bent)];
  return bent.map((value) => (most > least ? MARGIN + ((value - least) / (most - least)) * (length - 2 * MARGIN) : length / 2));
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
const shortened = (text) => (text.length > 22 ? `${text.slice(0, 21)}…` : text);
