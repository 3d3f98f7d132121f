import { percent, timesOf, unpack } from "./numbers.js";

const TOLD_WHOLE = 0.05; // probability that is told of all tokens together, as in the library

// A prompt and its answer, as the document has them: what a span of the answer came from.
export class Answered {
  constructor(data) {
    this.data = data;
    this.scores = data.scores && spread(unpack(data.scores), data.pieces);
    this.partScores = spread(unpack(data.part_scores), data.pieces);
    this.drops = data.drops && unpack(data.drops);
    this.words = data.words.map((rows) => ({ rows, text: this.textOf(rows) }));
    this.parts = data.parts;
  }

  textOf(rows) {
    return rows.map((row) => this.data.tokens[this.data.answer[row]]).join("");
  }

  // The end of the answer that was not explained, since work was interrupted.
  get unexplained() {
    const { pieces, answer } = this.data;
    return this.textOf(answer.map((_, row) => row).slice(pieces.at(-1)[1]));
  }

  // The rows of the words from one to another, in any order.
  rowsOf({ first, last }) {
    const [from, to] = [Math.min(first, last), Math.max(first, last)];
    return this.words.slice(from, to + 1).flatMap(({ rows }) => rows);
  }

  get whole() {
    return { first: 0, last: this.words.length - 1 };
  }

  isWhole({ first, last }) {
    return Math.abs(last - first) === this.words.length - 1;
  }

  // The mean of an array's rows, one number for each of its columns.
  mean(rows, array) {
    return this.sum(rows, array).map((value) => value / rows.length);
  }

  sum(rows, { shape, values }) {
    const width = shape[1];
    return Array.from({ length: width }, (_, column) =>
      rows.reduce((sum, row) => sum + values[row * width + column], 0),
    );
  }

  // What each part gave to these rows: its score, its share where nothing is below 0, and by how
  // much the log-probability falls without it.
  table(rows) {
    const means = this.mean(rows, this.partScores);
    const total = means.reduce((sum, value) => sum + value, 0);
    const { ratio } = this.data.method; // of which there is no sum
    const shared = total > 0 && !ratio && this.partScores.values.every((value) => value >= 0);
    const drops = this.drops && this.sum(rows, this.drops);
    return this.parts.map((part, at) => ({
      ...part,
      at,
      score: means[at],
      share: shared ? means[at] / total : null,
      drop: drops && part.drop !== null ? drops[part.drop] : null,
      before: this.told(rows),
      without: drops && part.drop !== null ? this.told(rows, drops[part.drop], part.drop) : "",
    }));
  }

  // The scores of all tokens for these rows, and the top of their colour scale: the highest of
  // ordinary tokens. Nothing where parts alone were scored.
  tokens(rows) {
    if (!this.scores) return null;
    const values = this.mean(rows, this.scores);
    const sizes = this.data.ordinary.map((at) => Math.abs(values[at]));
    const top = Math.max(0, ...sizes) || Math.max(0, ...values.map(Math.abs)) || 1;
    return { values, top };
  }

  // The strongest tokens, with the part that each is of; special ones are left out.
  strongest(rows, count) {
    const { values } = this.tokens(rows) ?? { values: [] };
    const partOf = new Map(
      this.parts.flatMap((part) => part.positions.map((at) => [at, part.name])),
    );
    return this.data.ordinary
      .filter((at) => values[at])
      .sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]))
      .slice(0, count)
      .map((at) => ({ at, label: this.data.labels[at], part: partOf.get(at), value: values[at] }));
  }

  // The token of a part that gave most; its first where parts alone were scored.
  strongestOf({ positions }, rows) {
    const { values } = this.tokens(rows) ?? {};
    if (!values) return positions[0];
    return positions.reduce((a, b) => (Math.abs(values[b]) > Math.abs(values[a]) ? b : a));
  }

  // Whether the answer is explained in pieces of several tokens, such as sentences.
  get inSentences() {
    return this.words.length > 1 && this.data.pieces.some(([first, last]) => last - first > 1);
  }

  // The prompt's strongest tokens that speak for the answer, in the order of `strongest`.
  fromPrompt(rows, count) {
    const written = new Set(this.data.answer);
    const names = this.strongest(rows, Infinity)
      .filter(({ at, value }) => value > 0 && !written.has(at))
      .map(({ label }) => label);
    return [...new Set(names)].slice(0, count); // a token that occurs twice is named once
  }

  // How likely these rows were, each given all before it.
  probability(rows) {
    return Math.exp(this.logProbability(rows));
  }

  // An unlikely answer is told by the geometric mean of its tokens.
  byToken(rows) {
    return rows.length > 1 && this.probability(rows) < TOLD_WHOLE;
  }

  // How likely these rows are, also after a drop of the log-probability.
  odds(rows, drop = 0) {
    return Math.exp((this.logProbability(rows) - drop) / (this.byToken(rows) ? rows.length : 1));
  }

  // How likely these rows are, also without a part; of two answers, their odds.
  told(rows, drop = 0, at = null) {
    const { contrast } = this.data;
    if (!contrast) return percent(this.odds(rows, drop));
    const margin = this.logProbability(rows) - contrast.log_probability;
    const left = margin - drop + (at === null ? 0 : contrast.drops[at]);
    const size = timesOf(Math.abs(left));
    return left < 0 ? `1:${size}` : `${size}:1`;
  }

  logProbability(rows) {
    return rows.reduce((sum, row) => sum + Math.log(this.data.probabilities[row]), 0);
  }
}

// The rows of pieces, which are means over their tokens, as one row for each token.
function spread({ shape: [, width], values }, pieces) {
  const rows = pieces.flatMap(([first, last], piece) => Array(last - first).fill(piece));
  const value = (at) => values[rows[Math.floor(at / width)] * width + (at % width)];
  return {
    shape: [rows.length, width],
    values: Float64Array.from({ length: rows.length * width }, (_, at) => value(at)),
  };
}

export const spanToText = ({ first, last }) => (first === last ? `${first}` : `${first}-${last}`);

export function spanFromText(text, count) {
  const match = /^(\d+)(?:-(\d+))?$/.exec(text ?? "");
  if (!match) return null;
  const [first, last] = [Number(match[1]), Number(match[2] ?? match[1])];
  return first < count && last < count ? { first, last } : null;
}

export const isSource = ({ role }) => role === "source";

// Sources stand before the question and all that every prompt has.
export const sourcesFirst = (parts) => [
  ...parts.filter(isSource),
  ...parts.filter((part) => !isSource(part)),
];
