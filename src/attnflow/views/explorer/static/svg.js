// One interface for two surfaces: SVG, here, on the page and in files; a canvas where SVG would be
// slow. Shapes: line (a curve between two columns), dot, cell, text.

const NS = "http://www.w3.org/2000/svg";

const curve = (l) =>
  `M${l.x1} ${l.y1}C${(l.x1 + l.x2) / 2} ${l.y1} ${(l.x1 + l.x2) / 2} ${l.y2} ${l.x2} ${l.y2}`;

export class SvgSurface {
  constructor(width, height, font) {
    this.node = document.createElementNS(NS, "svg");
    this.set(this.node, {
      xmlns: NS,
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      "font-family": font,
      role: "img",
    });
  }

  set(node, attributes) {
    for (const [name, value] of Object.entries(attributes))
      if (value !== undefined) node.setAttribute(name, value);
    return node;
  }

  add(tag, attributes, data = {}) {
    const node = this.set(document.createElementNS(NS, tag), attributes);
    Object.assign(node.dataset, data);
    this.node.append(node);
    return node;
  }

  line(l, data) {
    this.add(
      "path",
      {
        d: curve(l),
        fill: "none",
        stroke: l.colour,
        "stroke-width": l.width,
        "stroke-opacity": l.alpha,
        "stroke-dasharray": l.dash?.join(" "),
        "stroke-linecap": l.dash ? "butt" : "round",
      },
      data,
    );
  }

  dot(d, data) {
    this.add(
      "circle",
      {
        cx: d.x,
        cy: d.y,
        r: d.r,
        fill: d.fill,
        stroke: d.stroke,
        "stroke-width": d.stroke ? 2 : undefined,
      },
      data,
    );
  }

  cell(c, data) {
    this.add(
      "rect",
      {
        x: c.x,
        y: c.y,
        width: c.w,
        height: c.h,
        rx: c.r ?? 0,
        fill: c.fill,
        stroke: c.stroke,
        "stroke-width": c.stroke ? 1.5 : undefined,
      },
      data,
    );
  }

  text(t, data) {
    const node = this.add(
      "text",
      {
        x: t.x,
        y: t.y,
        fill: t.fill,
        "font-size": t.size,
        "text-anchor": t.anchor,
        "font-weight": t.bold ? 600 : undefined,
        "dominant-baseline": "central",
        "unicode-bidi": "isolate",
      },
      data,
    );
    node.textContent = t.text;
  }
}
