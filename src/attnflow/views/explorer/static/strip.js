import { rampOf, signColour } from "./colours.js";
import { make } from "./dom.js";
import { placePatches } from "./picture.js";
import { gapBefore, isRightToLeft } from "./names.js";
import { digits, points } from "./numbers.js";
import { rowOf, unitScores } from "./panes.js";
import { changesOf } from "./removal.js";
import { Sentences } from "./sentences.js";

const MARKS = { traced: "traced", explained: "explained", blanked: "blanked out" };
const SLACK = 6; // pixels of padding
const MANY = 64; // animating hundreds of colours is slow
const PATCH_ALPHA = 0.75; // of the strongest patch: the image stays visible below it

// The text of an input, or the patches of its image, coloured by score. A bar below a word is how
// the prediction changes without it.
export class Strip {
  constructor(actions) {
    this.actions = actions;
    this.strip = make("div", { class: "strip", role: "toolbar", "aria-label": "Tokens" });
    this.picture = make("div", { class: "picture", hidden: true });
    this.more = make("p", { class: "note more-text", hidden: true });
    this.elements = [this.picture, this.strip, this.more];
    this.elements.forEach((element) =>
      element.addEventListener("keydown", (event) => this.press(event)),
    );
    const tell = () => this.tellMore();
    this.strip.addEventListener("scroll", tell, { passive: true });
    this.strip.addEventListener("toggle", tell, { capture: true });
    new ResizeObserver(tell).observe(this.strip);
    this.buttons = [];
  }

  show(pane) {
    const isNew = this.pane?.units !== pane.units || this.pane?.view !== pane.view;
    const isMoved = isNew || this.pane.key !== pane.key;
    this.pane = pane;
    if (isNew) this.build(pane);
    this.colour(pane);
    if (isMoved) this.reveal(pane);
    this.tellMore();
  }

  // Where the text goes on out of sight, it fades there, and a line says so.
  tellMore() {
    const { scrollTop, clientHeight, scrollHeight } = this.strip;
    const sides = {
      above: scrollTop > SLACK,
      below: scrollHeight - clientHeight - scrollTop > SLACK,
    };
    const places = Object.keys(sides).filter((side) => sides[side]);
    Object.entries(sides).forEach(([side, on]) => this.strip.classList.toggle(`more-${side}`, on));
    this.more.hidden = !places.length;
    this.more.textContent = `The text goes on ${places.join(" and ")}: scroll it to read on.`;
  }

  build(pane) {
    const { view, units } = pane;
    const { grid, text } = view.data;
    this.strip.dir = isRightToLeft(text) ? "rtl" : "ltr";
    this.strip.classList.toggle("still", units.length > MANY);
    this.buttons = units.map((unit) => this.makeButton(unit, view.data));
    this.picture.hidden = !grid;
    this.picture.replaceChildren();
    if (grid) placePatches(this.picture, this.buttons, view.data);
    this.sentences = Sentences.of(pane, this.buttons);
    this.strip.replaceChildren(...(this.sentences?.build() ?? this.line(pane)));
    const at = units.findIndex((unit) => unit.tokens.includes(pane.key));
    this.focusable(Math.max(0, at));
  }

  // Words with the blanks between them, and the names of the parts that they are of.
  line({ view, units }) {
    const { segments } = view.data;
    let last = null;
    return units.flatMap((unit, at) => {
      const segment = segments?.[unit.tokens[0]] ?? null;
      if (segment === "patch") return [];
      const isNamed = segment !== null && segment !== "special" && segment !== last;
      if (segment !== "special") last = segment;
      const name = isNamed ? [make("span", { class: "segment" }, segment)] : [];
      return [...name, gapBefore(unit), this.buttons[at]];
    });
  }

  makeButton({ label, tokens }, { segments, ordinary }) {
    const onclick = (event) =>
      this.actions.click(this.pane, tokens, undefined, event.currentTarget);
    const properties = { type: "button", class: "token", dir: "auto", tabIndex: -1, onclick };
    const button = make("button", properties, make("span", {}, label));
    button.classList.toggle("patch", segments?.[tokens[0]] === "patch");
    button.classList.toggle("special", !tokens.some((at) => ordinary.includes(at)));
    return button;
  }

