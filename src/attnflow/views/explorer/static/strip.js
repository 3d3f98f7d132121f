import { rampOf } from "./colours.js";
import { make } from "./dom.js";
import { digits } from "./numbers.js";
import { rowOf, unitScores } from "./panes.js";

const MARKS = { traced: "traced", explained: "explained", blanked: "blanked out" };
const MANY = 64; // animating hundreds of colours is slow
const PATCH_ALPHA = 0.75; // of the strongest patch: the image stays visible below it

// The tokens of an input, or the patches of its image, coloured by score.
export class Strip {
  constructor(actions) {
    this.actions = actions;
    this.strip = make("div", { class: "strip", role: "toolbar", "aria-label": "Tokens" });
    this.picture = make("div", { class: "picture", hidden: true });
    this.elements = [this.picture, this.strip];
    this.elements.forEach((element) =>
      element.addEventListener("keydown", (event) => this.press(event)),
    );
    this.buttons = [];
  }

  show(pane) {
    const isNew = this.pane?.units !== pane.units || this.pane?.view !== pane.view;
    this.pane = pane;
    if (isNew) this.build(pane);
    this.colour(pane);
  }

  build({ view, units }) {
    const { segments, grid, key } = view.data;
    this.strip.replaceChildren();
    this.strip.classList.toggle("still", units.length > MANY);
    this.picture.replaceChildren();
    this.picture.hidden = !grid;
    let last = null;
    this.buttons = units.map((unit) => {
      const button = this.makeButton(unit);
      const segment = segments?.[unit.tokens[0]] ?? null;
      const isPatch = segment === "patch";
      button.classList.toggle("patch", isPatch);
      const isNamed = !isPatch && segment !== null && segment !== "special";
      if (isNamed && segment !== last) {
        this.strip.append(make("span", { class: "segment" }, segment));
      }
      (isPatch ? this.picture : this.strip).append(button);
      if (segment !== "special") last = segment;
      return button;
    });
    if (grid) this.placePatches(view.data);
    this.focusable(
      Math.max(
        0,
        units.findIndex((unit) => unit.tokens.includes(key)),
      ),
    );
  }

  makeButton({ label, tokens }) {
    const onclick = () => this.actions.click(this.pane, tokens);
    const properties = { type: "button", class: "token", dir: "auto", tabIndex: -1, onclick };
    return make("button", properties, make("span", {}, label));
  }

  placePatches({ grid, image }) {
    const [left, top, right, bottom] = grid.box;
    const [width, height] = [(right - left) / grid.columns, (bottom - top) / grid.rows];
    const heard = grid.seconds !== null;
    const alt = `The ${heard ? "sound" : "image"} that was explained`;
    if (image) this.picture.prepend(make("img", { src: image, alt }));
    this.picture.classList.toggle("empty", !image);
    this.picture.classList.toggle("sound", heard);
    const patches = this.buttons.filter((button) => button.classList.contains("patch"));
    patches.forEach((button, i) => {
      const [along, column] = [Math.floor(i / grid.columns), i % grid.columns];
      const row = heard ? grid.rows - 1 - along : along; // low frequencies are below
      button.style.left = `${100 * (left + width * column)}%`;
      button.style.top = `${100 * (top + height * row)}%`;
      button.style.width = `${100 * width}%`;
      button.style.height = `${100 * height}%`;
    });
  }

  colour(pane) {
    const row = rowOf(pane);
    const values = row && unitScores(pane, row);
    const ramp = rampOf(pane.method);
    const least = values ? Math.min(...values) : 0;
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
      this.describe(button, pane.units[index], value);
    });
  }

  describe(button, { tokens, label, name: full }, value) {
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
    const named = [label, score, ...words.map((name) => MARKS[name])];
    button.setAttribute("aria-label", named.join(", "));
    button.setAttribute("aria-pressed", String(marks.traced));
    button.title = `${full} · ${score}`;
    button.dataset.value = value ?? "";
  }

  press(event) {
    const at = this.buttons.indexOf(document.activeElement);
    if (at < 0) return;
    const last = this.buttons.length - 1;
    const moves = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last };
    if (event.key in moves) {
      event.preventDefault();
      this.focusable(Math.min(last, Math.max(0, moves[event.key]))).focus();
    }
    const mode = { t: "trace", e: "explain", b: "blank" }[event.key];
    if (!mode || event.ctrlKey || event.metaKey || event.altKey) return;
    this.actions.click(this.pane, this.pane.units[at].tokens, mode);
  }

  // One token is reached by the tab key, the others by arrows from there.
  focusable(index) {
    this.buttons.forEach((button, i) => {
      button.tabIndex = i === index ? 0 : -1;
    });
    return this.buttons[index];
  }
}
