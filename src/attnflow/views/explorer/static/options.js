import { byId, make } from "./dom.js";

// Fields for the options that a server describes: what is declared there is all that is known here.
export class Options {
  constructor(described) {
    this.fields = described.map((option) => ({ option, input: makeField(option) }));
    const labels = this.fields.map(({ option: { name, help, kind }, input }) => {
      const words = make("span", {}, make("b", {}, nameOf(name)), make("small", {}, help));
      return make("label", { class: kind }, input, words);
    });
    byId("options")
      .querySelector("div")
      .replaceChildren(...labels);
    byId("options").hidden = !labels.length;
  }

  // The values that differ from the defaults, as requests have them.
  get given() {
    return this.givenTo("inputs");
  }

  givenTo(kind) {
    const able = this.fields.filter(({ option }) => kind === "inputs" || option[kind]);
    const values = able.map(({ option, input }) => [option, valueOf(option, input)]);
    const given = values.filter(([option, value]) => value !== option.default);
    return Object.fromEntries(given.map(([{ name }, value]) => [name, value]));
  }

  // The same for links.
  get texts() {
    return Object.fromEntries(
      Object.entries(this.given).map(([name, value]) => [name, `${value}`]),
    );
  }

  fill(link) {
    this.fields.forEach(({ option, input }) => {
      const text = link[option.name] ?? `${option.default ?? ""}`;
      if (option.kind === "flag") input.checked = text === "true";
      else input.value = text;
    });
  }

  onChange(changed) {
    this.fields.forEach(({ input }) => input.addEventListener("change", () => changed()));
  }
}

const TYPES = { flag: "checkbox", number: "number", text: "text" };

const makeField = ({ name, kind }) =>
  make("input", {
    type: TYPES[kind],
    id: `option-${name}`,
    ...(kind === "number" && { step: "any" }),
  });

const nameOf = (name) => name[0].toUpperCase() + name.slice(1).replace(/_/g, " ");

function valueOf({ kind, default: usual }, input) {
  if (kind === "flag") return input.checked;
  if (input.value === "") return usual;
  return kind === "number" ? Number(input.value) : input.value;
}
