import { align } from "./align.js";
import { inSentence, joinNames, quote } from "./names.js";
import { percent, points } from "./numbers.js";
import { rowOf, unitScores } from "./panes.js";
import { changesOf } from "./removal.js";

const EXPERIMENT = "blank-out"; // a method that is the experiment is not judged by it
const FEWEST = 5; // words whose removal is known, to say which method agrees with the experiment
const CLEAR = 0.05; // of a rank correlation: a smaller difference says nothing
const SMALL = 0.01; // of a probability: a change that is called small
const MOST_NAMED_PAIRS = 3;

// Where two panes differ, and what the experiment says to it; nothing until both have scores.
export function conclusionOf(panes) {
  if (panes.length < 2 || !panes.every((pane) => rowOf(pane))) return "";
  return (panes[1].shared ? ofMethods(panes) : ofTexts(panes.map(inWords)))
    .filter(Boolean)
    .join(" ");
}

// Texts differ in words: in place of one, a tokenizer may have several pieces.
const inWords = (pane) => (pane.view.hasPieces ? { ...pane, units: pane.view.units(true) } : pane);

function ofMethods(panes) {
  const [pane] = panes;
  const values = panes.map((each) => unitScores(each, rowOf(each)));
  const shares = values.map(sharesOfAll);
  const ordinary = pane.units.map((unit) => inText(pane, unit));
  const gaps = shares[0].map((share, at) => (ordinary[at] ? Math.abs(share - shares[1][at]) : -1));
  const at = gaps.indexOf(Math.max(...gaps));
  const [one, two] = panes.map((each, i) => `${percent(shares[i][at])} by ${methodName(each)}`);
  const { changes } = changesOf(pane);
  const first = `They differ most on ${quote(pane.units[at].name)}: ${one}, ${two}.`;
  return [first, sayChange(pane, pane.units[at], changes[at]), saySupport(panes, values)];
}

// Words are compared: how much special tokens take is a matter of each method.
const inText = ({ view }, { tokens }) => tokens.some((at) => view.data.ordinary.includes(at));

const methodName = ({ method }) => inSentence(method.label);

function sayChange({ view }, { tokens }, change) {
  if (change === undefined) return "";
  const what = view.wordsOf(tokens).length > tokens.length ? "the whole word" : "it";
  return `Without ${what} P(${view.answer}) changes by ${points(change)} points.`;
}

// As in the library: of tokens, each taken out alone; with signs where scores have them.
function saySupport(panes, values) {
  const [{ view, units }] = panes;
  const changes = units.map(({ tokens }) => view.changeWithout(tokens));
  const known = [...changes.keys()].filter(
    (at) => changes[at] !== undefined && inText(panes[0], units[at]),
  );
  if (known.length < FEWEST) {
    return "What the model says without each word is not known here, so neither is checked by it.";
  }
  const rank = values.map((row, i) => {
    const { signed } = panes[i].method;
    const falls = known.map((at) => (signed ? -changes[at] : Math.abs(changes[at])));
    return correlation(
      known.map((at) => row[at]),
      falls,
    );
  });
  const own = panes.findIndex(({ method }) => method.name === EXPERIMENT);
  if (own >= 0) {
    const other = `${methodName(panes[1 - own])} agrees with it by ρ ${rho(rank[1 - own])}`;
    return `${panes[own].method.label} is the experiment itself: ${other}.`;
  }
  const best = rank[1] > rank[0] ? 1 : 0;
  const [a, b] = [panes[best], panes[1 - best]].map(methodName);
  const [high, low] = [rank[best], rank[1 - best]].map(rho);
  return rank[best] - rank[1 - best] > CLEAR && rank[best] > 0
    ? `Taking out every word in turn supports ${a} (ρ ${high}) more than ${b} (ρ ${low}).`
    : `Taking out every word in turn supports neither more (${a} ρ ${high}, ${b} ρ ${low}).`;
}

function ofTexts(panes) {
  const labels = panes.map(({ units }) => units.map(({ label }) => label));
  const pairs = align(...labels).filter(([i, j]) => labels[0][i] !== labels[1][j]);
  if (!pairs.length) return ["Both texts are the same."];
  const name = (side, at) => quote(labels[side][at]);
  const shown = pairs.slice(0, MOST_NAMED_PAIRS).map(([i, j]) => {
    if (i === null) return `${name(1, j)} (added)`;
    return j === null ? `${name(0, i)} (left out)` : `${name(0, i)} → ${name(1, j)}`;
  });
  const more = pairs.length - shown.length;
  const listed = joinNames(more ? [...shown, `${more} more`] : shown);
  return [`The texts differ in ${listed}.`, sayAnswers(panes), sayWhich(panes, pairs, labels)];
}

function sayAnswers(panes) {
  const [one, two] = panes.map(({ view }) => view.data.said);
  if (!one.length || !two.length) return "";
  const [[first], [second]] = [one, two];
  if (first.label !== second.label) {
    const [from, to] = [first, second].map(
      (said) => `${said.label} (${percent(said.probability)})`,
    );
    return `The answer changes from ${from} to ${to}.`;
  }
  const change = points(second.probability - first.probability);
  const shares = [first, second].map(({ probability }) => percent(probability)).join(" → ");
  return `The answer stays ${first.label}: ${shares} (${change} points).`;
}

// Of the words that differ, the one without which its own text's answer changes most.
function sayWhich(panes, pairs, labels) {
  const found = panes.flatMap((pane, side) => {
    const { changes } = changesOf(pane);
    const places = pairs.map((pair) => pair[side]).filter((at) => at !== null);
    return places
      .filter((at) => changes[at] !== undefined)
      .map((at) => ({ side, word: labels[side][at], change: changes[at], pane }));
  });
  if (!found.length) return "";
  const most = found.reduce((a, b) => (Math.abs(b.change) > Math.abs(a.change) ? b : a));
  if (Math.abs(most.change) < SMALL) {
    return "Without any one of the words that differ, its own answer changes by less than a point.";
  }
  const where = ["first", "second"][most.side];
  const about = `P(${most.pane.view.answer}) of the ${where}`;
  const change = `${about} changes by ${points(most.change)} points`;
  return `Of these, ${quote(most.word)} matters most: without it ${change}.`;
}

function sharesOfAll(values) {
  const sum = values.reduce((a, b) => a + Math.abs(b), 0) || 1;
  return values.map((value) => Math.abs(value) / sum);
}

// Spearman's rank correlation; what is equal shares a rank.
export function correlation(one, two) {
  const [a, b] = [one, two].map((values) => {
    const ranks = values.map((value) => {
      const below = values.filter((other) => other < value).length;
      return below + (values.filter((other) => other === value).length - 1) / 2;
    });
    const mean = ranks.reduce((x, y) => x + y, 0) / ranks.length;
    return ranks.map((rank) => rank - mean);
  });
  const dot = (x, y) => x.reduce((sum, value, at) => sum + value * y[at], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b)) || 0;
}

const rho = (value) =>
  value
    .toFixed(2)
    .replace(/^(-?)0/, "$1")
    .replace("-", "−");
