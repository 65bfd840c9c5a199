// The entry point: the views of the page, one line each.

import { App } from "./app.js";
import { ItemView } from "./item.js";
import { ItemsView } from "./browse.js";
import { InsightView } from "./insight.js";
import { SearchView } from "./search.js";

new App([
  { route: "search", name: "Search", View: SearchView },
  { route: "items", name: "Browse", View: ItemsView },
  { route: "items/", View: ItemView },
  { route: "insight", name: "Insight", View: InsightView },
]).begin();
