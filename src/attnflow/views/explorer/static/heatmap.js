import { drawNames } from "./axes.js";
import { Chart } from "./chart.js";
import { palette, rampOf } from "./colours.js";
import { headsOut, wordOut } from "./knockouts.js";
import { quote } from "./names.js";
import { digits, listed } from "./numbers.js";
import { rowOf, unitScores } from "./panes.js";
import { foldedRows } from "./paper.js";

const DIGIT = 0.64; // the width of a digit, of its height

// Tokens × layers for the explained position, or tokens × heads of one layer (Appendix A.1).
export class HeatMap extends Chart {
  show(pane, byHead) {
    const { view, method, layer, query, key, units, columns } = pane;
    this.pane = pane;
    this.columns = columns;
    this.chosen = byHead ? null : layer;
    this.labels = units.map(({ name }) => name);
    this.marked = [this.unitOf(query), this.unitOf(key)];
    const row = rowOf(pane);
    this.scores = row && unitScores(pane, row);
    this.fold(foldedRows(this.scores, this.marked));
    const across = byHead ? `heads of layer ${layer}` : "layers";
    const size = `${units.length} rows by ${columns.length} ${across}`;
    this.title = `${method.title} of ${quote(view.names[query])}: ${size}`;
    this.schedule();
  }

  get cellWidth() {
    return Math.min(110, (this.width - this.labelWidth - 6) / Math.max(1, this.columns.length));
  }

  unitOf(token) {
    return this.pane.units.findIndex(({ tokens }) => tokens.includes(token));
  }

  numberOf(value) {
    return listed(value, this.pane.power, this.pane.ratio);
  }

  get numberSize() {
    return Math.min(11, this.rowHeight * 0.5);
  }

  // Numbers are written if there is room for all of them.
  get room() {
    if (this.rowHeight <= 17) return false;
    const most = this.cellWidth / (DIGIT * this.numberSize);
    return this.columns.every(({ values }) =>
      values.every((value) => this.numberOf(value).length <= most),
    );
  }

  draw(surface, span) {
    this.written = this.room;
    const [, traced] = this.marked;
    this.columns.forEach((column, i) => {
      const x = this.labelWidth + i * this.cellWidth;
      this.rowsIn(span).forEach((row) => {
        this.drawCell(surface, x, row, column, row === traced && column.id === this.chosen);
      });
    });
    const middle = (i) => this.labelWidth + (i + 0.5) * this.cellWidth;
    const columns = this.columns.map((column, i) => ({ ...column, x: middle(i) }));
    drawNames(this, surface, span, columns, this.chosen);
  }

  drawCell(surface, x, row, { id, values }, framed) {
    const [w, h] = [this.cellWidth, this.rowHeight];
    const value = values[row];
    const { fill, ink } = rampOf(this.pane.method)(value / this.pane.top);
    const stroke = framed ? palette().ink : undefined;
    const place = { x: x + 0.5, y: this.y(row) - h / 2 + 0.5, w: w - 1, h: h - 1, r: 2 };
    surface.cell({ ...place, fill, stroke }, { cell: `${id}/${row}`, value });
    if (!this.written) return;
    const text = { text: this.numberOf(value), size: this.numberSize, anchor: "middle", fill: ink };
    surface.text({ x: x + w / 2, y: this.y(row), ...text });
  }

  hit(x, y) {
    const row = this.rowAt(y);
    const out = this.outAt(x, y);
    if (out) return { out, lines: [out.name, "click to knock it out"] };
    const at = Math.floor((x - this.labelWidth) / this.cellWidth);
    if (row === null || at >= this.columns.length) return null;
    const name = this.labels[row];
    if (at < 0) return { row, lines: [name, "click to trace it"] };
    const { id, label, values } = this.columns[at];
    const { method, ratio } = this.pane;
    const score = `${method.title} ${digits(values[row], ratio)}`;
    const layer = this.chosen === null ? undefined : id;
    return { row, layer, lines: [`${name} · ${label}`, score] };
  }

  // What a click knocks out: a layer or head by its name, a word, or a word for one of these.
  outAt(x, y) {
    if (!this.actions.knocksOut) return null;
    const row = this.rowAt(y);
    const column = this.columns[Math.floor((x - this.labelWidth) / this.cellWidth)];
    const isHead = this.chosen === null;
    const place = column && (isHead ? [this.pane.layer, column.id] : [column.id]);
    if (row === null) return column ? headsOut(place[0], place[1] ?? null) : null;
    return wordOut(this.labels[row], this.pane.units[row].tokens, ...(place ?? []));
  }

  choose({ row, layer, out }) {
    if (this.actions.knocksOut) {
      this.actions.knockOut(this.pane, out);
      return;
    }
    this.actions.trace(this.pane, this.pane.units[row].tokens[0], layer);
  }
}
