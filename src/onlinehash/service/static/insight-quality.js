// Quality over time: every new labelled item was a query before it was learned from.

import { Chart, keyed } from "./chart.js";
import { count, html } from "./elements.js";

const ROWS = 20; // newest points in the table

export class Quality {
  constructor(app) {
    this.app = app;
    this.place = html("div", { class: "chart" });
    this.says = html("p", { class: "sentence", role: "status" });
    this.caption = html("figcaption", {}, "Means over the 10 nearest items of the last queries. mAP says only whether those with the query's label come first. ",
      keyed("precision", app.explain("precision")), keyed("map", app.explain("map", "mAP")), keyed("mark", app.explain("refresh")));
    this.figure = html("figure", {}, this.place, this.caption);
    this.body = html("tbody");
    this.table = html("details", {}, html("summary", {}, "As a table"),
      html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Quality as a table" },
        html("table", {}, html("thead", {}, html("tr", {}, ...["Time", "Learned", "Queries", "Precision", "mAP"].map(heading))), this.body)));
    this.element = html("section", { class: "card", "aria-labelledby": "quality-title" },
      html("div", { class: "head" }, html("h2", { id: "quality-title" }, "Quality over time")),
      html("p", { class: "hint" }, "New labelled items are queries before they are learned from (", app.explain("prequential"), "). So this is the quality on items the hasher had never seen."),
      this.says, this.figure, this.table);
    this.chart = new Chart(this.place, {
      label: (points) => (points.length ? `Curves of quality from ${points.length} measurements. Last: ${words(points.at(-1))}.` : "No measurements yet."),
      lines: [
        { name: "map", value: (point) => point.map },
        { name: "precision", value: (point) => point.precision },
      ],
    });
  }

  show({ quality, encoders }) {
    const points = quality.map((point) => ({ ...point, n: point.n_learned }));
    const last = points.at(-1);
    this.figure.hidden = this.table.hidden = !last;
    if (!last) {
      this.says.textContent = this.app.stats?.readonly
        ? "Quality is measured by the process that writes to this collection; it has not noted any yet."
        : "Nothing measured yet: it begins with the first labelled items that arrive while this service runs.";
      return;
    }
    const first = points.length > 1 ? Math.max(0, points[0].n) : 0;
    const marks = encoders.map(({ version }) => version).filter((n) => n >= first && n <= last.n);
    this.chart.show({ points, marks, first, last: last.n });
    const change = points.length > 1 ? `, from ${points[0].precision.toFixed(2)} at the left end` : "";
    this.says.textContent = `After ${count(last.n)} items learned: ${words(last)}${change}.`;
    this.body.replaceChildren(...points.slice(-ROWS).reverse().map(({ at, n, n_queries: queries, precision, map }) =>
      html("tr", {}, ...[time(at), count(n), count(queries), precision.toFixed(3), figure(map)].map((text) => html("td", {}, text)))));
  }
}

// A time of the server, in the words of the reader.
export function time(iso) {
  const words = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" };
  return html("time", { datetime: iso, title: iso }, new Date(iso).toLocaleString("en-GB", words));
}

export const heading = (content) => html("th", { scope: "col" }, content);

const figure = (value) => (value == null ? "–" : value.toFixed(3));
const words = ({ precision, map }) => `precision ${precision.toFixed(2)}${map == null ? "" : `, mAP ${map.toFixed(2)}`}`;
