import { editIn } from "./edit.js";
import { quote } from "./names.js";
import { headsOut, wordOut } from "./knockouts.js";
import { rowOf } from "./panes.js";

const NOT_BLANKABLE = "Special tokens and the predicted position cannot be blanked.";
const NO_PREDICTION = "The model predicts nothing here, so that blanking a token shows no change.";
const NOT_IN_FILE =
  "The prediction without these tokens is not in this document; attnflow serve computes it.";

// A server's model runs without edges, where it says something that can change.
export const canKnockOut = ({ said }, served) => Boolean(served && said.length);

const nameOfUnit = ({ units }, tokens) => units.find((unit) => unit.tokens === tokens).name;

// What can be done with a token. `served`: a server computes what the document lacks.
export class Actions {
  constructor(store, served, notify) {
    this.verify = null; // only with a server, as is the next
    this.explainBeside = null;
    this.runWithout = null;
    this.cards = []; // of what is knocked out, one for each pane
    this.store = store;
    this.served = served;
    this.notify = notify;
  }

  click(pane, tokens, asked = this.store.state.mode, element = null) {
    const able = modesOf(pane, this.served);
    const mode = able.includes(asked) ? asked : able[0];
    if (mode === "knockout") this.knockOut(pane, wordOut(nameOfUnit(pane, tokens), tokens));
    else if (mode === "change") this.change(pane, tokens, element);
    else if (mode === "trace") this.trace(pane, strongest(pane, tokens));
    else if (mode === "explain") this.explain(pane, tokens[0]);
    else this.toggleBlank(pane, tokens);
  }

  // Whether a click takes attention out of the model.
  get knocksOut() {
    return this.store.state.mode === "knockout" && this.runWithout !== null;
  }

  knockOut(pane, item) {
    if (!item)
      this.notify("This line is a token’s own residual stream, which is no attention and stays.");
    else this.cards[pane.at]?.toggle(item);
  }

  trace(pane, key, layer) {
    this.store.setPane(pane.at, { key }, layer ? { layer } : {});
  }

  openHeads(pane, layer, head) {
    if (this.knocksOut) this.knockOut(pane, headsOut(layer, head));
    else this.store.set({ layer, columns: "heads" });
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

  // Another word in the place of this one, written where it stands.
  change(pane, tokens, element) {
    const replace = (words) => {
      const text = pane.view.textWith(tokens, words);
      if (text === undefined) this.notify("This token stands for no word of the text.");
      else this.explainBeside(text);
    };
    editIn(element, replace);
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

// What a click on a token can do: without layers no other position is explained, without edges
// nothing is traced, and a file can't explain another text.
export function modesOf({ method: { layered, traced }, view: { data } }, served) {
  return [
    ...(layered || traced ? ["trace"] : []),
    ...(layered ? ["explain"] : []),
    ...(data.blankable.length || !(layered || traced) ? ["blank"] : []),
    ...(canKnockOut(data, served) ? ["knockout"] : []),
    ...(served && data.spans ? ["change"] : []),
  ];
}

function strongest(pane, tokens) {
  const row = rowOf(pane);
  const size = (at) => (pane.method.signed ? Math.abs(row[at]) : row[at]);
  return row ? tokens.reduce((best, at) => (size(at) > size(best) ? at : best)) : tokens[0];
}
