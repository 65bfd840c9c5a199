// The code of one item, by version of the encoder: what a refresh changes.

import { bitsOf, differing, strip } from "./bits.js";
import { count, face, html, nameOf } from "./elements.js";

const MOST_VERSIONS = 100;

export class CodeHistory {
  constructor(app) {
    this.app = app;
    this.item = null;
    this.codes = [];
    this.title = html("h3", { id: "watch-title" }, "Code of one item, by version");
    this.face = html("div", { class: "face" });
    this.list = html("ol", { class: "versions", "aria-labelledby": "watch-title", tabindex: "0" });
    this.element = html("div", {}, this.title, html("div", { class: "watched" }, this.face, this.list));
  }

  // item: with its vector in "vectors"
  async watch(item) {
    this.item = item;
    this.codes = [];
    this.face.replaceChildren(face(item));
    this.title.textContent = `${item.payload?.title ?? nameOf(item)}: its code, by version`;
    await this.encode();
  }

  async encode() {
    const { item } = this;
    const answer = await this.app.ask("POST", "/encode", { vectors: [item.vectors] });
    if (item !== this.item || this.codes.at(-1)?.version === answer.version) return;
    this.codes = [...this.codes, { version: answer.version, bits: bitsOf(answer.codes[0], answer.n_bits) }].slice(-MOST_VERSIONS);
    const rows = this.codes.map(({ version, bits }, i) => {
      const before = this.codes[i - 1]?.bits;
      const comparable = before?.length === bits.length ? before : null;
      const flipped = comparable ? differing(bits, comparable) : null;
      const words = flipped === null ? "first seen" : flipped === 0 ? "the same" : `${flipped} flipped`;
      return html("li", {}, html("span", { class: "version" }, `v ${count(version)}`), strip(bits, comparable, `Version ${version}: ${words}`), html("span", { class: "flipped" }, words));
    });
    this.list.replaceChildren(...rows.reverse());
  }
}
