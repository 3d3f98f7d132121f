import { inSentence, quote } from "./names.js";
import { digits } from "./numbers.js";

// What a graph shows, in a sentence: its heading, and its name for screen readers. Like its arrows,
// it goes the way that information goes: from the input up.
export function graphTitle({ view, method, layer, query, key, ratio }, trace) {
  const [from, to] = [key, query].map((at) => nameWithWord(view, at));
  if (!method.layered) return answerTitle({ view, method, layer, query, key }, trace, from);
  const score = view.row(method.name, layer, query)?.[key];
  const value = ratio ? (score ?? trace?.value) : (trace?.value ?? score);
  const start = `${method.title} from ${from} to ${to} at layer ${layer}`;
  if (value === undefined) return `${start}: not computed`;
  const ways = trace?.routes.length ? `, by ${count(trace.all_routes, "route")}` : "";
  return `${start}: ${digits(value, ratio && score !== undefined)}${ratio ? " chance" : ""}${ways}`;
}

// A piece of a word with the word.
function nameWithWord({ names, data }, at) {
  const { groups = [], labels } = data.words ?? {};
  const place = groups.findIndex((group) => group.length > 1 && group.includes(at));
  const word = labels?.[place];
  return `${quote(names[at])}${word === undefined ? "" : ` of ${quote(word)}`}`;
}

// Of a method that starts where the answer is read.
function answerTitle({ view, method, layer, query, key }, trace, from) {
  const value = trace?.value ?? view.row(method.name, layer, query)?.[key];
  const start = `${method.title} from ${from}`;
  if (value === undefined) return `${start}: not computed`;
  const unit = method.unit && ` ${method.unit}`;
  const sides = value < 0 ? ["against", "for"] : ["for", "against"];
  // Told wherever the score, which is the difference of both, reads differently.
  const size = Math.abs(value);
  const differs = trace && digits(size - trace.opposed) !== digits(size);
  const rest = differs ? `, ${digits(trace.opposed)} ${sides[1]} it` : "";
  return `${start}: ${digits(size)}${unit} ${sides[0]} ${view.answer}${rest}`;
}

const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

// Notes below the graph.
export function graphNote(pane, trace, served) {
  const { view, method } = pane;
  const parts = [];
  if (trace?.cut.length) {
    const capacity = digits(trace.cut.reduce((sum, [, , , amount]) => sum + amount, 0));
    const all = trace.all_cut > trace.cut.length ? ` of ${trace.all_cut}` : "";
    const cut = `${trace.cut.length}${all} ${trace.all_cut === 1 ? "edge" : "edges"}`;
    parts.push(`Dashed: the bottleneck, ${cut}, full at ${capacity}.`);
  }
  if (!method.layered) {
    if (trace) parts.push("Lines: routes that carry up to 90 % of it.");
    else if (!view.hasRoutes(method, pane.key)) parts.push("The answer is read at this token.");
    else if (view.amounts) parts.push(noTrace(view, served));
    return parts.join(" ");
  }
  if (trace && trace.all_edges > trace.edges.length) {
    parts.push(`The ${trace.edges.length} strongest of ${trace.all_edges} edges are drawn.`);
  }
  if (pane.ratio) {
    const routes = method.reaches_input
      ? `; routes carry the plain ${inSentence(method.title)}`
      : "";
    parts.push(`Scores are relative to even attention (1 is chance)${routes}.`);
  }
  if (!trace && method.reaches_input) parts.push(noTrace(view, served));
  return parts.join(" ");
}

function noTrace(view, served) {
  if (!view.attention) return "Lines are scores: a saved attribution has no routes.";
  return served ? "Finding the routes …" : "The routes from this token are not in this document.";
}

// What the colours of signed scores mean.
export const signsNote = ({ method, view, columns }) =>
  method.signed && columns.length ? `Orange speaks for ${view.answer}, blue against it.` : "";

// The heat map's heading, and what is missing in it.
export function mapTitle({ view, layer, query }, columns) {
  const what = { heads: `Heads of layer ${layer}`, all: "All heads" }[columns] ?? "All layers";
  return `${what}, for ${quote(view.names[query])}`;
}

export function mapNote([{ columns: shown, view, method, map, query }], columns, served) {
  if (!map) return `${method.title} has no scores of single heads here.`;
  const other = map === method ? "" : `${method.title} of single heads takes too long here: `;
  const note = other && `${other}these are of ${inSentence(map.title)}.`;
  const heads = columns === "all" && view.heads(map.name, view.depth, query);
  if (shown.length || heads) return note;
  return served ? "Computing …" : "Not in this document.";
}
