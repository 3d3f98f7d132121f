import { sharedPower } from "./numbers.js";
import { rowOf, unitScores } from "./panes.js";

// One colour scale for tokens and heat map: the same score has the same colour in both, and in the
// terminal. The strongest colour is the highest score of an ordinary unit at the layer shown.

export function layerColumns(pane) {
  if (!pane.method.layered && rowOf(pane)) {
    return [column(pane, pane.layer, "output", rowOf(pane))];
  }
  return pane.view.layers
    .filter((layer) => rowOf(pane, layer))
    .map((layer) => column(pane, layer, `L${layer}`, rowOf(pane, layer)));
}

// Heads are numbered from 0, as in the library.
export function headColumns(pane, everywhere = false) {
  const { view, method, layer, query } = pane;
  if (!method.layered) return [];
  const layers = everywhere ? view.layers : [layer];
  const rows = layers.flatMap((at) => view.heads(method.name, at, query) ?? []);
  return rows.map((row, head) => column(pane, head, `H${head}`, row));
}

// The method whose single heads are shown: the chosen one, or one that is quicker where that takes
// too long; undefined if there is none.
export function headMethod({ view, method }) {
  const { head_methods: names = [] } = view.data;
  const other = names.includes(method.tie_breaker) && view.method(method.tie_breaker);
  return names.includes(method.name) ? method : other || undefined;
}

const column = (pane, id, label, row) => ({ id, label, values: unitScores(pane, row) });

// The highest score of any ordinary unit in these columns; of signed scores the largest, whatever
// its sign.
export function colourTop(pane, columns) {
  const places = ordinaryUnits(pane);
  const size = pane.method.signed ? Math.abs : (value) => value;
  let top = 0;
  columns.forEach(({ values }) =>
    places.forEach((at) => {
      top = Math.max(top, size(values[at]));
    }),
  );
  return top || Math.max(1e-12, ...columns.map(({ values }) => Math.max(...values.map(size))));
}

// The strongest colour of these columns, and the unit of their numbers.
export function scaleOf(pane, columns) {
  const top = colourTop(pane, columns);
  const values = [...columns, ...pane.columns].flatMap((each) => each.values);
  return { top, power: pane.ratio ? 0 : sharedPower(top, values) };
}

// All but special tokens and the explained one, whose residual connection to itself would leave the
// others pale; all if fewer than two remain.
export function ordinaryUnits({ view, units, query }) {
  const ordinary = new Set(view.data.ordinary);
  const everywhere = units.map((_, index) => index);
  const places = everywhere.filter(
    (index) =>
      units[index].tokens.some((at) => ordinary.has(at)) && !units[index].tokens.includes(query),
  );
  return places.length > 1 ? places : everywhere;
}
