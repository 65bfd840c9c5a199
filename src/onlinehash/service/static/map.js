// A map of items, coloured by label, drawn on a canvas: zoom, pan, and a click opens an item.

import { count, html, labelText } from "./elements.js";

// Small shapes, so that labels differ by more than their colour: corners of filled shapes, or strokes of open ones.
const turn = (n, begin = -Math.PI / 2) => Array.from({ length: n }, (_, i) => [Math.cos(begin + (2 * Math.PI * i) / n), Math.sin(begin + (2 * Math.PI * i) / n)]);

// Corners of filled shapes, or strokes of open ones, within a circle of radius 1.
const SHAPES = [
  { round: true },
  { corners: turn(4, Math.PI / 4).map(([x, y]) => [x * 1.2, y * 1.2]) },
  { corners: turn(3).map(([x, y]) => [x * 1.3, y * 1.3]) },
  { corners: turn(4).map(([x, y]) => [x * 1.3, y * 1.3]) },
  { strokes: [[[-1, -1], [1, 1]], [[-1, 1], [1, -1]]] },
  { round: true, hollow: true },
];

function trace(pen, { round, corners, strokes, hollow }, x, y, size, colour) {
  pen.beginPath();
  pen.fillStyle = pen.strokeStyle = colour;
  pen.lineWidth = size / 2.2;
  if (round) pen.arc(x, y, size * (hollow ? 0.9 : 1), 0, 2 * Math.PI);
  for (const line of corners ? [[...corners, corners[0]]] : strokes ?? []) {
    line.forEach(([dx, dy], i) => (i ? pen.lineTo(x + dx * size, y + dy * size) : pen.moveTo(x + dx * size, y + dy * size)));
  }
  if (strokes || hollow) pen.stroke();
  else pen.fill();
}

