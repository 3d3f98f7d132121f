import { CLICK_MODES } from "./state.js";

// From the state to the panes of the page.

// A pane of the page: one input by one method. `at` is its place in the state's list of panes; two
// methods side by side share one.
export function panesOf(state, views) {
  const [first, second] = views;
  const { compare } = state;
  if (compare === "text" && second) return [makePane(state, first, 0), makePane(state, second, 1)];
  const pane = makePane(state, first, 0);
  const method = first.method(compare);
  if (!method || compare === state.method) return [pane];
  return [pane, { ...makePane(state, first, 0, method), shared: true }];
}

// A method without layers has scores of the output alone: the last layer, at the view's position.
function makePane(state, view, at, method = view.method(state.method)) {
  const words = Boolean((state.words ?? view.inWords) && view.data.words);
  const pane = state.panes[at];
  return {
    ...pane,
    query: method.layered ? pane.query : view.data.query,
    at,
    view,
    method,
    ratio: method.ratio,
    layer: method.layered ? Math.min(Math.max(1, state.layer), view.depth) : view.depth,
    words,
    units: view.units(words),
    shared: false,
  };
}

// The scores of a pane's units, words or tokens, in a row of the document.
export const unitScores = (pane, row) => Array.from(pane.words ? row.words : row);

export const rowOf = ({ view, method, layer, query }, at = layer) =>
  view.row(method.name, at, query);

// The state that shows these inputs. `requested` is the state in a link; what does not exist is
// replaced by the document's own choice. `served`: a server computes what the document lacks.
export function firstState(views, document, state, requested, served) {
  const [first, second] = views;
  const methods = first.data.methods.filter(({ name }) => served || first.hasScores(name));
  const names = methods.map(({ name }) => name);
  const compare = requested.compare ?? (second ? "text" : "");
  const comparable = ["", ...names, ...(second || served ? ["text"] : [])];
  return {
    ...state,
    ...requested,
    method: [requested.method, state.method, document.method, names[0]].find((m) =>
      names.includes(m),
    ),
    layer: first.layers.includes(requested.layer) ? requested.layer : first.data.layer,
    panes: views.map((view, at) => firstPane(view, requested.panes?.[at])),
    compare: comparable.includes(compare) ? compare : "",
    mode: CLICK_MODES.includes(requested.mode) ? requested.mode : state.mode,
    words: requested.words ?? state.words,
  };
}

function firstPane(view, requested) {
  const within = (at) => (Number.isInteger(at) && at < view.size ? at : undefined);
  return {
    query: within(requested?.query) ?? view.data.query,
    key: within(requested?.key) ?? view.data.key,
    blank: (requested?.blank ?? []).filter((at) => view.canBlank(at)),
  };
}
