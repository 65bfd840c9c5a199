import { html } from "./elements.js";

export class ItemView {
  constructor(app) {
    this.app = app;
    this.element = html("section", { class: "card" }, html("h2", {}, "Item"));
  }

  async show() {}
}
