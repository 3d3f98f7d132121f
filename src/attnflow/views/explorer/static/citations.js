import { byId, make } from "./dom.js";

// An answer with a marker behind each sentence, and the sources with what is quoted of them.
export class CitationsPage {
  constructor(data) {
    this.data = data;
    this.marks = new Map(); // passages and markers by the number of their citation
    this.abouts = data.sentences.flatMap(({ citations }) => citations);
    const answer = make("p", { class: "cited-answer", dir: "auto" });
    data.sentences.forEach((sentence) => answer.append(...this.sentence(sentence)));
    if (data.stopped) answer.append(make("span", { class: "stopped" }, data.stopped));
    const notes = data.notes.map((note) => make("p", { class: "note" }, note));
    const list = this.abouts.map((each) => this.about(each));
    const said = make("p", { class: "finding" }, data.summary);
    const cites = make("ol", { class: "cited-list" }, ...list);
    const left = card("Answer", said, answer, cites, ...notes);
    const sources = data.sources.map((source, at) => this.source(source, at));
    this.element = make("main", { class: "cited" }, left, card("Sources", ...sources));
  }

  show() {
    byId("view").hidden = true;
    byId("view").before(this.element);
    byId("model-name").textContent = this.data.model;
    ["link", "save-svg", "save-png"].forEach((id) => {
      byId(id).hidden = true;
    });
  }

  // Its colours are those of the style alone.
  redraw() {}

  sentence({ text, flag, citations }) {
    const bare = text.trimEnd();
    const start = text.length - text.trimStart().length;
    const own = make("span", { class: flag ? "cited-none" : "" }, bare.slice(start));
    const marks = citations.map(({ number }) =>
      this.keep(number, make("button", { type: "button", class: "cited-mark" }, String(number))),
    );
    marks.forEach((mark, at) => {
      mark.addEventListener("click", () => this.choose(citations[at].number));
      mark.setAttribute("aria-label", `Citation ${citations[at].number}`);
    });
    const none = flag ? [make("span", { class: "cited-flag" }, flag)] : [];
    return [text.slice(0, start), own, "\u00a0", ...marks, ...none, text.slice(bare.length)];
  }

  about({ number, about }) {
    const item = make("li", { value: number }, about);
    item.addEventListener("click", () => this.choose(number));
    return this.keep(number, item);
  }

  // A source's text; where it is quoted, passages that overlap are cut at each other's ends.
  source({ name, text }, at) {
    const quotes = this.abouts.flatMap(({ number, quotes }) =>
      quotes.filter(([of]) => of === at).map(([, start, end]) => ({ number, start, end })),
    );
    const cuts = [0, text.length, ...quotes.flatMap(({ start, end }) => [start, end])];
    const ends = [...new Set(cuts)].sort((a, b) => a - b);
    const pieces = ends.slice(1).map((end, i) => {
      const numbers = quotes
        .filter((each) => each.start <= ends[i] && end <= each.end)
        .map(({ number }) => number);
      const piece = text.slice(ends[i], end);
      if (!numbers.length) return piece;
      const mark = make("mark", { title: `Quoted by ${numbers.join(", ")}` }, piece);
      mark.addEventListener("click", () => this.choose(numbers[0]));
      numbers.forEach((number) => this.keep(number, mark));
      return mark;
    });
    const used = this.abouts.filter(({ sources }) => sources.includes(at));
    const by = used.length
      ? `citation${used.length > 1 ? "s" : ""} ${used.map(({ number }) => number).join(", ")}`
      : "not cited";
    const title = make("h3", {}, name, make("span", { class: "quiet" }, by));
    const shown = make("p", { class: "prompt-text", dir: "auto" }, ...pieces);
    return make("section", { class: used.length ? "" : "cited-unused" }, title, shown);
  }

  keep(number, element) {
    this.marks.set(number, [...(this.marks.get(number) ?? []), element]);
    return element;
  }

  choose(number) {
    this.marks.forEach((elements) => elements.forEach((each) => each.classList.remove("chosen")));
    const elements = this.marks.get(number);
    elements.forEach((each) => each.classList.add("chosen"));
    elements.find((each) => each.tagName === "MARK")?.scrollIntoView({ block: "nearest" });
  }
}

const card = (name, ...children) =>
  make("section", { class: "card" }, make("h2", {}, name), ...children);
