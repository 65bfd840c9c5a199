// The view Review: labels are mended and given, one decision after another, by keyboard. Every decision is one request.

import { write } from "./api.js";
import { count, html, labelsOf, labelText, titleOf } from "./elements.js";
import { LabelBox } from "./inputs.js";
import { neighbours, picture } from "./items.js";

const NEAR = 3; // neighbours of each label
const MOST = 1000; // items of a pile, per request
const PER_REQUEST = 10_000; // labelled items that are judged by one request
const AHEAD = 3; // cards that are read before they are seen
const SHOWN_OF_GROUP = 12;
const EVERY = 20; // decisions, after which the pile is asked for again, if that is quick
const QUICK = 3000; // milliseconds
const KEPT = "console/kept"; // the checkpoint that remembers which labels were confirmed
const MOST_KEPT = 5000;

const PILES = {
  suspects: { name: "Suspects", hint: "Items whose label the others contradict, the most certain first.", empty: "No label is contradicted by the others." },
  uncertain: { name: "Uncertain", hint: "Items without a label whose most probable label is least certain: their labels teach most.", empty: "Every item that resembles what was learned has a label." },
  unknown: { name: "Unknown", hint: "Items without a label that resemble nothing learned, in groups: name a new class once for all of a group.", empty: "No item without a label is unlike everything learned." },
};

export default class ReviewView {
  constructor(app) {
    this.app = app;
    this.piles = {}; // by name: { cards, seen, first, ... }
    this.done = []; // decisions, to be undone: { pile, card, undo }
    this.sending = Promise.resolve();
    this.kept = null; // id -> label, as JSON
    this.loads = {}; // pile -> what ends when it is read for the first time
    this.tabs = html("ul", { class: "piles" });
    this.progress = html("p", { class: "hint", role: "status" });
    this.effect = html("dl", { class: "facts effect" });
    this.hint = html("p", { class: "hint" });
    this.card = html("div", { class: "review-card", tabindex: "0", role: "group", "aria-roledescription": "card", "aria-label": "Item to review", "aria-describedby": "review-keys" });
    this.box = new LabelBox(app, { id: "other-label", placeholder: "Type a label", "aria-label": "Another label", onPick: (label) => this.give(label), onCancel: () => this.card.focus() });
    this.buttons = {
      accept: this.button("Accept", "A", () => this.give(this.now.suggested), "main"),
      keep: this.button("Keep", "K", () => this.keep()),
      link: this.button("Link", "L", () => this.link()),
      skip: this.button("Skip", "S", () => this.skip()),
      undo: this.button("Undo", "U", () => this.undo()),
    };
    const { accept, keep, link, skip, undo } = this.buttons;
    this.tools = html("div", { class: "row start review-tools" }, accept, keep, html("span", { class: "other" }, html("kbd", {}, "/"), this.box.element), link, skip, undo);
    this.keys = html("p", { class: "hint", id: "review-keys" }, "Keys while the card has the focus: A or Enter accepts the suggestion, K keeps what it has, / types another label, S skips, U undoes; in a group, L links without a name, and 1 to 9 leave an item out.");
    this.nothing = html("p", { class: "sentence", role: "status", hidden: true });
    this.element = html("section", { class: "review", "aria-labelledby": "review-title" },
      html("section", { class: "card" }, html("div", { class: "head" }, html("h2", { id: "review-title" }, "Review labels"), this.tabs), this.hint, this.nothing, this.card, this.tools, this.keys),
      html("section", { class: "card", "aria-labelledby": "effect-title" }, html("h2", { id: "effect-title" }, "What it changed"), this.progress, this.effect));
    this.card.addEventListener("keydown", (event) => this.key(event));
  }

  button(name, key, action, style = "") {
    const button = html("button", { type: "button", class: style, "aria-keyshortcuts": key }, name, html("kbd", { "aria-hidden": "true" }, key));
    button.addEventListener("click", () => {
      action();
      this.card.focus();
    });
    return button;
  }

