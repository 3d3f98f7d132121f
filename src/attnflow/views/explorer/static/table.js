import { make } from "./dom.js";
import { pairRows, singleRows } from "./rows.js";

const EQUAL = 1e-6; // scores are float32: what differs by less is equal
const FIRST = 12; // rows before "show all"
const LONG = 16; // rows that stand in two columns on paper
const FOUR_COLUMNS = 120; // rows that stand in four, without bars

// Scores as a table, with the change of the prediction when a token is blanked; or, of two panes,
// the difference of their shares.
export class ScoreTable {
  constructor(host, actions) {
    this.host = host;
    this.actions = actions;
    this.all = false;
  }

  show(panes, ranked) {
    const trace = (pane, key) => this.actions.trace(pane, key);
    const found = panes.length === 1 ? singleRows(panes[0], trace) : pairRows(panes);
    if (!found) {
      this.host.replaceChildren(make("p", { class: "note" }, "Not computed yet."));
      return;
    }
    const { names, rows, note } = found;
    if (ranked) rows.sort(byOrder);
    const rest = rows.slice(FIRST).filter(({ isShown }) => isShown); // traced, or in the sentence
    const visible = this.all ? rows : [...rows.slice(0, FIRST), ...rest];
    const head = make("tr", {}, ...names.map(makeHead));
    const body = make("tbody", {}, ...visible.map((row) => row.make()));
    const onclick = () => {
      this.all = !this.all;
      this.show(panes, ranked);
    };
    const text = this.all ? "Show fewer" : `Show all ${rows.length}`;
    const more = make("button", { type: "button", class: "more", onclick }, text);
    const table = make("table", {}, make("thead", {}, head), body);
    this.host.classList.toggle("long", rows.length > LONG);
    this.host.classList.toggle("longest", rows.length > FOUR_COLUMNS);
    const about = note ? make("p", { class: "note" }, note) : "";
    this.host.replaceChildren(table, rows.length > FIRST ? more : "", about);
  }
}

function byOrder(a, b) {
  const at = a.order.findIndex((value, i) => Math.abs(value - b.order[i]) > EQUAL);
  return at < 0 ? 0 : b.order[at] - a.order[at];
}

// A column of bars has no name.
const makeHead = (name) => (name ? make("th", { scope: "col" }, name) : make("td"));
