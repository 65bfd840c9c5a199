// Pick an item or draw one, and see its neighbours: pictures, distances, and which bits differ.

import { allIsWell, ask, tell } from "./api.js";
import { bitsOf, differing, strip } from "./bits.js";
import { byId, face, html, labelText, nameOf, shareLabel } from "./elements.js";
import { Sketch } from "./sketch.js";

const SHOWN = 32;
const MOST_CLASSES = 16;
const TRIES = 4;
const MOST_OTHERS = 200;
const PAUSE = 120; // milliseconds for further arrow keys before a search

export class Search {
  constructor({ shape, onPicked }) {
    this.onPicked = onPicked;
    this.items = [];
    this.query = null; // { item } or { vector, item }
    this.turn = 0;
    this.width = 0;
    this.classes = [];
    byId("others").addEventListener("click", () => this.offer().catch(tell));
    byId("grid").addEventListener("keydown", (event) => this.move(event));
    byId("by-id").addEventListener("submit", (event) => {
      event.preventDefault();
      this.pickId(byId("id").value.trim()).catch(tell);
    });
    byId("options").addEventListener("submit", (event) => event.preventDefault());
    byId("options").addEventListener("change", () => this.run());
    if (shape) this.offerDrawing(shape);
  }

  offerDrawing(shape) {
    byId("draw").hidden = false;
    byId("search").classList.add("drawable");
    this.sketch = new Sketch(byId("sketch"), shape, (vector) => {
      const item = { id: "your drawing", labels: null, payload: { title: "your drawing", image: this.sketch.picture(vector) } };
      this.mark(null);
      this.ask({ vector, item });
    });
    byId("clear").addEventListener("click", () => this.sketch.clear());
  }

  // The labels of the filter.
  setClasses(classes) {
    const labels = classes.map(({ label }) => label);
    if (JSON.stringify(labels) === JSON.stringify(this.classes)) return false;
    this.classes = labels;
    const select = byId("label");
    const before = select.value;
    const options = labels.map((label) => html("option", { value: JSON.stringify(label) }, String(label)));
    select.replaceChildren(html("option", { value: "" }, "any"), ...options);
    select.value = [...select.options].some(({ value }) => value === before) ? before : "";
    return true;
  }

  // Offer items to pick: those near random vectors, from every class, so that any collection can show some.
  async offer() {
    const wanted = this.classes.length ? shuffled(this.classes).slice(0, MOST_CLASSES) : [null];
    const share = Math.ceil(SHOWN / wanted.length);
    const answers = await Promise.all(wanted.map((label) => {
      const body = { vectors: randomVectors(TRIES, this.width), k: SHOWN };
      if (label !== null) body.labels = label;
      return ask("POST", "/api/v1/search", body);
    }));
    const found = answers.map(({ ids }) => shuffled([...new Set(ids.flat())]));
    const fair = [...found.flatMap((ids) => ids.slice(0, share)), ...found.flatMap((ids) => ids.slice(share))];
    const ids = shuffled([...new Set(fair)].slice(0, SHOWN));
    this.items = ids.length ? (await ask("POST", "/api/v1/items/get", { ids })).items : [];
    if (!this.items.length) {
      byId("pick-help").textContent = "There are no codes yet: the hasher needs labelled items first.";
    }
    const chosen = this.query?.item.id;
    byId("grid").replaceChildren(...this.items.map((item, i) => this.tile(item, i, item.id === chosen)));
    this.rove(Math.max(0, this.items.findIndex(({ id }) => id === chosen)));
    allIsWell();
  }

  tile(item, i, chosen) {
    const tile = html("button", {
      type: "button", role: "option", class: "tile", "aria-label": nameOf(item), "aria-selected": String(chosen), tabindex: "-1",
    }, face(item));
    tile.addEventListener("click", () => this.pick(i));
    return tile;
  }

