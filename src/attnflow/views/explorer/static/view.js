import { numbered } from "./names.js";
import { unpack } from "./numbers.js";

// One input of the document, with what was fetched later.
export class View {
  constructor(data) {
    this.data = data;
    this.names = numbered(data.labels);
    this.size = data.tokens.length;
    this.depth = data.ends.length;
    this.layers = data.ends.map((_, i) => i + 1);
    this.scores = new Map();
    this.headScores = new Map();
    this.traces = new Map();
    this.blanked = new Map();
    this.unitLists = new Map();
    this.findings = [...(data.findings ?? [])];
    data.scores.forEach((part) => this.addScores(part));
    data.head_scores.forEach((part) => this.addHeads(part));
    data.traces.forEach((trace) => this.addTrace(trace));
    data.blanked.forEach((entry) => this.addBlanked(entry));
    this.attention = edgesOf(data.edges);
    this.amounts = edgesOf(data.amounts);
  }

  method(name) {
    return this.data.methods.find((method) => method.name === name);
  }

  hasScores(name) {
    return [...this.scores.keys()].some((key) => key.startsWith(`${name}/`));
  }

  get lowestLayer() {
    return Math.min(...[...this.scores.keys()].map((key) => Number(key.split("/").at(-2))));
  }

  addScores({ method, layers, queries, values, words, findings = [] }) {
    this.findings.push(...findings); // what the document says of itself comes first
    const rows = rowsOf(values, words);
    layers.forEach((layer, l) =>
      queries.forEach((query, q) => {
        this.scores.set(`${method}/${layer}/${query}`, rows[l * queries.length + q]);
      }),
    );
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

  // The prediction without these tokens; undefined if it is not known.
  without(positions) {
    if (!positions.length) return this.data.said;
    return this.blanked.get([...positions].sort((a, b) => a - b).join(","));
  }

  canExplain(query, method) {
    return Boolean(this.row(method, this.depth, query));
  }

  canBlank(at) {
    return this.data.blankable.includes(at);
  }

  // A token has no routes where the answer is read at it: it keeps what it has.
  hasRoutes(method, key) {
    const fromAnswer = method.traced && !method.layered;
    return method.reaches_input && !(fromAnswer && this.data.sources.includes(key));
  }

  // The units of the page: words, or single tokens.
  units(asWords) {
    if (!this.unitLists.has(asWords)) {
      const { words, labels } = this.data;
      const shown = asWords ? words.labels : labels;
      const names = numbered(shown);
      const tokens = asWords ? words.groups : labels.map((_, at) => [at]);
      const units = shown.map((label, i) => ({ label, name: names[i], tokens: tokens[i] }));
      this.unitLists.set(asWords, units);
    }
    return this.unitLists.get(asWords);
  }
}

const edgesOf = (edges) =>
  edges &&
  Object.fromEntries(
    ["step", "query", "key", "weight"].map((name) => [name, unpack(edges[name]).values]),
  );

// The rows of [a, b, key], each with the scores of words if the document has words.
function rowsOf(values, words) {
  const [tokens, merged] = [values, words].map((packed) => packed && unpack(packed));
  const cut = ({ values: all, shape }, at) => all.subarray(at * shape[2], (at + 1) * shape[2]);
  return Array.from({ length: tokens.shape[0] * tokens.shape[1] }, (_, at) =>
    Object.assign(cut(tokens, at), { words: merged && cut(merged, at) }),
  );
}
