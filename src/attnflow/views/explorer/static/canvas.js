// The same shapes as in svg.js, on a canvas.

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