  colour(pane) {
    const row = rowOf(pane);
    const values = row && unitScores(pane, row);
    const ramp = rampOf(pane.method);
    const least = values ? Math.min(...values) : 0;
    const { changes, most } = changesOf(pane);
    this.buttons.forEach((button, index) => {
      const value = values?.[index];
      const colour = ramp((value ?? 0) / pane.top);
      button.style.setProperty("--fill", colour.fill);
      if (button.classList.contains("patch")) {
        // Relative to the lowest score: a method may score all patches alike.
        const share = pane.method.signed
          ? Math.min(1, Math.abs(value ?? 0) / pane.top)
          : Math.min(1, ((value ?? least) - least) / (pane.top - least || 1));
        button.style.setProperty("--alpha", (PATCH_ALPHA * share).toFixed(3));
      } else button.style.setProperty("color", colour.ink);
      const change = changes[index];
      button.style.setProperty("--change", (Math.abs(change ?? 0) / most || 0).toFixed(3));
      button.style.setProperty("--sign", signColour(-(change ?? 0)));
      this.describe(button, pane.units[index], value, change);
    });
    this.sentences?.colour(pane);
  }

  describe(button, { tokens, label, name: full }, value, change) {
    const { ratio, method, key, query, blank } = this.pane;
    const marks = {
      traced: (method.layered || method.traced) && tokens.includes(key),
      explained: method.layered && tokens.includes(query),
      blanked: tokens.some((at) => blank.includes(at)),
    };
    Object.entries(marks).forEach(([name, on]) => button.classList.toggle(name, on));
    const words = Object.keys(MARKS).filter((name) => marks[name]);
    const unit = method.unit && ` ${method.unit}`;
    const known = `${method.title} ${value === undefined ? "" : digits(value, ratio)}${unit}`;
    const score = value === undefined ? "not computed" : known;
    const without = change === undefined ? [] : [`Δ P ${points(change)} points without it`];
    const named = [label, score, ...without, ...words.map((name) => MARKS[name])];
    button.setAttribute("aria-label", named.join(", "));
    button.setAttribute("aria-pressed", String(marks.traced));
    button.title = [full, score, ...without].join(" · ");
    button.dataset.value = value ?? "";
    button.dataset.change = change ?? "";
  }

  // The word that is traced is in sight, wherever in a long text it is.
  reveal({ units, key }) {
    const button = this.buttons[units.findIndex(({ tokens }) => tokens.includes(key))];
    if (!button || button.classList.contains("patch")) return;
    this.sentences?.open(button);
    const { strip } = this;
    const [inner, outer] = [button, strip].map((each) => each.getBoundingClientRect());
    const [above, below] = [inner.top - outer.top, inner.bottom - outer.bottom];
    if (above >= 0 && below <= 0) return;
    // A whole sentence where it fits, so that the text does not begin in the middle of one.
    const start =
      (button.closest("details.unit") ?? button).getBoundingClientRect().top - outer.top;
    const fits = inner.bottom - outer.top - start <= strip.clientHeight;
    strip.scrollTop += fits && start < above ? start : above - strip.clientHeight / 2;
  }

  press(event) {
    const at = this.buttons.indexOf(document.activeElement);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.buttons.length - 1;
    const [right, left] = this.strip.dir === "rtl" ? [-1, 1] : [1, -1];
    const moves = { ArrowRight: at + right, ArrowLeft: at + left, Home: 0, End: last };
    if (event.key in moves) {
      event.preventDefault();
      this.focusable(Math.min(last, Math.max(0, moves[event.key]))).focus();
    }
    const mode = { t: "trace", e: "explain", b: "blank", k: "knockout", c: "change" }[event.key];
    if (!mode) return;
    event.preventDefault();
    this.actions.click(this.pane, this.pane.units[at].tokens, mode, this.buttons[at]);
  }

  // One token is reached by the tab key, the others by arrows from there.
  focusable(index) {
    this.buttons.forEach((button, i) => {
      button.tabIndex = i === index ? 0 : -1;
    });
    this.sentences?.open(this.buttons[index]);
    return this.buttons[index];
  }
}
