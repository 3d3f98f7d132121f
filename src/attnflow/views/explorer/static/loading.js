import { wasCancelled } from "./client.js";
import { rowOf, unitScores } from "./panes.js";
import { unknownRemovals } from "./removal.js";

const AT_A_TIME = 32; // words that are taken out for one request

// Requests what is shown and not loaded yet; `onLoad` is called for every response.
export class Loading {
  constructor(server, notify, onLoad) {
    this.server = server;
    this.notify = notify;
    this.onLoad = onLoad;
    this.pending = new Map();
  }

  need(panes, columns) {
    panes.forEach((pane, index) => {
      this.requests(pane, columns)
        .filter(({ missing }) => missing)
        .forEach(({ kind, args, start }) => this.load(`${kind}/${index}`, pane.view, args, start));
    });
  }

  requests(pane, columns) {
    const { view, method, map, layer, query, key, blank } = pane;
    const { server } = this;
    const { name } = method;
    const shown = { layers: [], heads: [layer], all: view.layers }[columns] ?? [];
    const headLayers = map?.layered ? shown : [];
    const report = (done, all) => this.progress(method, done, all);
    return [
      {
        kind: "scores",
        args: [name, query],
        missing: !view.row(name, layer, query),
        start: (kind) => server.scores(view, method, query, layer, kind, report),
      },
      {
        kind: "trace",
        args: [name, layer, query, key],
        missing:
          method.traced && view.hasRoutes(method, key) && !view.trace(name, layer, query, key),
        start: (kind) => server.trace(view, method, { layer, query, key }, kind),
      },
      {
        kind: "heads",
        args: [map?.name, headLayers, query],
        missing: headLayers.some((at) => !view.heads(map.name, at, query)),
        start: (kind) => server.heads(view, map, query, headLayers, kind, report),
      },
      {
        kind: "blank",
        args: blank,
        missing: !view.without(blank),
        start: (kind) => server.blank(view, [blank], kind),
      },
      {
        kind: "removals",
        args: [pane.words],
        missing: Boolean(view.row(name, layer, query)) && unknownRemovals(pane).length > 0,
        start: (kind) => this.removals(pane, kind),
      },
    ];
  }

  // What the model says without each word, those with the highest scores first.
  async removals(pane, kind) {
    const row = rowOf(pane);
    const sets = unknownRemovals(pane, row && unitScores(pane, row));
    for (let first = 0; first < sets.length; first += AT_A_TIME) {
      await this.server.blank(pane.view, sets.slice(first, first + AT_A_TIME), kind);
      this.onLoad();
    }
  }

  // What the model says without blocks of edges; nothing where that fails.
  async knockOut({ view, at }, without) {
    try {
      return await this.server.send("knockout", view, { without }, `knockout/${at}`);
    } catch (error) {
      if (!wasCancelled(error)) this.notify(error.message, true);
      return null;
    }
  }

  // What the model says without the cut of a pane's trace.
  verify(index, { view, method, layer, query, key }) {
    const place = { layer, query, key };
    const start = (kind) => this.server.trace(view, method, place, kind, true);
    return this.load(`verify/${index}`, view, [method.name, key], start);
  }

  // One request of a kind at a time; the same one is not sent twice, a new one cancels the old.
  async load(kind, view, args, start) {
    const before = this.pending.get(kind);
    if (before && before.view === view && String(before.args) === String(args)) return;
    const current = { view, args };
    this.pending.set(kind, current);
    let failure = null;
    try {
      await start(kind);
    } catch (error) {
      failure = error;
    }
    if (this.pending.get(kind) !== current) return;
    this.pending.delete(kind);
    if (!failure) this.onLoad();
    else if (!wasCancelled(failure)) this.notify(failure.message, true);
  }

  progress(method, done, all) {
    if (all > 1) this.notify(done < all ? `${method.label}: layer ${done + 1} of ${all} …` : "");
    if (done) this.onLoad();
  }
}
