import { byId, make } from "./dom.js";

const TEXTS = ["text", "answer", "other", "target", "contrast"];

// The form of a server's page: model, edges and inputs.
export class Form {
  constructor({ models, rules, example }, link) {
    this.models = models;
    this.rules = rules;
    fillSelect("model", models, link.model);
    fillSelect("edges", rules, link.edges);
    byId("text").value = link.text ?? example;
    TEXTS.slice(1).forEach((name) => {
      byId(name).value = link[name] ?? "";
    });
    byId("input-form").hidden = false;
  }

  get values() {
    const value = (name) => byId(name).value;
    const texts = Object.fromEntries(TEXTS.map((name) => [name, value(name)]));
    return { model: value("model"), edges: value("edges"), ...texts };
  }

  // "text", "pair" or "image".
  get kind() {
    return this.models.find(({ name }) => name === byId("model").value)?.kind;
  }

  get isEmpty() {
    return this.kind !== "image" && !byId("text").value.trim();
  }

  onSubmit(submit) {
    byId("model").addEventListener("change", () => {
      if (this.kind !== "image") submit();
    });
    byId("edges").addEventListener("change", () => submit());
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
    const { kind } = this;
    byId("text-field").hidden = kind === "image";
    byId("image-field").hidden = kind !== "image";
    byId("answer-field").hidden = kind !== "pair";
    byId("target-field").hidden = kind !== "text";
    byId("contrast-field").hidden = kind !== "text";
    byId("other-field").hidden = !comparesTexts || kind === "image";
    byId("model-field").hidden = this.models.length < 2;
    byId("edges-field").hidden = this.rules.length < 2;
  }

  // The inputs to explain: one, or two to compare.
  async requests(comparesTexts) {
    const { model, edges, text, answer, other, target, contrast } = this.values;
    if (this.kind === "image") return [{ model, edges, image: await readImage() }];
    const more = this.kind === "pair" ? { answer } : named({ target, contrast });
    const given = Object.entries(more).filter(([, value]) => value !== "");
    const first = { model, edges, text, ...Object.fromEntries(given) };
    return comparesTexts && other.trim() ? [first, { ...first, text: other }] : [first];
  }
}

// Labels and tokens: a number where it is one, as in the library.
const named = (fields) =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => {
      const text = value.trim();
      return [name, /^\d+$/.test(text) ? Number(text) : text];
    }),
  );

// Options by name, shown by title where they have one; the one that a link names is chosen.
function fillSelect(id, choices, chosen) {
  const options = choices.map(({ name, title }) => make("option", { value: name }, title ?? name));
  byId(id).replaceChildren(...options);
  if (choices.some(({ name }) => name === chosen)) byId(id).value = chosen;
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
