// The stream of the demo: items arrive, mAP rises, classes join.

import { ask } from "./api.js";
import { Chart, keyed } from "./chart.js";
import { count, face, html } from "./elements.js";
import { Freshness } from "./insight-refresh.js";
import { play, playButton } from "./play.js";

const TICK = 350; // milliseconds between two steps

export class Stream {
  constructor(app, { onStep, onReset }) {
    this.app = app;
    this.onStep = onStep;
    this.onReset = onReset;
    this.running = false;
    this.run = playButton("run", this);
    this.speed = html("select", { id: "speed" }, ...[[5, "slow"], [10, "medium"], [30, "fast"]].map(([value, name]) => html("option", { value, selected: value === 10 }, name)));
    this.restart = html("button", { id: "reset", type: "button", class: "quiet" }, "Start over");
    this.restart.addEventListener("click", () => this.reset().catch((error) => app.tell(error)));
    this.says = html("p", { id: "stream-says", role: "status", class: "sentence" });
    this.arrived = html("div", { class: "arrived", "aria-hidden": "true" });
    this.place = html("div", { id: "map-chart", class: "chart" });
    this.classes = html("ul", { id: "classes", "aria-labelledby": "classes-title" });
    this.freshness = new Freshness(app, { onRefreshed: () => this.read() });
    this.element = html("section", { id: "stream", class: "card", "aria-labelledby": "stream-title" },
      html("div", { class: "head" }, html("h2", { id: "stream-title" }, "The stream"),
        html("div", { class: "row controls" }, this.run, html("label", {}, html("span", { class: "word" }, "Speed"), this.speed), this.restart)),
      this.says, this.arrived,
      html("figure", {}, this.place,
        html("figcaption", {}, app.explain("map", "mAP"), " of held-out queries of all classes, as items arrive. ",
          keyed("used", "codes in use"), keyed("fresh", "if refreshed now"), keyed("mark", "refresh"))),
      html("h3", { id: "classes-title" }, "Classes seen"), this.classes, this.freshness.element);
    this.chart = new Chart(this.place, {
      label: (points) => (points.length ? `Curve of mAP: ${points.at(-1).map.toFixed(2)} after ${points.at(-1).n} items; it began at ${points[0].map.toFixed(2)}.` : "Curve of mAP."),
      lines: [
        { name: "fresh", value: (point) => point.fresh },
        { name: "used", value: (point) => point.map, step: true },
      ],
    });
    this.pause();
  }

  // Read the whole state: on arrival, and after a change that this page did not make.
  async read() {
    this.take(await ask("GET", "api/v1/demo"), true);
    return this.state;
  }

  take(state, anew = false) {
    const before = anew ? undefined : this.state;
    this.points = anew ? state.points : [...this.points, ...state.points];
    this.state = state;
    const refreshed = this.points.filter(({ version }, i) => i && version !== this.points[i - 1].version);
    this.chart.show({
      points: this.points,
      marks: refreshed.map(({ n }) => n),
      names: state.first_seen.slice(3).map(({ label, n }) => ({ n, text: String(label) })),
      last: state.n_stream,
    });
    this.showArrived(state.arrived);
    this.say(before);
    if (this.ended) this.pause();
  }

  async showState() {
    const [stats, { label_counts: counts }] = await Promise.all([this.app.ask("GET", "/stats"), this.app.ask("POST", "/label_counts", {})]);
    this.freshness.show(stats);
    this.showClasses(counts);
  }

  showArrived(items) {
    const known = new Set([...this.arrived.children].map((tile) => tile.dataset.id));
    this.arrived.replaceChildren(...items.map((item) => {
      const tile = html("div", { class: known.size && !known.has(String(item.id)) ? "new" : null }, face(item));
      tile.dataset.id = item.id;
      return tile;
    }));
  }

  showClasses(counts) {
    const most = Math.max(1, ...counts.map(({ n_items: n }) => n));
    const known = new Set([...this.classes.children].map((chip) => chip.dataset.label));
    const chips = counts.map(({ label, n_items: n }) => {
      const bar = html("span", { class: "amount" });
      bar.style.width = `${(100 * n) / most}%`;
      const chip = html("li", { class: `chip${known.size && !known.has(String(label)) ? " new" : ""}` },
        html("b", {}, String(label)), html("small", {}, count(n), html("span", { class: "unseen" }, " items")), bar);
      chip.dataset.label = String(label);
      return chip;
    });
    for (let i = counts.length; i < this.state.n_classes; i++) chips.push(html("li", { class: "chip to-come", "aria-hidden": "true" }, html("b", {}, "?"), html("small", {}, "–")));
    this.classes.replaceChildren(...chips);
  }

  get ended() {
    return this.state !== undefined && this.state.position >= this.state.n_stream;
  }

  say(before) {
    const { first_seen: seen, position } = this.state;
    const { map, fresh, version } = this.points.at(-1);
    const newest = seen.at(-1);
    let text = `${count(position)} items of ${seen.length} classes so far: mAP ${map.toFixed(2)}.`;
    if (before && before.first_seen.length < seen.length) text = `A new class: ${newest.label}. It is learned from its first item on.`;
    else if (this.ended) text = `The stream has ended: mAP rose from ${this.points[0].map.toFixed(2)} to ${map.toFixed(2)}.`;
    else if (fresh - map > 0.05) text = `mAP ${map.toFixed(2)}; a refresh would raise it to ${fresh.toFixed(2)}. The codes are refreshed once enough bits have changed.`;
    else if (version !== this.version && this.version !== undefined) text = `Enough bits had changed: all codes were refreshed (version ${count(version)}), mAP ${map.toFixed(2)}.`;
    else if (this.running && before && before.position !== position && position % 60) return;
    this.version = version;
    this.says.textContent = text;
  }

  async start() {
    if (this.ended) await this.reset();
    this.running = this.started = true;
    this.run.textContent = "Pause";
    this.looping ??= play(this, TICK).finally(() => (this.looping = null));
  }

  pause() {
    this.running = false;
    this.run.textContent = this.ended ? "Run again" : this.started ? "Go on" : "Start the stream";
  }

  async step() {
    this.take(await ask("POST", `api/v1/demo/step?n=${this.speed.value}`));
    await this.onStep();
  }

  async reset() {
    this.pause();
    this.setBusy(true);
    try {
      await this.looping;
      this.started = false;
      this.version = undefined;
      this.take(await ask("POST", "api/v1/demo/reset"), true);
      await this.onReset(this.state);
    } finally {
      this.pause();
      this.setBusy(false);
    }
  }

  setBusy(busy) {
    this.run.disabled = this.restart.disabled = busy;
  }
}
