import { make } from "./dom.js";

// What a method found, in a sentence, and what a reader must know of it; empty for a layer or a
// position that the document says nothing about.
export class FindingText {
  constructor() {
    this.sentence = make("p", { class: "finding" });
    this.notes = make("div", { class: "notes" });
    this.element = make("div", { class: "found" }, this.sentence, this.notes);
  }

  show({ view, method, layer, query, shared }, more) {
    const { findings = [], agreement, notes = [] } = view.data;
    const found = findings.find(
      (each) => each.method === method.name && each.layer === layer && each.query === query,
    );
    this.sentence.replaceChildren(...(found?.parts ?? []).map(makePart));
    this.sentence.hidden = !found;
    const other = found?.alternative && view.method(found.alternative);
    const apart = other ? [`The method ${other.label} tells them apart.`] : [];
    const agree = agreement && !shared ? [capital(agreement)] : [];
    const lines = found ? [...found.notes, ...apart, ...agree] : [];
    const all = [...lines, ...more, ...(shared ? [] : notes)];
    this.notes.replaceChildren(...all.map((text) => make("p", { class: "note" }, text)));
  }
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

function makePart({ text, role }) {
  if (!role) return text;
  const quoted = role === "said" ? text : `“${text}”`;
  return make(role === "said" ? "strong" : "b", { class: `part in-${role}`, dir: "auto" }, quoted);
}
