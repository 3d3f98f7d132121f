import { byId, make } from "./dom.js";
import { Options } from "./options.js";

const TEXTS = ["text", "pair", "answer", "other", "target", "contrast", "length"];

// The form of a server's page: model, edges and inputs, and options as the server describes them.
export class Form {
  constructor({ models, rules, options, example }, link) {
    this.models = models;
    this.rules = rules;
    fillSelect("model", models);
    fillSelect("edges", rules);
    byId("text").value = example;
    this.options = new Options(options);
    this.fill(link);
    byId("input-form").hidden = false;
  }

  // What a link asks for; without a text, the one that is there stays.
  fill(link) {
    choose("model", this.models, link.model);
    choose("edges", this.rules, link.edges);
    TEXTS.forEach((name) => {
      byId(name).value = link[name] ?? (name === "text" ? byId(name).value : "");
    });
    this.options.fill(link);
  }

  get values() {
    const value = (name) => byId(name).value;
    const texts = Object.fromEntries(TEXTS.map((name) => [name, value(name)]));
    return { model: value("model"), edges: value("edges"), ...texts, ...this.options.texts };
  }

  // What the chosen model can do: reads_text (else images), reads_pairs, has_source, writes.
  get model() {
    return this.models.find(({ name }) => name === byId("model").value) ?? {};
  }

  get isEmpty() {
    return this.model.reads_text && !byId("text").value.trim();
  }

  onSubmit(submit) {
    byId("model").addEventListener("change", () => {
      if (this.model.reads_text) submit();
    });
    byId("edges").addEventListener("change", () => submit());
    this.options.onChange(submit);
    byId("image").addEventListener("change", () => submit());
    byId("input-form").addEventListener("submit", (event) => {
      event.preventDefault();
      submit();
    });
    TEXTS.forEach((id) =>
      byId(id).addEventListener("keydown", (event) => {
        if (event.key !== "Enter" || event.shiftKey) return;
        event.preventDefault();
        submit();
      }),
    );
  }

  showFields(comparesTexts) {
    const { reads_text: readsText, reads_pairs: readsPairs, writes } = this.model;
    const targeted = readsText && !this.model.has_source;
    byId("text-field").hidden = !readsText;
    byId("image-field").hidden = readsText;
    byId("answer-field").hidden = !writes;
    byId("length-field").hidden = !writes;
    byId("pair-field").hidden = !readsPairs;
    byId("target-field").hidden = !targeted;
    byId("contrast-field").hidden = !targeted;
    byId("other-field").hidden = !comparesTexts || !readsText;
    byId("model-field").hidden = this.models.length < 2;
    byId("edges-field").hidden = this.rules.length < 2;
  }

  // The inputs to explain: one, or two to compare.
  async requests(comparesTexts) {
    const { model, edges, text, pair, answer, other, target, contrast } = this.values;
    const can = this.model;
    const options = this.options.given;
    if (!can.reads_text) return [{ model, edges, ...options, image: await readImage() }];
    const second = can.reads_pairs ? pair : "";
    const more = can.has_source
      ? { answer, pair: second }
      : { ...named({ target, contrast }), pair: second };
    const given = Object.entries(more).filter(([, value]) => value !== "");
    const first = { model, edges, text, ...options, ...Object.fromEntries(given) };
    return comparesTexts && other.trim() ? [first, { ...first, text: other }] : [first];
  }
}

// The request for a whole answer, where one is asked for: its paragraphs are the prompt's parts.
export function answerRequest(form) {
  const { model, edges, text, answer, length } = form.values;
  const given = answer.trim() ? { answer } : {};
  const count = Number(length);
  const { writes, has_source: hasSource } = form.model;
  if (!writes || !(count > 0 || (!hasSource && answer.trim()))) return null;
  const size = count > 0 ? { generate: Math.min(128, Math.round(count)) } : {};
  const parts = paragraphs(text);
  const options = form.options?.givenTo("answers");
  return { model, edges, text, ...options, ...given, ...size, ...(parts ? { parts } : {}) };
}

// Where paragraphs start and end, in characters, by their first words; nothing for a single one.
function paragraphs(text) {
  const found = [...text.matchAll(/\S(?:[^\n]|\n(?!\s*\n))*/g)];
  if (found.length < 2) return null;
  const codes = (piece) => Array.from(piece).length; // as Python counts
  return Object.fromEntries(
    found.map(({ 0: piece, index }, at) => {
      const start = codes(text.slice(0, index));
      const name = `${at + 1}: ${piece.trim().split(/\s+/).slice(0, 4).join(" ")}`;
      return [name, [start, start + codes(piece.trimEnd())]];
    }),
  );
}

// Labels and tokens: a number where it is one, as in the library; a token may begin with a blank.
export const named = (fields) =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => {
      const text = value.trimEnd();
      return [name, /^\s*\d+$/.test(text) ? Number(text) : text];
    }),
  );

// Choices by name, shown by title where they have one.
function fillSelect(id, choices) {
  const options = choices.map(({ name, title }) => make("option", { value: name }, title ?? name));
  byId(id).replaceChildren(...options);
}

// The choice that a link names, or else the first.
function choose(id, choices, name) {
  byId(id).value = (choices.find((choice) => choice.name === name) ?? choices[0]).name;
}

function readImage() {
  const [file] = byId("image").files;
  return new Promise((resolve, reject) => {
    if (!file) {
      reject(new Error("Choose an image first."));
      return;
    }
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
