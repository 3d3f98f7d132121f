import { canKnockOut } from "./actions.js";
import { conclusionOf } from "./compare.js";
import { byId, make } from "./dom.js";
import { graphNote, graphTitle } from "./description.js";
import { FindingText } from "./finding.js";
import { Glance } from "./glance.js";
import { Graph } from "./graph.js";
import { HeatMap } from "./heatmap.js";
import { Legend } from "./legend.js";
import { Prediction } from "./prediction.js";
import { KnockoutCard } from "./knockouts.js";
import { headColumns, scaleOf } from "./scale.js";
import { Strip } from "./strip.js";
import { WayCard } from "./ways.js";

// One side of the page: tokens and prediction above, graph and heat map below.
class Side {
  constructor(actions) {
    this.heading = make("h2", { class: "pane-title" });
    this.prediction = new Prediction();
    this.strip = new Strip(actions);
    this.finding = new FindingText();
    this.legend = new Legend();
    const above = [this.heading, this.finding.element, ...this.strip.elements];
    const below = [this.legend.element, this.prediction.element, this.finding.more];
    this.pane = make("div", { class: "pane" }, ...above, ...below);
    this.title = make("h2");
    this.note = make("p", { class: "note" });
    const graph = make("div", { class: "graph" });
    const caption = make("figcaption", {}, this.title);
    this.card = make("figure", { class: "card graph-card" }, caption, graph, this.note);
    this.way = new WayCard(actions, (edges) => this.graph.highlight(edges));
    this.mapHost = make("div", { class: "map" });
    this.mapName = make("h3", { class: "pane-title" });
    byId("panes").append(this.pane);
    byId("graphs").append(this.card);
    this.knockouts = new KnockoutCard(actions);
    byId("ways").append(this.way.element);
    byId("knockouts").append(this.knockouts.element);
    this.glanceHost = make("div", { class: "glance", hidden: true });
    byId("map").append(make("div", {}, this.mapName, this.mapHost, this.glanceHost));
    this.graph = new Graph(graph, actions);
    this.map = new HeatMap(this.mapHost, actions);
    this.glance = new Glance(this.glanceHost, (...chosen) => actions.openHeads(...chosen));
  }

  show(pane, heading, { carried, behind, columns, served, beside }) {
    [this.heading, this.mapName].forEach((element) => {
      element.textContent = heading;
      element.hidden = !heading;
    });
    this.graph.beside = beside;
    this.map.beside = beside;
    this.finding.show(pane);
    this.legend.show(pane);
    this.prediction.show(pane);
    this.strip.show(pane);
    const trace = pane.view.trace(pane.method.name, pane.layer, pane.query, pane.key);
    const title = graphTitle(pane, trace);
    this.card.hidden = !pane.method.traced;
    this.graph.show(pane, trace, { carried, behind, title });
    this.title.textContent = title;
    this.note.textContent = graphNote(pane, trace, served);
    this.way.show(pane, trace, this.card.hidden);
    this.knockouts.show(pane, canKnockOut(pane.view.data, served) && !pane.shared);
    const atAGlance = columns === "all" && pane.map?.layered;
    const mapPane = mapOf(pane);
    this.map.show(mapPane, columns === "heads");
    this.mapHost.hidden = atAGlance || !pane.columns.length || !pane.method.layered;
    this.glanceHost.hidden = !atAGlance;
    this.mapHost.parentElement.hidden = this.mapHost.hidden && this.glanceHost.hidden;
    if (atAGlance) this.glance.show(mapPane);
  }

  remove() {
    const cards = [this.card, this.way.element, this.knockouts.element];
    [this.pane, ...cards, this.mapHost.parentElement].forEach((element) => element.remove());
  }
}

// As many sides as there are panes.
export class Layout {
  constructor(actions) {
    this.actions = actions;
    this.sides = [];
  }

  show(panes, options) {
    while (this.sides.length > panes.length) this.sides.pop().remove();
    while (this.sides.length < panes.length) this.sides.push(new Side(this.actions));
    byId("view").classList.toggle("two", panes.length > 1);
    const headings = headingsOf(panes);
    const beside = Math.max(...panes.map(({ view }) => view.size));
    this.actions.cards = this.sides.map(({ knockouts }) => knockouts);
    panes.forEach((pane, i) => this.sides[i].show(pane, headings[i], { ...options, beside }));
    byId("conclusion").textContent = conclusionOf(panes);
    const { classList } = byId("charts");
    classList.toggle("without-map", !panes.some(({ method }) => method.layered));
    classList.toggle(
      "without-ways",
      this.sides.every(({ way }) => way.element.hidden),
    );
    classList.toggle(
      "without-graph",
      this.sides.every(({ card }) => card.hidden),
    );
  }

  get charts() {
    return this.sides.flatMap(({ graph, map }) => [graph, map]);
  }

  get graph() {
    return this.sides[0].graph;
  }
}

// The pane of the heat map: heads of another method have a colour and a scale of their own.
function mapOf(pane) {
  const { method, map = method } = pane;
  if (map === method) return pane;
  const own = { ...pane, method: map, ratio: map.ratio };
  return { ...own, ...scaleOf(own, headColumns(own, !pane.columns.length)) };
}

function headingsOf(panes) {
  if (panes.length === 1) return [""];
  return panes.map(({ method, view }) => (panes[1].shared ? method.label : view.data.text));
}
