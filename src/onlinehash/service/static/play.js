// What runs until it is paused: steps, not closer to each other than some milliseconds.

import { allIsWell, tell } from "./api.js";
import { passed } from "./elements.js";

export async function play(panel, tick) {
  while (panel.running) {
    const began = performance.now();
    try {
      await panel.step();
      allIsWell();
    } catch (error) {
      panel.pause();
      tell(error);
    }
    await passed(tick - (performance.now() - began));
  }
}
