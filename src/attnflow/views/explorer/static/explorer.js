import { byId, make, makeSwitch } from "./dom.js";
import { wasCancelled } from "./client.js";
import { forgetColours } from "./colours.js";
import { Graph } from "./graph.js";
import { HeatMap } from "./heatmap.js";
import { digits, percent } from "./numbers.js";
import { Pane } from "./pane.js";
import { ScoreTable } from "./table.js";
import { GRAPH_METHODS } from "./view.js";

const METHOD_NAMES = { raw: "Raw", rollout: "Rollout", flow: "Flow" };
const ROUTES_SHOWN = 6;
const nameOf = (method) => METHOD_NAMES[method] ?? method;

// The view of one or two inputs: what is shown follows from the state, and from nothing else.
export class Explorer {
  constructor(store, server, say) {
    this.store = store;
    this.server = server;
    this.say = say;
    this.views = [];
    this.units = new Map();
    this.table = new ScoreTable(byId("table"), this.actions());
    this.sides = [];
    this.asking = new Map();
    store.subscribe((state) => this.update(state));
  }

  actions() {
    return {
      trace: (pane, key, layer) => this.store.set({ [pane.index && !pane.shared ? "key2" : "key"]: key, ...(layer ? { layer } : {}) }),
      ask: (pane, query, layer) => this.ask(pane, query, layer),
      click: (pane, tokens, index, mode) => this.click(pane, tokens, mode ?? this.store.state.mode),
    };
  }

  click(pane, tokens, mode) {
    if (mode === "trace") this.actions().trace(pane, this.strongest(pane, tokens));
    else if (mode === "ask") this.ask(pane, tokens[0]);
    else this.toggleBlank(pane, tokens);
  }

  strongest({ view, method, layer, query }, tokens) {
    const row = view.row(method, layer, query);
    return row ? tokens.reduce((best, at) => (row[at] > row[best] ? at : best)) : tokens[0];
  }

  ask(pane, query, layer) {
    if (!this.server && !pane.view.canAsk(query, pane.method)) {
      this.say(`“${pane.view.data.labels[query]}” is not in this file as a position to ask about; the server computes any.`);
      return;
    }
    this.store.set({ [pane.index && !pane.shared ? "query2" : "query"]: query, ...(layer ? { layer } : {}) });
  }

  toggleBlank(pane, tokens) {
    const { view, blank } = pane;
    if (!tokens.every((at) => view.canBlank(at))) {
      this.say(view.data.replacement === null ? "The model makes no prediction here, so blanking a token changes nothing to see." : "Special tokens and the position of the answer cannot be blanked.");
      return;
    }
    const off = tokens.every((at) => blank.includes(at));
    let next = off ? blank.filter((at) => !tokens.includes(at)) : [...new Set([...blank, ...tokens])].sort((a, b) => a - b);
    // A file knows what the model says without one token; without several only the model knows.
    if (!this.server && next.length && !view.without(next)) next = off ? [] : tokens;
    if (!this.server && next.length && !view.without(next)) {
      this.say("What the model says without these tokens is not in this file; the server computes it.");
      return;
    }
    this.store.set({ [pane.index && !pane.shared ? "blank2" : "blank"]: next });
  }

  // Show other inputs. `wanted` is what a link asks for; the rest is what the document suggests.
  load(views, method, wanted = {}) {
    this.views = views;
    this.units.clear();
    const [first, second] = views;
    const { state } = this.store;
    const within = (value, count) => (Number.isInteger(value) && value >= 0 && value < count ? value : undefined);
    const methods = this.server ? GRAPH_METHODS : first.methods;
    const chosen = wanted.method ?? state.method;
    const asked = wanted.compare ?? (second ? "text" : "");
    const possible = ["", ...methods, ...(second || this.server ? ["text"] : [])];
    const shown = {
      ...state,
      ...wanted,
      method: methods.includes(chosen) ? chosen : methods.includes(method) ? method : methods[0],
      layer: within((wanted.layer ?? 0) - 1, first.depth) === undefined ? first.data.layer : wanted.layer,
      query: within(wanted.query, first.size) ?? first.data.query,
      key: within(wanted.key, first.size) ?? first.data.key,
      query2: second ? within(wanted.query2, second.size) ?? second.data.query : null,
      key2: second ? within(wanted.key2, second.size) ?? second.data.key : null,
      blank: (wanted.blank ?? []).filter((at) => at < first.size && first.canBlank(at)),
      blank2: (wanted.blank2 ?? []).filter((at) => second && at < second.size && second.canBlank(at)),
      compare: possible.includes(asked) ? asked : "",
      words: Boolean(wanted.words ?? state.words) && Boolean(first.data.words),
    };
    byId("view").hidden = false;
    this.buildControls(methods, first, second);
    this.store.set(shown);
  }

