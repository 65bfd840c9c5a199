// A loop of steps with a minimum interval, until it is paused.

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