const COLOURS = 8; // --label-0 to --label-7 in style.css, also told apart by colour-blind people
const STYLES = COLOURS * SHAPES.length;
const SIZE = 4;
const MARGIN = 18;
const MOST_ZOOM = 40;
const DRAGGED = 4; // pixels from which on a press is no click
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
    this.view = { zoom: 1, x: 0.5, y: 0.5 }; // the middle of what is seen, in parts of the whole
    this.pointers = new Map(); // pressed ones: id -> place
    this.says = html("p", { class: "hint", role: "status" });
    this.canvas = html("canvas", { tabindex: "0", role: "application", "aria-roledescription": "map", "aria-labelledby": "map-title", "aria-describedby": "map-help map-names" });
    this.names = html("p", { id: "map-names", class: "sentence map-names", role: "status" });
    this.find = html("input", { type: "search", id: "legend-find", autocomplete: "off", spellcheck: "false", placeholder: "Find a label" });
    this.legend = html("ul", { class: "map-legend", "aria-label": "Legend; choose a label to see only its items" });
    this.help = html("p", { class: "hint", id: "map-help" }, "Point at an item to name it, click to open it; zoom with the wheel or two fingers, drag to move. With the keyboard: arrow keys move to the next item in a direction, Enter opens it, + and - zoom.");
    const zoom = (text, name, factor) => {
      const button = html("button", { type: "button", "aria-label": name, title: name }, text);
      button.addEventListener("click", () => this.zoom(factor));
      return button;
    };
    this.tools = html("div", { class: "map-tools" }, zoom("+", "Zoom in", 1.6), zoom("−", "Zoom out", 1 / 1.6), zoom("⤢", "Show all", 0));
    this.element = html("section", { class: "card wide", "aria-labelledby": "map-title" },
      html("div", { class: "head" }, html("h2", { id: "map-title" }, "Map of items")),
      html("p", { class: "hint" }, "Items that were learned to be similar lie close together (t-SNE); how far groups are apart says little. ",
        html("span", { class: "suspect-key" }), " has a label that the others contradict: ", html("a", { href: app.href("#/review") }, "review"), "."),
      this.says,
      html("div", { class: "mapped" },
        html("div", {}, html("div", { class: "map-frame" }, this.canvas, this.tools), this.names, this.help),
        html("div", { class: "map-side" }, html("label", { for: "legend-find", class: "unseen" }, "Find a label in the legend"), this.find, this.legend)));
    this.listen();
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("pointermove", (event) => this.moved(event));
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      this.dragged = this.pointers.size > 1 ? Infinity : 0;
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => document.activeElement !== canvas && this.name(null));
    canvas.addEventListener("click", (event) => this.dragged > DRAGGED || this.open(this.nearest(event.offsetX, event.offsetY)));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(2 ** (-event.deltaY / 240), event.offsetX, event.offsetY);
    }, { passive: false });
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

  // Drag with one pointer, zoom with two, else name what is under it.
  moved(event) {
    const before = this.pointers.get(event.pointerId), to = { x: event.offsetX, y: event.offsetY };
    if (!before) return this.name(this.nearest(to.x, to.y));
    const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    this.pointers.set(event.pointerId, to);
    if (other) return this.zoom(Math.hypot(to.x - other.x, to.y - other.y) / (Math.hypot(before.x - other.x, before.y - other.y) || 1), other.x, other.y);
    this.dragged += Math.hypot(to.x - before.x, to.y - before.y);
    if (this.dragged > DRAGGED) this.pan(before.x - to.x, before.y - to.y);
  }

  // By a factor around a place; 0 shows all.
  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const { view, canvas } = this, zoom = factor ? Math.min(MOST_ZOOM, Math.max(1, view.zoom * factor)) : 1;
    const [dx, dy] = [x / canvas.clientWidth - 0.5, y / canvas.clientHeight - 0.5];
    view.x += dx / view.zoom - dx / zoom;
    view.y += dy / view.zoom - dy / zoom;
    view.zoom = zoom;
    this.pan(0, 0);
  }

  pan(dx, dy) {
    const { view, canvas } = this, half = 0.5 / view.zoom;
    const kept = (place, by, length) => Math.min(1 - half, Math.max(half, place + by / length / view.zoom));
    [view.x, view.y] = [kept(view.x, dx, canvas.clientWidth), kept(view.y, dy, canvas.clientHeight)];
    this.draw();
  }

  async update() {
    this.says.textContent = "The map is being drawn; that takes some seconds.";
    const answer = await this.app.ask("POST", "/map", {});
    const suspects = new Set(answer.suspects);
    const sizes = new Map();
    this.points = answer.ids.map((id, i) => {
      const labels = answer.labels[i];
      const label = labels == null || labels.length === 0 ? null : [].concat(labels)[0];
      sizes.set(label, (sizes.get(label) ?? 0) + 1);
      return { id, labels, label, x: answer.x[i], y: answer.y[i], isSuspect: suspects.has(id) };
    });
    this.labels = [...sizes].map(([label, n]) => ({ label, n })).sort((a, b) => (a.label === null) - (b.label === null) || b.n - a.n || compare(a.label, b.label));
    this.styles = new Map(this.labels.filter(({ label }) => label !== null).map(({ label }, i) => [label, i % STYLES]));
    if (this.chosen !== null && !sizes.has(this.chosen)) this.chosen = null;
    this.at = null;
    this.element.classList.toggle("empty", !this.points.length);
    this.says.textContent = this.sentence();
    this.draw();
    this.drawLegend();
  }

  sentence() {
    if (!this.points.length) return "There is nothing to show yet: the hasher needs labelled items first.";
    const repeated = this.styles.size > STYLES ? ` Colours and shapes repeat after ${STYLES} labels, the most frequent first.` : "";
    const nSuspects = this.points.filter(({ isSuspect }) => isSuspect).length;
    const suspects = nSuspects ? ` ${count(nSuspects)} of them ringed: others contradict their label.` : "";
    return `${count(this.points.length)} items${this.app.stats?.n_items > this.points.length ? `, a random sample of ${count(this.app.stats.n_items)}` : ""}.${suspects}${repeated}`;
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
    [this.ink, this.paper, this.soft, this.bad] = ["--ink", "--card", "--soft", "--bad"].map((name) => style.getPropertyValue(name).trim());
    this.pen.clearRect(0, 0, width, height);
    for (const point of this.points) if (this.chosen !== null && point.label !== this.chosen) this.mark(point, 0.12);
    for (const point of this.visible()) this.mark(point, 0.8);
    for (const point of this.visible()) if (point.isSuspect) this.ring(point, this.bad, 1.6, SIZE + 3);
    this.write(style.fontFamily);
    if (this.at) this.ring(this.at);
  }

  scale(width, height) {
    const { view } = this;
    const across = places(this.points.map(({ x }) => x), width).map((x) => (x / width - view.x) * view.zoom * width + width / 2);
    const down = places(this.points.map(({ y }) => -y), height).map((y) => (y / height - view.y) * view.zoom * height + height / 2);
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
    const largest = this.labels.slice(0, (this.canvas.clientWidth / NAMES) * this.view.zoom ** 2);
    const shown = this.chosen === null ? largest : this.labels.filter(({ label }) => label === this.chosen);
    for (const { label } of shown) {
      if (label === null || this.labels.length === 1) continue;
      const mine = this.points.filter((point) => point.label === label);
      const text = shortened(String(label));
      const half = this.pen.measureText(text).width / 2 + 3;
      const middle = median(mine.map(({ px }) => px)), y = median(mine.map(({ py }) => py)) - 2.6 * SIZE;
      if (middle < 0 || middle > this.canvas.clientWidth || y < 0 || y > this.canvas.clientHeight) continue;
      const x = Math.min(Math.max(middle, half), this.canvas.clientWidth - half);
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

  ring({ px, py }, colour = this.ink, width = 2.5, radius = SIZE + 5) {
    this.pen.lineWidth = width;
    this.pen.strokeStyle = colour;
    this.pen.beginPath();
    this.pen.arc(px, py, radius, 0, 2 * Math.PI);
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
    this.names.textContent = point ? `Item ${point.id}, ${point.label === null ? NONE : `label ${labelText(point.labels)}${point.isSuspect ? ", which others contradict" : ""}`}` : "";
    this.draw();
  }

  open(point) {
    if (point) location.hash = this.app.linkToItem(point.id);
  }

  key(event) {
    const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Enter") this.open(this.at);
    else if (direction) this.name(this.next(...direction));
    else if (event.key === "+" || event.key === "-") this.zoom(event.key === "+" ? 1.6 : 1 / 1.6, this.at?.px, this.at?.py);
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

// Pixels along an axis.
function places(values, length) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return values.map((value) => (most > least ? MARGIN + ((value - least) / (most - least)) * (length - 2 * MARGIN) : length / 2));
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
const shortened = (text) => (text.length > 22 ? `${text.slice(0, 21)}…` : text);
