import { make } from "./dom.js";
import { percent } from "./numbers.js";

const HINT =
  "With “knock it out”, click edges, words or layers in the graph, and heads in the heat map: " +
  "the model runs again without that attention.";

// Attention that is taken out of the model, and what it says then: a set that grows with every
// click, and those that were kept to compare with.
export class KnockoutCard {
  constructor(actions) {
    this.actions = actions;
    this.kept = [];
    this.items = make("ul", { class: "chips", "aria-label": "What is knocked out" });
    this.said = make("p", { class: "verified", role: "status" });
    this.layer = make("select", { "aria-label": "Layer" });
    this.head = make("select", { "aria-label": "Head" });
    const button = (text, onclick) => make("button", { type: "button", onclick }, text);
    this.keep = button("Keep to compare", () => this.pin());
    this.clear = button("Clear", () => this.change([]));
    const add = button("Add layer or head", () => this.addChosen());
    const choice = make("div", { class: "row" }, this.layer, this.head, add);
    this.list = make("ul", { class: "kept", "aria-label": "Kept results" });
    const caption = make("figcaption", {}, make("h2", {}, "Knock out"));
    const buttons = make("div", { class: "row" }, this.keep, this.clear);
    const hint = make("p", { class: "note" }, HINT);
    const parts = [caption, hint, choice, this.items, this.said, buttons, this.list];
    this.element = make("figure", { class: "card knockout-card" }, ...parts);
  }

  show(pane, isAble) {
    this.element.hidden = !isAble;
    if (this.view !== pane.view) this.start(pane);
    this.pane = pane;
  }

  start(pane) {
    const { layers, data } = pane.view;
    this.view = pane.view;
    this.set = [];
    this.kept = [];
    const option = (value, text) => make("option", { value }, text);
    const heads = Array.from({ length: data.heads }, (_, head) => option(head, `Head ${head}`));
    this.layer.replaceChildren(...layers.map((layer) => option(layer, `Layer ${layer}`)));
    this.head.replaceChildren(option("", "All heads"), ...heads);
    this.head.hidden = !heads.length;
    this.draw(null);
  }

  addChosen() {
    const [layer, head] = [this.layer, this.head].map(({ value }) => value);
    const item = headsOut(Number(layer), head === "" ? null : Number(head));
    if (!this.set.some(({ name }) => name === item.name)) this.change([...this.set, item]);
  }

  // Put something in, or take it out again.
  toggle(item) {
    const others = this.set.filter(({ name }) => name !== item.name);
    this.change(others.length < this.set.length ? others : [...this.set, item]);
  }

  async change(set) {
    this.set = set;
    this.draw(null);
    if (!set.length) return;
    this.said.textContent = "Running the model without it …";
    const blocks = set.flatMap(({ blocks: each }) => each);
    const found = await this.actions.runWithout(this.pane, blocks);
    if (this.set === set) this.draw(found);
  }

  draw(found) {
    const active = document.activeElement;
    const within = this.element.contains(active);
    this.found = found;
    this.said.textContent = found?.sentence ?? "";
    this.keep.hidden = !found;
    this.clear.hidden = !this.set.length;
    this.items.replaceChildren(
      ...this.set.map((item) => {
        const onclick = () => this.toggle(item);
        const title = `Leave ${item.name} in the model again`;
        const button = make("button", { type: "button", title, onclick }, `${item.name} ×`);
        button.setAttribute("aria-label", title);
        return make("li", {}, button);
      }),
    );
    this.list.replaceChildren(...this.kept.map(makeKept));
    // What was pressed may be gone: the keyboard stays in the card.
    if (within && !active.offsetParent) this.layer.focus();
  }

  pin() {
    const name = this.set.map((item) => item.name).join(", ");
    this.kept = [...this.kept, { name, ...this.found }];
    this.change([]);
  }
}

function makeKept({ name, removed, target, before, after, random }) {
  const mean = random.reduce((sum, share) => sum + share, 0) / random.length;
  const change = `${target} ${percent(before)} → ${percent(after)}`;
  const other = random.length
    ? `; ${removed.toLocaleString("en")} random edges: ${percent(mean)}`
    : "";
  return make("li", {}, make("b", {}, name), ` ${change}${other}`);
}

export const headsOut = (layer, head) => ({
  name: head === null ? `layer ${layer}` : `layer ${layer}, head ${head}`,
  blocks: [{ layers: [layer], ...(head === null ? {} : { heads: [head] }) }],
});

// A word that no other may read; or what is read of it at one layer, or by one head.
export const wordOut = (name, tokens, layer, head) => ({
  name: [name, layer && `layer ${layer}`, head !== undefined && `head ${head}`]
    .filter(Boolean)
    .join(", "),
  blocks: [
    { keys: tokens, ...(layer && { layers: [layer] }), ...(head >= 0 && { heads: [head] }) },
  ],
});

// Edges of the graph; that a token stays in place is no attention.
export function edgesOut({ view }, edges) {
  const layerOf = (step) => view.data.ends.findIndex((end) => step <= end) + 1;
  const moving = edges.filter(({ query, key }) => query !== key);
  if (!moving.length) return null;
  const name = ({ step, query, key }) =>
    `${view.names[key]} → ${view.names[query]}, layer ${layerOf(step)}`;
  const more = moving.length > 1 ? ` and ${moving.length - 1} more` : "";
  const block = ({ step, query, key }) => ({
    layers: [layerOf(step)],
    queries: [query],
    keys: [key],
  });
  return { name: name(moving[0]) + more, blocks: moving.map(block) };
}
