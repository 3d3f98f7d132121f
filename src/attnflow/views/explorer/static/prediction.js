import { make } from "./dom.js";
import { quote } from "./names.js";
import { percent, points, speaks } from "./numbers.js";

// The predictions for the whole input and without the blanked tokens.
export class Prediction {
  constructor() {
    this.element = make("div", { class: "prediction" });
  }

  show({ view, blank, shared }) {
    const before = view.data.said;
    const after = blank.length ? view.without(blank) : null;
    this.element.hidden = !before.length || shared; // the pane beside it shows the same
    if (this.element.hidden) return;
    const note = blank.length ? blankNote(view, blank, after) : "";
    this.element.replaceChildren(
      make("h2", {}, predictionTitle(view)),
      make("ul", {}, ...before.map((entry) => predictionRow(entry, after))),
      make("p", { class: "note", hidden: !note }, note),
    );
  }
}

function predictionTitle({ data: { said_at: at, causal }, names }) {
  if (at === null) return "Prediction";
  return causal ? `Next after ${quote(names[at])}` : `Prediction for ${quote(names[at])}`;
}

function predictionRow({ label, probability }, after) {
  const now = after?.find((entry) => entry.label === label)?.probability;
  const bar = make("span", { class: "meter" }, meter("", probability));
  if (now !== undefined) bar.append(meter("now", now));
  const name = make("span", { class: "label", dir: "auto" }, label);
  const value = `${percent(probability)}${thenText(now, after)}`;
  const row = make("li", {}, name, bar, make("span", { class: "value" }, value));
  row.dataset.label = label;
  row.dataset.probability = probability;
  if (now === undefined) return row;
  const change = now - probability;
  row.append(make("span", { class: `change ${speaks(change)}` }, `${points(change)} points`));
  row.dataset.now = now;
  return row;
}

const meter = (kind, share) => make("i", { class: kind, style: { width: `${100 * share}%` } });

// A label that is no longer among the first is less likely than the last of these.
function thenText(now, after) {
  if (now !== undefined) return ` → ${percent(now)}`;
  return after ? ` → < ${percent(after.at(-1).probability)}` : "";
}

function blankNote({ data, names }, blank, after) {
  const gone = blank.map((at) => quote(names[at])).join(", ");
  return `without ${gone} (${data.replacement} instead)${after ? "" : " …"}`;
}
