import { html } from "./elements.js";

export class ItemsView {
  constructor(app) {
    this.app = app;
    this.element = html("section", { class: "card" }, html("h2", {}, "Items"));
  }

  async show() {}
}
