import { make, showTip } from "./dom.js";
import { palette } from "./colours.js";
import { CanvasSurface, SvgSurface } from "./surface.js";

const SVG_ROWS = 64; // more rows than this are drawn on a canvas, and only those in sight
const HEAD = 26;

// Rows of tokens with columns beside them: what the graph and the heat map have in common.
// A chart has `rows`, `title`, `draw(surface, span)`, `hit(x, y)` and `choose(hit)`.
export class Chart {
  constructor(host) {
    this.host = host;
    this.canvas = make("canvas", { role: "img" });
    this.sizer = make("div", { class: "sizer" });
    this.scroller = make("div", { class: "scroller" }, this.sizer);
    host.replaceChildren(this.scroller);
    this.pending = false;
    this.scroller.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.scroller.addEventListener("pointermove", (event) => this.point(event));
    this.scroller.addEventListener("pointerleave", () => showTip(null, null));
    this.scroller.addEventListener("click", (event) => { const hit = this.find(event); if (hit) this.choose(hit); });
    this.observer = new ResizeObserver(() => { if (this.scroller.clientWidth !== this.width) this.schedule(); });
    this.observer.observe(host);
  }

  get rowHeight() {
    if (this.rows <= 12) return 30;
    if (this.rows <= 24) return 25;
    return this.rows <= 48 ? 20 : 17;
  }

  // Once a drawing: every edge asks for it.
  fitTo(width) {
    this.width = width;
    const longest = Math.max(...this.labels.map((label) => [...label].length), 4);
    this.labelWidth = Math.min(Math.max(44, 7.4 * Math.min(longest, 18) + 14), width * 0.32);
  }

  get height() {
    return HEAD + this.rows * this.rowHeight + 10;
  }

  get crowded() {
    return this.rows > SVG_ROWS;
  }

  y(row) {
    return HEAD + (row + 0.5) * this.rowHeight;
  }

  schedule() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.render(); });
  }

  render() {
    if (!this.scroller.clientWidth || !this.rows) return;
    const start = performance.now();
    this.fitTo(this.scroller.clientWidth);
    this.scroller.classList.toggle("crowded", this.crowded);
    this.sizer.style.height = `${this.height}px`;
    if (this.crowded) this.renderCanvas();
    else this.renderSvg();
    this.host.dataset.drawMs = (performance.now() - start).toFixed(2);
  }

  renderSvg() {
    const surface = this.svg(this.width);
    this.sizer.replaceChildren(surface.node);
  }

  // The whole drawing as SVG, whatever its size: for the page, and for a file.
  svg(width) {
    this.fitTo(width);
    const surface = new SvgSurface(width, this.height, palette().font);
    surface.node.setAttribute("aria-label", this.title);
    this.draw(surface, { top: 0, bottom: this.height, head: 0 });
    return surface;
  }

  renderCanvas() {
    const height = this.scroller.clientHeight;
    const top = this.scroller.scrollTop;
    if (this.canvas.parentNode !== this.sizer) this.sizer.replaceChildren(this.canvas);
    this.canvas.setAttribute("aria-label", this.title);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${height}px`;
    const surface = new CanvasSurface(this.canvas, this.width, height, palette().font, window.devicePixelRatio || 1);
    surface.context.translate(0, -top);
    this.draw(surface, { top, bottom: top + height, head: top });
  }

  // The whole drawing as pixels, twice as fine as on the page where a canvas can be that large.
  png() {
    const canvas = make("canvas");
    const scale = Math.min(2, 16000 / this.height);
    const surface = new CanvasSurface(canvas, this.width, this.height, palette().font, scale);
    surface.cell({ x: 0, y: 0, w: this.width, h: this.height, fill: palette().paper });
    this.draw(surface, { top: 0, bottom: this.height, head: 0 });
    return canvas;
  }

  // Names of rows and columns; a column's name is left out where there is no room for it.
  drawNames(surface, span, columns, chosen, marked) {
    const { ink, muted, paper } = palette();
    const size = Math.min(13, this.rowHeight * 0.62);
    for (let row = this.firstRow(span); row < this.lastRow(span); row += 1) {
      const strong = marked.includes(row);
      surface.text({ x: this.labelWidth - 8, y: this.y(row), text: this.short(this.labels[row], size), size, anchor: "end", fill: strong ? ink : muted, bold: strong }, { row });
    }
    if (span.head) surface.cell({ x: 0, y: span.head, w: this.width, h: HEAD - 4, fill: paper });
    const widest = Math.max(...columns.map((column) => 6.4 * column.label.length + 6));
    const every = Math.max(1, Math.ceil(widest / (columns.length > 1 ? columns[1].x - columns[0].x : this.width)));
    columns.forEach((column, i) => {
      const isChosen = column.id === chosen;
      const nearChosen = columns.some((other, j) => other.id === chosen && Math.abs(i - j) < every && i !== j);
      if (!isChosen && (nearChosen || i % every)) return;
      surface.text({ x: column.x, y: span.head + HEAD / 2 - 2, text: column.label, size: 11, anchor: "middle", fill: isChosen ? ink : muted, bold: isChosen }, { column: column.id });
    });
  }

  short(label, size) {
    const room = Math.max(3, Math.floor((this.labelWidth - 12) / (size * 0.58)));
    const letters = [...label];
    return letters.length <= room ? label : `${letters.slice(0, room - 1).join("")}…`;
  }

  firstRow(span) {
    return Math.max(0, Math.floor((span.top - HEAD) / this.rowHeight));
  }

  lastRow(span) {
    return Math.min(this.rows, Math.ceil((span.bottom - HEAD) / this.rowHeight));
  }

  find(event) {
    const box = this.sizer.getBoundingClientRect();
    return this.hit(event.clientX - box.left, event.clientY - box.top);
  }

  point(event) {
    const hit = this.find(event);
    this.scroller.classList.toggle("pointing", Boolean(hit));
    showTip(event, hit ? hit.lines : null);
  }

  rowAt(y) {
    const row = Math.floor((y - HEAD) / this.rowHeight);
    return row >= 0 && row < this.rows ? row : null;
  }
}
