import { HEAD } from "./axes.js";
import { attentionOn, edgeName } from "./edges.js";
import { edgesOut, headsOut, wordOut } from "./knockouts.js";
import { inSentence, quote } from "./names.js";
import { digits } from "./numbers.js";

const NEAR = 6; // pixels within which an edge or a node is hit

// What is at (x, y) of a graph: the lines of its tooltip, and what a click on it does.
export function pick(graph, x, y) {
  const row = graph.rowAt(y);
  const step = Math.round((x - graph.x(0)) / (graph.x(1) - graph.x(0)));
  const exists = step >= 0 && step < graph.pane.view.data.columns.length;
  if (row === null) return y < HEAD && exists && step ? pickColumn(graph, step) : null;
  if (x < graph.labelWidth) {
    const name = graph.labels[row];
    return { ...tracing(row, [name, clickTo(graph, "trace it")]), out: wordOut(name, [row]) };
  }
  const distance = Math.hypot(x - graph.x(step), y - graph.y(row));
  if (exists && distance <= NEAR + 1) return pickNode(graph, step, row);
  const found = nearestEdge(graph, x, y);
  return found && describeEdge(graph, found);
}

// What a click does: knock out, or else what it does in other modes.
const clickTo = ({ actions }, what) => `click to ${actions.knocksOut ? "knock it out" : what}`;

function pickColumn({ actions, pane }, step) {
  const layer = pane.view.data.ends.indexOf(step) + 1;
  if (!actions.knocksOut || !layer) return null;
  return {
    kind: "column",
    lines: [`Layer ${layer}`, "click to knock it out"],
    out: headsOut(layer, null),
  };
}

const tracing = (at, lines) => ({ kind: "trace", at, lines });

function pickNode(graph, step, row) {
  const { labels, pane, actions } = graph;
  const { columns, ends } = pane.view.data;
  const name = labels[row];
  if (actions.knocksOut && step) {
    const layer = ends.findIndex((end) => step <= end) + 1;
    const blocks = [{ layers: [layer], queries: [row] }];
    const out = { name: `what ${name} reads in layer ${layer}`, blocks };
    return { kind: "node", lines: [out.name, "click to knock it out"], out };
  }
  if (step === 0) {
    const lines = [name, `input; ${clickTo(graph, "trace it")}`];
    return { ...tracing(row, lines), out: wordOut(name, [row]) };
  }
  if (!pane.method.layered) return { kind: "node", lines: [`${name} at ${columns[step]}`] };
  const layer = ends.indexOf(step) + 1; // 0: a step within a layer, which can't be explained
  const lines = [`${name} at ${columns[step]}`, ...(layer ? ["click to explain it"] : [])];
  return { kind: "explain", at: row, layer, lines };
}

// The nearest edge; those drawn on top come first.
function nearestEdge(graph, x, y) {
  const gap = graph.x(1) - graph.x(0);
  const step = Math.floor((x - graph.x(0)) / gap) + 1;
  const rise = riseAt((graph.x(step) - x) / gap);
  const distance = ({ query, key }) =>
    Math.abs(graph.y(query) + (graph.y(key) - graph.y(query)) * rise - y);
  for (const edges of [graph.carried, graph.cut, graph.behind]) {
    let best = null;
    edges.forEach((edge) => {
      if (edge.step !== step || distance(edge) >= NEAR) return;
      if (!best || distance(edge) < distance(best)) best = edge;
    });
    if (best) return best;
  }
  return null;
}

// The share of its height that a curve has passed at a share of its width: all curves of a column
// have the same x, so that one inversion serves all edges.
function riseAt(along) {
  let [low, high] = [0, 1];
  for (let i = 0; i < 20; i += 1) {
    const t = (low + high) / 2;
    if (1.5 * t - 1.5 * t * t + t * t * t < along) low = t;
    else high = t;
  }
  return 3 * low * low - 2 * low * low * low;
}

// What the edge itself is, where that is known: attention, or an amount with a sign.
function weightOn({ pane, behind }, edge) {
  const { view, method } = pane;
  const same = (other) => edgeName(other) === edgeName(edge);
  if (!method.layered) return behind.find(same)?.amount;
  return attentionOn(view, edge) ?? (method.reaches_input ? undefined : edge.amount);
}

function describeEdge(graph, edge) {
  const { pane, trace } = graph;
  const { view, method } = pane;
  const { columns, rule } = view.data;
  const [to, from] = [edge.query, edge.key].map((at) => quote(view.names[at]));
  const lines = [`${from} ${columns[edge.step - 1]} → ${to} ${columns[edge.step]}`];
  const carries = graph.carried.includes(edge);
  if (carries && method.reaches_input) {
    lines.push(`carries ${digits(edge.amount)}${trace ? ` of ${digits(trace.value)}` : ""}`);
  }
  const weight = weightOn(graph, edge);
  const made = method.edges === rule.name ? inSentence(rule.title) : method.edges;
  if (weight !== undefined) lines.push(`${made} ${digits(weight)}`);
  const cut = graph.cut.find((other) => edgeName(other) === edgeName(edge));
  if (cut) lines.push(`bottleneck: full at ${digits(cut.amount)}`);
  const out = edgesOut(pane, [edge]);
  return { ...(method.reaches_input ? { kind: "edge", lines } : tracing(edge.key, lines)), out };
}
