// The view Decide: what a text, an image or the rows of a file are, with a stated error; and what an error costs.

import { ApiError } from "./api.js";
import { count, field, html, svg, titleOf } from "./elements.js";
import { dataUrl, numbersIn, readCsv, readNpy, saveCsv } from "./inputs.js";
import { fetchItem, picture } from "./items.js";

const ERRORS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3];
const SENT = 200; // rows per request
const MOST_ROWS = 20_000;
const SHOWN_ROWS = 200;
const NEAR = 3;
const TEXTS = ["text", "document", "sentence", "title", "name", "description", "query", "question", "message"];
const [LEFT, RIGHT, TOP, BOTTOM] = [40, 14, 12, 34];

export default class DecideView {
  constructor(app) {
    this.app = app;
    this.turn = 0;
    this.box = html("textarea", { id: "decide-text", rows: "2", autocomplete: "off", "aria-label": "What to decide" });
    this.file = html("input", { type: "file", id: "decide-file", class: "unseen" });
    this.form = html("form", { class: "ask" }, this.box, html("button", { type: "submit", class: "main" }, "Decide"),
      html("label", { for: "decide-file", class: "button" }, this.fileName = html("span")), this.file);
    this.slider = html("input", { type: "range", id: "max-error", min: "0", max: String(ERRORS.length - 1), step: "1" });
    this.says = html("p", { class: "sentence", role: "status" });
    this.curve = svg("svg", { role: "img", class: "curve", "aria-label": "Risk and coverage" });
    this.place = html("div", { class: "chart" }, this.curve);
    this.lead = html("p", { class: "lead" });
    this.answer = html("section", { class: "card", "aria-label": "Decisions", hidden: true });
    this.risk = html("section", { class: "card", "aria-labelledby": "risk-title" }, html("h2", { id: "risk-title" }, "How many errors may there be?"),
      field(app.explain("max error", "Wrong labels at most"), this.slider), this.says, html("figure", {}, this.place, html("figcaption", {}, "Labelled items, judged as if they had not been learned: the share that gets a label, and the share of these labels that is wrong. The point is in use.")));
    this.ask = html("section", { class: "card", "aria-labelledby": "decide-title" }, html("h2", { id: "decide-title" }, "What is it?"), this.lead, this.form);
    this.element = html("section", { class: "decide" }, this.ask, this.risk, this.answer);
    this.listen();
  }

