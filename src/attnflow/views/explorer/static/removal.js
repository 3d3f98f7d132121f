// What the model says without words: the experiment beside the scores.

// Of all units of a pane, and the largest of them.
export function changesOf({ view, units }) {
  const changes = units.map(({ tokens }) => view.changeWithout(tokens));
  const most = Math.max(0, ...changes.map((change) => Math.abs(change ?? 0)));
  return { changes, most };
}

// The sets of tokens whose removal is not known yet, the highest scores first.
export function unknownRemovals({ view, units }, values) {
  if (!view.data.said.length || view.data.replacement === null) return [];
  const lacking = units.map(({ tokens }, at) => ({ tokens, size: Math.abs(values?.[at] ?? 0) }));
  return lacking
    .filter(({ tokens }) => tokens.every((at) => view.canBlank(at)) && !view.without(tokens))
    .sort((a, b) => b.size - a.size)
    .map(({ tokens }) => tokens);
}