  move(event) {
    const tiles = [...byId("grid").children];
    const at = tiles.indexOf(document.activeElement);
    if (at < 0) return;
    const columns = tiles.filter((tile) => tile.offsetTop === tiles[0].offsetTop).length;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -at, End: tiles.length - 1 - at };
    const to = at + steps[event.key];
    if (!(to >= 0 && to < tiles.length)) return;
    event.preventDefault();
    this.rove(to);
    tiles[to].focus();
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.pick(to), PAUSE);
  }

  rove(to) {
    [...byId("grid").children].forEach((tile, i) => tile.setAttribute("tabindex", i === to ? "0" : "-1"));
  }

  mark(chosen) {
    [...byId("grid").children].forEach((tile, i) => tile.setAttribute("aria-selected", String(i === chosen)));
  }

  pick(i) {
    const item = this.items[i];
    if (!item) return;
    this.rove(i);
    this.mark(i);
    this.sketch?.clear();
    return this.ask({ item });
  }

  async pickId(text) {
    if (!text) return;
    const item = await ask("GET", `/api/v1/items/${encodeURIComponent(text)}`);
    this.mark(null);
    this.ask({ item });
  }

  ask(query) {
    this.query = query;
    this.onPicked(query);
    return this.run();
  }

  // Repeat the last search: options, items or codes may have changed.
  async run() {
    if (!this.query) return;
    const turn = ++this.turn;
    try {
      const answer = await this.find(this.query);
      if (turn === this.turn) {
        this.show(this.query, answer);
        allIsWell();
      }
    } catch (error) {
      if (turn === this.turn) tell(error);
    }
  }

  async find(query) {
    const body = { k: Number(byId("k").value), items: true };
    const compare = byId("compare").value;
    if (compare === "asymmetric") body.asymmetric = true;
    if (compare === "cosine") body.rescore = "cosine";
    if (byId("label").value) body.labels = JSON.parse(byId("label").value);
    if (query.vector) body.vectors = [query.vector];
    else body.by_id = [query.item.id];
    for (let tries = 0; ; tries++) {
      const answer = await ask("POST", "/api/v1/search", body);
      const { version } = answer, hits = neighbours(answer);
      if (version === null) return { hits, codes: null };
      const nearest = hits.length;
      hits.push(...await this.strangers(query, hits, body));
      const ids = hits.map(({ id }) => id);
      if (!query.vector) ids.unshift(query.item.id);
      const { items } = ids.length ? await ask("POST", "/api/v1/items/get", { ids }) : { items: [] };
      const vectors = items.map(({ vectors }) => vectors);
      if (query.vector) vectors.unshift(query.vector);
      const encoded = await ask("POST", "/api/v1/encode", { vectors });
      if (encoded.version === version || tries === 2) { // else the codes were refreshed between the two
        const [own, ...codes] = encoded.codes.map((code) => bitsOf(code, encoded.n_bits));
        return { hits, own, codes, nearest };
      }
    }
  }

  // The nearest item that has none of the query's labels, for contrast.
  async strangers(query, hits, body) {
    const own = [].concat(query.item.labels ?? hits[0]?.labels ?? []);
    const others = this.classes.filter((label) => !own.includes(label));
    if (body.labels !== undefined || !own.length || !others.length || others.length > MOST_OTHERS) return [];
    const known = new Set(hits.map(({ id }) => id));
    const found = neighbours(await ask("POST", "/api/v1/search", { ...body, k: 1, labels: others }));
    return found.filter(({ id, labels }) => !known.has(id) && ![].concat(labels).some((label) => own.includes(label)));
  }

  show(query, { hits, own, codes, nearest }) {
    if (!codes) {
      byId("found").textContent = "There are no codes yet: the hasher needs labelled items first.";
      return;
    }
    byId("query").replaceChildren(
      html("div", { class: "face" }, face(query.item)),
      html("div", { class: "label" }, labelText(query.item.labels) || (query.vector ? "?" : "–")),
      strip(own, null, `The code of the query: ${own.join("")}`),
      html("div", { class: "distance" }, "query"),
    );
    const rows = hits.map((hit, i) => row(hit, query, own, codes[i]));
    byId("hits").replaceChildren(...rows.slice(0, nearest));
    byId("stranger").replaceChildren(...rows.slice(nearest));
    byId("stranger-title").classList.toggle("empty", nearest === rows.length);
    byId("found").textContent = sentence(query, hits.slice(0, nearest));
  }
}

function row(hit, query, own, code) {
  const different = differing(code, own);
  const same = shareLabel(query.item.labels, hit.labels);
  const verdict = same === null ? "" : same ? " same" : " not-same";
  const distance = Number.isInteger(hit.distance) ? hit.distance : hit.distance.toFixed(2);
  const label = labelText(hit.labels) || "–";
  return html("li", { class: "hit" },
    html("div", { class: "face" }, face(hit)),
    html("div", { class: `label${verdict}`, title: same === false ? "another label than the query" : null }, label),
    strip(code, own, `${code.length - different} of ${code.length} bits match`),
    html("div", { class: "distance", "aria-label": `distance ${distance}` }, String(distance)),
  );
}

// The neighbours of the first query of an answer, one object each.
function neighbours({ ids: [ids], distances: [distances], labels: [labels], payload: [payload] }) {
  return ids.map((id, i) => ({ id, distance: distances[i], labels: labels[i], payload: payload[i] }));
}

function sentence(query, hits) {
  if (!hits.length) return "Nothing found: no stored item matches the filter.";
  const many = `${hits.length} neighbour${hits.length === 1 ? "" : "s"}`;
  if (query.vector) {
    const votes = new Map();
    for (const { labels } of hits) for (const label of [].concat(labels ?? [])) votes.set(label, (votes.get(label) ?? 0) + 1);
    const [best, n] = [...votes].sort((a, b) => b[1] - a[1])[0] ?? [];
    return n ? `${n} of ${many} of your drawing have the label ${best}.` : `${many} of your drawing.`;
  }
  const verdicts = hits.map(({ labels }) => shareLabel(query.item.labels, labels));
  if (verdicts.includes(null)) return `${many}, nearest first.`;
  const right = verdicts.filter(Boolean).length;
  return `${right} of ${many} have the label of the query, ${labelText(query.item.labels)}.`;
}

function randomVectors(n, width) {
  const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  return Array.from({ length: n }, () => Array.from({ length: width }, () => Number(normal().toFixed(4))));
}

function shuffled(list) {
  const copy = [...list];
  for (let i = copy.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [copy[i], copy[j]] = [copy[j], copy[i]];
  }
  return copy;
}
