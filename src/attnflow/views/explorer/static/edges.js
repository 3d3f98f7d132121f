// Which edges the graph shows. An edge goes from (step, query) down to (step − 1, key).

const edge = (step, query, key, amount) => ({ step, query, key, amount });

// Attention up to a step, strongest first, without what is below a share of the strongest.
export function attentionEdges(view, upTo, share) {
  const { attention } = view;
  if (!attention || !attention.weight.length) return [];
  const least = Math.max(share * attention.weight[0], 1e-9);
  const found = [];
  for (let i = 0; i < attention.weight.length && attention.weight[i] >= least; i += 1) {
    if (attention.step[i] <= upTo) found.push(edge(attention.step[i], attention.query[i], attention.key[i], attention.weight[i]));
  }
  return found;
}

// What carries the score: the trace of a pair, or one layer's raw attention.
export function carriedEdges(pane, share) {
  const { view, method, layer, query, key } = pane;
  const step = view.data.ends[layer - 1];
  const trace = view.trace(method, layer, query, key);
  if (trace) {
    const edges = trace.edges.map((values) => edge(...values));
    return strongEnough(edges, share);
  }
  if (method !== "raw" && view.attention) return [];
  // Raw attention; and, where only scores are known, lines as in the paper's Figure 1.
  const edges = [];
  const layers = method === "raw" ? [layer] : view.data.ends.map((_, i) => i + 1).filter((l) => l <= layer);
  layers.forEach((l) => {
    const row = view.row(method, l, query);
    row?.forEach((amount, at) => { if (amount > 0) edges.push(edge(method === "raw" ? step : view.data.ends[l - 1], query, at, amount)); });
  });
  edges.sort((a, b) => b.amount - a.amount);
  return strongEnough(edges, share);
}

function strongEnough(edges, share) {
  const least = share * (edges[0]?.amount ?? 0);
  return edges.filter(({ amount }) => amount >= least && amount > 0);
}

export const cutEdges = (trace) => (trace?.cut ?? []).map((values) => edge(...values));

export function routeEdges(route, step) {
  return route.positions.slice(0, -1).map((query, i) => edge(step - i, query, route.positions[i + 1], route.amount));
}

// The weight of attention on an edge, where it is among those in the document.
export function attentionOn(view, wanted) {
  if (!view.attention) return undefined;
  if (!view.index) {
    view.index = new Map();
    const { step, query, key, weight } = view.attention;
    weight.forEach((value, i) => view.index.set((step[i] * view.size + query[i]) * view.size + key[i], value));
  }
  return view.index.get((wanted.step * view.size + wanted.query) * view.size + wanted.key);
}
