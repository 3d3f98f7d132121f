import { palette } from "./colours.js";
import { shorten } from "./text.js";

export const HEAD = 26; // the height of the columns' names

// Names of a chart's rows and columns; a column's name is left out if there is no room.
export function drawNames(chart, surface, span, columns, chosen) {
  drawRowNames(chart, surface, span);
  const { paper } = palette();
  // While a long chart scrolls, the columns' names stay on top of it.
  if (span.head) surface.cell({ x: 0, y: span.head, w: chart.width, h: HEAD - 4, fill: paper });
  drawColumnNames(chart, surface, span, columns, chosen);
}

function drawRowNames(chart, surface, span) {
  const { ink, muted } = palette();
  const size = chart.labelSize;
  chart.rowsIn(span).forEach((row) => {
    const bold = chart.marked.includes(row);
    const text = shorten(chart.labels[row], chart.labelWidth - 10, size, bold);
    const place = { x: chart.labelWidth - 8, y: chart.y(row), anchor: "end" };
    surface.text({ ...place, text, size, fill: bold ? ink : muted, bold }, { row });
  });
}

function drawColumnNames(chart, surface, span, columns, chosen) {
  const { ink, muted } = palette();
  const widest = Math.max(...columns.map(({ label }) => 6.4 * label.length + 6));
  const apart = columns.length > 1 ? columns[1].x - columns[0].x : chart.width;
  const every = Math.max(1, Math.ceil(widest / apart));
  const chosenAt = columns.findIndex(({ id }) => id === chosen);
  const y = span.head + HEAD / 2 - 2;
  columns.forEach(({ id, label, x }, i) => {
    const bold = i === chosenAt;
    const nearChosen = chosenAt >= 0 && Math.abs(i - chosenAt) < every;
    if (!bold && (nearChosen || i % every)) return;
    const place = { x, y, anchor: "middle" };
    surface.text(
      { ...place, text: label, size: 11, fill: bold ? ink : muted, bold },
      { column: id },
    );
  });
}
