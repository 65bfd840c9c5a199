// Staleness of the codes, and a refresh with its progress.

import { count, html, passed } from "./elements.js";

const LOOK = 400; // milliseconds between two looks at a running refresh

export class Freshness {
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
    const { staleness, n_learned: learned, refreshing, readonly } = stats;
    this.says.textContent = sentence(stats);
    const share = learned ? Math.min(1, staleness / learned) : 0;
    this.bar.style.width = `${100 * share}%`;
    this.meter.setAttribute("aria-valuemax", String(Math.max(1, learned)));
    this.meter.setAttribute("aria-valuenow", String(Math.min(staleness, learned)));
    this.meter.hidden = refreshing;
    this.progress.hidden = !refreshing;
    this.progress.value = stats.progress;
    this.button.disabled = readonly || refreshing || this.busy || stats.version === null;
    if (readonly) this.button.replaceChildren("Read only");
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

function sentence({ staleness, version, n_learned: learned, n_items: items, n_searchable: searchable, ...stats }) {
  if (stats.refresh_error) return `The last refresh failed: ${stats.refresh_error}`;
  if (version === null) return items ? "No codes yet: the hasher needs labelled items first." : "No codes yet: there are no items.";
  if (stats.refreshing) return `Encoding all items again: ${Math.round(100 * stats.progress)} % done. Searches go on with the old codes.`;
  const waiting = items - searchable > 0 ? ` ${count(items - searchable)} items wait for a code.` : "";
  const soon = stats.pending ? " A refresh is due, and begins when the writer is idle." : "";
  if (staleness === 0) return `Up to date: the codes include all ${count(learned)} items learned.${waiting}`;
  return `The codes are of version ${count(version)}; ${count(staleness)} items were learned since.${waiting}${soon}`;
}
