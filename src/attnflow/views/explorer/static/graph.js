import { Chart } from "./chart.js";
import { palette } from "./colours.js";
import { attentionEdges, attentionOn, carriedEdges, cutEdges, routeEdges } from "./edges.js";
import { digits } from "./numbers.js";

const BACKGROUND = 4; // attention in the background must be that much stronger to be drawn
const MOST_DRAWN = 800; // edges of a kind drawn at a time, the strongest of those in sight
const MOST_ELEMENTS = 1500; // paths of SVG that a browser moves with ease
const NEAR = 6; // pixels from which an edge or a node is meant

// The layered attention graph: input on the left, layers to the right.
export class Graph extends Chart {
  constructor(host, actions) {
    super(host);
    this.actions = actions;
    this.route = null;
  }

  show(pane, threshold) {
    this.pane = pane;
    const { view, layer } = pane;
    this.labels = view.data.labels;
    this.rows = view.size;
    this.step = view.data.ends[layer - 1];
    this.trace = view.trace(pane.method, layer, pane.query, pane.key);
    this.carried = carriedEdges(pane, threshold / 100);
    this.attention = attentionEdges(view, this.step, (BACKGROUND * threshold) / 100);
    this.cut = cutEdges(this.trace);
    this.cutNames = new Set(this.cut.map((e) => `${e.step}/${e.query}/${e.key}`));
    this.title = this.describe();
    this.schedule();
  }

  describe() {
    const { view, method, layer, query, key } = this.pane;
    const name = (at) => view.data.labels[at];
    const value = this.trace?.value ?? view.row(method, layer, query)?.[key];
    const start = `${method === "raw" ? "raw attention" : method} from ${name(query)} at layer ${layer} to ${name(key)}`;
    if (value === undefined) return `${start}: not computed`;
    const routes = this.trace?.routes.length ? `, by ${this.trace.all_routes} routes through a bottleneck of ${this.cut.length} edges` : "";
    return `${start}: ${digits(value)}${routes}`;
  }

  highlight(route) {
    this.route = route;
    this.schedule();
  }

  x(step) {
    const left = this.labelWidth + 8;
    const { columns } = this.pane.view.data;
    const right = Math.max(18, 3.3 * columns.at(-1).length + 6); // half of the last column's name
    return left + (step * (this.width - left - right)) / (columns.length - 1);
  }

  ends(e) {
    return { x1: this.x(e.step), y1: this.y(e.query), x2: this.x(e.step - 1), y2: this.y(e.key) };
  }

  // An edge that only passes by, its ends far above and below, would be a line from nowhere.
  inSight(e, span) {
    const within = (y) => y >= span.top - 4 && y <= span.bottom + 4;
    return within(this.y(e.query)) || within(this.y(e.key));
  }

  draw(surface, span) {
    const colours = palette();
    const own = colours[this.pane.method] ?? colours.flow;
    const wide = Math.min(9, this.rowHeight * 0.36);
    this.drawAttention(surface, span, colours);
    this.drawNodes(surface, span, colours, own);
    const strongest = this.carried[0]?.amount ?? 1;
    const faded = this.route ? 0.25 : 1;
    const carried = this.crowded ? inSightOnly(this.carried, (e) => this.inSight(e, span)) : this.carried;
    for (let i = carried.length - 1; i >= 0; i -= 1) {
      const e = carried[i];
      const share = e.amount / strongest;
      const chosen = this.pane.method !== "raw" || e.key === this.pane.key;
      surface.line({ ...this.ends(e), colour: own, width: 0.8 + wide * share, alpha: faded * (chosen ? 0.35 + 0.55 * share : 0.15 + 0.4 * share) }, { carried: `${e.step}/${e.query}/${e.key}`, amount: e.amount });
    }
    if (this.route) {
      routeEdges(this.route, this.step).forEach((e) => surface.line({ ...this.ends(e), colour: own, width: 3.5, alpha: 1 }, { route: `${e.step}/${e.query}/${e.key}` }));
    }
    const widest = Math.max(...this.cut.map((e) => e.amount));
    const cut = this.crowded ? inSightOnly(this.cut, (e) => this.inSight(e, span)) : this.cut;
    const crowd = Math.min(1, Math.sqrt(80 / (cut.length + 1)) + 0.2);
    cut.forEach((e) => {
      const share = e.amount / widest;
      surface.line({ ...this.ends(e), colour: colours.cut, width: 0.9 + 1.2 * share, alpha: crowd * (0.3 + 0.6 * share), dash: [2, 3] }, { cut: `${e.step}/${e.query}/${e.key}`, capacity: e.amount });
    });
    this.drawEnds(surface, colours, own);
    const columns = this.pane.view.data.columns.map((label, step) => ({ id: step, label, x: this.x(step) }));
    this.drawNames(surface, span, columns, this.step, [this.pane.query, this.pane.key]);
  }

