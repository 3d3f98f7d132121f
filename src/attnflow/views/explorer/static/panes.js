// From the state to what each side of the page shows.

// A pane of the page: one input by one method. `at` is its place in the state's list of panes; two
// methods side by side share one.
export function panesOf(state, views) {
  const [first, second] = views;
  const { compare } = state;
  if (compare === "text" && second) return [makePane(state, first, 0), makePane(state, second, 1)];
  const pane = makePane(state, first, 0);
  const method = first.method(compare);
  if (!method || compare === state.method) return [pane];
  return [pane, { ...pane, method, shared: true }];
}

function makePane(state, view, at) {
  const words = state.words && Boolean(view.data.words);
  return {
    ...state.panes[at],
    at,
    view,
    method: view.method(state.method),
    layer: Math.min(Math.max(1, state.layer), view.depth),
    words,
    units: view.units(words),
    shared: false,
  };
}

// The scores of what a pane shows as one, words or tokens, in a row of the document.
export const unitScores = (pane, row) => Array.from(pane.words ? row.words : row);

export const rowOf = ({ view, method, layer, query }, at = layer) =>
  view.row(method.name, at, query);

// The state that shows these inputs. `wanted` is what a link asks for; where it asks for what does
// not exist, the document's own choice stands. `served`: a server has what the document lacks.
export function firstState(views, document, state, wanted, served) {
  const [first, second] = views;
  const shown = first.data.methods.filter(({ name }) => served || first.hasScores(name));
  const names = shown.map(({ name }) => name);
  const compare = wanted.compare ?? (second ? "text" : "");
  const comparable = ["", ...names, ...(second || served ? ["text"] : [])];
  return {
    ...state,
    ...wanted,
    method: [wanted.method, state.method, document.method, names[0]].find((m) => names.includes(m)),
    layer: first.layers.includes(wanted.layer) ? wanted.layer : first.data.layer,
    panes: views.map((view, at) => firstPane(view, wanted.panes?.[at])),
    compare: comparable.includes(compare) ? compare : "",
    words: Boolean(wanted.words ?? state.words) && Boolean(first.data.words),
  };
}

function firstPane(view, wanted) {
  const within = (at) => (Number.isInteger(at) && at < view.size ? at : undefined);
  return {
    query: within(wanted?.query) ?? view.data.query,
    key: within(wanted?.key) ?? view.data.key,
    blank: (wanted?.blank ?? []).filter((at) => view.canBlank(at)),
  };
}
