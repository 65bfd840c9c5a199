// Changes of an item: relabel, delete, and delete with unlearning, each confirmed where it cannot be undone.

import { field, html, labelsOf } from "./elements.js";
import { labelNamed } from "./filters.js";

export class Changes {
  constructor(app, { onChanged, onDeleted }) {
    this.app = app;
    this.onChanged = onChanged;
    this.onDeleted = onDeleted;
    this.isBusy = false;
    this.running = Promise.resolve();
    this.box = html("textarea", { id: "new-labels", rows: "1", autocomplete: "off", spellcheck: "false" });
    this.save = html("button", { type: "submit" }, "Save labels");
    this.says = html("p", { class: "hint", role: "status" });
    const form = html("form", { class: "relabel" }, field(app.explain("label", "Labels, one per line"), this.box), this.save);
    this.remove = html("button", { type: "button", class: "danger" }, "Delete");
    this.unlearn = html("button", { type: "button", class: "danger" }, "Delete and unlearn");
    this.dialog = html("dialog", { "aria-labelledby": "confirm-title" },
      html("form", { method: "dialog" }, html("h2", { id: "confirm-title" }), html("p"),
        html("div", { class: "row" }, html("button", { value: "", autofocus: true }, "Keep it"), html("button", { value: "yes", class: "danger" }, "Delete"))));
    this.element = html("section", { class: "changes", "aria-label": "Changes" }, html("h3", {}, "Change this item"), form,
      html("div", { class: "row start" }, this.remove, this.unlearn), this.says, this.dialog);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!this.isBusy) this.run(() => this.relabel()); // else it was clicked twice
    });
    this.remove.addEventListener("click", () => this.run(() => this.delete(false)));
    this.unlearn.addEventListener("click", () => this.run(() => this.delete(true)));
  }

  show(item) {
    const { app } = this;
    this.element.hidden = app.readonly;
    this.unlearn.hidden = !app.stats.unlearns;
    const isOther = item.id !== this.item?.id;
    this.item = item;
    if (isOther) this.says.textContent = "";
    if (!isOther && document.activeElement === this.box) return; // it is being edited
    this.box.value = labelsOf(item.labels).join("\n");
    this.box.rows = Math.max(1, labelsOf(item.labels).length);
  }

  // Changes run one after another: a click during one is not lost.
  run(change) {
    const mine = this.running.catch(() => {}).then(change).catch((error) => this.app.tell(error)).finally(() => {
      this.isBusy = this.running !== mine;
    });
    this.running = mine;
    this.isBusy = true;
  }

  async relabel() {
    const texts = this.box.value.split("\n").map((text) => text.trim()).filter(Boolean);
    const labels = texts.map((text) => labelNamed(text, this.app.labels));
    await this.app.ask("PATCH", "/items", { ids: [this.item.id], labels: [labels.length > 1 ? labels : labels[0] ?? null] });
    this.says.textContent = labels.length ? `Labelled ${texts.join(", ")}.` : "The label was removed.";
    this.box.blur();
    await this.app.changed();
    await this.onChanged();
  }

  async delete(unlearn) {
    const sentence = unlearn
      ? "The item is deleted, and the hasher becomes as if it had never learned from it. This cannot be undone."
      : "The item is deleted. What the hasher learned from it stays. This cannot be undone.";
    if (!(await this.confirm(`Delete item ${this.item.id}?`, sentence))) return;
    await this.app.ask("POST", "/items/delete", { ids: [this.item.id], unlearn });
    this.onDeleted();
    await this.app.changed();
  }

  confirm(title, sentence) {
    const [heading, text] = this.dialog.querySelectorAll("h2, p");
    [heading.textContent, text.textContent] = [title, sentence];
    this.dialog.returnValue = "";
    this.dialog.showModal();
    return new Promise((resolve) => this.dialog.addEventListener("close", () => resolve(this.dialog.returnValue === "yes"), { once: true }));
  }
}