  buildControls(methods, first, second) {
    const usual = methods.some((name) => GRAPH_METHODS.includes(name)) ? GRAPH_METHODS : [];
    const options = [...new Set([...usual, ...methods])].map((value) => ({ value, label: nameOf(value), disabled: !methods.includes(value), title: methods.includes(value) ? "" : "not in this document" }));
    this.showMethod = makeSwitch(byId("methods"), "method", options, (method) => this.store.set({ method }));
    this.showColumns = makeSwitch(byId("columns"), "columns", [{ value: "layers", label: "Layers" }, { value: "heads", label: "Heads", disabled: !first.data.heads }], (columns) => this.store.set({ columns }));
    byId("layer").min = this.server ? 1 : first.lowestLayer;
    byId("layer").max = first.depth;
    byId("words-field").hidden = !first.data.words;
    const choices = [["", "nothing"], ...methods.map((name) => [name, `with ${nameOf(name)}`]), ...(second || this.server ? [["text", "two inputs"]] : [])];
    byId("compare").replaceChildren(...choices.map(([value, label]) => make("option", { value }, label)));
  }

  panes(state) {
    const [first, second] = this.views;
    const layer = Math.min(Math.max(1, state.layer), first.depth);
    const pane = { index: 0, view: first, method: state.method, layer, query: state.query, key: state.key, blank: state.blank };
    if (state.compare === "text" && second) {
      return [pane, { index: 1, view: second, method: state.method, layer: Math.min(layer, second.depth), query: state.query2, key: state.key2, blank: state.blank2 }];
    }
    if (state.compare && state.compare !== "text" && state.compare !== state.method) return [pane, { ...pane, index: 1, shared: true, method: state.compare }];
    return [pane];
  }

  unitsOf(view, words) {
    const name = `${this.views.indexOf(view)}/${words}`;
    if (!this.units.has(name)) this.units.set(name, view.units(words));
    return this.units.get(name);
  }

  update(state) {
    if (!this.views.length) return;
    const panes = this.panes(state);
    const units = panes.map(({ view }) => this.unitsOf(view, state.words));
    this.fit(panes.length);
    panes.forEach((pane, i) => this.showSide(this.sides[i], pane, units[i], state, panes.length));
    this.table.show(panes, units, state.ranked);
    this.showControls(state, panes);
    this.need(state, panes);
  }

  // As many sides as there are panes: tokens above, graph and heat map below.
  fit(count) {
    while (this.sides.length > count) {
      const side = this.sides.pop();
      [side.top, side.card, side.mapHost].forEach((element) => element.remove());
    }
    while (this.sides.length < count) {
      const top = make("div", { class: "pane" });
      const graphHost = make("div", { class: "graph" });
      const title = make("h2");
      const note = make("p", { class: "note" });
      const routes = make("ol", { class: "routes", "aria-label": "Routes" });
      const card = make("figure", { class: "card graph-card" }, make("figcaption", {}, title), graphHost, note, routes);
      const mapHost = make("div", { class: "map" });
      byId("panes").append(top);
      byId("graphs").append(card);
      byId("map").append(mapHost);
      const actions = this.actions();
      this.sides.push({ top, card, title, note, routes, mapHost, pane: new Pane(top, actions), graph: new Graph(graphHost, actions), map: new HeatMap(mapHost, actions) });
    }
    byId("view").classList.toggle("two", count > 1);
  }

  showSide(side, pane, units, state, count) {
    const heading = count === 1 ? null : pane.shared || state.compare !== "text" ? nameOf(pane.method) : pane.view.data.text;
    side.pane.show(pane, units, heading);
    side.graph.show(pane, state.threshold);
    side.card.hidden = !GRAPH_METHODS.includes(pane.method);
    side.map.show(pane, units, state.columns === "heads");
    side.mapHost.hidden = !side.map.columns.length;
    side.title.textContent = side.graph.title;
    this.describe(side, pane);
  }

