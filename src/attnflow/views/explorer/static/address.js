import { byId } from "./dom.js";

// The address of a view: it changes with what is shown, and what is shown with it.

const SLIDERS = ["layer", "carried"];

export class Address {
  // `hash()` is the view's, `follow()` shows what the address asks for.
  constructor(hash, follow) {
    this.hash = hash;
    this.follow = follow;
    this.slid = null; // the slider that made the last entry: while it moves, there is one
    this.following = false;
    this.isLate = false;
    const changed = () => this.arrive();
    window.addEventListener("popstate", changed);
    window.addEventListener("hashchange", changed);
  }

  // A new entry that the browser goes back from; `isFirst` for the view that the page opens with.
  save(changed = [], isFirst = false) {
    if (this.following) return;
    const next = `#${this.hash()}`;
    if (next === window.location.hash) return;
    const slid = changed.length === 1 && SLIDERS.includes(changed[0]) ? changed[0] : null;
    const same = isFirst || (slid && slid === this.slid);
    this.slid = slid;
    try {
      window.history[same ? "replaceState" : "pushState"](null, "", next);
    } catch {
      byId("link").hidden = true; // a sandboxed frame (a notebook) has no address
    }
  }

  // The address changed; it may do so again before what it asked for is there.
  async arrive() {
    if (this.following) {
      this.isLate = true;
      return;
    }
    this.following = true;
    try {
      do {
        this.isLate = false;
        if (window.location.hash !== `#${this.hash()}`) await this.follow();
      } while (this.isLate);
    } finally {
      this.following = false;
    }
  }
}
