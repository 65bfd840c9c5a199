// Codewords against codes: per label and bit, the bit of the codeword above the share of ones among its items.

import { bitsOf } from "./bits.js";
import { count, html, svg } from "./elements.js";
import { heading } from "./insight-quality.js";

const FIRST = 12; // rows before "Show all"
const PITCH = 10; // of a bit
const SIDE = 8;
const LANE = 12; // height of the codeword's lane, and of that of the shares
const narrow = matchMedia("(max-width: 560px)");
const perLine = (nBits) => Math.min(nBits, narrow.matches ? 16 : 64); // bits per line

export class Codewords {
  constructor(app) {
    this.app = app;
    this.answer = null;
    this.all = false;
    this.find = html("input", { type: "search", id: "codeword-find", autocomplete: "off", spellcheck: "false", placeholder: "Find a label" });
    this.order = html("select", { id: "codeword-order" },
      html("option", { value: "weakest" }, "weakest first"), html("option", { value: "strongest" }, "strongest first"),
      html("option", { value: "most" }, "most items first"));
    this.says = html("p", { class: "hint", role: "status" });
    this.read = html("p", { class: "hint read", "aria-hidden": "true" });
    this.body = html("tbody");
    this.more = html("button", { type: "button", class: "quiet", hidden: true });
    this.table = html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of codewords and codes" },
      html("table", { class: "codewords" },
        html("thead", {}, html("tr", {}, heading("Label"), heading("Items"), heading("Agree"), heading("Weakest bit"), heading("Codeword above codes"))), this.body));
    this.controls = html("div", { class: "row" },
      html("label", { for: "codeword-find", class: "unseen" }, "Find a label"), this.find,
      html("label", { for: "codeword-order", class: "unseen" }, "Order"), this.order);
    this.element = html("section", { class: "card wide", "aria-labelledby": "codewords-title" },
      html("div", { class: "head" }, html("h2", { id: "codewords-title" }, "Codewords and codes"), this.controls),
      html("p", { class: "hint" }, "Each class aims for one ", app.explain("codeword"), " (upper row: a filled square is a 1). The lower row shows the ",
        app.explain("share of ones"), " among its items: full where the codeword has a 1, empty where it has a 0, if learning works. Bits that most items get wrong are orange, with a stroke."),
      this.says, this.table, this.read, this.more);
    this.find.addEventListener("input", () => this.draw());
    this.order.addEventListener("change", () => this.draw());
    this.more.addEventListener("click", () => {
      this.all = true;
      this.draw();
      this.table.focus();
    });
  }

  async update() {
    const answer = await this.app.ask("GET", "/codewords");
    this.classes = answer.classes.filter(({ ones }) => ones.length).map((one) => measured(one, answer.n_class_bits));
    this.answer = answer;
    this.controls.hidden = this.classes.length < 2;
    this.draw();
  }

  draw() {
    if (!this.answer) return;
    const { n_bits: nBits, n_classes: nClasses } = this.answer;
    const wanted = this.find.value.trim().toLowerCase();
    const found = this.classes.filter(({ label }) => String(label).toLowerCase().includes(wanted));
    found.sort({ weakest: (a, b) => a.agree - b.agree, strongest: (a, b) => b.agree - a.agree, most: (a, b) => b.n_items - a.n_items }[this.order.value]);
    const shown = this.all ? found : found.slice(0, FIRST);
    this.body.replaceChildren(...shown.map((one) => this.row(one, nBits)));
    this.table.hidden = !shown.length;
    this.more.hidden = shown.length === found.length;
    this.more.textContent = `Show all ${count(found.length)}`;
    this.read.textContent = shown.length ? "Point at a bit to read it." : "";
    this.says.textContent = this.sentence(found.length, nClasses ?? this.classes.length, wanted);
  }

  sentence(nFound, nClasses, wanted) {
    if (!this.classes.length) return "No codes of labelled items yet.";
    if (wanted) return `${count(nFound)} labels contain “${wanted}”.`;
    const parts = [];
    if (this.classes.length < nClasses) parts.push(`The ${count(this.classes.length)} largest of ${count(nClasses)} labels.`);
    if (this.classes.every(({ codeword }) => codeword === null)) parts.push("This method has no codewords: only the shares are shown, and “agree” says how far they are from a half.");
    else {
      const mean = this.classes.reduce((sum, { agree }) => sum + agree, 0) / this.classes.length;
      parts.push(`On average, ${percent(mean)} of the bits are those of the codeword.`);
    }
    return parts.join(" ");
  }

  row(one, nBits) {
    const { label, n_items: n, agree, weakest } = one;
    const picture = strip(one, nBits);
    picture.addEventListener("pointermove", (event) => (this.read.textContent = reading(one, bitAt(picture, event, nBits))));
    return html("tr", {},
      html("th", { scope: "row" }, html("a", { href: this.app.linkTo(label) }, String(label))),
      html("td", { class: "number" }, count(n)),
      html("td", { class: "number" }, percent(agree)),
      html("td", { class: "number" }, `${weakest + 1}: ${percent(one.agreement[weakest])}`),
      html("td", {}, picture));
  }
}

