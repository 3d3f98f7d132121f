import { make } from "./dom.js";

// What a method found, in a sentence, and what a reader must know of it; empty for a layer or a
// position that the document says nothing about.
export class FindingText {
  constructor() {
    this.sentence = make("p", { class: "finding" });
    this.evidence = make("p", { class: "evidence" });
    this.warnings = make("div", { class: "notes" });
    this.notes = make("div", { class: "notes" });
    this.element = make("div", { class: "found" }, this.sentence, this.evidence, this.warnings);
    const name = make("summary", {}, "More on what was found");
    this.more = make("details", { class: "about note" }, name, this.notes);
  }

  show({ view, method, layer, query, shared }) {
    const { agreement, notes = [] } = view.data;
    const here = view.findings.filter((each) => each.layer === layer && each.query === query);
    const by = (name) => here.find((each) => each.method === name);
    // Of a long text, a slow method's scores come later, and a quick one speaks for it.
    const found = by(method.name) ?? by(method.tie_breaker);
    const speaks = found && view.method(found.method);
    const quick = speaks && speaks !== method ? [`As ${speaks.label} sees it.`] : [];
    this.sentence.replaceChildren(...(found?.parts ?? []).map(makePart));
    this.sentence.hidden = !found;
    const other = found?.alternative && view.method(found.alternative);
    const apart = other ? [`The method ${other.label} tells them apart.`] : [];
    const first = layer === view.data.layer && query === view.data.query;
    const agree = agreement && first && !shared ? [agreement] : [];
    this.evidence.textContent = found?.evidence ?? "";
    this.evidence.hidden = !found?.evidence;
    const lines = found ? [...quick, ...found.notes, ...apart, ...agree] : [];
    this.notes.replaceChildren(...lines.map(makeNote));
    this.more.hidden = !lines.length;
    this.warnings.replaceChildren(...(shared ? [] : notes).map(makeNote));
  }
}

const makeNote = (text) => make("p", { class: "note" }, text);

function makePart({ text, role }) {
  if (!role) return text;
  const quoted = role === "said" ? text : `“${text}”`;
  return make(role === "said" ? "strong" : "b", { class: `part in-${role}` }, quoted);
}
