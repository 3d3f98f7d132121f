import { align } from "./align.js";
import { make } from "./dom.js";
import { isolate } from "./names.js";
import { listed, percent, points, speaks, unitOf } from "./numbers.js";
import { rowOf, unitScores } from "./panes.js";
import { changesOf } from "./removal.js";

// The rows of the table, with the values they are sorted by; null if scores are not loaded yet.

export function singleRows(pane, trace) {
  const row = rowOf(pane);
  if (!row) return null;
  const { units, key } = pane;
  const values = unitScores(pane, row);
  const { signed: hasSigns } = pane.method;
  const part = sharesOf(values);
  const top = Math.max(...values.map(Math.abs)) || 1;
  const { changes } = changesOf(pane);
  const blanks = changes.some((change) => change !== undefined);
  const seconds = secondScores(pane) ?? values.map(() => 0);
  const named = namedIn(pane);
  const rows = units.map((unit, index) => ({
    order: [hasSigns ? Math.abs(values[index]) : values[index], seconds[index]],
    isShown: unit.tokens.some((at) => at === key || named.has(at)),
    make: () => {
      const onclick = () => trace(pane, unit.tokens[0]);
      const width = `${(100 * Math.max(0, values[index])) / top}%`;
      const change = changes[index];
      const line = make(
        "tr",
        { class: unit.tokens.includes(key) ? "traced" : "" },
        rowName(make("button", { type: "button", onclick }, unit.name)),
        make(
          "td",
          { class: "bars" },
          hasSigns ? divergingBar(values[index], top) : make("i", { style: { width } }),
        ),
        make("td", { class: "number" }, listed(values[index], pane.power, pane.ratio)),
        hasSigns ? null : make("td", { class: "number quiet" }, percent(part[index])),
        blanks ? removalCell(change) : null,
      );
      line.dataset.row = index;
      line.dataset.value = values[index];
      if (change !== undefined) line.dataset.change = change;
      return line;
    },
  }));
  const share = hasSigns ? [] : ["Share"]; // signed scores are no parts of a whole
  const change = blanks ? ["Δ P, points"] : [];
  const note = blanks && removalNote(pane);
  const scale = [unitOf(pane.power), pane.method.unit].filter(Boolean).join(" ");
  const score = ["Score", scale].filter(Boolean).join(pane.method.unit ? ", " : " ");
  const names = [unitName(pane), "", score, ...share, ...change];
  return { rows, names, note };
}

// The tokens that the sentence on a pane names.
function namedIn({ view, method, layer, query }) {
  const here = view.findings.filter((each) => each.layer === layer && each.query === query);
  const found = here.find((each) => each.method === method.name);
  return new Set(found?.parts.map(({ at }) => at));
}

// The scores that order units which share one: those of another method, where they are loaded.
function secondScores(pane) {
  const row = pane.view.row(pane.method.tie_breaker, pane.layer, pane.query);
  return row && unitScores(pane, row);
}

// Two panes side by side, as shares: scores of different methods have different sums.
export function pairRows(panes) {
  const scores = panes.map((pane) => rowOf(pane));
  if (!scores.every(Boolean)) return null;
  const sides = panes.map((pane, i) => sharesOf(unitScores(pane, scores[i])));
  const labels = panes.map(({ units }) => units.map(({ label }) => label));
  const shown = panes.map(({ units }) => units.map(({ name }) => name));
  const { shared } = panes[1];
  const matched = shared ? labels[0].map((_, i) => [i, i]) : align(...labels);
  const gapOf = ([i, j]) => (i === null || j === null ? undefined : sides[1][j] - sides[0][i]);
  const gaps = matched.map(gapOf);
  const widest = Math.max(...gaps.map((gap) => Math.abs(gap ?? 0)), 1e-12);
  const rows = matched.map((pair, at) => ({
    order: [gaps[at] === undefined ? -1 : Math.abs(gaps[at])],
    make: () => {
      const names = pair.map((index, side) => shown[side][index] ?? "–");
      const line = make(
        "tr",
        {},
        rowName(names[0] === names[1] ? names[0] : names.join(" · ")),
        ...pair.map((index, side) => shareCell(sides[side][index])),
        make("td", { class: "bars gap" }, divergingBar(gaps[at], widest)),
        changeCell(gaps[at], "–"),
      );
      if (gaps[at] !== undefined) line.dataset.gap = gaps[at];
      return line;
    },
  }));
  const names = shared ? panes.map(({ method }) => method.label) : ["first", "second"];
  return { rows, names: [unitName(panes[0]), ...names, "", "Points"] };
}

// Of signed scores, the share of all sizes: their sum may be near 0.
function sharesOf(values) {
  const sum = values.reduce((a, b) => a + Math.abs(b), 0) || 1;
  return values.map((value) => value / sum);
}

const unitName = ({ words }) => (words ? "Word" : "Token");

// What Δ P is of, and what its colours mean: those of signed scores.
function removalNote({ words, view }) {
  const without = words || view.hasPieces ? "whole word" : "token";
  const change = `Δ P: how P(${isolate(view.answer)}) changes without the ${without}`;
  return `${change}; orange speaks for it (P falls), blue against.`;
}

const rowName = (content) => make("th", { scope: "row" }, content);

const shareCell = (share) =>
  make("td", { class: "number" }, share === undefined ? "–" : percent(share));

function changeCell(change, unknown) {
  if (change === undefined) return make("td", { class: "number" }, unknown);
  return make("td", { class: "number" }, points(change));
}

function removalCell(change) {
  if (change === undefined) return make("td", { class: "number" });
  return make("td", { class: `number ${speaks(change)}` }, points(change));
}

function divergingBar(gap, widest) {
  if (gap === undefined) return make("span", { class: "diverging" });
  const style = { width: `${(50 * Math.abs(gap)) / widest}%` };
  const bar = make("i", { class: gap < 0 ? "less" : "more", style });
  return make("span", { class: "diverging" }, bar);
}
