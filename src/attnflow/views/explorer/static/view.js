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

  addBlanked({ positions, ...found }) {
    this.blanked.set(positions.join(","), found);
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
    return this.found(positions)?.said;
  }

  // By how much the answer's probability changes without these tokens; undefined if not known.
  changeWithout(positions) {
    return this.found(positions)?.change ?? undefined;
  }

  // All tokens of the words that these are pieces of.
  wordsOf(tokens) {
    const groups = this.data.words?.groups ?? [];
    const whole = groups.filter((group) => group.some((at) => tokens.includes(at))).flat();
    return whole.length ? whole : tokens;
  }

  // Whether the model reads some word in pieces.
  get hasPieces() {
    return Boolean(this.data.words?.groups.some((group) => group.length > 1));
  }

  found(positions) {
    return this.blanked.get([...positions].sort((a, b) => a - b).join(","));
  }

  // What scores and changes are about, in words.
  get answer() {
    const { target, contrast } = this.data.options;
    const name = target ?? this.data.said[0]?.label ?? "what is explained";
    return contrast ? `${name} rather than ${contrast}` : name;
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

  // Whether most words of the input are split, so that its words are easier to read.
  get isSplit() {
    const { words, ordinary } = this.data;
    const groups = words?.groups.filter((group) => ordinary.includes(group[0])) ?? [];
    return groups.filter((group) => group.length > 1).length > groups.length / 2;
  }

  // Whether tokens stand in the text without white space before them.
  isJoined([at]) {
    const { spans, labels } = this.data;
    if (!spans) return labels[at].startsWith("##");
    const [start, end] = spans[at];
    const before = Math.max(0, ...spans.slice(0, at).map((span) => span[1]));
    return start < end && at > 0 && before > 0 && !/\s/.test(this.cut(before, start + 1));
  }

  // A piece of the text; as in Python, positions count characters.
  cut(start, end) {
    this.characters ??= Array.from(this.data.text);
    return this.characters.slice(start, end).join("");
  }

  // The text with other words in place of these tokens; undefined where it is not known where they
  // stand.
  textWith(tokens, words) {
    const { spans } = this.data;
    const places = (spans ? tokens.map((at) => spans[at]) : []).filter(
      ([start, end]) => start < end,
    );
    if (!places.length) return undefined;
    const [start, end] = [places[0][0], places.at(-1)[1]];
    const [blank] = /^\s*/.exec(this.cut(start, end));
    return this.cut(0, start) + blank + words + this.cut(end);
  }

  // The units of the page: words, or single tokens.
  units(asWords) {
    if (!this.unitLists.has(asWords)) {
      const { words, labels } = this.data;
      const shown = asWords ? words.labels : labels;
      const tokens = asWords ? words.groups : labels.map((_, at) => [at]);
      const firsts = tokens.map(([first]) => first);
      const names = numbered(shown, firsts);
      const unit = (label, i) => ({ label, name: names[i], tokens: tokens[i] });
      const units = shown.map((label, i) => ({
        ...unit(label, i),
        joined: this.isJoined(tokens[i]),
      }));
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
