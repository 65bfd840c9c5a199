// The entry point: the stream and the race are shown only with the demo.

import { ask, tell } from "./api.js";
import { byId } from "./elements.js";
import { Race } from "./race.js";
import { Search } from "./search.js";
import { Stream } from "./stream.js";
import { Watch } from "./watch.js";

const EVERY = 3000; // milliseconds between two reads of a collection that others may change

async function begin() {
  const isDemo = await (await fetch("demo.json")).json();
  const demo = isDemo ? await ask("GET", "/api/v1/demo") : null;
  const watch = new Watch({ onVersion: () => search.run(), nClasses: demo?.n_classes });
  const search = new Search({ shape: demo?.shape, onPicked: (query) => watch.propose(query) });
  byId("by-id").hidden = Boolean(demo);

  const look = async () => {
    const { stats, classes } = await watch.update();
    search.width = stats.n_features ?? 1;
    return search.setClasses(classes);
  };
  const offer = async () => {
    if (!byId("grid").contains(document.activeElement)) await search.offer();
  };
  await look();
  await search.offer();
  if (demo) await watch.watch(demo.unseen);
  await search.pick(0);

  let stream = null;
  if (demo) {
    stream = new Stream(demo, {
      onStep: async ({ joined, paused }) => {
        await look();
        if (joined) await offer();
        if (joined || paused) await search.run();
      },
      onReset: async (reset) => {
        search.query = watch.item = null; // they may be deleted
        const { unseen } = await reset();
        await look();
        await watch.watch(unseen);
        await search.offer();
        search.pick(0);
      },
    });
    watch.onRefreshed = () => stream.look();
    new Race(demo.n_stream, demo.n_classes);
  }
  show();
  setInterval(() => {
    if (!document.hidden && !stream?.running) look().catch(tell);
  }, EVERY);
}

// The page is shown when it is complete, so that nothing moves.
function show() {
  document.body.dataset.ready = "";
}

begin().catch((error) => {
  show();
  tell(error);
});
