import { rampOf } from "./colours.js";
import { signsNote } from "./description.js";
import { make } from "./dom.js";
import { listed, points, unitOf } from "./numbers.js";
import { changesOf } from "./removal.js";
import { isolate } from "./names.js";
import { sentencesTop } from "./sentences.js";

const STEPS = 12;
const MORE = 4; // times the top: about the strongest colour

// What the colours mean: one scale for tokens and heat map.
export class Legend {
  constructor() {
    this.bar = make("span", { class: "ramp" });
    this.low = make("span", { class: "number" });
    this.high = make("span", { class: "number" });
    this.name = make("span", {});
    this.marks = [
      mark("traced", "traced"),
      mark("explained", "explained"),
      mark("blanked", "blanked out"),
    ];
    this.picture = make("span", {}, "over the picture, from the lowest score");
    this.signs = make("span", {});
    this.sums = make("span", {});
    this.change = make("span", { class: "mark" }, make("i", { class: "change-bar" }), make("span"));
    const scale = make("span", { class: "scale" }, this.name, this.low, this.bar, this.high);
    const parts = [scale, this.sums, this.picture, this.signs, this.change, ...this.marks];
    this.element = make("div", { class: "legend note" }, ...parts);
  }

  show(pane) {
    const { view, ratio, method, top, power, blank } = pane;
    const ramp = rampOf(method);
    const least = method.signed ? -1 : 0;
    const steps = Array.from({ length: STEPS + 1 }, (_, i) => least + ((1 - least) * i) / STEPS);
    const stops = [...(method.signed ? [-MORE] : []), ...steps, MORE];
    const colours = stops.map((share) => ramp(share).fill).join(", ");
    this.bar.style.setProperty("background-image", `linear-gradient(to right, ${colours})`);
    this.name.textContent = method.title;
    const unit = [unitOf(power), method.unit]
      .filter(Boolean)
      .map((each) => ` ${each}`)
      .join("");
    this.low.textContent = method.signed ? listed(-top, power) : "0";
    this.picture.hidden = !view.data.grid;
    this.high.textContent = `${listed(top, power, ratio)}${unit} or more`;
    const sums = sentencesTop(pane);
    const end = sums === null ? "" : `${listed(sums, power, ratio)}${unit}`;
    this.sums.textContent = end && `Folded sentences: the same colours, up to ${end}.`;
    this.sums.hidden = !end;
    this.element.firstChild.hidden = !view.hasScores(method.name);
    this.signs.textContent = signsNote(pane);
    const { most } = changesOf(pane);
    this.change.hidden = !most;
    this.change.lastChild.textContent = changeNote(pane, most);
    const [traced, explained, blanked] = this.marks;
    traced.hidden = !method.layered && !method.traced;
    explained.hidden = !method.layered;
    blanked.hidden = !blank.length;
  }
}

// What the bars below words are.
function changeNote({ view, words }, most) {
  const unit = words || view.hasPieces ? "word" : "token";
  const what = `P(${isolate(view.answer)}) without the ${unit}`;
  const largest = `${points(most).slice(1)} points`;
  return `${what}: orange if it falls, blue if it rises, by ${largest} at most`;
}

function mark(name, text) {
  const sample = make("span", { class: `sample ${name}` }, make("span", {}, "a"));
  sample.setAttribute("aria-hidden", "true");
  return make("span", { class: "mark" }, sample, text);
}
