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
  value: 0.5,
  edges: [
    [2, 0, 1, 0.5],
    [1, 1, 3, 0.04],
  ],
  cut: [[1, 1, 3, 0.6]],
};

test("attention is shown up to a step, without what is weak", () => {
  const view = new View(viewData());
  // 2/0/0 stays on its token
  assert.deepEqual(names(attentionEdges(view, 2)), ["1/0/1", "2/1/3", "1/3/2"]);
  assert.deepEqual(names(attentionEdges(view, 1)), ["1/0/1", "1/3/2"]);
  const faint = { ...viewData().edges, weight: pack([0.8, 0.4, 0.07, 0.06], [4]) };
  assert.deepEqual(names(attentionEdges(new View(viewData({ edges: faint })), 2)), [
    "1/0/1",
    "2/1/3",
  ]);
  assert.deepEqual(attentionEdges(new View(viewData({ edges: null })), 2), []);
});

test("the weight of an edge is looked up", () => {
  const view = new View(viewData());
  assert.equal(attentionOn(view, { step: 2, query: 1, key: 3 }), Math.fround(0.4));
  assert.equal(attentionOn(view, { step: 1, query: 1, key: 3 }), undefined);
  assert.equal(attentionOn(new View(viewData({ edges: null })), { step: 1 }), undefined);
});

test("a trace carries the score, of each step so much as is asked for", () => {
  const view = new View(viewData({ traces: [TRACE] }));
  assert.deepEqual(names(carriedEdges(pane(view, "far"), 1)), ["2/0/1", "1/1/3"]);
  const edges = [
    [2, 0, 1, 0.6],
    [1, 1, 3, 0.4],
    [1, 2, 3, 0.15],
    [1, 0, 3, 0.05],
  ];
  const many = new View(viewData({ traces: [{ ...TRACE, value: 0.6, edges }] }));
  const shown = (share) => names(carriedEdges(pane(many, "far"), share));
  assert.deepEqual(shown(0.5), ["2/0/1", "1/1/3"]);
  assert.deepEqual(shown(0.9), ["2/0/1", "1/1/3", "1/2/3"]);
  assert.deepEqual(shown(1), ["2/0/1", "1/1/3", "1/2/3", "1/0/3"]);
  assert.deepEqual(cutEdges(TRACE), [{ step: 1, query: 1, key: 3, amount: 0.6 }]);
  assert.deepEqual(cutEdges(undefined), []);
});

test("scores of the layer below are edges of one step, strongest first", () => {
  const edges = (share) => names(carriedEdges(pane(new View(viewData()), "near"), share));
  assert.deepEqual(edges(1), ["2/0/0", "2/0/3", "2/0/2", "2/0/1"]); // 9, 5, 4 and 3 of 21
  assert.deepEqual(edges(0.6), ["2/0/0", "2/0/3"]);
});

test("without a trace nothing is carried, unless scores are all there is", () => {
  assert.deepEqual(carriedEdges(pane(new View(viewData()), "far"), 1), []);
  const alone = carriedEdges(pane(new View(viewData({ edges: null })), "far"), 1);
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

test("of a method without layers nothing is carried where the answer is read", () => {
  const trace = { ...TRACE, method: "answer" };
  const methods = [...viewData().methods, ONE_ROW];
  const view = new View(viewData({ methods, traces: [trace], sources: [0] }));
  assert.deepEqual(names(carriedEdges(pane(view, "answer"), 1)), ["2/0/1", "1/1/3"]);
  assert.deepEqual(carriedEdges({ ...pane(view, "answer"), key: 1 }, 0), []);
  assert.equal(view.hasRoutes(ONE_ROW, 3), true);
  assert.equal(view.hasRoutes(ONE_ROW, 0), false);
  assert.equal(view.hasRoutes(view.method("far"), 0), true);
});