  async show({ query }) {
    this.pile = query.get("pile") in PILES ? query.get("pile") : "suspects";
    this.hint.textContent = PILES[this.pile].hint;
    this.drawTabs();
    if (!this.app.stats.decides) return this.drawNothing("There is nothing to review yet: it needs items of at least two labels, and a method that scores classes (HROH).");
    if (!this.piles[this.pile]) {
      this.drawNothing("Reading all items of this pile …");
      const name = this.pile;
      await (this.loads[name] ??= this.load(name).finally(() => delete this.loads[name])); // once, whoever shows it meanwhile
    } else if (this.piles[this.pile].parts.length) this.loadRest(this.piles[this.pile]);
    this.draw();
    this.measure().catch((error) => this.app.tell(error));
    this.focus();
  }

  focus() {
    this.card.focus({ preventScroll: true });
  }

  async update(stats) {
    if (stats.version !== this.measured) await this.measure();
    if (stats.decides && this.pile && !this.piles[this.pile]) await this.show({ query: new URLSearchParams({ pile: this.pile }) });
  }

  // ------------------------------------------------------------------ piles

  // Ask the collection for a pile; what was decided or skipped here does not come again.
  async load(name) {
    const began = performance.now(), { app } = this, before = this.piles[name];
    const pile = { name, cards: [], seen: before?.seen ?? new Set(), first: before?.first ?? 0, isFirst: !before, decided: 0, parts: [] };
    if (name === "suspects") {
      this.kept ??= (await app.ask("GET", `/checkpoints/${KEPT}`)).value ?? {};
      pile.parts = partsOf(app.labels);
      if (pile.parts.length) await this.loadPart(pile);
    } else {
      const { items } = await app.ask("POST", "/review", { n: MOST, by: name });
      const own = items.filter(({ known }) => known === (name === "uncertain"));
      this.fill(pile, name === "uncertain" ? own.map(({ id, suggested, score }) => ({ ids: [id], labels: null, suggested, order: score })) : groups(own));
    }
    const shown = before?.cards[0]; // it stays
    if (shown) pile.cards = [shown, ...pile.cards.filter(({ ids }) => !ids.some((id) => shown.ids.includes(id)))];
    pile.milliseconds = performance.now() - began;
    this.piles[name] = pile;
    this.drawTabs();
    if (pile.parts.length) this.loadRest(pile);
  }

  // Suspects of some labels; where that takes too long, of half of them.
  async loadPart(pile) {
    const labels = pile.parts.shift();
    try {
      const { suspects } = await this.app.ask("POST", "/suspects", { n: MOST, labels });
      this.fill(pile, suspects.map(({ id, label, suggested, margin }) => ({ ids: [id], labels: label, suggested, order: -margin })).filter(({ ids: [id], labels: own }) => this.kept[id] !== write(own)));
    } catch (error) {
      if (error.status !== 422 || labels.length < 2) throw error;
      pile.parts.unshift(labels.slice(0, labels.length / 2), labels.slice(labels.length / 2));
      await this.loadPart(pile);
    }
  }

  // The other labels, while the first ones are reviewed.
  async loadRest(pile) {
    try {
      while (pile.parts.length && this.app.view === this && this.piles[pile.name] === pile) {
        await this.loadPart(pile);
        this.drawTabs();
        this.drawProgress();
        if (!this.drawn) this.draw();
      }
    } catch (error) {
      this.app.tell(error);
    }
  }

  // Add cards behind the one that is shown.
  fill(pile, cards) {
    const known = new Set([...pile.seen, ...pile.cards.flatMap(({ ids }) => ids)]);
    const added = cards.filter(({ ids }) => !ids.every((id) => known.has(id)));
    const [shown, ...rest] = pile.cards;
    pile.cards = [...(shown ? [shown] : []), ...[...rest, ...added].sort((one, other) => one.order - other.order)];
    if (pile.isFirst) pile.first += added.length;
  }

