// One way to draw on three things: SVG on the page, canvas where SVG would be slow, SVG as a file.
// Shapes: line (a curve between two columns), dot, cell, text.

const NS = "http://www.w3.org/2000/svg";

const curve = (l) => `M${l.x1} ${l.y1}C${(l.x1 + l.x2) / 2} ${l.y1} ${(l.x1 + l.x2) / 2} ${l.y2} ${l.x2} ${l.y2}`;

export class SvgSurface {
  constructor(width, height, font) {
    this.node = document.createElementNS(NS, "svg");
    this.set(this.node, { xmlns: NS, width, height, viewBox: `0 0 ${width} ${height}`, "font-family": font, role: "img" });
  }

  set(node, attributes) {
    for (const [name, value] of Object.entries(attributes)) if (value !== undefined) node.setAttribute(name, value);
    return node;
  }

  add(tag, attributes, data = {}) {
    const node = this.set(document.createElementNS(NS, tag), attributes);
    Object.assign(node.dataset, data);
    this.node.append(node);
    return node;
  }

  line(l, data) {
    this.add("path", { d: curve(l), fill: "none", stroke: l.colour, "stroke-width": l.width, "stroke-opacity": l.alpha, "stroke-dasharray": l.dash?.join(" "), "stroke-linecap": l.dash ? "butt" : "round" }, data);
  }

  dot(d, data) {
    this.add("circle", { cx: d.x, cy: d.y, r: d.r, fill: d.fill, stroke: d.stroke, "stroke-width": d.stroke ? 2 : undefined }, data);
  }

  cell(c, data) {
    this.add("rect", { x: c.x, y: c.y, width: c.w, height: c.h, rx: c.r ?? 0, fill: c.fill, stroke: c.stroke, "stroke-width": c.stroke ? 1.5 : undefined }, data);
  }

  text(t, data) {
    const node = this.add("text", { x: t.x, y: t.y, fill: t.fill, "font-size": t.size, "text-anchor": t.anchor, "font-weight": t.bold ? 600 : undefined, "dominant-baseline": "central", "unicode-bidi": "isolate" }, data);
    node.textContent = t.text;
  }
}

export class CanvasSurface {
  constructor(canvas, width, height, font, scale) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    this.font = font;
    this.context = canvas.getContext("2d");
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.context.clearRect(0, 0, width, height);
  }

  line(l) {
    const c = this.context;
    c.globalAlpha = l.alpha;
    c.strokeStyle = l.colour;
    c.lineWidth = l.width;
    c.lineCap = l.dash ? "butt" : "round";
    c.setLineDash(l.dash ?? []);
    c.beginPath();
    c.moveTo(l.x1, l.y1);
    c.bezierCurveTo((l.x1 + l.x2) / 2, l.y1, (l.x1 + l.x2) / 2, l.y2, l.x2, l.y2);
    c.stroke();
    c.globalAlpha = 1;
  }

  dot(d) {
    const c = this.context;
    c.beginPath();
    c.arc(d.x, d.y, d.r, 0, 2 * Math.PI);
    c.fillStyle = d.fill;
    c.fill();
    if (d.stroke) {
      c.setLineDash([]);
      c.lineWidth = 2;
      c.strokeStyle = d.stroke;
      c.stroke();
    }
  }

  cell(b) {
    const c = this.context;
    c.fillStyle = b.fill;
    c.fillRect(b.x, b.y, b.w, b.h);
    if (b.stroke) {
      c.setLineDash([]);
      c.lineWidth = 1.5;
      c.strokeStyle = b.stroke;
      c.strokeRect(b.x, b.y, b.w, b.h);
    }
  }

  text(t) {
    const c = this.context;
    c.font = `${t.bold ? "600 " : ""}${t.size}px ${this.font}`;
    c.fillStyle = t.fill;
    c.textAlign = { start: "left", middle: "center", end: "right" }[t.anchor ?? "start"];
    c.textBaseline = "middle";
    c.fillText(t.text, t.x, t.y);
  }
}
