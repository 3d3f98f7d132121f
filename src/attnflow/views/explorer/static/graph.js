import { drawNames } from "./axes.js";
import { Chart } from "./chart.js";
import { colourOf, palette, signColour } from "./colours.js";
import { carriedEdges, cutEdges, edgeName, edgesBehind } from "./edges.js";
import { drawCut, drawEnds } from "./marks.js";
import { rowOf } from "./panes.js";
import { foldedRows } from "./paper.js";
import { pick } from "./picking.js";

const MOST_DRAWN = 800; // edges of a kind drawn at once, the strongest visible ones
const MOST_ELEMENTS = 1500; // SVG paths that a browser handles smoothly

// The layered attention graph: input on the left, layers to the right.
export class Graph extends Chart {
  constructor(host, actions) {
    super(host, actions);
    this.route = null;
  }

  show(pane, trace, { carried, behind, title }) {
    const { view, layer } = pane;
    Object.assign(this, { pane, trace, title });
    this.labels = view.names;
    this.scores = rowOf(pane);
    this.marked = [pane.query, pane.key];
    this.step = view.data.ends[layer - 1];
    this.carried = carriedEdges(pane, carried / 100);
    this.behind = behind ? edgesBehind(pane, this.step) : [];
    this.cut = cutEdges(trace);
    this.fold(foldedRows(this.scores, this.marked, this.carried));
    this.schedule();
  }

  // Edges that stand out while a route is pointed at; null for none.
  highlight(edges) {
    this.route = edges;
    this.schedule();
  }

  x(step) {
    const left = this.labelWidth + 8;
    const { columns } = this.pane.view.data;
    const right = Math.max(18, 3.3 * columns.at(-1).length + 6); // half of the last column's name
    return left + (step * (this.width - left - right)) / (columns.length - 1);
  }

  ends({ step, query, key }) {
    return { x1: this.x(step), y1: this.y(query), x2: this.x(step - 1), y2: this.y(key) };
  }

  // An edge with both ends out of sight would be a line from nowhere.
  inSight(edges, span) {
    const printed = ({ query, key }) => this.kept.includes(query) && this.kept.includes(key);
    if (!this.crowded) return this.kept ? edges.filter(printed) : edges;
    const within = (row) => this.y(row) >= span.top - 4 && this.y(row) <= span.bottom + 4;
    const found = [];
    for (let i = 0; i < edges.length && found.length < MOST_DRAWN; i += 1) {
      if (within(edges[i].query) || within(edges[i].key)) found.push(edges[i]);
    }
    return found;
  }

  draw(surface, span) {
    this.drawBehind(surface, span);
    this.drawNodes(surface, span);
    this.drawCarried(surface, span);
    this.drawRoute(surface);
    drawCut(this, surface, span);
    drawEnds(this, surface);
    const names = this.pane.view.data.columns;
    const columns = names.map((label, step) => ({ id: step, label, x: this.x(step) }));
    drawNames(this, surface, span, columns, this.step);
  }

  drawBehind(surface, span) {
    const { edge } = palette();
    const { layered } = this.pane.method;
    const strongest = Math.abs(this.behind[0]?.amount ?? 1);
    const visible = this.inSight(this.behind, span).slice(0, MOST_ELEMENTS);
    const crowd = Math.min(1, Math.sqrt(150 / (visible.length + 1)) + 0.05);
    visible.reverse().forEach((e) => {
      const share = Math.abs(e.amount) / strongest;
      const colour = layered ? edge : signColour(e.amount);
      const look = { colour, width: 0.5 + 2 * share, alpha: crowd * (0.12 + 0.6 * share) };
      surface.line({ ...this.ends(e), ...look }, { edge: edgeName(e), amount: e.amount });
    });
  }

  drawNodes(surface, span) {
    const fill = palette().rule;
    const r = Math.min(3, this.rowHeight * 0.13);
    for (let step = 0; step < this.pane.view.data.columns.length; step += 1) {
      this.rowsIn(span).forEach((row) => {
        surface.dot({ x: this.x(step), y: this.y(row), r: step > this.step ? r * 0.7 : r, fill });
      });
    }
  }

  // The colour of what is traced: the method's, or that of its sign.
  get colour() {
    const { method } = this.pane;
    return method.signed ? signColour(this.trace?.value ?? 0) : colourOf(method);
  }

  drawCarried(surface, span) {
    const { method, key } = this.pane;
    const { colour } = this;
    const wide = Math.min(9, this.rowHeight * 0.36);
    const strongest = this.carried[0]?.amount ?? 1;
    const faded = this.route ? 0.25 : 1;
    [...this.inSight(this.carried, span)].reverse().forEach((e) => {
      const share = e.amount / strongest;
      const chosen = method.reaches_input || e.key === key;
      const alpha = faded * (chosen ? 0.35 + 0.55 * share : 0.15 + 0.4 * share);
      const line = { ...this.ends(e), colour, width: 0.8 + wide * share, alpha };
      surface.line(line, { carried: edgeName(e), amount: e.amount });
    });
  }

  drawRoute(surface) {
    if (!this.route) return;
    const look = { colour: this.colour, width: 3.5, alpha: 1 };
    this.route.forEach((e) => {
      surface.line({ ...this.ends(e), ...look }, { route: edgeName(e) });
    });
  }

  hit(x, y) {
    return pick(this, x, y);
  }

  choose({ kind, at, layer, out }) {
    if (this.actions.knocksOut) {
      if (out !== undefined) this.actions.knockOut(this.pane, out);
      return;
    }
    if (kind === "trace") this.actions.trace(this.pane, at);
    if (kind === "explain" && layer) this.actions.explain(this.pane, at, layer);
  }
}
