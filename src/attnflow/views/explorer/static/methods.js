import { byId, make, makeSwitch } from "./dom.js";

const GROUPS = [
  { title: "From the layers’ edges", has: ({ edges }) => edges },
  { title: "By running the model again", has: ({ edges }) => !edges },
];

// The methods to choose from: a switch of those that are shown first, and a menu of all others,
// each with a line on what its scores are.
export class MethodPicker {
  constructor(choose) {
    this.choose = choose;
    this.menu = byId("more-methods");
    this.summary = this.menu.querySelector("summary");
  }

  build(methods) {
    this.methods = methods;
    const first = methods.filter((method) => method.first ?? true);
    const rest = methods.filter((method) => !first.includes(method));
    const choices = first.map((method) => ({
      value: method.name,
      label: method.label,
      title: titleOf(method),
      disabled: method.disabled,
    }));
    const showFirst = makeSwitch(byId("methods"), "method", choices, this.choose);
    this.menu.hidden = !rest.length;
    const groups = GROUPS.map(({ title, has }) => [title, rest.filter(has)]);
    const parts = groups.filter(([, members]) => members.length);
    this.menu.querySelector("div").replaceChildren(...parts.map((part) => this.makeGroup(...part)));
    this.showOne = (name) => {
      showFirst(name);
      this.menu.querySelectorAll("input").forEach((input) => {
        input.checked = input.value === name;
      });
      const other = rest.find((method) => method.name === name);
      this.summary.textContent = other ? other.title : "More methods";
      this.menu.classList.toggle("chosen", Boolean(other));
    };
  }

  makeGroup(title, members) {
    const lines = members.map(({ name, title: full, summary, disabled }) => {
      const onchange = () => this.choose(name);
      const input = make("input", {
        type: "radio",
        name: "method",
        value: name,
        disabled,
        onchange,
      });
      const words = make("span", {}, make("b", {}, full), make("small", {}, summary));
      return make("label", {}, input, words);
    });
    return make("fieldset", {}, make("legend", {}, title), ...lines);
  }

  show(method) {
    this.showOne(method.name);
    byId("method-about").textContent = method.summary;
  }
}

const titleOf = ({ title, summary, disabled }) =>
  disabled ? `${title}: not in this document` : [title, summary].filter(Boolean).join(": ");
