// Examples to click: items near random vectors, of as many labels as possible, so that any collection can show some.

import { html, labelText, nameOf, titleOf } from "./elements.js";
import { neighbours } from "./lookups.js";
import { findPicture, picture } from "./picture.js";

const SHOWN = 20;
const SHOWN_TEXTS = 6;
const PER_VECTOR = 8;

export class Examples {
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
