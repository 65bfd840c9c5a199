// A loop of steps with a minimum interval, until it is paused.

import { html, passed } from "./elements.js";

export async function play(panel, tick) {
  while (panel.running) {
    const began = performance.now();
    try {
      await panel.step();
    } catch (error) {
      panel.pause();
      panel.app.tell(error);
    }
    await passed(tick - (performance.now() - began));
  }
}

export function playButton(id, panel) {
  const button = html("button", { id, type: "button", class: "main" });
  button.addEventListener("click", () => {
    if (panel.running) panel.pause();
    else Promise.resolve(panel.start()).catch((error) => panel.app.tell(error));
  });
  return button;
}
