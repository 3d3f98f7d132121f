import { quote } from "./names.js";
import { rowOf } from "./panes.js";

const NOT_BLANKABLE = "Special tokens and the predicted position cannot be blanked.";
const NO_PREDICTION = "The model predicts nothing here, so that blanking a token shows no change.";
const NOT_IN_FILE =
  "The prediction without these tokens is not in this document; attnflow serve computes it.";

// What can be done with a token. `served`: a server computes what the document lacks.
export class Actions {
  constructor(store, served, notify) {
    this.verify = null; // only with a server
    this.store = store;
    this.served = served;
    this.notify = notify;
  }

  click(pane, tokens, asked = this.store.state.mode) {
    const able = modesOf(pane.method);
    const mode = able.includes(asked) ? asked : able[0];
    if (mode === "trace") this.trace(pane, strongest(pane, tokens));
    else if (mode === "explain") this.explain(pane, tokens[0]);
    else this.toggleBlank(pane, tokens);
  }

  trace(pane, key, layer) {
    this.store.setPane(pane.at, { key }, layer ? { layer } : {});
  }

  openHeads(layer) {
    this.store.set({ layer, columns: "heads" });
  }

  explain(pane, query, layer) {
    const { view, method, at } = pane;
    if (!method.layered) {
      this.notify(`${method.title} explains the output; choose another method for a position.`);
      return;
    }
    if (!this.served && !view.canExplain(query, method.name)) {
      const name = quote(view.names[query]);
      this.notify(`Scores from ${name} are not in this document; attnflow serve computes them.`);
      return;
    }
    this.store.setPane(at, { query }, layer ? { layer } : {});
  }

  toggleBlank({ view, blank, at }, tokens) {
    if (!tokens.every((token) => view.canBlank(token))) {
      this.notify(view.data.replacement === null ? NO_PREDICTION : NOT_BLANKABLE);
      return;
    }
    const known = (positions) => this.served || Boolean(view.without(positions));
    const off = tokens.every((token) => blank.includes(token));
    const rest = blank.filter((token) => !tokens.includes(token));
    let next = off ? rest : [...rest, ...tokens].sort((a, b) => a - b);
    // A file has the predictions without single tokens; without several, only the model knows.
    if (!known(next)) next = off ? [] : tokens;
    if (known(next)) this.store.setPane(at, { blank: next });
    else this.notify(NOT_IN_FILE);
  }
}

// What a click on a token can do: without layers no other position is explained, and without edges
// nothing is traced.
export function modesOf({ layered, traced }) {
  if (layered) return ["trace", "explain", "blank"];
  return traced ? ["trace", "blank"] : ["blank"];
}

function strongest(pane, tokens) {
  const row = rowOf(pane);
  const size = (at) => (pane.method.signed ? Math.abs(row[at]) : row[at]);
  return row ? tokens.reduce((best, at) => (size(at) > size(best) ? at : best)) : tokens[0];
}
