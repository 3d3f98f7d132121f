import { Chart } from "./chart.js";
import { palette, rampOf } from "./colours.js";
import { digits } from "./numbers.js";
import { colourTop, unitScores } from "./view.js";

// Tokens × layers for the position asked about, or tokens × heads of one layer (Appendix A.1).
export class HeatMap extends Chart {
  constructor(host, actions) {
    super(host);
    this.actions = actions;
  }

  show(pane, units, byHead) {
    this.pane = pane;
    this.units = units;
    this.byHead = byHead;
    this.labels = units.map((unit) => unit.label);
    this.rows = units.length;
    const { view, method, layer, query } = pane;
    const own = units.findIndex((unit) => unit.tokens.includes(query));
    if (byHead) {
      const rows = view.heads(method, layer, query) ?? [];
      this.columns = rows.map((row, head) => ({ id: head + 1, label: `H${head + 1}`, values: unitScores(units, row) }));
      this.chosen = null;
    } else {
      this.columns = view.data.ends.map((_, i) => i + 1).filter((l) => view.row(method, l, query))
        .map((l) => ({ id: l, label: `L${l}`, values: unitScores(units, view.row(method, l, query)) }));
      this.chosen = layer;
    }
    this.own = own;
    this.top = Math.max(1e-12, ...this.columns.map((column) => colourTop(column.values, own)));
    this.title = `${method} of ${view.data.labels[query]}: ${this.rows} tokens by ${this.columns.length} ${byHead ? `heads of layer ${layer}` : "layers"}`;
    this.schedule();
  }

  get cellWidth() {
    return Math.min(110, (this.width - this.labelWidth - 6) / Math.max(1, this.columns.length));
  }

  draw(surface, span) {
    const colours = rampOf(this.pane.method);
    const { ink } = palette();
    const w = this.cellWidth;
    const h = this.rowHeight;
    const size = Math.min(11, h * 0.5);
    for (let row = this.firstRow(span); row < this.lastRow(span); row += 1) {
      this.columns.forEach((column, i) => {
        const value = column.values[row];
        const colour = colours(value / this.top);
        const traced = this.units[row].tokens.includes(this.pane.key) && column.id === this.chosen;
        surface.cell({ x: this.labelWidth + i * w + 0.5, y: this.y(row) - h / 2 + 0.5, w: w - 1, h: h - 1, r: 2, fill: colour.fill, stroke: traced ? ink : undefined }, { cell: `${column.id}/${row}`, value });
        if (w > 38 && h > 17) surface.text({ x: this.labelWidth + (i + 0.5) * w, y: this.y(row), text: digits(value), size, anchor: "middle", fill: colour.ink });
      });
    }
    const marked = [this.own, this.units.findIndex((unit) => unit.tokens.includes(this.pane.key))];
    this.drawNames(surface, span, this.columns.map((column, i) => ({ ...column, x: this.labelWidth + (i + 0.5) * w })), this.chosen, marked);
  }

  hit(x, y) {
    const row = this.rowAt(y);
    const at = Math.floor((x - this.labelWidth) / this.cellWidth);
    if (row === null || at >= this.columns.length) return null;
    const name = this.labels[row];
    if (at < 0) return { row, lines: [name, "click to trace to it"] };
    const column = this.columns[at];
    return { row, column: column.id, lines: [`${name} · ${column.label}`, `${this.pane.method} ${digits(column.values[row])}`] };
  }

  choose(hit) {
    this.actions.trace(this.pane, this.units[hit.row].tokens[0], this.byHead ? undefined : hit.column);
  }
}
