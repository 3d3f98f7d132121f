import { AnswerStrip } from "./answer.js";
import { colourOf, inkOn, rampOf, resetColours } from "./colours.js";
import { byId, make } from "./dom.js";
import { inSentence, joinNames, quote } from "./names.js";
import { digits, percent } from "./numbers.js";
import { PromptParts } from "./prompt.js";
import { SentenceTable } from "./outline.js";
import { Answered, spanFromText, spanToText } from "./written.js";

const MOST_NAMED = 3; // tokens of the prompt in it
const MOST_TOKENS = 8; // tokens in the list of the strongest
const MOST_LETTERS = 60; // letters of a span that is quoted

// A prompt and its answer side by side: what a word or a span of the answer came from.
export class GenerationPage {
  constructor(changed) {
    this.changed = changed;
    this.strip = new AnswerStrip(byId("answer-words"), (span, stays) => this.choose(span, stays));
    this.prompt = new PromptParts(byId("part-bar"), byId("part-list"));
    const open = (at) => this.prompt.reveal(at);
    this.outline = new SentenceTable(byId("outline"), (span) => this.choose(span, true), open);
    byId("whole-answer").addEventListener("click", () => this.choose(this.answered.whole, true));
  }

  load(data, requested) {
    this.answered = new Answered(data);
    this.span = spanFromText(requested, this.answered.words.length) ?? this.answered.whole;
    this.pointed = null;
    byId("generation").hidden = false;
    byId("model-name").textContent = [data.model, data.head].filter(Boolean).join(" · ");
    byId("answer-notes").replaceChildren(...data.notes.map((note) => make("li", {}, `${note}.`)));
    byId("answer-notes").hidden = !data.notes.length;
    byId("answer-method").textContent = describeMethod(data);
    const { words, inSentences } = this.answered;
    const alone = words.length === 1;
    byId("answer-hint").hidden = alone;
    byId("answer-unit").textContent = inSentences ? "sentence" : "word";
    byId("answer-alone").hidden = !alone || Boolean(data.contrast) || words[0].rows.length === 1;
    this.strip.build(this.answered);
    this.prompt.build(this.answered);
    byId("outline-card").hidden = !this.answered.inSentences;
    if (this.answered.inSentences) this.outline.show(this.answered);
    this.update();
  }

  // The span that a link asks for, or the whole answer.
  show(requested) {
    this.span = spanFromText(requested, this.answered.words.length) ?? this.answered.whole;
    this.pointed = null;
    this.update();
  }

  hide() {
    this.answered = null;
    byId("generation").hidden = true;
  }

  // `null` is what was chosen before: nothing is pointed at any more.
  choose(span, stays) {
    this.pointed = stays ? null : span;
    if (stays) this.span = span;
    this.update();
    if (!stays) return;
    byId("answer-said").textContent = this.sentence(this.span);
    this.changed();
  }

  get hash() {
    return this.answered.isWhole(this.span) ? "" : `span=${spanToText(this.span)}`;
  }

  update() {
    if (!this.answered) return;
    const { answered } = this;
    const { method } = answered.data;
    const span = this.pointed ?? this.span;
    const rows = answered.rowsOf(span);
    const [ramp, tokens, table] = [rampOf(method), answered.tokens(rows), answered.table(rows)];
    document.documentElement.style.setProperty("--accent", colourOf(method));
    document.documentElement.style.setProperty("--accent-ink", inkOn(method));
    const whole = answered.isWhole(span);
    this.prompt.show({ table, tokens, ramp, method });
    this.strip.show({ span, whole, colours: this.wordColours(tokens, ramp) });
    // Above the words stands the whole answer's conclusion: they would move under the pointer.
    byId("answer-found").textContent = this.sentence(answered.whole);
    byId("span-found").textContent = whole ? "" : this.sentence(span);
    byId("whole-answer").disabled = answered.isWhole(this.span);
    this.showStrongest(rows);
  }

  // Words of the answer that were there before gave something, too.
  wordColours(tokens, ramp) {
    const { words, data } = this.answered;
    return words.map(({ rows }) => {
      const values = tokens ? rows.map((row) => tokens.values[data.answer[row]]) : [0];
      const largest = values.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a));
      return ramp(largest / (tokens?.top ?? 1));
    });
  }

  sentence(span) {
    const { answered } = this;
    const rows = answered.rowsOf(span);
    // Of a prompt of one part the conclusion is about its tokens already.
    const one = answered.parts.filter(({ drop }) => drop !== null).length === 1;
    const named = one ? [] : answered.fromPrompt(rows, MOST_NAMED).map(quote);
    const have = named.length === 1 ? "has the highest score" : "have the highest scores";
    const words = named.length ? ` Of the prompt’s tokens, ${joinNames(named)} ${have}.` : "";
    return this.found(span, rows).replaceAll(" %", "\u00a0%") + words;
  }

  // What the library concludes; of several words, which it has said nothing about, how likely
  // they are.
  found({ first, last }, rows) {
    const { answered } = this;
    if (answered.isWhole({ first, last })) return answered.data.found;
    if (first === last) return answered.data.found_each[first];
    const text = answered.textOf(rows).trim().replace(/\s+/g, " ");
    const short = text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS - 1)}…` : text;
    const mean = answered.byToken(rows) ? ", the geometric mean of its tokens" : "";
    return `${quote(short)}: ${percent(answered.odds(rows))} likely${mean}.`;
  }

  showStrongest(rows) {
    const { method } = this.answered.data;
    const found = this.answered.strongest(rows, MOST_TOKENS);
    byId("strongest-card").hidden = !found.length;
    const written = new Set(this.answered.data.answer);
    const rowOfToken = ({ at, label, part, value }) =>
      make(
        "tr",
        {},
        make("th", { scope: "row", dir: "auto" }, written.has(at) ? label : this.link(at, label)),
        make("td", {}, part ?? ""),
        make("td", { class: "number" }, digits(value, method.ratio)),
      );
    const head = ["Token", "Part", "Score"].map((name) => make("th", { scope: "col" }, name));
    head[2].className = "number";
    const body = make("tbody", {}, ...found.map(rowOfToken));
    byId("strongest").replaceChildren(
      make("table", {}, make("thead", {}, make("tr", {}, ...head)), body),
    );
  }

  // A word that leads to where it stands in the prompt.
  link(at, label) {
    return make("button", { type: "button", onclick: () => this.prompt.reveal(at) }, label);
  }

  redraw() {
    resetColours();
    this.update();
  }
}

function describeMethod({ method, rule, layer, depth, through, unit }) {
  const where = method.layered ? `, layer ${layer} of ${depth}` : "";
  const edges = method.layered ? ` on ${inSentence(rule.title)} edges` : "";
  const ends = through === "prompt" ? "; all of it ends in the prompt" : "";
  const sums = unit && `; ${unit}`;
  return `${method.title}${edges}${where}${ends}${sums}`;
}
