import { make } from "./dom.js";

const ROWS = [12, 24, 48];
const HEIGHTS = { screen: [30, 25, 20, 17], paper: [22, 18, 15, 13] }; // for so many, or for more

const WHOLE = 64; // rows of a chart that are all printed: they fit on a page
const KEPT = 40; // of more
const FOLDED = 40; // rows of a chart on the screen, unless all are asked for
const TOP = 12; // rows with the highest scores that are always among them

// The rows of a chart that are printed: of a long text, those with the highest scores, and those
// that are marked. Null for all.
export function keptRows(values, marked) {
  if (!values || values.length <= WHOLE) return null;
  const order = [...values.keys()].sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]));
  return [...new Set([...marked, ...order.slice(0, KEPT)])].sort((a, b) => a - b);
}

// The rows of a chart of a long text that take part in what is drawn, and those with the highest
// scores. Null for all.
export function foldedRows(values, marked, edges) {
  if (!values || values.length <= FOLDED) return null;
  const ends = edges?.flatMap(({ query, key }) => [query, key]);
  const order = [...values.keys()].sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]));
  const rows = [...new Set([...marked, ...order.slice(0, TOP), ...(ends ?? order)])].slice(
    0,
    FOLDED,
  );
  return rows.sort((a, b) => a - b);
}

// What a chart leaves out, and where it is, or what folds it again; empty for nothing.
export function paperNote({ kept, rows, folded, printing }, toggle) {
  if (!folded || (printing && !kept)) return [];
  const which = printing ? "with the highest scores" : "that carry most of it";
  const some = kept ? `The ${kept.length} of ${rows} rows ${which}. ` : "";
  const name = kept ? "Show all rows" : "Show those that carry most";
  const more = printing ? "All are in the table." : make("button", { type: "button" }, name);
  if (!printing) more.addEventListener("click", toggle);
  return [make("p", { class: "note fold" }, some, more)];
}

export function rowHeight(rows, printing) {
  const at = ROWS.findIndex((most) => rows <= most);
  return HEIGHTS[printing ? "paper" : "screen"].at(at);
}
