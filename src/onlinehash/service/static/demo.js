// The view Demo: a stream of pictures with classes that join, a drawing area, and the race of two methods.

import { bitsOf, strip } from "./bits.js";
import { count, face, html, labelText } from "./elements.js";
import { Race } from "./race.js";
import { makeSketch } from "./sketch.js";
import { Stream } from "./stream.js";
import { CodeHistory } from "./watch.js";

const NEIGHBOURS = 8;

export class DemoView {
  constructor(app) {
    this.app = app;
    this.watch = new CodeHistory(app);
    this.stream = new Stream(app, {
      onStep: () => this.follow(),
      onReset: async (state) => {
        await this.watch.watch(state.unseen);
        await this.follow();
      },
    });
    this.race = new Race(app);
    this.found = html("ol", { class: "drawn-hits", "aria-label": "Neighbours of your drawing, nearest first" });
    this.says = html("p", { class: "sentence", role: "status" }, "Draw a digit: the stored items with the most similar codes appear here.");
    this.code = html("div");
    const sketch = makeSketch(app, (drawing) => this.search(drawing).catch((error) => app.tell(error)));
    this.element = html("section", { class: "demo", "aria-label": "Demo" },
      this.stream.element,
      html("section", { class: "card", "aria-labelledby": "draw-title" },
        html("div", { class: "head" }, html("h2", { id: "draw-title" }, "Draw a digit")),
        html("div", { class: "drawing" }, sketch, html("div", {}, this.says, this.code, this.found)), this.watch.element),
      this.race.element);
  }

  async show() {
    const state = await this.stream.read();
    if (!this.watch.item) await this.watch.watch(state.unseen);
    await this.follow();
  }

  hide() {
    this.stream.pause();
    this.race.pause();
  }

  async update(stats) {
    if (!this.stream.running && stats.n_items !== this.stream.state?.position) await this.stream.read(); // another tab went on
    this.stream.freshness.show(stats);
  }

  // What changes with every step of the stream.
  async follow() {
    await this.stream.showState();
    await this.watch.encode();
    if (this.drawing) await this.search(this.drawing);
  }

  async search(drawing) {
    this.drawing = drawing;
    const body = { vectors: [drawing.vector], k: NEIGHBOURS, include: ["labels", "payload"] };
    const [answer, encoded] = await Promise.all([this.app.ask("POST", "/search", body), this.app.ask("POST", "/encode", { vectors: body.vectors })]);
    if (this.drawing !== drawing) return;
    const bits = bitsOf(encoded.codes[0], encoded.n_bits);
    this.code.replaceChildren(strip(bits, null, `The code of your drawing: ${bits.join("")}`));
    const hits = answer.ids[0].map((id, i) => ({ id, labels: answer.labels[0][i], payload: answer.payload[0][i], distance: answer.distances[0][i] }));
    this.found.replaceChildren(...hits.map((hit) => html("li", {},
      html("a", { href: this.app.linkToItem(hit.id), "aria-label": `Item ${hit.id}, label ${labelText(hit.labels)}, distance ${hit.distance}` },
        html("div", { class: "face" }, face(hit)), html("b", {}, labelText(hit.labels)), html("small", {}, `${hit.distance} bit${hit.distance === 1 ? "" : "s"}`)))));
    const votes = Map.groupBy(hits, ({ labels }) => labelText(labels));
    const [best, mine] = [...votes].sort((a, b) => b[1].length - a[1].length)[0] ?? [];
    this.says.textContent = mine ? `${count(mine.length)} of its ${hits.length} nearest items are the digit ${best}.` : "Nothing is stored yet.";
  }
}