  listen() {
    const { app } = this;
    const guarded = (action) => Promise.resolve().then(action).catch((error) => app.tell(error));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      guarded(() => this.submit());
    });
    this.box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.form.requestSubmit();
    });
    this.file.addEventListener("change", () => guarded(() => this.file.files.length && this.take(this.file.files[0])));
    this.element.addEventListener("dragover", (event) => event.preventDefault());
    this.element.addEventListener("drop", (event) => {
      event.preventDefault();
      guarded(() => event.dataTransfer.files.length && this.take(event.dataTransfer.files[0]));
    });
    this.slider.addEventListener("input", () => this.drawCurve());
    this.slider.addEventListener("change", () => {
      app.replace(this.address());
      if (this.rows) guarded(() => this.run());
    });
    new ResizeObserver(() => this.drawCurve()).observe(this.place);
  }

  get maxError() {
    return ERRORS[Number(this.slider.value)];
  }

  address() {
    const query = new URLSearchParams();
    if (this.maxError !== 0.02) query.set("error", this.maxError);
    if (this.rows?.text !== undefined) query.set("text", this.rows.text);
    return query.size ? `#/decide?${query}` : "#/decide";
  }

  async show({ query }) {
    const { stats } = this.app;
    const at = ERRORS.indexOf(Number(query.get("error") ?? 0.02));
    this.slider.value = at < 0 ? ERRORS.indexOf(0.02) : at;
    const takes = [...(stats.embeds === "text" ? ["a text"] : []), ...(stats.embeds === "image" ? ["an image"] : []), `a vector of ${count(stats.n_features ?? 0)} numbers`, "the id of an item"];
    this.fileName.textContent = stats.embeds === "image" ? "Image, CSV or .npy" : "CSV or .npy";
    this.file.accept = stats.embeds === "image" ? "image/*,.csv,.tsv,.npy" : ".csv,.tsv,.npy";
    this.box.placeholder = `Paste ${takes.slice(0, -1).join(" or ")}, or ${takes.at(-1)}`;
    this.lead.textContent = `Give ${takes.join(", ")}; or drop a file with one ${stats.embeds === "text" ? "text or vector" : "vector"} per row. What is not sure enough is left to a person.`;
    this.ask.querySelector("form").hidden = this.risk.hidden = !stats.decides;
    if (!stats.decides) {
      this.lead.textContent = "There is nothing to decide yet: it needs items of at least two labels, and a method that scores classes (HROH).";
      return;
    }
    await this.readCurve();
    if (query.has("text") && query.get("text") !== this.rows?.text) {
      this.box.value = query.get("text");
      await this.submit();
    }
  }

  async update(stats) {
    if (stats.decides && stats.version !== this.version) await this.show({ query: new URLSearchParams(this.address().split("?")[1]) });
  }

  // ------------------------------------------------------------------ the curve

  async readCurve() {
    this.version = this.app.stats.version;
    this.points = await this.app.ask("GET", "/risk_coverage");
    this.drawCurve();
  }

  drawCurve() {
    const { points, maxError } = this, [width, height] = [this.place.clientWidth, this.place.clientHeight];
    if (!points || !width) return;
    const at = points.bound.findLastIndex((bound) => bound <= maxError);
    const [coverage, error] = at < 0 ? [0, 0] : [points.coverage[at], points.error[at]];
    this.slider.setAttribute("aria-valuetext", percent(maxError));
    this.says.textContent = `At most ${percent(maxError)} wrong: ${percent(coverage)} of new items get a label, of which ${percent(error)} are wrong; the other ${percent(1 - coverage)} are left to a person.`;
    const most = Math.max(0.02, maxError * 1.25, ...points.error.slice(Math.floor(points.error.length / 4)));
    const x = (share) => LEFT + share * (width - LEFT - RIGHT);
    const y = (share) => height - BOTTOM - (Math.min(share, most) / most) * (height - TOP - BOTTOM);
    const line = points.coverage.map((share, i) => `${i ? "L" : "M"}${x(share).toFixed(1)} ${y(points.error[i]).toFixed(1)}`).join("");
    const ticks = [0, 0.25, 0.5, 0.75, 1];
    this.curve.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.curve.setAttribute("aria-label", `Risk and coverage. ${this.says.textContent}`);
    this.curve.replaceChildren(
      ...ticks.map((share) => svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(share * most), y2: y(share * most), class: "rule" })),
      ...[0, 0.5, 1].map((share) => svg("text", { x: LEFT - 6, y: y(share * most) + 4, class: "tick end" }, percent(share * most))),
      ...ticks.map((share) => svg("text", { x: x(share), y: height - 18, class: `tick ${share === 0 ? "" : share === 1 ? "end" : "middle"}` }, percent(share))),
      svg("text", { x: width / 2, y: height - 3, class: "tick middle" }, "get a label"),
      svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(maxError), y2: y(maxError), class: "allowed" }),
      svg("path", { d: line, class: "line precision" }),
      ...(at < 0 ? [] : [svg("circle", { cx: x(coverage), cy: y(error), r: 7, class: "dot in-use" })]));
  }

  // ------------------------------------------------------------------ what is asked

  async submit() {
    const text = this.box.value.trim(), { stats } = this.app;
    if (!text) return this.box.focus();
    const numbers = numbersIn(text);
    if (numbers?.length === stats.n_features && numbers.length > 1) this.rows = { text, names: ["your vector"], vectors: [numbers] };
    else if (stats.embeds === "text") this.rows = { text, names: [text], documents: [text] };
    else {
      const { id, vectors } = await fetchItem(this.app, text);
      this.rows = { text, id, names: [`item ${text}`], vectors: [vectors] };
    }
    this.app.replace(this.address());
    await this.run();
  }

  async take(file) {
    const { stats } = this.app;
    this.file.value = "";
    this.box.value = "";
    if (file.type.startsWith("image/")) {
      if (stats.embeds !== "image") throw new ApiError("This collection has no embedder for images; give vectors (.npy or CSV).", 422);
      const image = await dataUrl(file);
      this.rows = { names: [file.name], images: [image.slice(image.indexOf(",") + 1)], pictures: [image] };
    } else if (/\.npy$/i.test(file.name)) {
      const { n, width, row } = readNpy(await file.arrayBuffer());
      this.rows = { file: file.name, names: Array.from({ length: n }, (_, i) => `row ${i + 1}`), vectors: this.checked(Array.from({ length: Math.min(n, MOST_ROWS) }, (_, i) => row(i)), width) };
    } else this.rows = { file: file.name, ...this.fromTable(readCsv(await file.text())) };
    this.app.replace(this.address());
    await this.run();
  }

  checked(vectors, width) {
    const expected = this.app.stats.n_features;
    if (width !== expected) throw new ApiError(`The rows of this file have ${count(width)} numbers, the vectors of this collection have ${count(expected)}.`, 422);
    return vectors;
  }

  // A table of vectors, if enough columns are numbers; else of texts: in the column with such a name, or with the longest.
  fromTable(table) {
    const isNumber = (value) => value.trim() !== "" && Number.isFinite(Number(value));
    const header = table.length > 1 && !table[0].some(isNumber) ? table[0] : null;
    const rows = (header ? table.slice(1) : table).slice(0, MOST_ROWS);
    if (!rows.length) throw new ApiError("This file has no rows.", 422);
    const width = this.app.stats.n_features, columns = rows[0].map((_, i) => i);
    const numeric = columns.filter((i) => rows.slice(0, 20).every((row) => isNumber(row[i] ?? "")));
    if (numeric.length >= width) {
      const used = numeric.slice(-width), first = columns.find((i) => !used.includes(i));
      return { table: { header, rows }, names: rows.map((row, i) => (first === undefined ? `row ${i + 1}` : row[first])), vectors: rows.map((row) => used.map((i) => Number(row[i]))) };
    }
    if (this.app.stats.embeds !== "text") throw new ApiError(`This file has ${count(numeric.length)} columns of numbers, the vectors of this collection have ${count(width)} numbers.`, 422);
    const long = (i) => rows.slice(0, 50).reduce((sum, row) => sum + (row[i]?.length ?? 0), 0);
    const named = columns.find((i) => TEXTS.includes(header?.[i].trim().toLowerCase()));
    const at = named ?? columns.toSorted((a, b) => long(b) - long(a))[0];
    return { table: { header, rows }, names: rows.map((row) => row[at] ?? ""), documents: rows.map((row) => row[at] || " ") };
  }

  async run() {
    const { rows } = this, turn = ++this.turn, n = (rows.vectors ?? rows.documents ?? rows.images).length;
    const decisions = [];
    this.answer.hidden = false;
    this.answer.setAttribute("aria-busy", "true");
    for (let start = 0; start < n; start += SENT) {
      const some = Object.fromEntries(["vectors", "documents", "images"].filter((name) => rows[name]).map((name) => [name, rows[name].slice(start, start + SENT)]));
      if (n > SENT) this.answer.replaceChildren(html("p", { role: "status" }, `${count(start)} of ${count(n)} rows decided …`));
      decisions.push(...(await this.app.ask("POST", "/classify", { ...some, max_error: this.maxError, n_neighbours: NEAR + (rows.id === undefined ? 0 : 1) })).decisions);
      if (turn !== this.turn) return;
    }
    this.answer.removeAttribute("aria-busy");
    this.app.allIsWell();
    if (n === 1) await this.drawOne(rows, decisions[0], turn);
    else this.drawMany(rows, decisions);
  }

  // ------------------------------------------------------------------ answers

  verdict({ label, known }) {
    if (label !== null) return html("a", { class: "chip-label same", href: this.app.linkTo(label) }, String(label));
    return html("span", { class: "chip-label not-same" }, known ? "left to a person" : "unlike everything learned");
  }

  async drawOne(rows, decision, turn) {
    const { app } = this;
    const ids = decision.neighbours.filter((id) => id !== rows.id).slice(0, NEAR); // an item is no support of its own label
    const items = ids.length ? (await app.ask("POST", "/items/get", { ids })).items : [];
    if (turn !== this.turn) return;
    const bars = decision.alternatives.map(([label, score]) => {
      const bar = html("span");
      bar.style.width = `${100 * score}%`;
      return html("li", {}, html("a", { href: app.linkTo(label) }, String(label)), html("span", { class: "amount" }, bar), html("span", { class: "number" }, percent(score)));
    });
    const near = items.map((item) => html("li", {}, picture(app, item, "") ?? "", html("a", { class: "clamp", href: app.linkToItem(item.id) }, titleOf(item))));
    const shown = rows.pictures ? [picture(app, { payload: { image: rows.pictures[0] } }, "")] : [];
    this.answer.replaceChildren(html("h2", {}, "It is ", this.verdict(decision)), ...shown,
      html("p", { class: "hint break" }, rows.names[0].slice(0, 300)),
      ...(decision.label === null ? [html("p", {}, decision.known ? `The most probable label, ${decision.alternatives[0][0]}, would be wrong more often than you allow.` : "Nothing like it was learned: it may belong to a new class.")] : []),
      html("div", { class: "two" },
        html("div", {}, html("h3", {}, "Most probable labels"), html("ul", { class: "label-counts", "aria-label": "Most probable labels" }, ...bars)),
        html("div", {}, html("h3", {}, `Items that support ${decision.alternatives[0][0]}`), html("ul", { class: "near" }, ...near))));
  }

  drawMany(rows, decisions) {
    const [given, unknown] = [decisions.filter(({ label }) => label !== null).length, decisions.filter(({ label, known }) => label === null && !known).length];
    const save = html("button", { type: "button" }, "Save as CSV");
    save.addEventListener("click", () => saveCsv("decisions", this.table(rows, decisions)));
    const heads = ["Row", "Decision", "Most probable", "Probability", "Next"].map((name) => html("th", { scope: "col" }, name));
    const body = decisions.slice(0, SHOWN_ROWS).map((decision, i) => html("tr", {}, html("td", { class: "cut" }, rows.names[i]), html("td", {}, this.verdict(decision)),
      html("td", {}, String(decision.alternatives[0][0])), html("td", { class: "number" }, percent(decision.score)), html("td", {}, String(decision.alternatives[1]?.[0] ?? ""))));
    this.answer.replaceChildren(html("div", { class: "head" }, html("h2", {}, rows.file ?? "Decisions"), save),
      html("p", { class: "sentence", role: "status" }, `${count(given)} of ${count(decisions.length)} rows get a label, ${count(decisions.length - given)} are left to a person, ${count(unknown)} of these unlike everything learned.${decisions.length > SHOWN_ROWS ? ` The first ${SHOWN_ROWS}:` : ""}`),
      html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Decisions, by row" }, html("table", {}, html("thead", {}, html("tr", {}, ...heads)), html("tbody", {}, ...body))));
  }

  // The rows of the file with what was decided.
  table({ table, names }, decisions) {
    const heads = ["label", "probability", "known", "most_probable", "next", "next_probability"];
    const columns = ({ label, score, known, alternatives: [best, next] }) => [label ?? "", score, known, best[0], next?.[0] ?? "", next?.[1] ?? ""];
    if (!table) return [["row", ...heads], ...decisions.map((decision, i) => [names[i], ...columns(decision)])];
    const first = table.header ?? table.rows[0].map((_, i) => `column ${i + 1}`);
    return [[...first, ...heads], ...table.rows.map((row, i) => [...row, ...columns(decisions[i])])];
  }
}

const percent = (share) => `${Number((100 * share).toFixed(share < 0.0995 ? 1 : share < 0.995 ? 0 : 1))} %`;