  get now() {
    return this.piles[this.pile]?.cards[0];
  }

  // What a card shows, read once: its items, and the nearest of its label and of the suggested one.
  details(card) {
    card.details ??= this.read(card);
    card.details.catch(() => (card.details = null));
    return card.details;
  }

  async read({ ids, labels, suggested }) {
    const { app } = this;
    const near = async (some) => {
      const answer = await app.ask("POST", "/search", { by_id: [ids[0]], k: NEAR, rescore: "cosine", include: ["labels", "payload"], ...(some === null ? {} : { labels: some }) });
      return neighbours(answer);
    };
    const [{ items }, own, other] = await Promise.all([app.ask("POST", "/items/get", { ids: ids.slice(0, SHOWN_OF_GROUP) }), near(labels), near(suggested)]);
    return { items, own, other };
  }

  // ------------------------------------------------------------------ decisions

  // Leave the card for the next one; the request is sent meanwhile, one after the other.
  decide(send, undo) {
    const { now: card, pile } = this;
    if (!card || card !== this.drawn) return;
    const { cards, seen } = this.piles[pile];
    cards.shift();
    card.ids.forEach((id) => seen.add(id));
    this.done.push({ pile, card, undo });
    this.draw();
    if (send) this.send(send, () => this.putBack(this.done.find((one) => one.card === card)));
    this.app.allIsWell();
    const current = this.piles[pile];
    current.decided++;
    if (current.parts.length) return;
    if ((current.decided >= EVERY && current.milliseconds < QUICK) || !current.cards.length) this.send(() => this.load(pile).then(() => this.draw()));
  }

  send(request, onError = () => {}) {
    this.sending = this.sending.then(request).catch((error) => {
      onError();
      this.app.tell(error);
    });
  }

  give(label) {
    const { now: card } = this;
    if (!card || this.app.readonly) return;
    const ids = card.ids.filter((id) => !card.left?.has(id));
    const patch = (labels) => this.app.ask("PATCH", "/items", { ids, labels: ids.map(() => labels) });
    this.decide(() => patch(label), () => patch(card.labels));
    this.card.focus();
  }

  // The label is right: it is no suspect any more, for anyone. Without a label, the item keeps none.
  keep() {
    const { now: card } = this;
    if (!card || this.app.readonly) return;
    if (card.labels === null) return this.skip();
    const [id] = card.ids;
    const put = () => this.app.ask("PUT", `/checkpoints/${KEPT}`, { value: this.kept = Object.fromEntries(Object.entries(this.kept).slice(-MOST_KEPT)) });
    this.decide(() => put((this.kept[id] = write(card.labels))), () => put(delete this.kept[id]));
  }

  link() {
    const { now: card } = this;
    if (!card || this.app.readonly || card.ids.length < 2) return;
    const ids = card.ids.filter((id) => !card.left?.has(id));
    this.decide(() => this.app.ask("POST", "/link", { ids }), () => this.app.ask("POST", "/unlink", { ids }));
  }

  skip() {
    this.decide(null, null);
  }

  undo() {
    const last = this.done.at(-1);
    if (!last) return;
    if (last.undo) this.send(last.undo);
    this.putBack(last);
  }

  putBack(decision) {
    this.done.splice(this.done.indexOf(decision), 1);
    const { cards, seen } = this.piles[decision.pile];
    decision.card.ids.forEach((id) => seen.delete(id));
    cards.unshift(decision.card);
    if (decision.pile !== this.pile) this.app.go(`#/review?pile=${decision.pile}`);
    this.draw();
  }

  key(event) {
    if (event.target !== this.card || event.ctrlKey || event.metaKey || event.altKey) return;
    const { accept, keep, link, skip, undo } = this.buttons;
    const button = { a: accept, enter: accept, k: keep, l: link, s: skip, u: undo }[event.key.toLowerCase()];
    if (event.key === "/") this.box.input.focus();
    else if (button) button.disabled || button.hidden || button.click();
    else if (/^[1-9]$/.test(event.key) && this.now?.ids.length > 1) this.leaveOut(Number(event.key) - 1);
    else return;
    event.preventDefault();
  }

