import { make } from "./dom.js";
import { digits, percent } from "./numbers.js";
import { isSource, sourcesFirst } from "./written.js";

const OPEN_TOKENS = 120; // of a prompt whose parts are all open at first
const [NARROWEST, THINNEST] = [0.12, 0.004]; // shares with room for a name, and for a line

// A prompt by its parts: a bar that sums up, and every part's tokens behind its name.
export class PromptParts {
  constructor(bar, list) {
    this.bar = bar;
    this.list = list;
    this.sections = [];
  }

  build(answered) {
    this.answered = answered;
    const { data, parts } = answered;
    const few = data.tokens.length <= OPEN_TOKENS || parts.length <= 2;
    const first = mostImportant(answered.table(answered.rowsOf(answered.whole)));
    this.spans = [];
    this.sections = parts.map((part, at) =>
      this.section(part, (few && part.drop !== null) || at === first),
    );
    // The answer's own tokens are shown beside the prompt.
    this.sections
      .filter(({ part }) => part.role === "answer")
      .forEach(({ text, element }) => {
        text.remove();
        element.classList.add("plain");
      });
    this.list.classList.toggle("with-drops", Boolean(data.drops));
    const ordered = sourcesFirst(this.sections.map(({ part, element }) => ({ ...part, element })));
    this.list.replaceChildren(...ordered.map(({ element }) => element));
  }

  section(part, open) {
    const text = make("p", { class: "prompt-text", dir: "auto" });
    part.positions.forEach((at, place) => {
      const [, blank, rest] = /^(\s*)([^]*)$/.exec(this.answered.data.tokens[at]);
      this.spans[at] = make("span", { class: "piece" }, rest || visible(blank));
      const cut = place && part.positions[place - 1] !== at - 1 ? [" … "] : [];
      // A part begins with its first word, not with the blank lines before it.
      text.append(...cut, rest && place ? blank : "", this.spans[at]);
    });
    const meter = make("span", { class: "meter", "aria-hidden": "true" }, make("i"));
    const value = make("span", { class: "number" });
    const fall = make("span", { class: "meter" }, make("i"));
    const drop = make("span", { class: "drop" }, fall, make("span", { class: "number" }));
    const name = make("span", { class: "name" }, part.name);
    // A part that is called what it is needs no label.
    const role = part.role === part.name ? "" : part.role;
    const titled = make("span", {}, name, " ", make("span", { class: "role" }, role));
    const summary = make("summary", {}, titled, meter, value, drop);
    const element = make("details", { class: "part-section", open }, summary, text);
    return { part, element, text, meter, value, drop };
  }

  show({ table, tokens, ramp, method }) {
    const largest = Math.max(...table.map(({ score }) => Math.abs(score))) || 1;
    this.showBar(table, ramp);
    table.forEach((row, at) => {
      const { meter, value, drop, element } = this.sections[at];
      const size = row.share ?? Math.abs(row.score) / largest;
      meter.firstChild.style.width = `${(100 * size).toFixed(2)}%`;
      meter.firstChild.classList.toggle("against", row.score < 0);
      value.textContent =
        row.share === null ? digits(row.score, method.ratio) : `${percent(row.share)} of scores`;
      drop.hidden = !row.without;
      drop.firstChild.hidden = !row.without.endsWith("%"); // odds of two answers have no bar
      drop.firstChild.firstChild.style.width = `${Number.parseFloat(row.without)}%`;
      drop.lastChild.textContent = row.without && `${row.before} → ${row.without} without it`;
      element.dataset.share = row.share ?? "";
      element.dataset.score = row.score;
    });
    this.spans.forEach((span, at) => {
      const value = tokens?.values[at];
      const colour = ramp((value ?? 0) / (tokens?.top ?? 1));
      span.style.setProperty("--fill", tokens ? colour.fill : "transparent");
      span.style.setProperty("color", tokens ? colour.ink : "inherit");
      span.title = tokens
        ? `${this.answered.data.labels[at]} · ${digits(value, method.ratio)}`
        : "";
      span.dataset.value = value ?? "";
    });
  }

  // Shares of the whole, one after the other. The names are in the list, too, with their keys.
  showBar(table, ramp) {
    const shared = table.every(({ share }) => share !== null);
    this.bar.hidden = !shared;
    if (!shared) return;
    const pieces = sourcesFirst(table)
      .filter(({ share }) => share > THINNEST)
      .map(({ name, share, at }) => {
        const colour = ramp(share);
        const onclick = () => this.open(at);
        const style = { "flex-grow": share, background: colour.fill, color: colour.ink };
        const title = `${name}: ${percent(share)}`;
        const label = share >= NARROWEST ? name : "";
        return make("span", { class: "share", title, style, onclick }, label);
      });
    this.bar.replaceChildren(...pieces);
    const named = table.map(({ name, share }) => `${name} ${percent(share)}`).join(", ");
    this.bar.setAttribute("aria-label", `Shares of the parts: ${named}`);
  }

  open(at) {
    const { element } = this.sections[at];
    element.open = true;
    element.scrollIntoView({ block: "nearest" });
    element.firstChild.focus();
  }

  // A token of the prompt comes into sight, and is marked until another one is.
  reveal(at) {
    const span = this.spans[at];
    if (!span) return;
    span.closest("details").open = true;
    this.list.querySelector(".found-here")?.classList.remove("found-here");
    span.classList.add("found-here");
    span.scrollIntoView({ block: "center" });
  }
}

// The source without which the answer is least likely, or with the highest score.
function mostImportant(table) {
  const size = ({ drop, score }) => drop ?? score;
  const sources = table.filter(isSource).sort((a, b) => size(b) - size(a));
  return sources[0]?.at;
}

// A token of blanks: the end of a line has a sign, a space has the mark's colour.
const visible = (blank) => (blank.includes("\n") ? "⏎" : "\u00a0");
