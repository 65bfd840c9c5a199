// Client of the HTTP API. The user enters an API key once if the server requires it; it is kept in memory only.

import { byId } from "./elements.js";

let key = null;
let asking = null;

export class ApiError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

export async function ask(method, path, body) {
  for (;;) {
    const used = key;
    const answer = await send(method, path, body);
    if (answer.status === 401) {
      if (key === used) await askForKey(used !== null);
      continue;
    }
    const content = await answer.json().catch(() => null);
    if (!answer.ok) throw new ApiError(content?.detail ?? `The server answered ${answer.status}.`, answer.status);
    return content;
  }
}

async function send(method, path, body) {
  const headers = {};
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    return await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new ApiError("The server does not answer. Is it still running? Start it again, and reload this page.");
  }
}

function askForKey(wasWrong) {
  asking ??= new Promise((resolve) => {
    const dialog = byId("key-dialog");
    const input = byId("api-key");
    if (wasWrong) byId("key-says").textContent = "The server does not accept this key. Try another.";
    dialog.addEventListener("close", () => {
      key = input.value.trim();
      input.value = "";
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

// Show an error message until the next successful request.
export function tell(error) {
  if (!(error instanceof ApiError)) throw error;
  const problem = byId("problem");
  problem.textContent = error.message;
  problem.hidden = false;
}

export function allIsWell() {
  byId("problem").hidden = true;
}
