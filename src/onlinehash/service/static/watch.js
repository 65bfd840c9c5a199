// State of the collection: classes, staleness, refresh, and the code of one item by version.

import { allIsWell, ask, tell } from "./api.js";
import { bitsOf, differing, strip } from "./bits.js";
import { byId, count, face, html, nameOf } from "./elements.js";

const MOST_CHIPS = 40;
const MOST_VERSIONS = 100;

export class Watch {
  constructor({ onVersion, nClasses = 0 }) {
    this.onVersion = onVersion;
    this.nClasses = nClasses; // space reserved for future classes
    this.version = undefined;
    this.item = null;
    this.candidate = null;
    this.codes = [];
    byId("refresh").addEventListener("click", () => this.refresh());
    byId("watch").addEventListener("click", () => this.watch(this.candidate).catch(tell));
  }

  // The item picked last, which can be watched.
  propose({ item, vector }) {
    this.candidate = { ...item, vector };
    if (this.item === null) this.watch(this.candidate).catch(tell);
  }

  async watch(item) {
    if (!item) return;
    const vector = item.vector ?? item.vectors ?? (await ask("POST", "/api/v1/items/get", { ids: [item.id] })).items[0].vectors;
    this.item = { ...item, vector };
    this.codes = [];
    byId("watched-item").replaceChildren(face(item));
    byId("watch-title").textContent = `${capital(item.payload?.title ?? nameOf(item))}, by version`;
    await this.encode();
  }

  async update() {
    const [stats, { label_counts: classes }] = await Promise.all([ask("GET", "/api/v1/stats"), ask("GET", "/api/v1/label_counts")]);
    byId("n-items").textContent = count(stats.n_items);
    byId("n-classes").textContent = count(classes.length);
    byId("method").textContent = stats.method.toUpperCase();
    byId("n-bits").textContent = count(stats.n_bits);
    this.showClasses(classes);
    this.showStaleness(stats);
    const passed = this.version !== undefined && stats.version !== this.version;
    this.version = stats.version;
    if (passed) await Promise.all([this.encode(), this.onVersion()]);
    return { stats, classes };
  }

  showClasses(classes) {
    const most = Math.max(1, ...classes.map(({ n_items: n }) => n));
    const list = byId("classes");
    const known = new Set([...list.children].map((chip) => chip.dataset.label));
    const shown = classes.slice(0, MOST_CHIPS);
    const chips = shown.map(({ label, n_items: n }) => {
      const isNew = known.size && !known.has(String(label));
      const bar = html("span", { class: "amount" });
      bar.style.width = `${(100 * n) / most}%`;
      const chip = html("li", { class: `chip${isNew ? " new" : ""}`, "aria-label": `${label}: ${count(n)} items` },
        html("b", {}, String(label)), html("small", {}, count(n)), bar);
      chip.dataset.label = String(label);
      return chip;
    });
    for (let i = shown.length; i < this.nClasses; i++) chips.push(html("li", { class: "chip to-come", "aria-hidden": "true" }, html("b", {}, "?"), html("small", {}, "–")));
    if (classes.length > MOST_CHIPS) chips.push(html("li", { class: "chip" }, html("b", {}, `+${count(classes.length - MOST_CHIPS)}`)));
    list.replaceChildren(...chips);
  }

  showStaleness(stats) {
    const { staleness, version, n_learned: learned } = stats;
    const refreshing = stats.refreshing ? ` Refreshing: ${Math.round(100 * stats.progress)} % done.` : "";
    byId("stale-says").textContent = stats.refresh_error ?? (version === null
      ? "No codes yet."
      : staleness === 0
        ? `The codes include all ${count(learned)} items learned.`
        : `Codes of version ${count(version)}; ${count(staleness)} items learned since.`) + refreshing;
    const share = learned ? Math.min(1, staleness / learned) : 0;
    byId("stale-bar").style.width = `${100 * share}%`;
    const meter = byId("stale-meter");
    meter.setAttribute("aria-valuemax", String(learned));
    meter.setAttribute("aria-valuenow", String(staleness));
    const button = byId("refresh");
    button.disabled = stats.readonly;
    if (stats.readonly) button.textContent = "Only reads";
  }

  async refresh() {
    const button = byId("refresh");
    button.setAttribute("aria-busy", "true");
    try {
      await ask("POST", "/api/v1/refresh", { wait: true });
      await this.update();
      await this.onRefreshed?.();
      allIsWell();
    } catch (error) {
      tell(error);
    } finally {
      button.removeAttribute("aria-busy");
    }
  }

  async encode() {
    if (!this.item) return;
    const { item } = this;
    const answer = await ask("POST", "/api/v1/encode", { vectors: [item.vector] });
    if (item !== this.item || this.codes.at(-1)?.version === answer.version) return;
    this.codes = [...this.codes, { version: answer.version, bits: bitsOf(answer.codes[0], answer.n_bits) }].slice(-MOST_VERSIONS);
    const rows = this.codes.map(({ version, bits }, i) => {
      const before = this.codes[i - 1]?.bits;
      const comparable = before?.length === bits.length ? before : null;
      const flipped = comparable ? differing(bits, comparable) : null;
      const words = flipped === null ? "first seen" : flipped === 0 ? "the same" : `${flipped} flipped`;
      return html("li", {},
        html("span", { class: "version" }, `v ${count(version)}`),
        strip(bits, comparable, `Version ${version}: ${words}`),
        html("span", { class: "flipped" }, words));
    });
    byId("versions").replaceChildren(...rows.reverse());
  }
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);
