// The view Insight: what the collection holds, how good its codes are, and how they came to be.

import { count, html, passed, svg } from "./elements.js";
import { ItemMap } from "./map.js";

export default class InsightView {
  constructor(app) {
    this.app = app;
    this.quality = new Quality(app);
    this.freshness = new Freshness(app);
    this.labels = new LabelCounts(app);
    this.map = new ItemMap(app);
    this.facts = html("dl", { class: "facts" });
    this.found = html("dl", { class: "facts" });
    this.foundSays = html("p", { class: "hint", role: "status" });
    this.encoders = html("tbody");
    this.noEncoders = html("p", { class: "hint" });
    this.history = html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Encoders, newest first" },
      html("table", {}, html("thead", {}, html("tr", {}, heading("Made"), heading(app.explain("generation", "Generation")), heading(app.explain("version", "Version")), heading("Items"), heading("Seconds"))), this.encoders));
    this.element = html("section", { class: "insight", "aria-label": "Insight" },
      this.quality.element,
      html("section", { class: "card", "aria-labelledby": "facts-title" },
        html("div", { class: "head" }, html("h2", { id: "facts-title" }, "The ", app.explain("collection"))), this.facts, this.freshness.element),
      this.map.element,
      this.labels.element,
      html("div", { class: "column" },
        html("section", { class: "card", "aria-labelledby": "found-title" },
          html("div", { class: "head" }, html("h2", { id: "found-title" }, "Do items find themselves?")), this.foundSays, this.found),
        html("section", { class: "card", "aria-labelledby": "encoders-title" },
          html("div", { class: "head" }, html("h2", { id: "encoders-title" }, "History of the ", app.explain("encoder"))),
          html("p", { class: "hint" }, "Each row is one set of codes for all items; the newest is in use."),
          this.noEncoders, this.history)));
  }

  async show() {
    this.seen = null;
    await this.update(this.app.stats);
  }

  async update(stats) {
    this.showFacts(stats);
    this.freshness.show(stats);
    this.draw(stats).catch((error) => this.app.tell(error)); // not awaited: it takes longer than the rest
    const now = state(stats);
    if (now === this.seen) return;
    this.labels.update();
    await this.readHistory();
    this.seen = now;
  }

  // What takes long is read once per generation of codes.
  async draw(stats) {
    if (this.drawing || this.drawn === stats.generation) return;
    this.drawing = true;
    try {
      await Promise.all([this.map.update(), this.measure()]);
      this.drawn = stats.generation;
    } finally {
      this.drawing = false;
    }
  }

  async measure() {
    const { n_queries: n, k, self_recall: own, coverage } = await this.app.ask("GET", "/retrievability");
    this.foundSays.textContent = n
      ? `${count(n)} items, drawn at random, were searched for by their own vectors, each for the ${k} nearest.`
      : "Nothing to search for yet.";
    const facts = n ? [[this.app.explain("self-recall", "found by their own vector"), own], [this.app.explain("coverage", "returned by any of the searches"), coverage]] : [];
    this.found.replaceChildren(...facts.map(([name, share]) => html("div", {}, html("dt", {}, name), html("dd", {}, percent(share)))));
  }

  async readHistory() {
    const history = await this.app.ask("GET", "/history");
    this.quality.show(history);
    this.encoders.replaceChildren(...history.encoders.toReversed().map(({ at, generation, version, n_items: n, seconds }) =>
      html("tr", {}, html("td", {}, time(at)), ...[count(generation), count(version), count(n), seconds == null ? "–" : seconds.toFixed(seconds < 10 ? 2 : 0)]
        .map((text) => html("td", { class: "number" }, text)))));
    this.noEncoders.textContent = history.encoders.length ? "" : this.app.stats.version === null
      ? "No encoder yet: the hasher needs labelled items first."
      : "The encoder in use was made before the history was kept; the next refresh begins it.";
    this.history.hidden = !history.encoders.length;
  }

  showFacts(stats) {
    const explain = (word, text) => this.app.explain(word, text);
    const perItem = stats.n_items ? ` (${bytes(stats.n_bytes / stats.n_items)} per item)` : "";
    const facts = [
      [explain("item", "items"), count(stats.n_items)],
      [explain("searchable"), count(stats.n_searchable)],
      [explain("learned", "learned from"), count(stats.n_learned)],
      [explain("method"), stats.method.toUpperCase()],
      [explain("bits", "bits per item"), count(stats.n_bits)],
      [explain("vector", "numbers per vector"), stats.n_features === null ? "–" : count(stats.n_features)],
      [explain("index"), stats.index],
      [explain("generation"), count(stats.generation)],
      [explain("version"), stats.version === null ? "–" : count(stats.version)],
      ["size on disk", bytes(stats.n_bytes) + perItem],
      ...(stats.embedder ? [[explain("embedder"), stats.embedder]] : []),
      ...(stats.readonly ? [[explain("read only", "access"), "read only"]] : []),
    ];
    const key = JSON.stringify(facts.map(([, value]) => value));
    if (key === this.factsShown) return;
    this.factsShown = key;
    if (this.facts.childElementCount === facts.length) {
      facts.forEach(([, value], i) => (this.facts.children[i].lastChild.textContent = value)); // keeps the focus on a word
      return;
    }
    this.facts.replaceChildren(...facts.map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", {}, value))));
  }
}

