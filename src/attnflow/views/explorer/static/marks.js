import { palette } from "./colours.js";
import { edgeName } from "./edges.js";

export const MOST_CUT = 30; // edges of a bottleneck that are drawn

// What is marked in a graph: the bottleneck, and where a score starts and ends.

export function drawCut(graph, surface, span) {
  const colour = palette().cut;
  const widest = Math.max(...graph.cut.map((e) => e.amount));
  const visible = graph.inSight(graph.cut.slice(0, MOST_CUT), span);
  const crowd = Math.min(1, Math.sqrt(80 / (visible.length + 1)) + 0.2);
  visible.forEach((e) => {
    const share = e.amount / widest;
    const look = { colour, width: 0.9 + 1.2 * share, alpha: crowd * (0.3 + 0.6 * share) };
    const line = { ...graph.ends(e), ...look, dash: [2, 3] };
    surface.line(line, { cut: edgeName(e), capacity: e.amount });
  });
}

export function drawEnds(graph, surface) {
  const { query, key, method } = graph.pane;
  const { paper } = palette();
  const own = graph.colour;
  const start = { x: graph.x(graph.step), y: graph.y(query), r: 6, fill: paper, stroke: own };
  const end = { x: graph.x(method.reaches_input ? 0 : graph.step - 1), y: graph.y(key), r: 6 };
  surface.dot(start, { source: query });
  surface.dot({ ...end, fill: own, stroke: paper }, { sink: key });
}