// Agreement of the bits that have a codeword; without codewords, how far the shares are from a half.
function measured(one, nClassBits) {
  const bits = one.codeword === null ? null : bitsOf(one.codeword, nClassBits);
  const agreement = bits ? bits.map((bit, i) => (bit ? one.ones[i] : 1 - one.ones[i])) : one.ones.map((share) => Math.max(share, 1 - share));
  const weakest = agreement.indexOf(Math.min(...agreement));
  return { ...one, bits, agreement, weakest, agree: agreement.reduce((sum, share) => sum + share, 0) / agreement.length };
}

function strip(one, nBits) {
  const { bits, ones, agreement } = one;
  const high = (bits ? 2 : 1) * LANE + 7; // of a line
  const line = perLine(nBits);
  const lines = Math.ceil(nBits / line);
  const drawn = { frame: "", one: "", share: "", wrong: "" };
  for (let i = 0; i < nBits; i++) {
    const [x, top] = [(i % line) * PITCH + 1, Math.floor(i / line) * high + 1];
    const box = (y, height) => `M${x} ${y.toFixed(1)}h${SIDE}v${height.toFixed(1)}h-${SIDE}z`;
    if (bits && i < bits.length) drawn[bits[i] ? "one" : "frame"] += box(top, SIDE);
    const floor = top + (bits ? LANE : 0);
    drawn.frame += box(floor, SIDE);
    if (ones[i] > 0) drawn[agreement[i] < 0.5 ? "wrong" : "share"] += box(floor + SIDE * (1 - ones[i]), SIDE * ones[i]);
    if (agreement[i] < 0.5) drawn.cross = `${drawn.cross ?? ""}M${x} ${floor + SIDE}l${SIDE} -${SIDE}`;
  }
  const words = `${bits ? `Codeword ${bits.join("")}; ` : ""}weakest bit ${one.weakest + 1}, where ${percent(ones[one.weakest])} of the items have a 1.`;
  return svg("svg", { class: "codeword-strip", width: line * PITCH + 1, viewBox: `0 0 ${line * PITCH + 1} ${lines * high}`, role: "img", "aria-label": words },
    ...Object.entries(drawn).map(([name, d]) => svg("path", { d, class: name })));
}

function bitAt(picture, event, nBits) {
  const box = picture.getBoundingClientRect();
  const line = perLine(nBits);
  const column = Math.floor(((event.clientX - box.left) / box.width) * line);
  const row = Math.floor(((event.clientY - box.top) / box.height) * Math.ceil(nBits / line));
  return Math.min(nBits - 1, Math.max(0, row * line + column));
}

function reading({ label, bits, ones, n_items: n }, i) {
  return `${label}, bit ${i + 1}: ${bits && i < bits.length ? `the codeword has ${bits[i]}, ` : ""}${percent(ones[i])} of ${count(n)} items have 1.`;
}

const percent = (share) => `${(Math.floor(1000 * share) / 10).toFixed(share === 0 || share === 1 ? 0 : 1)} %`; // 100 % is all
