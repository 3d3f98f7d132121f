import { HEAD } from "./axes.js";
import { CanvasSurface } from "./canvas.js";
import { palette } from "./colours.js";
import { make, showTip } from "./dom.js";
import { keptRows, paperNote, rowHeight } from "./paper.js";
import { SvgSurface } from "./svg.js";
import { labelWidth } from "./text.js";

const SVG_ROWS = 64; // more rows than this are drawn on a canvas, and only the visible ones
const LARGEST_CANVAS = 16000; // pixels

// Rows of tokens with columns beside them: the base of the graph and the heat map.
// A chart has `labels`, the `scores` of its rows, those that are `marked`, `title`,
// `draw(surface, span)`, `hit(x, y)` and `choose(hit)`.
export class Chart {
  constructor(host, actions) {
    this.host = host;
    this.actions = actions;
    this.labels = [];
    this.unfolded = false;
    this.canvas = make("canvas", { role: "img" });
    this.sizer = make("div", { class: "sizer" });
    this.scroller = make("div", { class: "scroller" }, this.sizer);
    this.below = make("div");
    host.replaceChildren(this.scroller, this.below);
    this.scroller.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.scroller.addEventListener("pointermove", (event) => this.point(event));
    this.scroller.addEventListener("pointerleave", () => showTip(null, null));
    this.scroller.addEventListener("click", (event) => {
      const hit = this.find(event);
      if (hit) this.choose(hit);
    });
    this.observer = new ResizeObserver(() => {
      if (this.scroller.clientWidth !== this.width) this.schedule();
    });
    this.observer.observe(host);
  }

  // Rows that stand for all where a text is long; null where it is short.
  fold(rows) {
    this.folded = rows;
    const focus = this.marked.at(-1);
    this.moved = this.moved || focus !== this.focus; // bring it into sight
    this.focus = focus;
  }

  get rows() {
    return this.labels.length;
  }

  get drawn() {
    return this.kept?.length ?? this.rows;
  }

  get rowHeight() {
    const rows = this.kept ? this.drawn : Math.max(this.rows, this.beside ?? 0); // as beside it
    return rowHeight(rows, this.printing);
  }

  // Computed once per drawing, because every edge uses it.
  fitTo(width) {
    this.width = width;
    this.labelSize = Math.min(13, this.rowHeight * 0.62);
    this.labelWidth = Math.min(labelWidth(this.labels, this.labelSize), width * 0.32);
  }

  get height() {
    return HEAD + this.drawn * this.rowHeight + 10;
  }

  get crowded() {
    return this.drawn > SVG_ROWS && !this.printing;
  }

  get whole() {
    return { top: 0, bottom: this.height, head: 0 };
  }

  y(row) {
    return HEAD + ((this.kept?.indexOf(row) ?? row) + 0.5) * this.rowHeight;
  }

  schedule() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.render();
    });
  }

  render() {
    if (!this.scroller.clientWidth || !this.rows) return;
    const start = performance.now();
    const folded = this.unfolded ? null : (this.folded ?? null);
    this.kept = this.printing ? keptRows(this.scores, this.marked) : folded;
    this.fitTo(this.scroller.clientWidth);
    this.scroller.classList.toggle("crowded", this.crowded);
    this.scroller.tabIndex = this.crowded ? 0 : -1; // what scrolls is scrolled by keys, too
    this.sizer.style.height = this.kept ? "auto" : `${this.height}px`;
    this.below.replaceChildren(...paperNote(this, () => this.toggle()));
    if (this.crowded && this.moved) this.reveal();
    this.moved = false;
    if (this.crowded) this.renderCanvas();
    else this.sizer.replaceChildren(this.svg(this.width).node);
    this.host.dataset.drawMs = (performance.now() - start).toFixed(2);
  }

  toggle() {
    Object.assign(this, { unfolded: !this.unfolded, moved: true }).render();
    this.below.querySelector("button")?.focus();
  }

  // The row that is traced is in sight.
  reveal() {
    const { scrollTop: top, clientHeight: height } = this.scroller;
    const y = this.y(this.focus);
    if (y < top + HEAD || y > top + height - HEAD) this.scroller.scrollTop = y - height / 2;
  }

  // The whole drawing as SVG, whatever its size: for the page and for files.
  svg(width) {
    this.fitTo(width);
    const surface = new SvgSurface(width, this.height, palette().font);
    surface.node.setAttribute("aria-label", this.title);
    this.draw(surface, this.whole);
    return surface;
  }

  renderCanvas() {
    const { width, canvas } = this;
    const { clientHeight: height, scrollTop: top } = this.scroller;
    if (canvas.parentNode !== this.sizer) this.sizer.replaceChildren(canvas);
    canvas.setAttribute("aria-label", this.title);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const scale = window.devicePixelRatio || 1;
    const surface = new CanvasSurface(canvas, width, height, palette().font, scale);
    surface.context.translate(0, -top);
    this.draw(surface, { top, bottom: top + height, head: top });
  }

  // The whole drawing as pixels, at twice the resolution if a canvas can be that large.
  png() {
    const canvas = make("canvas");
    const { width, height } = this;
    const { font, paper } = palette();
    const scale = Math.min(2, LARGEST_CANVAS / height);
    const surface = new CanvasSurface(canvas, width, height, font, scale);
    surface.cell({ x: 0, y: 0, w: width, h: height, fill: paper });
    this.draw(surface, this.whole);
    return canvas;
  }

  rowsIn({ top, bottom }) {
    const first = Math.max(0, Math.floor((top - HEAD) / this.rowHeight));
    const last = Math.min(this.drawn, Math.ceil((bottom - HEAD) / this.rowHeight));
    return Array.from({ length: last - first }, (_, i) => this.kept?.[first + i] ?? first + i);
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
    const place = Math.floor((y - HEAD) / this.rowHeight);
    return place < 0 || place >= this.drawn ? null : (this.kept?.[place] ?? place);
  }
}
