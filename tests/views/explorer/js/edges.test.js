import assert from "node:assert/strict";
import { test } from "node:test";
import {
  attentionEdges,
  attentionOn,
  carriedEdges,
  cutEdges,
  edgeName,
  edgesBehind,
  routeEdges,
} from "../../../../src/attnflow/views/explorer/static/edges.js";
import { View } from "../../../../src/attnflow/views/explorer/static/view.js";
import { pack, viewData } from "./support.js";

const pane = (view, name) => ({ view, method: view.method(name), layer: 2, query: 0, key: 3 });
const names = (edges) => edges.map(edgeName);
const TRACE = {
  method: "far",
  layer: 2,
  query: 0,
  key: 3,
  edges: [
    [2, 0, 1, 0.5],
    [1, 1, 3, 0.04],
  ],
  cut: [[1, 1, 3, 0.6]],
};

test("attention is shown up to a step, without what is weak", () => {
  const view = new View(viewData());
  assert.deepEqual(names(attentionEdges(view, 2, 0)), ["1/0/1", "2/1/3", "1/3/2", "2/0/0"]);
  assert.deepEqual(names(attentionEdges(view, 1, 0)), ["1/0/1", "1/3/2"]);
  assert.deepEqual(names(attentionEdges(view, 2, 0.5)), ["1/0/1", "2/1/3"]);
  assert.deepEqual(attentionEdges(new View(viewData({ edges: null })), 2, 0), []);
});

test("the weight of an edge is looked up", () => {
  const view = new View(viewData());
  assert.equal(attentionOn(view, { step: 2, query: 1, key: 3 }), Math.fround(0.4));
  assert.equal(attentionOn(view, { step: 1, query: 1, key: 3 }), undefined);
  assert.equal(attentionOn(new View(viewData({ edges: null })), { step: 1 }), undefined);
});

test("a trace carries the score, without edges that are too thin", () => {
  const view = new View(viewData({ traces: [TRACE] }));
  assert.deepEqual(names(carriedEdges(pane(view, "far"), 0)), ["2/0/1", "1/1/3"]);
  assert.deepEqual(names(carriedEdges(pane(view, "far"), 0.1)), ["2/0/1"]);
  assert.deepEqual(cutEdges(TRACE), [{ step: 1, query: 1, key: 3, amount: 0.6 }]);
  assert.deepEqual(cutEdges(undefined), []);
});

test("scores of the layer below are edges of one step, strongest first", () => {
  const edges = carriedEdges(pane(new View(viewData()), "near"), 0);
  assert.deepEqual(names(edges), ["2/0/0", "2/0/3", "2/0/2", "2/0/1"]);
});

test("without a trace nothing is carried, unless scores are all there is", () => {
  assert.deepEqual(carriedEdges(pane(new View(viewData()), "far"), 0), []);
  const alone = carriedEdges(pane(new View(viewData({ edges: null })), "far"), 0);
  assert.equal(alone.length, 8);
  assert.deepEqual(new Set(alone.map(({ step }) => step)), new Set([1, 2]));
});

test("a route goes down one step at a time", () => {
  assert.deepEqual(names(routeEdges({ positions: [0, 1, 3], amount: 1 }, 2)), ["2/0/1", "1/1/3"]);
});

const ONE_ROW = { ...viewData().methods[1], name: "answer", layered: false, signed: true };
const AMOUNTS = {
  step: pack([2, 1], [2], "u2"),
  query: pack([0, 1], [2], "u2"),
  key: pack([1, 3], [2], "u2"),
  weight: pack([-2, 1], [2]),
  kept: 0,
};

test("behind a method without layers are the amounts, with their signs", () => {
  const methods = [...viewData().methods, ONE_ROW];
  const view = new View(viewData({ methods, amounts: AMOUNTS }));
  const amounts = edgesBehind(pane(view, "answer"), 2, 0.9);
  assert.deepEqual(names(amounts), ["2/0/1", "1/1/3"]);
  assert.deepEqual(
    amounts.map(({ amount }) => amount),
    [-2, 1],
  );
  assert.deepEqual(names(edgesBehind(pane(view, "far"), 1, 0)), ["1/0/1", "1/3/2"]);
});

test("of a method without layers no edge of a trace is too thin", () => {
  const trace = { ...TRACE, method: "answer" };
  const methods = [...viewData().methods, ONE_ROW];
  const view = new View(viewData({ methods, traces: [trace], sources: [0] }));
  assert.deepEqual(names(carriedEdges(pane(view, "answer"), 0.5)), ["2/0/1", "1/1/3"]);
  assert.deepEqual(carriedEdges({ ...pane(view, "answer"), key: 1 }, 0), []);
  assert.equal(view.hasRoutes(ONE_ROW, 3), true);
  assert.equal(view.hasRoutes(ONE_ROW, 0), false);
  assert.equal(view.hasRoutes(view.method("far"), 0), true);
});
