import { make } from "./dom.js";
import { percent } from "./numbers.js";

// The words of an answer: one is pointed at, clicked, or a span of them dragged over or chosen with
// Shift and the arrows. `choose` is called with a span and whether it is to stay.
export class AnswerStrip {
  constructor(host, choose) {
    this.host = host;
    this.choose = choose;
    this.buttons = [];
    this.anchor = null;
    this.dragging = false;
    host.addEventListener("keydown", (event) => this.press(event));
    host.addEventListener("pointerdown", (event) => this.start(event));
    host.addEventListener("pointermove", (event) => this.move(event));
    host.addEventListener("pointerleave", () => this.leave());
    window.addEventListener("pointerup", () => this.end());
    window.addEventListener("pointercancel", () => this.end());
  }

  build(answered) {
    this.answered = answered;
    this.buttons = answered.words.map(({ text, rows }) => {
      const said = `${text.trim() || "blank"}, ${percent(answered.odds(rows))} likely`;
      const label = make("span", {}, text.trim() || "␣");
      const properties = { type: "button", class: "word", dir: "auto", tabIndex: -1 };
      const likely = percent(answered.odds(rows));
      return make("button", { ...properties, title: likely, "aria-label": said }, label);
    });
    // What was not explained of the answer, and that the model had more to say.
    const pieces = answered.words.flatMap(({ text }, at) => [
      /^\s*\n/.test(text) ? make("br") : " ",
      this.buttons[at],
    ]);
    pieces.push(
      make("span", { class: "stopped" }, `${answered.unexplained}${answered.data.stopped}`),
    );
    this.host.replaceChildren(...pieces);
    this.focusable(0);
  }

  // Colour the words by what they gave, and mark the span.
  show({ span, colours, whole }) {
    const [from, to] = [Math.min(span.first, span.last), Math.max(span.first, span.last)];
    this.buttons.forEach((button, at) => {
      const inside = at >= from && at <= to;
      button.classList.toggle("chosen", inside && !whole);
      button.setAttribute("aria-pressed", String(inside && !whole));
      button.style.setProperty("--fill", colours[at].fill);
      button.style.setProperty("color", colours[at].ink);
    });
  }

  indexOf(event) {
    const under = document.elementFromPoint(event.clientX, event.clientY);
    return this.buttons.indexOf(under?.closest(".word"));
  }

  start(event) {
    const at = this.indexOf(event);
    if (at < 0 || event.button) return;
    this.dragging = true;
    this.anchor = event.shiftKey ? (this.anchor ?? at) : at;
    event.target.releasePointerCapture?.(event.pointerId); // touch would keep the first word
    this.choose({ first: this.anchor, last: at }, true);
    this.focusable(at);
  }

  move(event) {
    const at = this.indexOf(event);
    if (at < 0) return;
    if (this.dragging) this.choose({ first: this.anchor, last: at }, true);
    else if (event.pointerType === "mouse") this.choose({ first: at, last: at }, false);
  }

  leave() {
    if (!this.dragging) this.choose(null, false);
  }

  end() {
    this.dragging = false;
  }

  press(event) {
    const at = this.buttons.indexOf(document.activeElement);
    if (event.key === "Escape") this.choose(this.answered.whole, true);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.buttons.length - 1;
    const moves = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last };
    const chosen = event.key === "Enter" || event.key === " ";
    if (!(event.key in moves) && !chosen) return;
    event.preventDefault();
    const next = chosen ? at : Math.min(last, Math.max(0, moves[event.key]));
    this.anchor = event.shiftKey ? (this.anchor ?? at) : next;
    this.focusable(next).focus();
    this.choose({ first: this.anchor, last: next }, true);
  }

  // One word is reached by the tab key, the others by arrows from there.
  focusable(index) {
    this.buttons.forEach((button, at) => {
      button.tabIndex = at === index ? 0 : -1;
    });
    return this.buttons[index];
  }
}
