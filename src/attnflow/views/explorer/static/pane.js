import { make } from "./dom.js";
import { rampOf } from "./colours.js";
import { digits, percent, signed } from "./numbers.js";
import { colourTop, unitScores } from "./view.js";

// One input: what the model said, and its tokens (or its image) coloured by score.
export class Pane {
  constructor(host, actions) {
    this.actions = actions;
    this.said = make("div", { class: "said" });
    this.strip = make("div", { class: "strip", role: "toolbar", "aria-label": "Tokens" });
    this.picture = make("div", { class: "picture", hidden: true });
    this.heading = make("h2", { class: "pane-title" });
    host.append(this.heading, this.said, this.picture, this.strip);
    this.strip.addEventListener("keydown", (event) => this.key(event));
    this.picture.addEventListener("keydown", (event) => this.key(event));
    this.buttons = [];
  }

  show(pane, units, heading) {
    this.pane = pane;
    this.heading.textContent = heading ?? "";
    this.heading.hidden = !heading;
    if (this.units !== units || this.view !== pane.view) this.build(pane.view, units);
    this.colour();
    this.predict();
  }

  build(view, units) {
    this.units = units;
    this.view = view;
    this.strip.replaceChildren();
    this.strip.classList.toggle("still", units.length > 64); // hundreds of fading colours stutter
    this.picture.replaceChildren();
    this.picture.hidden = !view.data.grid;
    let segment = null;
    this.buttons = units.map((unit, index) => {
      const button = make("button", { type: "button", class: "token", dir: "auto", tabIndex: -1, onclick: () => this.actions.click(this.pane, unit.tokens, index) }, make("span", {}, unit.label));
      const part = view.data.segments?.[unit.tokens[0]] ?? null;
      if (part === "patch") {
        button.classList.add("patch");
        this.picture.append(button);
      } else {
        if (part !== segment && part !== null) this.strip.append(make("span", { class: "segment" }, part));
        this.strip.append(button);
      }
      segment = part;
      return button;
    });
    if (view.data.grid) this.layOut(view.data);
    this.focusable(Math.max(0, units.findIndex((unit) => unit.tokens.includes(view.data.key))));
  }

  layOut({ grid, image, segments }) {
    const first = segments.indexOf("patch");
    const [left, top, right, bottom] = grid.box;
    if (image) this.picture.prepend(make("img", { src: image, alt: "The image that was explained" }));
    this.buttons.slice(first).forEach((button, i) => {
      const row = Math.floor(i / grid.columns);
      const column = i % grid.columns;
      button.style.left = `${100 * (left + ((right - left) * column) / grid.columns)}%`;
      button.style.top = `${100 * (top + ((bottom - top) * row) / grid.rows)}%`;
      button.style.width = `${(100 * (right - left)) / grid.columns}%`;
      button.style.height = `${(100 * (bottom - top)) / grid.rows}%`;
    });
    this.picture.classList.toggle("empty", !image);
  }

  colour() {
    const { view, method, layer, query, key, blank } = this.pane;
    const row = view.row(method, layer, query);
    const values = row ? unitScores(this.units, row) : null;
    const own = this.units.findIndex((unit) => unit.tokens.includes(query));
    const top = values ? colourTop(values, own) : 1;
    // Flow lifts all tokens alike: colour what differs, on an image all of it.
    const least = values ? Math.max(0, (view.data.grid ? 1 : 0.9) * Math.min(...values)) : 0;
    const ramp = rampOf(method);
    this.buttons.forEach((button, index) => {
      const { tokens, label } = this.units[index];
      const value = values?.[index];
      const share = value === undefined ? 0 : Math.min(1, (value - least) / (top - least || 1));
      const colour = ramp(share);
      const patch = button.classList.contains("patch");
      button.style.setProperty("--fill", colour.fill);
      if (patch) button.style.setProperty("--alpha", (0.75 * share).toFixed(3));
      else button.style.setProperty("color", colour.ink);
      const marks = { traced: tokens.includes(key), asked: tokens.includes(query), blanked: tokens.some((at) => blank.includes(at)) };
      Object.entries(marks).forEach(([name, on]) => button.classList.toggle(name, on));
      const words = Object.entries(marks).filter(([, on]) => on).map(([name]) => ({ traced: "traced", asked: "asked about", blanked: "blanked out" })[name]);
      const score = value === undefined ? "not computed" : `${method} ${digits(value)}`;
      button.setAttribute("aria-label", [label, score, ...words].join(", "));
      button.setAttribute("aria-pressed", String(marks.traced));
      button.title = `${label} · ${score}`;
      button.dataset.value = value ?? "";
    });
  }

  // Before and after: what the model says of the whole input, and without the blanked tokens.
  predict() {
    const { view, blank } = this.pane;
    const before = view.data.said;
    const after = blank.length ? view.without(blank) : null;
    this.said.hidden = !before.length || Boolean(this.pane.shared); // the same input beside it says it
    if (this.said.hidden) return;
    const at = view.data.said_at;
    const what = at === null ? "Prediction" : `Next at ${view.data.labels[at]}`;
    const title = at !== null && !view.data.options.correction ? `Prediction for ${view.data.labels[at]}` : what;
    const rows = before.map(({ label, probability }) => {
      const now = after?.find((entry) => entry.label === label)?.probability;
      const change = now === undefined ? null : now - probability;
      const below = after && now === undefined ? after.at(-1).probability : null; // no longer among the first
      const bar = make("span", { class: "meter" }, make("i", { style: { width: `${100 * probability}%` } }));
      if (now !== undefined) bar.append(make("i", { class: "now", style: { width: `${100 * now}%` } }));
      const then = now === undefined ? (below === null ? "" : ` → < ${percent(below)}`) : ` → ${percent(now)}`;
      const shown = `${percent(probability)}${then}`;
      const row = make("li", {}, make("span", { class: "label", dir: "auto" }, label), bar, make("span", { class: "value" }, shown));
      if (change !== null) row.append(make("span", { class: `change ${change < 0 ? "down" : "up"}` }, signed(change)));
      row.dataset.label = label;
      row.dataset.probability = probability;
      if (now !== undefined) row.dataset.now = now;
      return row;
    });
    const note = blank.length
      ? `without ${blank.map((b) => view.data.labels[b]).join(", ")} (${view.data.replacement} instead)${after ? "" : " …"}` : "";
    this.said.replaceChildren(make("h3", {}, title), make("ul", {}, ...rows), make("p", { class: "note", hidden: !note }, note));
  }

  key(event) {
    const at = this.buttons.indexOf(document.activeElement);
    if (at < 0) return;
    const moves = { ArrowRight: 1, ArrowLeft: -1, Home: -at, End: this.buttons.length - 1 - at };
    if (event.key in moves) {
      event.preventDefault();
      this.focusable(Math.min(this.buttons.length - 1, Math.max(0, at + moves[event.key]))).focus();
    }
    const mode = { t: "trace", a: "ask", b: "blank" }[event.key];
    if (mode && !event.ctrlKey && !event.metaKey && !event.altKey) this.actions.click(this.pane, this.units[at].tokens, at, mode);
  }

  focusable(index) {
    this.buttons.forEach((button, i) => { button.tabIndex = i === index ? 0 : -1; });
    return this.buttons[index];
  }
}
