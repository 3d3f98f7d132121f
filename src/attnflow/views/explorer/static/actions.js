import { rowOf } from "./panes.js";

const NOT_BLANKABLE = "Special tokens and the position of the answer cannot be blanked.";
const NO_PREDICTION =
  "The model makes no prediction here, so blanking a token changes nothing to see.";
const NOT_IN_FILE =
  "What the model says without these tokens is not in this file; the server computes it.";

// What can be done with a token. `served`: a server can be asked for what the document lacks.
export class Actions {
  constructor(store, served, say) {
    this.store = store;
    this.served = served;
    this.say = say;
  }

  click(pane, tokens, mode = this.store.state.mode) {
    if (mode === "trace") this.trace(pane, strongest(pane, tokens));
    else if (mode === "ask") this.ask(pane, tokens[0]);
    else this.toggleBlank(pane, tokens);
  }

  trace(pane, key, layer) {
    this.store.setPane(pane.at, { key }, layer ? { layer } : {});
  }

  ask(pane, query, layer) {
    const { view, method, at } = pane;
    if (!this.served && !view.canAsk(query, method.name)) {
      const name = `“${view.data.labels[query]}”`;
      this.say(`${name} is not in this file as a position to ask about; the server computes any.`);
      return;
    }
    this.store.setPane(at, { query }, layer ? { layer } : {});
  }

  toggleBlank({ view, blank, at }, tokens) {
    if (!tokens.every((token) => view.canBlank(token))) {
      this.say(view.data.replacement === null ? NO_PREDICTION : NOT_BLANKABLE);
      return;
    }
    const known = (positions) => this.served || Boolean(view.without(positions));
    const off = tokens.every((token) => blank.includes(token));
    const rest = blank.filter((token) => !tokens.includes(token));
    let next = off ? rest : [...rest, ...tokens].sort((a, b) => a - b);
    // A file knows what the model says without one token; without several only the model knows.
    if (!known(next)) next = off ? [] : tokens;
    if (known(next)) this.store.setPane(at, { blank: next });
    else this.say(NOT_IN_FILE);
  }
}

function strongest(pane, tokens) {
  const row = rowOf(pane);
  return row ? tokens.reduce((best, at) => (row[at] > row[best] ? at : best)) : tokens[0];
}
