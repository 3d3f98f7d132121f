// What the model says without words: the experiment beside the scores.

// Of all units of a pane, of a piece of a word that without the whole word; and the largest.
export function changesOf({ view, units }) {
  const changes = units.map(({ tokens }) => view.changeWithout(view.wordsOf(tokens)));
  const most = Math.max(0, ...changes.map((change) => Math.abs(change ?? 0)));
  return { changes, most };
}

// The sets of tokens whose removal is not known yet, the highest scores first.
export function unknownRemovals({ view, units }, values) {
  if (!view.data.said.length || view.data.replacement === null) return [];
  const lacking = new Map();
  units.forEach(({ tokens: own }, at) => {
    const tokens = view.wordsOf(own);
    if (!tokens.every((each) => view.canBlank(each)) || view.without(tokens)) return;
    const size = Math.max(Math.abs(values?.[at] ?? 0), lacking.get(tokens.join())?.size ?? 0);
    lacking.set(tokens.join(), { tokens, size });
  });
  return [...lacking.values()].sort((a, b) => b.size - a.size).map(({ tokens }) => tokens);
}
