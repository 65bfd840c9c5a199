// The race: HCOH and HROH learn the same stream, one class after the other; one of them forgets.

import { ask } from "./api.js";
import { Chart, keyed } from "./chart.js";
import { count, html, svg } from "./elements.js";
import { play, playButton } from "./play.js";

const TICK = 160; // milliseconds between two requests
const LEARNERS = ["hroh", "hcoh"];

export class Race {
  constructor(app) {
    this.app = app;
    this.nStream = app.demo.n_stream;
    this.nClasses = app.demo.n_classes;
    this.points = [];
    this.running = false;
    this.run = playButton("race-run", this);
    this.run.textContent = "Start the race";
    this.speed = html("select", { id: "race-speed" }, ...[[1, "slow"], [2, "medium"], [6, "fast"]].map(([value, name]) => html("option", { value, selected: value === 2 }, name)));
    this.says = html("p", { id: "race-says", role: "status", class: "sentence" }, "HCOH learns by gradient steps, which favour the latest items; HROH keeps sums, which do not depend on the order.");
    this.place = html("div", { id: "race-chart", class: "chart" });
    this.maps = Object.fromEntries(LEARNERS.map((name) => [name, html("div")]));
    this.element = html("section", { id: "race", class: "card wide", "aria-labelledby": "race-title" },
      html("div", { class: "head" },
        html("div", {}, html("h2", { id: "race-title" }, "HROH and HCOH on a sorted stream"),
          html("p", { class: "hint" }, "The same digits, sorted by class: first all zeros, then all ones, and so on. Both methods learn each item once.")),
        html("div", { class: "row controls" }, this.run, html("label", {}, html("span", { class: "word" }, "Speed"), this.speed))),
      this.says,
      html("div", { class: "tracks" },
        html("figure", {}, this.place,
          html("figcaption", {}, app.explain("map", "mAP"), " on all classes seen so far. ", keyed("hroh", "HROH"), keyed("hcoh", "HCOH"), keyed("shuffled", "HCOH on the same items, shuffled"))),
        html("figure", {}, html("div", { class: "maps" }, ...Object.values(this.maps)),
          html("figcaption", {}, "One row per class: the stronger the colour, the better its items are found. Fading rows are being forgotten."))));
    this.chart = new Chart(this.place, {
      label: (points) => points.length
        ? `Two curves after ${points.at(-1).n} items: HROH ${points.at(-1).hroh.map.toFixed(2)}, HCOH ${points.at(-1).hcoh.map.toFixed(2)}.`
        : "Two curves, before the race.",
      lines: LEARNERS.map((name) => ({ name, value: (point) => point[name].map })),
    });
    this.draw();
  }

  get ended() {
    return this.nPoints !== undefined && this.points.length >= this.nPoints;
  }

  start() {
    if (this.ended) this.points = [];
    this.running = true;
    this.run.textContent = "Pause";
    this.looping ??= play(this, TICK).finally(() => (this.looping = null));
  }

  pause() {
    this.running = false;
    this.run.textContent = this.ended ? "Race again" : this.points.length ? "Go on" : "Start the race";
  }

  async step() {
    const n = this.speed.value;
    const answer = await ask("GET", `api/v1/demo/race?start=${this.points.length}&n=${n}`);
    this.nPoints = answer.n_points;
    this.shuffled = answer.shuffled;
    this.points = [...this.points, ...answer.points];
    this.draw();
    this.say();
    if (this.ended) this.pause();
  }

  draw() {
    const labels = [...new Map(this.points.map((point, i) => [point.label, i])).keys()];
    const names = labels.map((label) => {
      const i = this.points.findIndex((point) => point.label === label);
      return { n: i ? this.points[i - 1].n : 0, text: String(label) };
    });
    const levels = this.shuffled === undefined ? [] : [{ name: "shuffled", value: this.shuffled }];
    this.chart.show({ points: this.points, names, levels: this.ended ? levels : [], last: this.nStream });
    for (const name of LEARNERS) this.maps[name].replaceChildren(this.map(name));
  }

  map(name) {
    const columns = this.nPoints ?? Math.ceil(this.nStream / 25);
    const [wide, high, left, top] = [4, 20, 16, 20];
    const parts = [svg("text", { x: left, y: 13, class: `map-name ${name}` }, name.toUpperCase())];
    const final = this.points.at(-1)?.[name];
    if (final) parts.push(svg("text", { x: left + columns * wide, y: 13, class: "tick end" }, `mAP ${final.map.toFixed(2)}`));
    for (let row = 0; row < this.nClasses; row++) {
      parts.push(svg("text", { x: left - 6, y: top + row * high + 14, class: "tick end" }, String(row)));
      parts.push(svg("rect", { x: left, y: top + row * high, width: columns * wide, height: high - 2, class: "to-come" }));
    }
    this.points.forEach((point, i) => {
      for (const [label, value] of Object.entries(point[name].by_class)) {
        const strength = Math.max(0.04, value ** 2).toFixed(3);
        parts.push(svg("rect", { x: left + i * wide, y: top + label * high, width: wide + 0.3, height: high - 2, class: `cell ${name}`, "fill-opacity": strength }));
      }
    });
    const words = final ? `${name.toUpperCase()}, mAP by class: ${Object.entries(final.by_class).map(([label, value]) => `${label}: ${value.toFixed(2)}`).join(", ")}` : `${name.toUpperCase()}, before the race`;
    return svg("svg", { viewBox: `0 0 ${left + columns * wide} ${top + this.nClasses * high}`, role: "img", "aria-label": words }, ...parts);
  }

  say() {
    const point = this.points.at(-1);
    const before = this.points.at(-2);
    if (!this.ended && before && before.label === point.label) return;
    const [hcoh, hroh] = [point.hcoh.map, point.hroh.map];
    const lost = this.mostForgotten(point);
    let text = `Only the digit ${point.label} so far: there is nothing to confuse or to forget yet.`;
    if (this.ended) {
      text = `After ${count(point.n)} items, HROH has mAP ${hroh.toFixed(2)}, HCOH ${hcoh.toFixed(2)}. `
        + `HCOH has forgotten most of the digit ${lost.label}: ${lost.best.toFixed(2)} at its best, ${lost.now.toFixed(2)} now. `
        + `The cause is the order: on the same items, shuffled, HCOH reaches ${this.shuffled.toFixed(2)}.`;
    } else if (point.label > 0) {
      text = `Now only the digit ${point.label} arrives. HROH ${hroh.toFixed(2)}, HCOH ${hcoh.toFixed(2)}`
        + (lost.best - lost.now > 0.1 ? `: its digit ${lost.label} has gone from ${lost.best.toFixed(2)} to ${lost.now.toFixed(2)}.` : ".");
    }
    this.says.textContent = text;
  }

  mostForgotten(point) {
    const losses = Object.entries(point.hcoh.by_class).map(([label, now]) => {
      const best = Math.max(...this.points.filter((one) => label in one.hcoh.by_class).map((one) => one.hcoh.by_class[label]));
      return { label, now, best };
    });
    return losses.sort((a, b) => b.best - b.now - (a.best - a.now))[0];
  }
}
