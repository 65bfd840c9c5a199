// Reads of a collection: an item by its id; the neighbours of a query with their codes; the nearest item of another label.

import { ApiError } from "./api.js";
import { bitsOf } from "./bits.js";
import { labelsOf } from "./elements.js";

const MOST_OTHERS = 2000; // labels that a request for another label names
const MOST_NUMBERS = 300_000; // of the vectors that are read to show codes

// Ids that cannot be part of an address: browsers resolve dots, other routes have these names, and routes end at a line.
const NOT_IN_PATHS = /^(|\.\.?|get|list|count|delete)$|[\n\r]/;

export async function fetchItem(app, text) {
  const isNumber = /^-?\d+$/.test(text);
  if (app.stats.id_type === "int" && !isNumber) throw new ApiError(`“${text}” is not an id of this collection, whose ids are integers.`, 404);
  if (!NOT_IN_PATHS.test(text)) return app.ask("GET", `/items/${encodeURIComponent(text)}`);
  return (await app.ask("POST", "/items/get", { ids: [text] })).items[0];
}

// A query is { item } of a stored item, { vector }, { text } or { image }; options are k, compare, labels and where.
export async function findNeighbours(app, query, options) {
  const { compare = "auto", ...body } = options;
  if (compare === "asymmetric") body.asymmetric = true;
  if (compare !== "auto") body.rescore = ["cosine", "l2"].includes(compare) ? compare : null;
  for (let tries = 0; ; tries++) {
    const answer = await search(app, query, body);
    if (answer.version === null) return { hits: [], others: [], version: null };
    const hits = neighbours(answer);
    const others = await nearestOfOthers(app, query, hits, body);
    const coded = await codes(app, query, [...hits, ...others]);
    // The codes may have been refreshed between the two requests.
    if (!coded || coded.version === answer.version || tries === 2) return { hits, others, version: answer.version, ...coded };
  }
}

function search(app, query, body) {
  const asked = query.image ? { images: [query.image] } : query.vector ? { vectors: [query.vector] } : query.text !== undefined ? { documents: [query.text] } : { by_id: [query.item.id] };
  return app.ask("POST", "/search", { ...asked, ...body, include: ["labels", "payload"] });
}

// The neighbours of one query of an answer, one object each.
export function neighbours({ ids, distances, labels, payload }, query = 0) {
  return ids[query].map((id, i) => ({ id, distance: distances[query][i], labels: labels[query][i], payload: payload[query][i] }));
}

// The nearest item that has none of the query's labels, for contrast.
async function nearestOfOthers(app, query, hits, body) {
  const own = labelsOf(query.item?.labels ?? hits[0]?.labels);
  const labels = app.labels.map(({ label }) => label).filter((label) => !own.includes(label));
  if (query.image || body.labels !== undefined || !own.length || !labels.length || labels.length > MOST_OTHERS) return [];
  const known = hits.find((hit) => !labelsOf(hit.labels).some((label) => own.includes(label)) && labelsOf(hit.labels).length);
  if (known) return []; // it is among the neighbours
  const found = neighbours(await search(app, query, { ...body, k: 1, labels }));
  return found.filter((hit) => !labelsOf(hit.labels).some((label) => own.includes(label)));
}

// The codes of the query (null for a text or an image) and of the items found.
async function codes(app, query, hits) {
  const ids = [...(query.item && !query.vector ? [query.item.id] : []), ...hits.map(({ id }) => id)];
  if (!ids.length || (ids.length + 1) * app.stats.n_features > MOST_NUMBERS) return null;
  const vectors = (await app.ask("POST", "/items/get", { ids })).items.map((item) => item.vectors);
  if (query.vector) vectors.unshift(query.vector);
  const encoded = await app.ask("POST", "/encode", { vectors });
  const bits = encoded.codes.map((code) => bitsOf(code, encoded.n_bits));
  return { version: encoded.version, own: bits.length > hits.length ? bits.shift() : null, codes: bits };
}
