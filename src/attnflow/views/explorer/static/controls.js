import { modesOf } from "./actions.js";
import { inkOn } from "./colours.js";
import { mapNote, mapTitle } from "./description.js";
import { byId, make, makeSwitch } from "./dom.js";
import { MethodPicker } from "./methods.js";
import { inSentence } from "./names.js";

const MODES = [
  { value: "trace", label: "trace it", title: "Show how its score came about" },
  { value: "explain", label: "explain it", title: "Explain this position instead" },
  { value: "blank", label: "blank it out", title: "See the prediction without it" },
  { value: "knockout", label: "knock it out", title: "See the prediction without its attention" },
  { value: "change", label: "change it", title: "Write another word, and compare both texts" },
];

const COLUMNS = [
  { value: "layers", label: "Layers" },
  { value: "heads", label: "Heads" },
  { value: "all", label: "All heads" },
];

// Everything that changes the state, except the tokens and the drawings.
export class Controls {
  constructor(store, served) {
    this.store = store;
    this.served = served;
    this.methods = [];
    this.picker = new MethodPicker((method) => store.set({ method }));
    const on = (id, event, change) =>
      byId(id).addEventListener(event, ({ target }) => store.set(change(target)));
    on("layer", "input", ({ value }) => ({ layer: Number(value) }));
    on("carried", "input", ({ value }) => ({ carried: Number(value) }));
    on("behind", "change", ({ checked }) => ({ behind: checked }));
    on("words", "change", ({ checked }) => ({ words: checked }));
    on("ranked", "change", ({ checked }) => ({ ranked: checked }));
    on("compare", "change", ({ value }) => ({ compare: value }));
    document.addEventListener("keydown", (event) => this.shortcut(event));
    this.showMode = makeSwitch(byId("modes"), "mode", MODES, (mode) => store.set({ mode }));
  }

  // The controls for these inputs: their methods, layers and heads.
  build([first, second]) {
    this.depth = first.depth;
    this.methods = first.data.methods.map((method) => ({
      ...method,
      disabled: !this.served && !first.hasScores(method.name),
    }));
    this.picker.build(this.methods);
    showHelp(this.methods);
    const choose = (value) => this.store.set({ columns: value });
    this.showColumns = makeSwitch(byId("columns"), "columns", COLUMNS, choose);
    byId("columns").hidden = !first.data.heads;
    byId("layer").min = this.served ? 1 : first.lowestLayer;
    byId("layer").max = first.depth;
    byId("words-field").hidden = !first.data.words?.groups.some((group) => group.length > 1);
    const enabled = this.methods.filter(({ disabled }) => !disabled);
    const others = enabled.map(({ name, label }) => [name, `with ${label}`]);
    const inputs = second || this.served ? [["text", "two inputs"]] : [];
    const compare = [["", "nothing"], ...others, ...inputs];
    byId("compare").replaceChildren(
      ...compare.map(([value, label]) => make("option", { value }, label)),
    );
  }

  show(state, panes) {
    const [pane] = panes;
    this.picker.show(pane.method);
    this.showColumns(state.columns);
    this.showModes(state.mode, panes);
    byId("layer").value = pane.layer;
    byId("layer-shown").textContent = `${pane.layer} of ${pane.view.depth}`;
    byId("carried").value = state.carried;
    byId("carried-shown").textContent = `${state.carried} %`;
    byId("behind").checked = state.behind;
    byId("served-keys").hidden = !this.served;
    byId("words").checked = pane.words;
    byId("ranked").checked = state.ranked;
    byId("compare").value = state.compare;
    const { model, head, rule } = pane.view.data;
    const named = pane.view.request?.model ?? model; // two models of a server may have one name
    const { edges } = pane.method;
    const made = edges === rule.name ? inSentence(rule.title) : edges;
    const about = [named, head, made && `edges: ${made}`];
    byId("model-name").textContent = about.filter(Boolean).join(" · ");
    byId("table-title").textContent = panes.length > 1 ? "Difference of shares" : "Scores";
    const layered = panes.some(({ method }) => method.layered);
    byId("layer").parentElement.hidden = !layered;
    const traced = panes.some(({ method }) => method.traced);
    byId("carried").parentElement.hidden = !traced;
    byId("behind-field").hidden = !traced || !(pane.view.attention || pane.view.amounts);
    byId("behind-name").textContent = pane.method.layered ? "All attention" : "Whole answer";
    byId("map-card").hidden = !layered;
    byId("map-title").textContent = mapTitle(pane, state.columns);
    byId("map-note").textContent = mapNote(panes, state.columns, this.served);
    const { style } = document.documentElement;
    style.setProperty("--accent", `var(--slot-${pane.method.slot})`);
    style.setProperty("--accent-ink", inkOn(pane.method));
  }

  showModes(mode, panes) {
    const able = panes.flatMap((pane) => modesOf(pane, this.served));
    byId("modes")
      .querySelectorAll("label")
      .forEach((label) => {
        label.hidden = !able.includes(label.querySelector("input").value);
      });
    this.showMode(able.includes(mode) ? mode : able[0]);
  }

  shortcut(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.methods.length) return;
    if (/^(TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.type === "text") return;
    const method = /^[1-9]$/.test(event.key) ? this.methods[Number(event.key) - 1] : null;
    if (method && !method.disabled) this.store.set({ method: method.name });
    const move = { "[": -1, "]": 1 }[event.key];
    const layer = this.store.state.layer + (move ?? 0);
    if (move) this.store.set({ layer: Math.min(this.depth, Math.max(1, layer)) });
    if (event.key === "Escape") {
      document.querySelectorAll(".menu").forEach((menu) => Object.assign(menu, { open: false }));
    }
  }
}

// What the methods' scores are, and which key picks which.
function showHelp(methods) {
  const first = methods.filter((method) => method.first && method.summary);
  const lines = first.flatMap(({ label, summary }) => [make("b", {}, label), ` ${summary} `]);
  byId("methods-help").replaceChildren(...lines);
  const keys = methods
    .slice(0, 9)
    .flatMap(({ label }, i) => [make("kbd", {}, `${i + 1}`), ` ${label} `]);
  byId("method-keys").replaceChildren(...keys);
}