  describe(side, pane) {
    const trace = side.graph.trace;
    const labels = pane.view.data.labels;
    const parts = [];
    if (trace?.cut.length) {
      const capacity = trace.cut.reduce((sum, [, , , amount]) => sum + amount, 0);
      parts.push(`Dashed: the bottleneck, ${trace.cut.length} edges that together let ${digits(capacity)} through.`);
    }
    if (trace && trace.all_edges > trace.edges.length) parts.push(`The ${trace.edges.length} strongest of ${trace.all_edges} edges.`);
    if (pane.method !== "raw" && pane.view.data.options.correction === "uniform") {
      parts.push(`Scores are relative to even attention (1 is chance); routes carry the plain ${pane.method}.`);
    }
    if (!trace && pane.method !== "raw") parts.push(pane.view.attention ? (this.server ? "Finding the routes …" : "The routes to this token are not in this file.") : "Lines are scores: an attribution alone knows no routes.");
    side.note.textContent = parts.join(" ");
    const routes = trace?.routes.slice(0, ROUTES_SHOWN) ?? [];
    side.routes.replaceChildren(...routes.map((route) => {
      const path = route.positions.map((at, i) => make("span", { class: i && at === route.positions[i - 1] ? "same" : "", dir: "auto" }, labels[at]));
      const show = () => side.graph.highlight(route);
      const hide = () => side.graph.highlight(null);
      const line = make("li", { tabIndex: 0, onpointerenter: show, onpointerleave: hide, onfocus: show, onblur: hide }, make("b", {}, digits(route.amount)), make("span", { class: "quiet" }, percent(route.amount / trace.value)), make("span", { class: "path" }, ...path));
      line.dataset.amount = route.amount;
      return line;
    }));
    if (trace?.all_routes > routes.length) side.routes.append(make("li", { class: "rest note" }, `and ${trace.all_routes - routes.length} more routes`));
  }

  showControls(state, [pane]) {
    this.showMethod(state.method);
    this.showColumns(state.columns);
    byId("layer").value = pane.layer;
    byId("layer-shown").textContent = `${pane.layer} of ${pane.view.depth}`;
    byId("threshold").value = state.threshold;
    byId("threshold-shown").textContent = `${state.threshold} %`;
    byId("words").checked = state.words;
    byId("ranked").checked = state.ranked;
    byId("compare").value = state.compare;
    byId("model-name").textContent = [pane.view.data.model, pane.view.data.head].filter(Boolean).join(" · ");
    byId("table-title").textContent = this.sides.length > 1 ? "Difference of shares" : "Scores";
    const asked = pane.view.data.labels[pane.query];
    byId("map-title").textContent = state.columns === "heads" ? `Heads of layer ${pane.layer}, for ${asked}` : `All layers, for ${asked}`;
    const tops = this.sides.map(({ map }) => digits(map.top)).join(" and ");
    byId("map-note").textContent = this.sides[0].map.columns.length ? `Deepest colour: ${tops} or more.` : this.server ? "Computing …" : "Not in this document.";
    document.documentElement.dataset.method = state.method;
  }

  // Ask the server for what is not here yet.
  need(state, panes) {
    if (!this.server) return;
    panes.forEach(({ view, method, layer, query, key, blank, index }) => {
      const ask = (kind, what, missing, start) => { if (missing) this.fetch(`${kind}/${index}`, view, what, start); };
      const tell = (done, all) => this.progress(method, done, all);
      ask("scores", [method, query], !view.row(method, layer, query), (kind) => this.server.scores(view, method, query, layer, kind, tell));
      ask("trace", [method, layer, query, key], method !== "raw" && !view.trace(method, layer, query, key), (kind) => this.server.trace(view, method, layer, query, key, kind));
      ask("heads", [method, layer, query], state.columns === "heads" && !view.heads(method, layer, query), (kind) => this.server.heads(view, method, query, layer, kind));
      ask("blank", blank, blank.length && !view.without(blank), (kind) => this.server.blank(view, blank, kind));
    });
  }

  // One question of a kind at a time; the same one is not asked twice, a new one cancels the old.
  async fetch(kind, view, what, start) {
    const before = this.asking.get(kind);
    if (before && before.view === view && String(before.what) === String(what)) return;
    const asked = { view, what };
    this.asking.set(kind, asked);
    let failure = null;
    try {
      await start(kind);
    } catch (error) {
      failure = error;
    }
    if (this.asking.get(kind) !== asked) return;
    this.asking.delete(kind);
    if (!failure) this.update(this.store.state);
    else if (!wasCancelled(failure)) this.say(failure.message, true);
  }

  progress(method, done, all) {
    if (all > 1) this.say(done < all ? `${nameOf(method)}: layer ${done + 1} of ${all} …` : "");
    if (done) this.update(this.store.state);
  }

  redraw() {
    forgetColours();
    this.update(this.store.state);
  }
}
