import { wasCancelled } from "./client.js";

// Requests what is shown and not loaded yet; `onLoad` is called for every response.
export class Loading {
  constructor(server, notify, onLoad) {
    this.server = server;
    this.notify = notify;
    this.onLoad = onLoad;
    this.pending = new Map();
  }

  need(panes, byHead) {
    panes.forEach((pane, index) => {
      this.requests(pane, byHead)
        .filter(({ missing }) => missing)
        .forEach(({ kind, args, start }) => this.load(`${kind}/${index}`, pane.view, args, start));
    });
  }

  requests({ view, method, layer, query, key, blank }, byHead) {
    const { server } = this;
    const { name } = method;
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
        missing: method.traced && method.reaches_input && !view.trace(name, layer, query, key),
        start: (kind) => server.trace(view, name, layer, query, key, kind),
      },
      {
        kind: "heads",
        args: [name, layer, query],
        missing: byHead && method.layered && !view.heads(name, layer, query),
        start: (kind) => server.heads(view, name, query, layer, kind),
      },
      {
        kind: "blank",
        args: blank,
        missing: !view.without(blank),
        start: (kind) => server.blank(view, blank, kind),
      },
    ];
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
