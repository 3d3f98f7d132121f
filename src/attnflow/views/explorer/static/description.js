import { make } from "./dom.js";
import { digits, percent } from "./numbers.js";

const ROUTES_SHOWN = 6;

// What a graph shows, in a sentence: its heading, and its name for screen readers.
export function graphTitle({ view, method, layer, query, key }, trace) {
  const { labels } = view.data;
  const value = trace?.value ?? view.row(method.name, layer, query)?.[key];
  const start = `${method.title} from ${labels[query]} at layer ${layer} to ${labels[key]}`;
  if (value === undefined) return `${start}: not computed`;
  const cut = `through a bottleneck of ${trace?.cut.length} edges`;
  const routes = trace?.routes.length ? `, by ${trace.all_routes} routes ${cut}` : "";
  return `${start}: ${digits(value)}${routes}`;
}

// Notes below the graph.
export function graphNote(pane, trace, served) {
  const { view, method } = pane;
  const parts = [];
  if (trace?.cut.length) {
    const capacity = digits(trace.cut.reduce((sum, [, , , amount]) => sum + amount, 0));
    const edges = `${trace.cut.length} edges that together let ${capacity} through`;
    parts.push(`Dashed: the bottleneck, ${edges}.`);
  }
  if (trace && trace.all_edges > trace.edges.length) {
    parts.push(`The ${trace.edges.length} strongest of ${trace.all_edges} edges.`);
  }
  if (view.data.ratio) {
    const routes = method.reaches_input ? `; routes carry the plain ${lower(method.title)}` : "";
    parts.push(`Scores are relative to even attention (1 is chance)${routes}.`);
  }
  if (!trace && method.reaches_input) parts.push(noTrace(view, served));
  return parts.join(" ");
}

const lower = (text) => text[0].toLowerCase() + text.slice(1);

function noTrace(view, served) {
  if (!view.attention) return "Lines are scores: a saved attribution has no routes.";
  return served ? "Finding the routes …" : "The routes to this token are not in this file.";
}

// The largest routes; `highlight` shows one of them in the graph.
export function routeList(pane, trace, highlight) {
  const routes = trace?.routes.slice(0, ROUTES_SHOWN) ?? [];
  const lines = routes.map((route) => routeLine(route, pane.view.data.labels, trace, highlight));
  const rest = (trace?.all_routes ?? 0) - routes.length;
  if (rest > 0) lines.push(make("li", { class: "rest note" }, `and ${rest} more routes`));
  return lines;
}

function routeLine(route, labels, trace, highlight) {
  const { positions, amount } = route;
  const path = positions.map((at, i) =>
    make("span", { class: i && at === positions[i - 1] ? "same" : "", dir: "auto" }, labels[at]),
  );
  const show = () => highlight(route);
  const hide = () => highlight(null);
  const line = make(
    "li",
    { tabIndex: 0, onpointerenter: show, onpointerleave: hide, onfocus: show, onblur: hide },
    make("b", {}, digits(amount)),
    make("span", { class: "quiet" }, percent(amount / trace.value)),
    make("span", { class: "path" }, ...path),
  );
  line.dataset.amount = amount;
  return line;
}

// What the colours of signed scores mean.
export function signsNote({ method, view, top, columns }) {
  if (!method.signed || !columns.length) return [];
  const what = view.data.options.target ?? view.data.said[0]?.label ?? "what is explained";
  const strongest = `the strongest colour is ${digits(top)} or more`;
  return [`Orange speaks for ${what}, blue against it; ${strongest}.`];
}

// The heat map's heading, and what its colours mean.
export function mapTitle({ view, layer, query }, byHead) {
  const source = view.data.labels[query];
  return byHead ? `Heads of layer ${layer}, for ${source}` : `All layers, for ${source}`;
}

export function mapNote(panes, served) {
  if (!panes[0].columns.length) return served ? "Computing …" : "Not in this document.";
  const tops = panes.map(({ top }) => digits(top)).join(" and ");
  return `Strongest colour, here and on tokens: ${tops} or more.`;
}
