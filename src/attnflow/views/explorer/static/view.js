import { unpack } from "./numbers.js";

export const GRAPH_METHODS = ["raw", "rollout", "flow"]; // others (blank-out, gradients) have no graph

// One input of the document, with what was fetched later; all numbers are the library's.
export class View {
  constructor(data) {
    this.data = data;
    this.size = data.tokens.length;
    this.depth = data.ends.length;
    this.scores = new Map();
    this.headScores = new Map();
    this.traces = new Map();
    this.blanked = new Map();
    data.scores.forEach((part) => this.addScores(part));
    data.head_scores.forEach((part) => this.addHeads(part));
    data.traces.forEach((trace) => this.addTrace(trace));
    data.blanked.forEach((entry) => this.addBlanked(entry));
    this.attention = data.edges && {
      step: unpack(data.edges.step).values,
      query: unpack(data.edges.query).values,
      key: unpack(data.edges.key).values,
      weight: unpack(data.edges.weight).values,
    };
  }

  get methods() {
    const known = new Set([...this.scores.keys()].map((name) => name.split("/")[0]));
    return [...GRAPH_METHODS.filter((method) => known.has(method)), ...[...known].filter((method) => !GRAPH_METHODS.includes(method))];
  }

  get lowestLayer() {
    return Math.min(...[...this.scores.keys()].map((name) => Number(name.split("/")[1])));
  }

  addScores({ method, layers, queries, values, words }) {
    const rows = rowsOf(values, words);
    layers.forEach((layer, l) => queries.forEach((query, q) => {
      this.scores.set(`${method}/${layer}/${query}`, rows[l * queries.length + q]);
    }));
  }

  addHeads({ method, layers, query, values, words }) {
    const rows = rowsOf(values, words);
    const heads = rows.length / layers.length;
    layers.forEach((layer, l) => {
      this.headScores.set(`${method}/${layer}/${query}`, rows.slice(l * heads, (l + 1) * heads));
    });
  }

  addTrace(trace) {
    this.traces.set(`${trace.method}/${trace.layer}/${trace.query}/${trace.key}`, trace);
  }

  addBlanked({ positions, said }) {
    this.blanked.set(positions.join(","), said);
  }

  row(method, layer, query) {
    return this.scores.get(`${method}/${layer}/${query}`);
  }

  heads(method, layer, query) {
    return this.headScores.get(`${method}/${layer}/${query}`);
  }

  trace(method, layer, query, key) {
    return this.traces.get(`${method}/${layer}/${query}/${key}`);
  }

  without(positions) {
    return positions.length ? this.blanked.get([...positions].sort((a, b) => a - b).join(",")) : this.data.said;
  }

  canAsk(query, method) {
    return Boolean(this.row(method, this.depth, query));
  }

  isSpecial(at) {
    const { words, segments } = this.data;
    if (segments && segments[at] !== "source" && segments[at] !== "patch") return true;
    return Boolean(words) && words.of[at] === null;
  }

  canBlank(at) {
    return this.data.replacement !== null && !this.isSpecial(at) && at !== this.blankedOut;
  }

  get blankedOut() {
    // A masked model's mask cannot be taken away; a language model's last token can.
    return this.data.options.correction === null ? this.data.said_at : null;
  }

  // Groups of tokens that are shown as one: words, or every token alone.
  units(asWords) {
    const { words, labels } = this.data;
    if (!asWords || !words) return labels.map((label, at) => ({ label, tokens: [at], mean: false }));
    const mean = this.data.options.correction === "uniform";
    const units = [];
    let last = null;
    words.of.forEach((word, at) => {
      if (word === null || word !== last) units.push({ label: word === null ? labels[at] : words.texts[word], tokens: [], mean });
      units.at(-1).tokens.push(at);
      last = word;
    });
    return units;
  }
}

// The rows of [a, b, key], each with its words' scores where the document has them.
function rowsOf(values, words) {
  const [tokens, merged] = [values, words].map((packed) => packed && unpack(packed));
  const cut = (array, at) => array.values.subarray(at * array.shape[2], (at + 1) * array.shape[2]);
  return Array.from({ length: tokens.shape[0] * tokens.shape[1] }, (_, at) => (
    Object.assign(cut(tokens, at), { words: merged && cut(merged, at) })
  ));
}

// A flow to a word is none of its tokens' flows, nor their sum: the library computes it. Of an
// attribution alone, a word's score is the sum over its tokens; of ratios to chance, their mean.
export const unitScores = (units, row) => {
  if (row.words && units.length === row.words.length) return Array.from(row.words);
  return units.map(({ tokens, mean }) => {
    const sum = tokens.reduce((total, at) => total + row[at], 0);
    return mean ? sum / tokens.length : sum;
  });
};

// What the deepest colour stands for: the highest score of any token but the one that asks, whose
// residual connection to itself would leave all others pale.
export function colourTop(values, own) {
  let top = 0;
  values.forEach((value, at) => { if (at !== own && value > top) top = value; });
  return top || Math.max(...values, 1e-12);
}
