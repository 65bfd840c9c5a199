// Curves between 0 and 1 over the number of instances, scaled to the available width.

import { count, html, svg } from "./elements.js";

const LEFT = 34;
const RIGHT = 12;
const TOP = 22;
const BOTTOM = 26;

// A line of the legend of a chart.
export const keyed = (name, content) => html("span", { class: "keyed" }, html("span", { class: `key ${name}` }), content, " ");

export class Chart {
  constructor(place, { label, lines }) {
    this.place = place;
    this.label = label;
    this.lines = lines; // [{ name, value: (point) => number }]
    this.points = [];
    this.marks = [];
    this.first = 0;
    this.last = 1;
    this.box = svg("svg", { role: "img" });
    place.append(this.box);
    new ResizeObserver(() => this.draw()).observe(place);
  }

  // points: measured; marks: instances at which something happened
  show({ points, marks, first, last }) {
    Object.assign(this, { points, marks, first, last });
    this.draw();
  }

  draw() {
    const [width, height] = [this.place.clientWidth, this.place.clientHeight];
    if (!width) return;
    const x = (n) => LEFT + ((n - this.first) / (this.last - this.first || 1)) * (width - LEFT - RIGHT);
    const y = (value) => height - BOTTOM - value * (height - TOP - BOTTOM);
    const parts = [];
    for (const value of [0, 0.25, 0.5, 0.75, 1]) {
      parts.push(svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value), class: "rule" }));
      if (value * 2 === Math.round(value * 2)) {
        parts.push(svg("text", { x: LEFT - 7, y: y(value) + 4, class: "tick end" }, String(value)));
      }
    }
    const ticks = width < 300 ? 2 : width < 420 ? 3 : 5;
    for (let i = 0; i <= ticks; i++) {
      const n = Math.round(this.first + ((this.last - this.first) * i) / ticks);
      const side = i === 0 ? "" : i === ticks ? " end" : " middle";
      parts.push(svg("text", { x: x(n), y: height - 8, class: `tick${side}` }, i === ticks ? `${count(n)} items` : count(n)));
    }
    for (const n of this.marks) parts.push(svg("line", { x1: x(n), x2: x(n), y1: y(0), y2: y(0) - 7, class: "mark" }));
    const final = this.points.at(-1);
    for (const { name, value } of this.lines) {
      let path = "";
      for (const point of this.points.filter((one) => value(one) != null)) {
        path += `${path ? "L" : "M"}${x(point.n).toFixed(1)} ${y(value(point)).toFixed(1)}`;
      }
      parts.push(svg("path", { d: path, class: `line ${name}` }));
      if (final && value(final) != null) parts.push(svg("circle", { cx: x(final.n), cy: y(value(final)), r: 4, class: `dot ${name}` }));
    }
    this.box.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.box.setAttribute("aria-label", this.label(this.points));
    this.box.replaceChildren(...parts);
  }
}
