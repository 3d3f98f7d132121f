import { rampOf } from "./colours.js";
import { make } from "./dom.js";
import { quote } from "./names.js";
import { unitScores } from "./panes.js";

// All heads at a glance: a thumbnail for each layer and head, tokens from top to bottom as in the
// heat map. Each opens the heads of its layer.
export class Glance {
  constructor(host, open) {
    this.host = host;
    this.open = open;
  }

  show(pane) {
    const rows = pane.view.layers.map((layer) => ({ layer, heads: headsOf(pane, layer) }));
    const most = Math.max(...rows.map(({ heads }) => heads.length));
    this.host.hidden = !most;
    this.host.style.setProperty("--heads", most);
    const names = Array.from({ length: most }, (_, head) => make("span", {}, `H${head}`));
    const lines = rows.flatMap(({ layer, heads }) => [
      make("span", { class: "row-name" }, `L${layer}`),
      ...heads.map((values, head) => this.thumbnail(pane, layer, head, values)),
      ...Array.from({ length: most - heads.length }, () => make("span", { class: "none" })),
    ]);
    this.host.replaceChildren(make("span"), ...names, ...lines);
  }

  thumbnail(pane, layer, head, values) {
    const canvas = make("canvas", { width: 1, height: values.length });
    const context = canvas.getContext("2d");
    const ramp = rampOf(pane.method);
    values.forEach((value, at) => {
      context.fillStyle = ramp(value / pane.top).fill;
      context.fillRect(0, at, 1, 1);
    });
    const best = values.indexOf(Math.max(...values));
    const label = `Layer ${layer}, head ${head}: most to ${quote(pane.units[best].name)}`;
    const properties = { type: "button", class: "thumb", title: label, "aria-label": label };
    const chosen = layer === pane.layer ? " chosen" : "";
    const onclick = () => this.open(pane, layer, head);
    return make("button", { ...properties, class: `thumb${chosen}`, onclick }, canvas);
  }
}

const headsOf = (pane, layer) =>
  (pane.view.heads(pane.method.name, layer, pane.query) ?? []).map((row) => unitScores(pane, row));
