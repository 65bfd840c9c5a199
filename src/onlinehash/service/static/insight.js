// The view Insight: what the collection holds, how good its codes are, and how they came to be.

import { count, html } from "./elements.js";
import { Codewords } from "./insight-codewords.js";
import { LabelCounts } from "./insight-labels.js";
import { ItemMap } from "./insight-map.js";
import { heading, Quality, time } from "./insight-quality.js";
import { Freshness } from "./insight-refresh.js";

const PICTURES = 10_000; // milliseconds between two readings of the map and the codewords of a changing collection

export class InsightView {
  constructor(app) {
    this.app = app;
    this.quality = new Quality(app);
    this.freshness = new Freshness(app);
    this.labels = new LabelCounts(app);
    this.map = new ItemMap(app);
    this.codewords = new Codewords(app);
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
      html("section", { class: "card", "aria-labelledby": "found-title" },
        html("div", { class: "head" }, html("h2", { id: "found-title" }, "Do items find themselves?")), this.foundSays, this.found),
      this.map.element,
      this.labels.element,
      html("section", { class: "card", "aria-labelledby": "encoders-title" },
        html("div", { class: "head" }, html("h2", { id: "encoders-title" }, "History of the ", app.explain("encoder"))),
        html("p", { class: "hint" }, "Each row is one set of codes for all items; the newest is in use."),
        this.noEncoders, this.history),
      this.codewords.element);
  }

  async show() {
    this.seen = this.pictured = this.measured = null;
    await this.update(this.app.stats);
  }

  hide() {}

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

  // The map and the codewords follow a changing collection at some distance.
  async draw(stats) {
    const [now, at] = [state(stats), performance.now()];
    const isRecent = this.pictured?.generation === stats.generation && at - this.pictured.at < PICTURES;
    if (this.drawing || this.pictured?.now === now || isRecent) return;
    this.drawing = true;
    try {
      await Promise.all([this.map.update(), this.codewords.update(), this.measure(stats)]);
      this.pictured = { now, at, generation: stats.generation };
    } finally {
      this.drawing = false;
    }
  }

  // Searches for hundreds of items: once per generation of codes.
  async measure({ generation }) {
    if (this.measured === generation) return;
    const { n_queries: n, k, self_recall: own, coverage } = await this.app.ask("GET", "/retrievability");
    this.measured = generation;
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

export function bytes(n) {
  const names = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  const power = n < 1 ? 0 : Math.min(names.length - 1, Math.floor(Math.log2(n) / 10));
  const value = n / 1024 ** power;
  return `${value.toFixed(power && value < 99.5 ? 1 : 0)} ${names[power]}`;
}
