import { palette } from "./colours.js";

// How wide texts are: Chinese letters and emoji are wider than Latin ones.

let context = null;

function textWidth(text, size, bold = false) {
  context ??= document.createElement("canvas").getContext("2d");
  context.font = `${bold ? 600 : 400} ${size}px ${palette().font}`;
  return context.measureText(text).width;
}

// The text in at most so many pixels; what is left out at its end is shown as "…".
export function shorten(text, room, size, bold = false) {
  if (textWidth(text, size, bold) <= room) return text;
  const letters = Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment);
  while (letters.length > 1) {
    letters.pop();
    if (textWidth(`${letters.join("")}…`, size, bold) <= room) break;
  }
  return `${letters.join("")}…`;
}

const [SHORTEST, LONGEST] = [30, 140]; // pixels of a column of labels
const longest = new WeakMap();

// How wide a column of these labels is, measured once: a chart is drawn anew while it scrolls.
export function labelWidth(labels, size) {
  if (!longest.has(labels)) {
    longest.set(labels, Math.max(0, ...labels.map((label) => textWidth(label, 100, true))));
  }
  const wanted = (longest.get(labels) * size) / 100;
  return Math.min(Math.max(SHORTEST, wanted), LONGEST) + 14;
}