  drawAttention(surface, span, colours) {
    const strongest = this.attention[0]?.amount ?? 1;
    const shown = this.crowded ? inSightOnly(this.attention, (e) => this.inSight(e, span)) : this.attention.slice(0, MOST_ELEMENTS);
    const crowd = Math.min(1, Math.sqrt(300 / (shown.length + 1)) + 0.15);
    for (let i = shown.length - 1; i >= 0; i -= 1) {
      const e = shown[i];
      const share = e.amount / strongest;
      surface.line({ ...this.ends(e), colour: colours.edge, width: 0.5 + 2 * share, alpha: crowd * (0.12 + 0.6 * share) }, { edge: `${e.step}/${e.query}/${e.key}`, amount: e.amount });
    }
  }

  drawNodes(surface, span, colours) {
    const r = Math.min(3, this.rowHeight * 0.13);
    for (let step = 0; step < this.pane.view.data.columns.length; step += 1) {
      for (let row = this.firstRow(span); row < this.lastRow(span); row += 1) {
        surface.dot({ x: this.x(step), y: this.y(row), r: step > this.step ? r * 0.7 : r, fill: colours.rule });
      }
    }
  }

  drawEnds(surface, colours, own) {
    const { query, key, method } = this.pane;
    const end = method === "raw" ? this.step - 1 : 0; // raw attention reaches the layer below
    surface.dot({ x: this.x(this.step), y: this.y(query), r: 6, fill: colours.paper, stroke: own }, { source: query });
    surface.dot({ x: this.x(end), y: this.y(key), r: 6, fill: own, stroke: colours.paper }, { sink: key });
  }

  hit(x, y) {
    const row = this.rowAt(y);
    if (row === null) return null;
    const { labels } = this;
    if (x < this.labelWidth) return { kind: "trace", at: row, lines: [labels[row], "click to trace to it"] };
    const steps = this.pane.view.data.columns.length - 1;
    const step = Math.round((x - this.x(0)) / (this.x(1) - this.x(0)));
    if (step >= 0 && step <= steps && Math.hypot(x - this.x(step), y - this.y(row)) < NEAR + 1) return this.hitNode(step, row);
    return this.hitEdge(x, y);
  }

  hitNode(step, row) {
    const name = this.labels[row];
    if (step === 0) return { kind: "trace", at: row, lines: [name, "input; click to trace to it"] };
    const layer = this.pane.view.data.ends.indexOf(step) + 1;
    const where = this.pane.view.data.columns[step];
    return { kind: "ask", at: row, layer, lines: [`${name} at ${where}`, ...(layer ? ["click to ask about it"] : [])] };
  }

  // All curves of a column pass x at the same share of their way: one inversion serves all edges.
  hitEdge(x, y) {
    const gap = this.x(1) - this.x(0);
    const step = Math.floor((x - this.x(0)) / gap) + 1;
    const along = (this.x(step) - x) / gap;
    let [low, high] = [0, 1];
    for (let i = 0; i < 20; i += 1) {
      const t = (low + high) / 2;
      if (1.5 * t - 1.5 * t * t + t * t * t < along) low = t;
      else high = t;
    }
    const rise = 3 * low * low - 2 * low * low * low;
    const distance = (e) => Math.abs(this.y(e.query) + (this.y(e.key) - this.y(e.query)) * rise - y);
    for (const edges of [this.carried, this.cut, this.attention]) {
      let best = null;
      edges.forEach((e) => { if (e.step === step && distance(e) < NEAR && (!best || distance(e) < distance(best))) best = e; });
      if (best) return this.edgeHit(best, edges);
    }
    return null;
  }

  edgeHit(e, edges) {
    const { view, method, key } = this.pane;
    const lines = [`${this.labels[e.query]} (${view.data.columns[e.step]}) ← ${this.labels[e.key]} (${view.data.columns[e.step - 1]})`];
    const weight = attentionOn(view, e);
    if (edges === this.carried && method !== "raw") lines.push(`carries ${digits(e.amount)}${this.trace ? ` of ${digits(this.trace.value)}` : ""}`);
    if (weight !== undefined) lines.push(`attention ${digits(weight)}`);
    else if (method === "raw") lines.push(`attention ${digits(e.amount)}`);
    const cut = this.cut.find((c) => c.step === e.step && c.query === e.query && c.key === e.key);
    if (cut) lines.push(`bottleneck: full at ${digits(cut.amount)}`);
    return { kind: "edge", at: method === "raw" ? e.key : key, lines };
  }

  choose(hit) {
    if (hit.kind === "trace" || (hit.kind === "edge" && this.pane.method === "raw")) this.actions.trace(this.pane, hit.at);
    if (hit.kind === "ask" && hit.layer) this.actions.ask(this.pane, hit.at, hit.layer);
  }
}

function inSightOnly(edges, inSight) {
  const found = [];
  for (let i = 0; i < edges.length && found.length < MOST_DRAWN; i += 1) if (inSight(edges[i])) found.push(edges[i]);
  return found;
}