  leaveOut(i) {
    const id = this.now?.ids[i];
    if (id === undefined || i >= SHOWN_OF_GROUP) return;
    const left = (this.now.left ??= new Set());
    if (!left.delete(id) && left.size < this.now.ids.length - 1) left.add(id);
    this.card.querySelectorAll(".member").forEach((one, at) => one.setAttribute("aria-pressed", String(!left.has(this.now.ids[at]))));
  }

  // ------------------------------------------------------------------ drawing

  drawTabs() {
    this.tabs.replaceChildren(...Object.entries(PILES).map(([name, { name: text }]) => html("li", {},
      html("a", { href: this.app.href(`#/review?pile=${name}`), "aria-current": name === this.pile ? "true" : null }, text, this.piles[name] ? html("span", { class: "number" }, count(this.piles[name].cards.length)) : ""))));
  }

  // Nothing is decided that is not seen.
  clear() {
    this.drawn = null;
    this.card.dataset.id = "";
    this.card.replaceChildren();
  }

  drawNothing(text) {
    this.clear();
    this.nothing.textContent = text;
    this.nothing.hidden = false;
    this.card.hidden = this.tools.hidden = this.keys.hidden = true;
  }

  draw() {
    this.drawTabs();
    this.drawProgress();
    const { now: card, app } = this;
    if (!card) {
      this.drawNothing(`${PILES[this.pile].empty}${this.done.length ? " This pile is done." : ""}`);
      this.tools.hidden = !this.done.length; // to undo
    } else {
      this.nothing.hidden = true;
      this.tools.hidden = this.keys.hidden = this.card.hidden = false;
    }
    const isGroup = card?.ids.length > 1;
    for (const button of Object.values(this.buttons)) button.disabled = !card || app.readonly;
    this.buttons.skip.disabled = !card;
    this.buttons.undo.disabled = !this.done.length;
    this.buttons.accept.hidden = this.pile === "unknown"; // it has a new label, more likely
    this.buttons.link.hidden = !isGroup;
    this.buttons.keep.hidden = card?.labels === null;
    this.box.input.disabled = !card || app.readonly;
    if (!card) return;
    if (card !== this.drawn) this.clear();
    this.details(card).then((details) => card === this.now && this.drawCard(card, details)).catch((error) => (error.status === 404 ? this.drop(card) : app.tell(error)));
    for (const next of this.piles[this.pile].cards.slice(1, AHEAD)) this.details(next).catch(() => {});
  }

  // Somebody has deleted it.
  drop(card) {
    const { cards } = this.piles[this.pile];
    if (cards[0] === card) cards.shift();
    this.draw();
  }

  drawCard(card, { items, own, other }) {
    const isGroup = card.ids.length > 1;
    const parts = isGroup ? [this.drawGroup(card, items)] : [this.drawItem(items[0], "review-item")];
    const has = card.labels === null ? ["Nearest items", null] : ["It has", card.labels];
    const could = isGroup ? "Nearest label" : card.labels === null ? "Most probable" : "It should have";
    this.drawn = card;
    this.card.dataset.id = String(card.ids[0]);
    this.card.replaceChildren(...parts, ...(isGroup ? [] : [this.drawSide(...has, own, "has")]), this.drawSide(could, card.suggested, other, "suggested"));
  }

  drawItem(item, style) {
    const title = titleOf(item), { app } = this;
    const shown = picture(app, item, "", "short");
    const link = html("a", { class: "hint", href: app.linkToItem(item.id), tabindex: "-1" }, `item ${item.id}`);
    return html("div", { class: style }, ...(shown ? [shown] : []), ...(title === `item ${item.id}` ? [] : [html("p", { class: "what" }, title)]), link);
  }

