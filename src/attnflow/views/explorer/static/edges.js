import { rowOf } from "./panes.js";

// Which edges the graph shows. An edge goes from (step, query) down to (step − 1, key).

const edge = (step, query, key, amount) => ({ step, query, key, amount });

const ROUTES = 0.9;
const ROUNDING = 1e-6;
const FAINT = 0.1; // of the strongest attention: what is weaker is not drawn

// Attention between tokens up to a step, strongest first; none from a token to itself.
export function attentionEdges(view, upTo) {
  const { attention } = view;
  if (!attention || !attention.weight.length) return [];
  const { step, query, key, weight } = attention;
  const least = Math.max(FAINT * weight[0], 1e-9);
  const found = [];
  for (let i = 0; i < weight.length && weight[i] >= least; i += 1) {
    if (step[i] <= upTo && query[i] !== key[i])
      found.push(edge(step[i], query[i], key[i], weight[i]));
  }
  return found;
}

// The edges that carry this share of the score: of the trace of a pair, or of the scores of one
// layer if they end in the layer below.
export function carriedEdges(pane, share) {
  const { view, method, layer, query, key } = pane;
  const trace = view.trace(method.name, layer, query, key);
  if (trace) {
    const edges = trace.edges.map((values) => edge(...values));
    // Without layers the document has the routes that carry 90 %, of which nothing else is known.
    if (!method.layered) return mostOf(edges, Math.min(1, share / ROUTES));
    return mostOf(edges, share, Math.abs(trace.value));
  }
  if (!method.layered) return []; // an answer is read at this token, or the trace is loading
  if (!method.reaches_input) return mostOf(scoreEdges(pane, [layer]), share);
  if (view.attention) return []; // the trace is missing, or still loading
  // With scores alone, lines as in Figure 1 of the paper.
  return mostOf(scoreEdges(pane, view.layers.slice(0, layer)), share);
}

function scoreEdges(pane, layers) {
  const edges = [];
  layers.forEach((layer) => {
    const step = pane.view.data.ends[layer - 1];
    rowOf(pane, layer)?.forEach((amount, at) => {
      if (amount > 0) edges.push(edge(step, pane.query, at, amount));
    });
  });
  return edges.sort((a, b) => b.amount - a.amount);
}

// Of edges, the strongest first, those of each step that carry a share of what passes there: of
// `whole`, where that is known, else of all edges of the step.
export function mostOf(edges, share, whole) {
  const sums = new Map();
  edges.forEach(({ step, amount }) => sums.set(step, (sums.get(step) ?? 0) + amount));
  const passed = new Map();
  return edges.filter(({ step, amount }) => {
    const before = passed.get(step) ?? 0;
    passed.set(step, before + amount);
    return amount > 0 && before < (share - ROUNDING) * (whole ?? sums.get(step));
  });
}

// What is drawn behind the edges that carry a score: attention up to a step, or what carries most
// of the answer, for it and against it.
export const edgesBehind = ({ view, method }, upTo) =>
  method.layered ? attentionEdges(view, upTo) : amountEdges(view);

function amountEdges({ amounts }) {
  if (!amounts) return [];
  const { step, query, key, weight } = amounts;
  return Array.from(weight, (amount, i) => edge(step[i], query[i], key[i], amount));
}

export const cutEdges = (trace) => (trace?.cut ?? []).map((values) => edge(...values));

export function routeEdges({ positions, amount }, step) {
  return positions.slice(0, -1).map((query, i) => edge(step - i, query, positions[i + 1], amount));
}

export const edgeName = ({ step, query, key }) => `${step}/${query}/${key}`;

// The weight of attention on an edge, where it is among those in the document.
export function attentionOn(view, target) {
  if (!view.attention) return undefined;
  const place = (step, query, key) => (step * view.size + query) * view.size + key;
  if (!view.index) {
    view.index = new Map();
    const { step, query, key, weight } = view.attention;
    weight.forEach((value, i) => view.index.set(place(step[i], query[i], key[i]), value));
  }
  return view.index.get(place(target.step, target.query, target.key));
}
