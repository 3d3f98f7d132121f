import assert from "node:assert/strict";
import { test } from "node:test";
import {
  firstState,
  panesOf,
  unitScores,
} from "../../../../src/attnflow/views/explorer/static/panes.js";
import {
  colourTop,
  headColumns,
  layerColumns,
  ordinaryUnits,
} from "../../../../src/attnflow/views/explorer/static/scale.js";
import { INITIAL } from "../../../../src/attnflow/views/explorer/static/state.js";
import { View } from "../../../../src/attnflow/views/explorer/static/view.js";
import { viewData } from "./support.js";

const shown = (views, wanted = {}, served = false) =>
  firstState(views, { method: "far" }, INITIAL, wanted, served);

test("scores are found by method, layer and position", () => {
  const view = new View(viewData());
  assert.deepEqual([...view.row("near", 2, 0)], [9, 3, 4, 5]);
  assert.deepEqual([...view.row("far", 1, 0)], [8.5, 1.5, 0.5, 2.5]);
  assert.equal(view.row("far", 1, 3), undefined);
  assert.deepEqual(
    view.heads("far", 2, 0).map((row) => [...row]),
    [
      [1, 2, 3, 4],
      [5, 6, 7, 8],
    ],
  );
  assert.equal(view.lowestLayer, 1);
  assert.ok(view.hasScores("far"));
  assert.ok(!view.hasScores("fa"));
});

test("what arrives later is found, too", () => {
  const view = new View(viewData({ traces: [] }));
  const trace = { method: "far", layer: 2, query: 0, key: 3, edges: [] };
  view.addTrace(trace);
  assert.equal(view.trace("far", 2, 0, 3), trace);
  assert.equal(view.without([2, 1])[0].probability, 0.4);
  assert.equal(view.without([])[0].probability, 0.9);
  assert.equal(view.without([3]), undefined);
});

test("what can be blanked is what the document says", () => {
  const view = new View(viewData({ blankable: [3] }));
  assert.deepEqual(
    [0, 1, 2, 3].map((at) => view.canBlank(at)),
    [false, false, false, true],
  );
});

test("words and their scores are the document's, never sums", () => {
  const view = new View(viewData());
  const [pane] = panesOf({ ...shown([view]), words: true }, [view]);
  assert.deepEqual(
    pane.units.map(({ label }) => label),
    ["[CLS]", "cabinets", "are"],
  );
  assert.deepEqual(unitScores(pane, view.row("near", 2, 0)), [9, 70, 5]);
  const [tokens] = panesOf(shown([view]), [view]);
  assert.deepEqual(unitScores(tokens, view.row("near", 2, 0)), [9, 3, 4, 5]);
});

test("special tokens and the position asked about set no scale, unless nothing else is left", () => {
  const view = new View(viewData());
  const at = (query, words = false) =>
    ordinaryUnits(
      panesOf({ ...shown([view]), words, panes: [{ query, key: 2, blank: [] }] }, [view])[0],
    );
  assert.deepEqual(at(0), [1, 2, 3]);
  assert.deepEqual(at(2), [1, 3]);
  assert.deepEqual(at(0, true), [1, 2]);
  assert.deepEqual(at(2, true), [0, 1, 2]); // one word is left: its colours would say nothing
});

test("one scale for all layers, and heads count from 0", () => {
  const view = new View(viewData());
  const [pane] = panesOf({ ...shown([view]), method: "near" }, [view]);
  assert.deepEqual(
    layerColumns(pane).map(({ label }) => label),
    ["L1", "L2"],
  );
  assert.equal(colourTop(pane, layerColumns(pane)), 5);
  const [far] = panesOf(shown([view]), [view]);
  assert.deepEqual(
    headColumns(far).map(({ id, label }) => [id, label]),
    [
      [0, "H0"],
      [1, "H1"],
    ],
  );
  assert.equal(colourTop(far, headColumns(far)), 8);
});

test("a link may ask for what does not exist", () => {
  const view = new View(viewData());
  const panes = [{ query: 99, key: null, blank: [0, 1, 77] }];
  const state = shown([view], { method: "magic", layer: 9, compare: "nonsense", panes });
  assert.equal(state.method, "far");
  assert.equal(state.layer, 2);
  assert.equal(state.compare, "");
  assert.deepEqual(state.panes, [{ query: 0, key: 2, blank: [1] }]);
});

test("only a server shows methods that the document has no scores of", () => {
  const view = new View(viewData({ scores: viewData().scores.slice(0, 1) }));
  assert.equal(shown([view], { method: "far" }).method, "near");
  assert.equal(shown([view], { method: "far" }, true).method, "far");
});

test("two methods share a pane, two inputs have one each", () => {
  const views = [new View(viewData()), new View(viewData())];
  const methods = panesOf(shown(views, { compare: "near" }), views);
  assert.deepEqual(
    methods.map((pane) => [pane.at, pane.method.name, pane.shared]),
    [
      [0, "far", false],
      [0, "near", true],
    ],
  );
  const inputs = panesOf(shown(views), views);
  assert.deepEqual(
    inputs.map((pane) => [pane.at, pane.view]),
    [
      [0, views[0]],
      [1, views[1]],
    ],
  );
  assert.equal(panesOf(shown(views, { compare: "far" }), views).length, 1);
});
