import { make } from "./dom.js";
import { routeEdges } from "./edges.js";
import { edgesOut } from "./knockouts.js";
import { runsOf, spanOf } from "./names.js";
import { listed, percent, powerFor, unitOf } from "./numbers.js";

const SHOWN = 8;
const LEAST = 0.002; // of the score that a step carries to be worth a line

const CHECK = "Check it: remove these edges from the model";

// In words and as a list, how the score of the traced token came about; `highlight` shows edges.
export class WayCard {
  constructor(actions, highlight) {
    this.actions = actions;
    this.highlight = highlight;
    this.title = make("h2");
    this.sentence = make("p", { class: "sentence" });
    this.verified = make("p", { class: "verified" });
    const onclick = () => this.verify();
    this.check = make("button", { type: "button", class: "check-cut", onclick }, CHECK);
    this.routes = make("ol", { class: "routes", "aria-label": "Routes" });
    const caption = make("figcaption", {}, this.title);
    const parts = [this.sentence, this.verified, this.check, caption, this.routes];
    this.element = make("figure", { class: "card way-card" }, ...parts);
  }

  show(pane, trace, hidden) {
    const lines = trace ? wayLines(pane, trace, this) : [];
    this.pane = pane;
    this.element.hidden = hidden || !lines.length;
    this.title.textContent = wayTitle(trace);
    this.sentence.textContent = trace?.sentence ?? "";
    this.verified.textContent = trace?.verified ?? "";
    this.verified.hidden = !trace?.verified;
    this.check.hidden = !this.actions.verify || !trace?.all_cut || Boolean(trace.verified);
    this.check.disabled = false;
    this.routes.replaceChildren(...lines);
  }

  // Remove the cut from the model, and see what it says then.
  verify() {
    this.check.disabled = true;
    this.actions.verify(this.pane.at, this.pane);
  }
}

// How a score came about, as a list: the largest routes, or the steps that carry most where a
// method has no routes. What is pointed at is shown in the graph, by `highlight`.

function wayTitle(trace) {
  if (!trace) return "";
  const unit = unitOf(powerFor(largestOf(trace)));
  const what = trace.routes.length ? "Largest routes" : "Steps between tokens that carry most";
  return unit ? `${what}, ${unit}` : what;
}

function wayLines(pane, trace, card) {
  const { view } = pane;
  const ways = trace.routes.length ? routesOf(trace, view) : stepsOf(trace);
  const power = powerFor(largestOf(trace));
  const lines = ways.slice(0, SHOWN).map((way) => makeLine(way, pane, trace, power, card));
  const rest = (trace.routes.length ? trace.all_routes : ways.length) - lines.length;
  if (rest > 0) lines.push(make("li", { class: "rest note" }, `and ${rest} more`));
  return lines;
}

const largestOf = ({ routes, edges }) => routes[0]?.amount ?? edges[0]?.[3] ?? 0;

function routesOf({ routes, layer }, view) {
  const top = view.data.ends[layer - 1];
  return routes.map((route) => ({
    amount: route.amount,
    runs: runsOf(route.positions),
    edges: routeEdges(route, top),
  }));
}

// Staying on a token is left out: that is the residual connection.
function stepsOf({ edges, value }) {
  return edges
    .filter(([, query, key, amount]) => query !== key && amount >= LEAST * Math.abs(value))
    .map(([step, query, key, amount]) => ({
      amount,
      runs: [run(key, step - 1), run(query, step)],
      edges: [{ step, query, key, amount }],
    }));
}

const run = (position, step) => ({ position, first: step, last: step });

function makeLine({ amount, runs, edges }, pane, trace, power, { actions, highlight }) {
  const { view } = pane;
  const path = runs.map((each) =>
    make(
      "span",
      { class: "run" },
      make("span", { class: "name" }, view.names[each.position]),
      make("small", {}, ` ${spanOf(each, view.data.columns)}`),
    ),
  );
  const show = () => highlight(edges);
  const hide = () => highlight(null);
  const knockOut = () => {
    if (actions.knocksOut) actions.knockOut(pane, edgesOut(pane, edges));
  };
  const onkeydown = ({ key }) => key === "Enter" && knockOut();
  const pointing = { onpointerenter: show, onpointerleave: hide, onfocus: show, onblur: hide };
  const line = make(
    "li",
    { tabIndex: 0, ...pointing, onclick: knockOut, onkeydown },
    make("b", {}, listed(amount, power)),
    make("span", { class: "quiet" }, percent(amount / Math.abs(trace.value))),
    make("span", { class: "path" }, ...path),
  );
  line.dataset.amount = amount;
  return line;
}
