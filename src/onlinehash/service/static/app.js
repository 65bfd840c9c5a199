// The shell: the collection, the routes, the line of figures, and what is shown while the server is away.

import { ApiError, ask, askRaw, offerKey, write } from "./api.js";
import { byId, count, explain, html, passed } from "./elements.js";

// A view is loaded when it is first seen; "items/" has further parts.
const VIEWS = [
  { route: "search", name: "Search", load: () => import("./search.js") },
  { route: "items", name: "Browse", load: () => import("./browse.js") },
  { route: "items/", load: () => import("./item.js") },
  { route: "review", name: "Review", load: () => import("./review.js") },
  { route: "decide", name: "Decide", load: () => import("./decide.js") },
  { route: "insight", name: "Insight", load: () => import("./insight.js") },
];

const EVERY = 3000; // milliseconds between two reads of a collection that others may change
const MOST_LABELS = 1000; // more labels than this are read less often
const SELDOM = 20_000;

class App {
  constructor() {
    this.views = new Map();
    this.view = this.stats = this.name = null;
    this.collections = [];
    this.labels = []; // [{ label, n_items }]
    this.nUnlabelled = 0;
    this.turn = 0;
    addEventListener("hashchange", () => this.route());
    document.addEventListener("visibilitychange", () => document.hidden || this.look());
    byId("skip").addEventListener("click", (event) => {
      event.preventDefault(); // the part after # names the view
      byId("main").focus();
    });
    byId("dismiss").addEventListener("click", () => this.allIsWell());
    byId("enter-key").addEventListener("click", () => {
      offerKey();
      this.allIsWell();
      this.open();
    });
    const figures = [["n-items", "item", "items"], ["n-classes", "label", "labels"], ["method", "method"], ["n-bits", "bits", "bits per item"]];
    byId("status").append(...figures.map(([id, word, text]) => html("div", {}, html("dt", {}, explain(word, text)), html("dd", { id }, "–"))));
  }

  async begin() {
    await this.open();
    document.body.dataset.ready = ""; // the view is shown when it is complete, so that nothing moves
    this.view?.focus?.();
    for (;;) {
      await passed(EVERY);
      if (!document.hidden) await this.look();
    }
  }

  // Read what this server has, and enter the route; done again after the server was away.
  async open() {
    try {
      this.collections = (await ask("GET", "api/v1/collections")).collections;
      this.opened = true;
      this.isRead = false;
      byId("away").hidden = true;
      await this.route();
    } catch (error) {
      this.tell(error);
    }
  }

  // ------------------------------------------------------------------ for views

  ask(method, path, body) {
    return ask(method, this.path(path), body);
  }

  askRaw(method, path, body, type) {
    return askRaw(method, this.path(path), body, type);
  }

  path(path) {
    return `api/v1/collections/${encodeURIComponent(this.name)}${path}`;
  }

  explain(word, text) {
    return explain(word, text);
  }

  // The address of a route within this collection, as in href("#/items/1").
  href(hash) {
    return this.collections.length > 1 && this.name !== null ? `#/in/${encodeURIComponent(this.name)}${hash.slice(1)}` : hash;
  }

  go(hash) {
    location.hash = this.href(hash);
  }

  // Change the address without entering the route again.
  replace(hash) {
    history.replaceState(null, "", this.href(hash));
    this.showMenu();
  }

  linkToItem(id) {
    return this.href(`#/items/${encodeURIComponent(id)}`);
  }

  linkTo(label) {
    return this.href(`#/items?label=${encodeURIComponent(write(label))}`);
  }

  // Whether this service, or the API key, only reads.
  get readonly() {
    return (this.stats?.readonly ?? true) || Boolean(this.collections.find(({ name }) => name === this.name)?.readonly);
  }

  // Something was written: read the state again.
  changed() {
    return this.look();
  }

  // Show an error: while the server is away, a notice that goes by itself.
  tell(error) {
    document.body.dataset.ready = "";
    if (!(error instanceof ApiError)) throw error;
    if (error.isAway) {
      byId("away").hidden = false;
      return;
    }
    byId("problem-says").textContent = error.message;
    byId("enter-key").hidden = error.status !== 401;
    byId("dismiss").hidden = error.status === 401;
    byId("problem").hidden = false;
  }

  allIsWell() {
    byId("problem").hidden = true;
  }

  // ------------------------------------------------------------------ state

  async look() {
    if (!byId("away").hidden || (!this.opened && byId("enter-key").hidden)) return this.open();
    if (this.name === null) return;
    const turn = this.turn;
    try {
      await this.read();
      if (turn === this.turn) await this.view?.update?.(this.stats);
    } catch (error) {
      this.tell(error);
    }
  }

