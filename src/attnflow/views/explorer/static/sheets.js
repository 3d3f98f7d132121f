import { HEAD } from "./axes.js";
import { palette } from "./colours.js";
import { SvgSurface } from "./svg.js";

const SHEET = 880; // pixels of a chart that fit on a printed page, below its title
const ROWS = [12, 24, 48];
const HEIGHTS = { screen: [30, 25, 20, 17], paper: [22, 18, 15, 13] }; // for so many, or for more

export function rowHeight(rows, printing) {
  const at = ROWS.findIndex((most) => rows <= most);
  return HEIGHTS[printing ? "paper" : "screen"].at(at);
}

// A chart in pieces that fit on a page each, because a printer breaks no drawing. Every piece has
// the names of the columns on top.
export function sheetsOf(chart) {
  const { rows, rowHeight, width, title } = chart;
  const most = Math.floor((SHEET - HEAD) / rowHeight);
  const count = Math.ceil(rows / most);
  return Array.from({ length: count }, (_, at) => {
    const top = at * most * rowHeight;
    const high = Math.min(most, rows - at * most) * rowHeight;
    const end = at === count - 1 ? 10 : 0;
    const surface = new SvgSurface(width, HEAD + high + end, palette().font, top);
    surface.node.setAttribute("aria-label", title);
    chart.draw(surface, { top: top + HEAD, bottom: top + HEAD + high, head: top });
    return surface.node;
  });
}
