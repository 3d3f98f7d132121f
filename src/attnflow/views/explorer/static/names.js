// Tokens in sentences: set apart by quotes, told apart by position where a text repeats them, and
// isolated, so that right-to-left letters do not reorder what stands beside them.

export const isolate = (text) => `\u2068${text}\u2069`;

export const quote = (name) => `“${isolate(name)}”`;

// Names with commas and an "and" between them.
export const joinNames = (names) =>
  [names.slice(0, -1).join(", "), names.at(-1)].filter(Boolean).join(" and ");

// A title inside a sentence; an acronym stays one.
export const inSentence = (title) =>
  /^\p{Lu}{2}/u.test(title) ? title : title[0].toLowerCase() + title.slice(1);

const RIGHT_TO_LEFT =
  /[\p{sc=Hebrew}\p{sc=Arabic}\p{sc=Syriac}\p{sc=Thaana}\p{sc=Nko}\p{sc=Adlam}]/u;

// Labels, those that occur more than once with their position, of words that of their first token:
// the:4, which stands to the right of right-to-left letters, too.
export function numbered(labels, places = labels.map((_, at) => at)) {
  const count = new Map();
  labels.forEach((label) => count.set(label, (count.get(label) ?? 0) + 1));
  return labels.map((label, at) => {
    const name = RIGHT_TO_LEFT.test(label) ? isolate(label) : label;
    return count.get(label) > 1 ? `${name}:${places[at]}` : name;
  });
}

// A route as runs from the input up: the steps in which it stays on one token.
export function runsOf(positions) {
  const runs = [];
  [...positions].reverse().forEach((position, step) => {
    const last = runs.at(-1);
    if (last?.position === position) last.last = step;
    else runs.push({ position, first: step, last: step });
  });
  return runs;
}

// The steps of a run in short, by the names of the graph's columns: "input–28", "L29–30".
export function spanOf({ first, last }, columns) {
  return first === last ? columns[first] : `${columns[first]}–${columns[last].replace(/^L/, "")}`;
}

// Whether most of a text is written from right to left.
export function isRightToLeft(text) {
  const letters = text.match(/\p{L}/gu) ?? [];
  return letters.filter((letter) => RIGHT_TO_LEFT.test(letter)).length > letters.length / 2;
}

const GLUE = "\u2060"; // no line begins with a full stop

// What stands before a word in its text.
export function gapBefore({ joined, label }) {
  if (!joined) return " ";
  return /^\p{P}+$/u.test(label) ? GLUE : "";
}