  async read() {
    const { name } = this;
    const stats = await this.ask("GET", "/stats");
    const state = [name, stats.sequence, stats.n_items, stats.n_learned].join();
    const isDue = this.labels.length < MOST_LABELS || performance.now() - this.counted > SELDOM;
    if (state !== this.state && (isDue || name !== this.countedName)) {
      const counts = await this.ask("POST", "/label_counts", {});
      if (name !== this.name) return;
      [this.state, this.counted, this.countedName] = [state, performance.now(), name];
      [this.labels, this.nUnlabelled] = [counts.label_counts, counts.n_unlabelled];
    }
    if (name !== this.name) return;
    [this.stats, this.isRead] = [stats, true];
    byId("n-items").textContent = count(stats.n_items);
    byId("n-classes").textContent = count(this.labels.length);
    byId("method").textContent = stats.method.toUpperCase();
    byId("n-bits").textContent = count(stats.n_bits);
  }

  // ------------------------------------------------------------------ routes

  async route() {
    if (!this.opened) return;
    const turn = ++this.turn;
    const [path, query = ""] = splitOnce(location.hash.replace(/^#\/?/, ""), "?");
    let parts = path.split("/").map(decoded);
    let name = this.collections.length === 1 ? this.collections[0].name : this.name;
    if (parts[0] === "in" && parts.length > 1) [[, name], parts] = [parts, parts.slice(2)];
    else if (!path && this.collections.length > 1) name = null;
    if (!this.collections.some((one) => one.name === name)) name = null;
    this.enter(name);
    this.allIsWell();
    if (name === null) return this.showView(null, this.list());
    const entry = VIEWS.find(({ route }) => route === (parts.length > 1 ? `${parts[0]}/` : parts[0])) ?? VIEWS[0];
    try {
      const [{ default: View }] = await Promise.all([load(entry), this.isRead ? null : this.read()]);
      if (turn !== this.turn) return;
      if (!this.views.has(entry)) this.views.set(entry, new View(this));
      const view = this.views.get(entry);
      this.showView(view, view.element);
      await view.show({ parts: parts.slice(1), query: new URLSearchParams(query) });
    } catch (error) {
      this.tell(error);
    }
  }

  showView(view, element) {
    if (this.view && this.view !== view) this.view.hide?.();
    const moved = this.shown && this.shown !== element;
    [this.view, this.shown] = [view, element];
    if (byId("view").firstElementChild !== element) byId("view").replaceChildren(element);
    this.showMenu();
    if (moved) {
      scrollTo(0, 0);
      byId("main").focus({ preventScroll: true });
    }
  }

  // Another collection has other views: nothing of one is seen in the other.
  enter(name) {
    if (name === this.name) return;
    this.view?.hide?.();
    this.views.clear();
    byId("view").replaceChildren();
    [this.view, this.name, this.isRead, this.labels, this.state] = [null, name, false, [], null];
  }

  showMenu() {
    const here = location.hash.replace(/^#\/?(in\/[^/]*\/?)?/, "").split(/[/?]/)[0] || VIEWS[0].route;
    const offered = VIEWS.filter(({ name }) => name);
    const several = this.collections.length > 1;
    byId("menu").replaceChildren(...(this.name === null ? [] : offered.map(({ route, name }) =>
      html("li", {}, html("a", { href: this.href(`#/${route}`), "aria-current": route === here ? "page" : null }, name)))));
    byId("name").textContent = this.name ?? "onlinehash";
    byId("collections").hidden = !several || this.name === null;
    byId("status").hidden = this.name === null;
    const at = offered.find(({ route }) => route === here)?.name;
    document.title = [at, this.name, "onlinehash"].filter(Boolean).join(" · ");
  }

  list() {
    if (!this.collections.length) return html("section", { class: "card" }, html("h2", {}, "There is no collection here"), html("p", { class: "hint" }, "The API key may not read any."));
    return html("section", { class: "card", "aria-labelledby": "list-title" },
      html("h2", { id: "list-title" }, "Collections"),
      html("ul", { class: "choices" }, ...this.collections.map(({ name, n_items: n, readonly }) => html("li", {},
        html("a", { href: `#/in/${encodeURIComponent(name)}/search` }, name),
        html("span", { class: "hint" }, `${count(n)} items${readonly ? ", read only" : ""}`)))));
  }
}

async function load({ load: read }) {
  try {
    return await read();
  } catch {
    throw new ApiError("The server does not answer.");
  }
}

function splitOnce(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

new App().begin();
