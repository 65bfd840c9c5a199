import { html } from "./elements.js";

export class SearchView {
  constructor(app) {
    this.app = app;
    this.element = html("section", { class: "card" }, html("h2", {}, "Search"));
  }

  async show() {}
}
