import { rampOf, signColour } from "./colours.js";
import { make } from "./dom.js";
import { gapBefore } from "./names.js";
import { digits, points } from "./numbers.js";
import { rowOf } from "./panes.js";

const FOLDED_UNITS = 40; // units of a text whose sentences are folded
const OPEN_FIRST = 2; // sentences that are open at first: those that carry most

const isFolded = ({ units, view }) =>
  units.length > FOLDED_UNITS && (view.data.sentences ?? []).length > 1;

// A long text by its sentences: each has a colour and, when it is opened, its words.
export class Sentences {
  static of(pane, buttons) {
    const { sentences = [] } = pane.view.data;
    return isFolded(pane) ? new Sentences(pane, buttons, sentences) : null;
  }

  constructor(pane, buttons, sentences) {
    const placeOf = new Map(sentences.flatMap((tokens, i) => tokens.map((at) => [at, i])));
    this.parts = sentences.map((tokens) => ({ tokens, words: [] }));
    this.rest = [];
    pane.units.forEach((unit, at) => {
      const part = this.parts[placeOf.get(unit.tokens[0])];
      if (part) part.words.push({ unit, button: buttons[at] });
      else this.rest.push({ button: buttons[at], isFirst: at === 0 });
    });
    this.view = pane.view;
  }

  build() {
    this.details = this.parts.map(({ tokens, words }, at) => {
      const text = textOf(this.view, tokens);
      const value = make("span", { class: "number" });
      const change = make("span", { class: "number" });
      const line = make("span", { class: "sentence-text", dir: "auto" }, text);
      const name = make("span", { class: "sentence-name" }, `Sentence ${at + 1}`);
      const summary = make("summary", {}, line, name, change, value);
      const body = make(
        "p",
        { class: "words" },
        ...words.flatMap(({ unit, button }) => [gapBefore(unit), button]),
      );
      return Object.assign(make("details", { class: "unit" }, summary, body), {
        shown: { line, value, change },
      });
    });
    const ends = (first) => this.rest.filter(({ isFirst }) => isFirst === first);
    const buttons = (first) => ends(first).map(({ button }) => button);
    this.isNew = true;
    this.head = make("p", { class: "unit-head note" });
    return [...buttons(true), this.head, ...this.details, ...buttons(false)];
  }

  colour(pane) {
    const row = rowOf(pane);
    const values = this.parts.map(({ tokens }) => row && sumOf(row, tokens, pane.ratio));
    const top = topOf(values);
    const unit = [pane.ratio ? "mean" : "sum", pane.method.unit && `in ${pane.method.unit}`];
    this.head.textContent = `Score of a sentence: ${unit.filter(Boolean).join(" ")}`;
    const ramp = rampOf(pane.method);
    this.details.forEach(({ shown: { line, value, change } }, at) => {
      const { fill, ink } = ramp((values[at] ?? 0) / top);
      line.style.setProperty("background", fill);
      line.style.setProperty("color", ink);
      value.textContent = row ? digits(values[at], pane.ratio) : "";
      const moved = pane.view.changeWithout(this.parts[at].tokens);
      change.textContent = moved === undefined ? "" : `Δ P ${points(moved)}`;
      line.style.setProperty("border-color", signColour(-(moved ?? 0)));
      line.classList.toggle("known", moved !== undefined);
    });
    if (!row || !this.isNew) return;
    this.isNew = false;
    const order = [...values.keys()].sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]));
    order.slice(0, OPEN_FIRST).forEach((at) => Object.assign(this.details[at], { open: true }));
  }

  // Open the sentence that a word is in.
  open(button) {
    const details = button?.closest("details.unit");
    if (details) details.open = true;
  }
}

function textOf(view, tokens) {
  const { spans } = view.data;
  return view.cut(spans[tokens[0]][0], spans[tokens.at(-1)][1]).trim();
}

const topOf = (values) => Math.max(...values.map((value) => Math.abs(value ?? 0))) || 1;

// The score that has the strongest colour of folded sentences; null where none are folded.
export function sentencesTop(pane) {
  const row = rowOf(pane);
  const { sentences = [] } = pane.view.data;
  if (!row || !isFolded(pane)) return null;
  return topOf(sentences.map((tokens) => sumOf(row, tokens, pane.ratio)));
}

function sumOf(row, tokens, isRatio) {
  const sum = tokens.reduce((total, at) => total + row[at], 0);
  return isRatio ? sum / tokens.length : sum;
}
