import { wasCancelled } from "./client.js";

// Asks the server for what is shown and not here yet; `arrived` is called when an answer is.
export class Loading {
  constructor(server, say, arrived) {
    this.server = server;
    this.say = say;
    this.arrived = arrived;
    this.asking = new Map();
  }

  need(panes, byHead) {
    panes.forEach((pane, index) => {
      this.questions(pane, byHead)
        .filter(({ missing }) => missing)
        .forEach(({ kind, about, start }) => this.ask(`${kind}/${index}`, pane.view, about, start));
    });
  }

  questions({ view, method, layer, query, key, blank }, byHead) {
    const { server } = this;
    const { name } = method;
    const tell = (done, all) => this.progress(method, done, all);
    return [
      {
        kind: "scores",
        about: [name, query],
        missing: !view.row(name, layer, query),
        start: (kind) => server.scores(view, name, query, layer, kind, tell),
      },
      {
        kind: "trace",
        about: [name, layer, query, key],
        missing: method.traced && method.reaches_input && !view.trace(name, layer, query, key),
        start: (kind) => server.trace(view, name, layer, query, key, kind),
      },
      {
        kind: "heads",
        about: [name, layer, query],
        missing: byHead && !view.heads(name, layer, query),
        start: (kind) => server.heads(view, name, query, layer, kind),
      },
      {
        kind: "blank",
        about: blank,
        missing: !view.without(blank),
        start: (kind) => server.blank(view, blank, kind),
      },
    ];
  }

  // One question of a kind at a time; the same one is not asked twice, a new one cancels the old.
  async ask(kind, view, about, start) {
    const before = this.asking.get(kind);
    if (before && before.view === view && String(before.about) === String(about)) return;
    const asked = { view, about };
    this.asking.set(kind, asked);
    let failure = null;
    try {
      await start(kind);
    } catch (error) {
      failure = error;
    }
    if (this.asking.get(kind) !== asked) return;
    this.asking.delete(kind);
    if (!failure) this.arrived();
    else if (!wasCancelled(failure)) this.say(failure.message, true);
  }

  progress(method, done, all) {
    if (all > 1) this.say(done < all ? `${method.label}: layer ${done + 1} of ${all} …` : "");
    if (done) this.arrived();
  }
}
