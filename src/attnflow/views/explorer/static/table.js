import { align } from "./align.js";
import { make } from "./dom.js";
import { digits, percent, signed } from "./numbers.js";
import { unitScores } from "./view.js";

const FIRST = 12; // rows before "show all"
const shares = (values) => { const sum = values.reduce((a, b) => a + b, 0) || 1; return values.map((value) => value / sum); };

// Scores as a table, and beside them what blanking a token does to the prediction.
export class ScoreTable {
  constructor(host, actions) {
    this.host = host;
    this.actions = actions;
    this.all = false;
  }

  show(panes, units, ranked) {
    this.args = [panes, units, ranked];
    const rows = panes.length === 1 ? this.single(panes[0], units[0]) : this.pairs(panes, units);
    if (!rows) {
      this.host.replaceChildren(make("p", { class: "note" }, "Not computed yet."));
      return;
    }
    if (ranked) rows.rows.sort((a, b) => b.order - a.order);
    const shown = this.all ? rows.rows : rows.rows.slice(0, FIRST);
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...rows.names.map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, ...shown.map((row) => row.make())));
    const more = make("button", { type: "button", class: "more", onclick: () => { this.all = !this.all; this.show(...this.args); } }, this.all ? "Show fewer" : `Show all ${rows.rows.length}`);
    this.host.replaceChildren(table, rows.rows.length > FIRST ? more : "");
  }

  single(pane, units) {
    const { view, method, layer, query, key } = pane;
    const row = view.row(method, layer, query);
    if (!row) return null;
    const values = unitScores(units, row);
    const part = shares(values);
    const top = Math.max(...values);
    const label = view.data.said[0]?.label;
    const before = view.data.said[0]?.probability;
    const blanks = view.blanked.size > 0;
    const rows = units.map((unit, index) => ({
      order: values[index],
      make: () => {
        const said = view.without(unit.tokens.filter((at) => view.canBlank(at)));
        const now = unit.tokens.every((at) => view.canBlank(at)) ? said?.find((entry) => entry.label === label)?.probability : undefined;
        const cells = [
          make("th", { scope: "row", dir: "auto" }, make("button", { type: "button", onclick: () => this.actions.trace(pane, unit.tokens[0]) }, unit.label)),
          make("td", { class: "bars" }, make("i", { class: method, style: { width: `${(100 * Math.max(0, values[index])) / (top || 1)}%` } })),
          make("td", { class: "number" }, digits(values[index])),
          make("td", { class: "number quiet" }, percent(part[index])),
        ];
        if (blanks) cells.push(make("td", { class: `number ${now < before ? "down" : "up"}` }, now === undefined ? "" : signed(now - before)));
        const line = make("tr", { class: unit.tokens.includes(key) ? "traced" : "" }, ...cells);
        line.dataset.row = index;
        line.dataset.value = values[index];
        if (now !== undefined) line.dataset.change = now - before;
        return line;
      },
    }));
    const names = ["Token", "", "Score", "Share", ...(blanks ? [`Δ P(${label})`] : [])];
    return { rows, names };
  }

  // Two panes side by side, as shares: scores of different methods have different sums.
  pairs(panes, units) {
    const sides = panes.map((pane, i) => {
      const row = pane.view.row(pane.method, pane.layer, pane.query);
      return row && shares(unitScores(units[i], row));
    });
    if (!sides[0] || !sides[1]) return null;
    const same = panes[0].view === panes[1].view;
    const matched = same ? units[0].map((_, i) => [i, i]) : align(units[0].map((u) => u.label), units[1].map((u) => u.label));
    const widest = Math.max(...matched.map(([i, j]) => (i === null || j === null ? 0 : Math.abs(sides[0][i] - sides[1][j]))), 1e-12);
    const rows = matched.map(([i, j]) => {
      const a = i === null ? null : sides[0][i];
      const b = j === null ? null : sides[1][j];
      const gap = a === null || b === null ? null : b - a;
      const names = [i === null ? null : units[0][i].label, j === null ? null : units[1][j].label];
      const label = names[0] === names[1] ? names[0] : names.map((name) => name ?? "–").join(" · ");
      return {
        order: gap === null ? -1 : Math.abs(gap),
        make: () => {
          const bar = make("span", { class: "diverging" }, gap === null ? null : make("i", { class: gap < 0 ? "less" : "more", style: { width: `${(50 * Math.abs(gap)) / widest}%` } }));
          const line = make("tr", {}, make("th", { scope: "row", dir: "auto" }, label), make("td", { class: "number" }, a === null ? "–" : percent(a)), make("td", { class: "number" }, b === null ? "–" : percent(b)), make("td", { class: "bars" }, bar), make("td", { class: `number ${gap < 0 ? "down" : "up"}` }, gap === null ? "–" : signed(gap)));
          if (gap !== null) line.dataset.gap = gap;
          return line;
        },
      };
    });
    const names = same ? panes.map((pane) => pane.method) : ["first", "second"];
    return { rows, names: ["Token", ...names, "", "Difference"] };
  }
}