  drawGroup(card, items) {
    const more = card.ids.length - items.length;
    return html("div", { class: "review-group" }, html("p", { class: "hint" }, `${count(card.ids.length)} items that resemble each other${more ? `; ${count(items.length)} of them:` : ":"}`),
      html("div", { class: "members" }, ...items.map((item, i) => {
        const member = html("button", { type: "button", class: "member", "aria-pressed": String(!card.left?.has(item.id)), tabindex: "-1" }, picture(this.app, item, "") ?? "", html("span", { class: "clamp" }, titleOf(item)), i < 9 ? html("kbd", { "aria-hidden": "true" }, i + 1) : "");
        member.addEventListener("click", () => {
          this.leaveOut(i);
          this.card.focus();
        });
        return member;
      })));
  }

  drawSide(name, labels, near, style) {
    return html("div", { class: `side ${style}` }, html("h3", {}, name, " ", ...labelsOf(labels).map((label) => html("b", { class: "chip-label" }, String(label)))),
      html("ul", {}, ...near.map((item) => html("li", {}, picture(this.app, item, "") ?? "", html("span", { class: "clamp" }, titleOf(item)), labels === null ? html("small", { class: "hint" }, labelText(item.labels) || "no label") : ""))));
  }

  // ------------------------------------------------------------------ effect

  drawProgress() {
    const n = this.done.filter(({ undo }) => undo).length;
    const skipped = this.done.length - n;
    this.progress.textContent = n || skipped ? `${count(n)} decided${skipped ? `, ${count(skipped)} skipped` : ""}.` : this.app.readonly ? "You may look, but not change anything: this service or the API key only reads." : "Nothing decided yet.";
    const left = this.piles.suspects?.parts.flat().length;
    if (left) this.progress.append(` Items of ${count(left)} labels are still being judged.`);
    const facts = [];
    const { suspects } = this.piles;
    if (suspects) facts.push(["labels that others contradict", suspects.first, suspects.cards.length, count]);
    if (this.quality) facts.push(["would get their label, if they had none", this.quality.first, this.quality.now, (value) => `${(100 * value).toFixed(1)} %`]);
    if (this.quality) facts.push(["get a label with at most 2 % of them wrong", this.quality.firstCovered, this.quality.covered, (value) => `${(100 * value).toFixed(1)} %`]);
    this.effect.replaceChildren(...facts.map(([name, first, now, text]) => html("div", {}, html("dt", {}, name),
      html("dd", {}, first === now ? text(now) : html("span", {}, html("s", {}, text(first)), ` ${text(now)}`)))));
  }

  // The calibration of the codes in use: what labelled items would get if they had not been learned.
  async measure() {
    const { stats } = this.app;
    if (!stats.decides || stats.version === this.measured) return;
    this.measured = stats.version;
    const curve = await this.app.ask("GET", "/risk_coverage");
    if (!curve.n_rows) return;
    const now = 1 - curve.error.at(-1), covered = curve.coverage[curve.bound.findLastIndex((bound) => bound <= 0.02)] ?? 0;
    this.quality = { first: now, firstCovered: covered, ...this.quality, now, covered };
    this.drawProgress();
  }
}

// One card per group of items, the largest first.
function groups(items) {
  const found = new Map();
  for (const { id, group, suggested } of items) found.set(group, { ids: [...(found.get(group)?.ids ?? []), id], labels: null, suggested: found.get(group)?.suggested ?? suggested, order: group });
  return [...found.values()];
}

// The labels in parts that have some thousand items each, so that no request takes long.
function partsOf(labels) {
  const parts = [];
  let room = 0;
  for (const { label, n_items: n } of labels) {
    if (n > room || !parts.length) [parts[parts.length], room] = [[], PER_REQUEST];
    parts.at(-1).push(label);
    room -= n;
  }
  return parts;
}
