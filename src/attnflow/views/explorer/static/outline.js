import { make } from "./dom.js";
import { digits, percent } from "./numbers.js";
import { isSource } from "./written.js";

// The sentences of an answer at a glance: what each came from, and how likely it is without that.
export class SentenceTable {
  // `choose` is called with a span of the answer, `open` with a token of the prompt.
  constructor(host, choose, open) {
    this.host = host;
    this.choose = choose;
    this.open = open;
  }

  show(answered) {
    const withDrops = Boolean(answered.drops);
    const shared = answered.table(answered.rowsOf(answered.whole))[0].share !== null;
    const size = shared ? "Share of scores" : "Score";
    const names = ["Sentence", "Most from", size, ...(withDrops ? ["Likely without it"] : [])];
    const head = names.map((name) => make("th", { scope: "col" }, name));
    const lines = answered.words.map((word, at) => this.line(answered, word, at, withDrops));
    const top = make("thead", {}, make("tr", {}, ...head));
    this.host.replaceChildren(make("table", {}, top, make("tbody", {}, ...lines)));
  }

  line(answered, { text, rows }, at, withDrops) {
    const table = answered.table(rows);
    const sources = table.filter(isSource);
    const parts = sources.length ? sources : table.filter(({ drop }) => drop !== null);
    const best = (parts.length ? parts : table).reduce((a, b) => (b.score > a.score ? b : a));
    const span = { first: at, last: at };
    const select = () => this.choose(span);
    const go = () => {
      select();
      this.open(answered.strongestOf(best, rows));
    };
    const button = (name, onclick) =>
      make("button", { type: "button", onclick, dir: "auto" }, name);
    const share = best.share === null ? digits(best.score, answered.data.method.ratio) : null;
    const line = make(
      "tr",
      {},
      make("th", { scope: "row" }, button(text.trim(), select)),
      make("td", {}, button(best.name, go)),
      make("td", { class: "number" }, share ?? percent(best.share)),
      withDrops ? make("td", { class: "number" }, best.without) : null,
    );
    line.dataset.part = best.name;
    return line;
  }
}
