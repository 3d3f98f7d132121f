import { Actions } from "./actions.js";
import { resetColours } from "./colours.js";
import { Controls } from "./controls.js";
import { byId } from "./dom.js";
import { Layout } from "./layout.js";
import { Loading } from "./loading.js";
import { firstState, panesOf } from "./panes.js";
import { headColumns, headMethod, layerColumns, scaleOf } from "./scale.js";
import { ScoreTable } from "./table.js";

// The view of one or two inputs: what is shown depends on the state alone.
export class Explorer {
  constructor(store, server, notify) {
    this.store = store;
    this.served = Boolean(server);
    this.views = [];
    const actions = new Actions(store, this.served, notify);
    this.controls = new Controls(store, this.served);
    this.layout = new Layout(actions);
    this.table = new ScoreTable(byId("table"), actions);
    this.loading = server && new Loading(server, notify, () => this.update());
    if (server) actions.verify = (index, pane) => this.loading.verify(index, pane);
    if (server) actions.runWithout = (pane, blocks) => this.loading.knockOut(pane, blocks);
    this.actions = actions;
    store.subscribe(() => this.update());
  }

  // Show other inputs, in the state that a link requests.
  load(views, document, requested = {}, before = this.store.state) {
    this.views = views;
    const inWords = Boolean(document.words) || views[0].isSplit;
    views.forEach((view) => Object.assign(view, { inWords }));
    byId("view").hidden = false;
    this.controls.build(views);
    this.store.set(firstState(views, document, before, requested, this.served));
  }

  update() {
    if (!this.views.length) return;
    const { state } = this.store;
    const { carried, behind, columns } = state;
    const panes = panesOf(state, this.views).map((pane) => withColours(pane, columns));
    this.layout.show(panes, { carried, behind, columns, served: this.served });
    this.table.show(panes, state.ranked);
    this.controls.show(state, panes);
    this.loading?.need(panes, columns);
  }

  // On paper nothing scrolls: charts and tables are drawn whole.
  print(on) {
    resetColours();
    this.table.all = on;
    if (on)
      document.querySelectorAll(".unit").forEach((each) => Object.assign(each, { open: true }));
    this.update();
    this.layout.charts.forEach((chart) => Object.assign(chart, { printing: on }).render());
  }

  redraw() {
    resetColours();
    this.update();
  }
}

// The columns of the heat map, and one colour scale and one unit for it and the tokens.
// Single heads may be those of another method, with a scale of their own.
function withColours(pane, kind) {
  const layers = layerColumns(pane);
  const shown = layers.filter(({ id }) => id === pane.layer);
  if (kind === "layers") return withScale({ ...pane, columns: layers, map: pane.method }, shown);
  const map = headMethod(pane);
  const heads = map ? headColumns({ ...pane, method: map }, kind === "all") : [];
  const columns = kind === "heads" ? heads : [];
  const own = map === pane.method ? [...shown, ...heads] : shown;
  return withScale({ ...pane, columns, map }, own);
}

function withScale(pane, columns) {
  return { ...pane, ...scaleOf(pane, columns) };
}