const percent = (share) => `${(100 * share).toFixed(share > 0.995 && share < 1 ? 1 : 0)} %`;
const state = ({ sequence, generation, n_items: nItems, n_learned: nLearned }) => [sequence, generation, nItems, nLearned].join();

function bytes(n) {
  const names = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  const power = n < 1 ? 0 : Math.min(names.length - 1, Math.floor(Math.log2(n) / 10));
  const value = n / 1024 ** power;
  return `${value.toFixed(power && value < 99.5 ? 1 : 0)} ${names[power]}`;
}

// ---------------------------------------------------------------------- quality

// Every new labelled item was a query before it was learned from.

const ROWS = 20; // newest points in the table

class Quality {
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
function time(iso) {
  const words = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" };
  return html("time", { datetime: iso, title: iso }, new Date(iso).toLocaleString("en-GB", words));
}

const heading = (content) => html("th", { scope: "col" }, content);

const figure = (value) => (value == null ? "–" : value.toFixed(3));
const words = ({ precision, map }) => `precision ${precision.toFixed(2)}${map == null ? "" : `, mAP ${map.toFixed(2)}`}`;

// ---------------------------------------------------------------------- curves

// Curves between 0 and 1 over the number of instances, scaled to the available width.

const LEFT = 34;
const RIGHT = 12;
const TOP = 22;
const BOTTOM = 26;

// A line of the legend of a chart.
const keyed = (name, content) => html("span", { class: "keyed" }, html("span", { class: `key ${name}` }), content, " ");

class Chart {
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

// ---------------------------------------------------------------------- labels

// The labels of a collection with the number of their items, and a search box within them.

const FIRST = 60; // rows before "Show all"

class LabelCounts {
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

// ---------------------------------------------------------------------- staleness

// Staleness of the codes, and a refresh with its progress.

const LOOK = 400; // milliseconds between two looks at a running refresh

class Freshness {
  constructor(app) {
    this.app = app;
    this.says = html("p", { class: "sentence", role: "status" });
    this.bar = html("span");
    this.meter = html("div", { class: "meter", role: "meter", "aria-label": "Staleness", "aria-valuemin": "0", "aria-valuemax": "1", "aria-valuenow": "0" }, this.bar);
    this.progress = html("progress", { max: "1", "aria-label": "Progress of the refresh", hidden: true });
    this.button = html("button", { type: "button" }, "Refresh the codes");
    this.element = html("div", { class: "stale" },
      html("div", {}, html("h3", {}, app.explain("staleness", "Staleness")), this.says), this.meter, this.progress, this.button);
    this.button.addEventListener("click", () => this.refresh().catch((error) => app.tell(error)));
  }

  show(stats) {
    const { staleness, n_learned: learned, refreshing } = stats, { readonly } = this.app;
    this.says.textContent = freshness(stats);
    const share = learned ? Math.min(1, staleness / learned) : 0;
    this.bar.style.width = `${100 * share}%`;
    this.meter.setAttribute("aria-valuemax", String(Math.max(1, learned)));
    this.meter.setAttribute("aria-valuenow", String(Math.min(staleness, learned)));
    this.meter.hidden = refreshing;
    this.progress.hidden = !refreshing;
    this.progress.value = stats.progress;
    this.button.hidden = readonly;
    this.button.disabled = refreshing || this.busy || stats.version === null;
    if (refreshing && !this.busy) this.follow().catch((error) => this.app.tell(error)); // another tab or the policy began it
  }

  async refresh() {
    await this.app.ask("POST", "/refresh");
    await this.follow();
  }

  async follow() {
    if (this.busy) return;
    this.busy = true;
    try {
      let stats;
      do {
        stats = await this.app.ask("GET", "/stats");
        this.show(stats);
        if (stats.refreshing) await passed(LOOK);
      } while (stats.refreshing && !stats.refresh_error);
    } finally {
      this.busy = false;
    }
    await this.app.changed();
  }
}

function freshness({ staleness, version, n_learned: learned, n_items: items, n_searchable: searchable, ...stats }) {
  if (stats.refresh_error) return `The last refresh failed: ${stats.refresh_error}`;
  if (version === null) return items ? "No codes yet: the hasher needs labelled items first." : "No codes yet: there are no items.";
  if (stats.refreshing) return `Encoding all items again: ${Math.round(100 * stats.progress)} % done. Searches go on with the old codes.`;
  const waiting = items - searchable > 0 ? ` ${count(items - searchable)} items wait for a code.` : "";
  const soon = stats.pending ? " A refresh is due, and begins when the writer is idle." : "";
  if (staleness === 0) return `Up to date: the codes include all ${count(learned)} items learned.${waiting}`;
  return `The codes are of version ${count(version)}; ${count(staleness)} items were learned since.${waiting}${soon}`;
}
