// The stream of the demo: items arrive, mAP rises, classes appear.

import { allIsWell, ask, tell } from "./api.js";
import { Chart } from "./chart.js";
import { byId, count, face, html } from "./elements.js";
import { play } from "./play.js";

const TICK = 350; // milliseconds between two steps

export class Stream {
  constructor(state, { onStep, onReset }) {
    this.onStep = onStep;
    this.onReset = onReset;
    this.running = false;
    this.chart = new Chart(byId("map-chart"), {
      label: (points) => `Curve of mAP: ${points.at(-1)?.map.toFixed(2)} after ${points.at(-1)?.n} items; it began at ${points[0]?.map.toFixed(2)}.`,
      lines: [
        { name: "fresh", value: (point) => point.fresh },
        { name: "used", value: (point) => point.map, step: true },
      ],
    });
    byId("stream-title").textContent = "The stream";
    byId("stream-controls").hidden = false;
    byId("rise").hidden = false;
    byId("run").addEventListener("click", () => (this.running ? this.pause() : this.start()));
    byId("reset").addEventListener("click", () => this.reset());
    this.take(state, true);
  }

  take(state, anew = false) {
    const before = this.state;
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

  showArrived(items) {
    const known = new Set([...byId("arrived").children].map((tile) => tile.dataset.id));
    byId("arrived").replaceChildren(...items.map((item) => {
      const tile = html("div", { class: `tile${known.size && !known.has(String(item.id)) ? " new" : ""}` }, face(item));
      tile.dataset.id = item.id;
      return tile;
    }));
  }

  get ended() {
    return this.state.position >= this.state.n_stream;
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
    else if (before && before.position !== position && position % 60) return;
    this.version = version;
    byId("stream-says").textContent = text;
  }

  async start() {
    if (this.ended) await this.reset();
    this.running = this.started = true;
    byId("run").textContent = "Pause";
    this.looping ??= play(this, TICK).finally(() => (this.looping = null));
  }

  pause() {
    this.running = false;
    byId("run").textContent = this.ended ? "Run again" : this.started ? "Go on" : "Start the stream";
  }

  async step() {
    const classes = this.state.first_seen.length;
    const state = await ask("POST", `/api/v1/demo/step?n=${byId("speed").value}`);
    this.take(state);
    await this.onStep({ joined: state.first_seen.length > classes, paused: !this.running });
  }

  async look() {
    this.take(await ask("GET", "/api/v1/demo"), true);
  }

  async reset() {
    this.pause();
    this.setBusy(true);
    try {
      await this.looping;
      this.started = false;
      this.version = this.state = undefined;
      await this.onReset(async () => {
        this.take(await ask("POST", "/api/v1/demo/reset"), true);
        return this.state;
      });
      allIsWell();
    } catch (error) {
      tell(error);
    } finally {
      this.pause();
      this.setBusy(false);
    }
  }

  setBusy(busy) {
    for (const id of ["run", "reset", "refresh"]) byId(id).disabled = busy;
  }
}
