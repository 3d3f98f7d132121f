import assert from "node:assert/strict";
import { test } from "node:test";
import {
  conclusionOf,
  correlation,
} from "../../../../src/attnflow/views/explorer/static/compare.js";
import { View } from "../../../../src/attnflow/views/explorer/static/view.js";
import { pack, viewData } from "./support.js";

test("ranks are compared, and what is equal shares one", () => {
  assert.equal(correlation([1, 2, 3, 4], [10, 20, 30, 40]), 1);
  assert.equal(correlation([1, 2, 3, 4], [4, 3, 2, 1]), -1);
  assert.equal(correlation([1, 1, 1], [1, 2, 3]), 0);
  // Ranks 0, 1.5, 1.5, 3 and 0, 1, 3, 2: by hand, 3 / √(4.5 · 5).
  assert.ok(Math.abs(correlation([1, 2, 2, 9], [1, 2, 8, 4]) - 3 / Math.sqrt(22.5)) < 1e-12);
});

const LABELS = ["[CLS]", "a", "b", "c", "d", "e"];
const said = (probability) => [{ label: "plural", probability }];

function view(changes = {}) {
  const data = viewData({
    tokens: LABELS,
    labels: LABELS,
    words: null,
    ordinary: [1, 2, 3, 4, 5],
    blankable: [1, 2, 3, 4, 5],
    scores: [
      { method: "near", layers: [2], queries: [0], values: pack([0, 1, 2, 3, 4, 5], [1, 1, 6]) },
      { method: "far", layers: [2], queries: [0], values: pack([0, 5, 4, 3, 2, 1], [1, 1, 6]) },
    ],
    head_scores: [],
    blanked: [0.85, 0.8, 0.7, 0.6, 0.2].map((share, at) => ({
      positions: [at + 1],
      said: said(share),
      change: share - 0.9,
    })),
    ...changes,
  });
  return new View(data);
}

const pane = (of, name, shared = false) => ({
  view: of,
  method: of.method(name),
  layer: 2,
  query: 0,
  units: of.units(false),
  words: false,
  shared,
});

test("of two methods the one is named that the experiment supports", () => {
  const of = view();
  const found = conclusionOf([pane(of, "near"), pane(of, "far", true)]);
  // Without e the answer changes most, and near gives it most.
  assert.match(found, /^They differ most on “\u2068[ae]\u2069”: /);
  assert.match(found, /supports n \(ρ 1\.00\) more than f \(ρ −1\.00\)\.$/);
  const same = conclusionOf([pane(of, "near"), pane(of, "near", true)]);
  assert.match(same, /supports neither more/);
  const unknown = view({ blanked: [] });
  assert.match(
    conclusionOf([pane(unknown, "near"), pane(unknown, "far", true)]),
    /neither is checked by it\.$/,
  );
});

test("a method that is the experiment is not judged by it", () => {
  const of = view();
  const experiment = { ...pane(of, "near"), method: { ...of.method("near"), name: "blank-out" } };
  of.row = () => Float32Array.from([0, 1, 2, 3, 4, 5]);
  const found = conclusionOf([{ ...pane(of, "far") }, { ...experiment, shared: true }]);
  assert.match(found, /N is the experiment itself: f agrees with it by ρ 1\.00\.$/);
  // Signs count where the method's scores have them: here all words speak for the answer.
  of.row = () => Float32Array.from([0, -1, -2, -3, -4, -5]);
  const signed = { ...pane(of, "far"), method: { ...of.method("far"), signed: true } };
  assert.match(conclusionOf([signed, { ...experiment, shared: true }]), /by ρ −1\.00\.$/);
});

test("words that only one of two texts has are called so", () => {
  const labels = ["[CLS]", "a", "b", "c", "d"];
  const values = pack([0, 1, 2, 3, 4], [1, 1, 5]);
  const scores = [{ method: "near", layers: [2], queries: [0], values }];
  const shorter = view({ labels, tokens: labels, ordinary: [1, 2, 3, 4], scores, blanked: [] });
  const [one, two] = [pane(view(), "near"), pane(shorter, "near")];
  assert.match(conclusionOf([one, two]), /^The texts differ in “\u2068e\u2069” \(left out\)\./);
  assert.match(conclusionOf([two, one]), /^The texts differ in “\u2068e\u2069” \(added\)\./);
});

test("of two texts it is said what differs, what changes, and which word matters", () => {
  const other = view({
    labels: LABELS.map((label) => (label === "e" ? "x" : label)),
    said: [{ label: "singular", probability: 0.6 }],
    blanked: [],
  });
  assert.equal(
    conclusionOf([pane(view(), "near"), pane(other, "near")]),
    "The texts differ in “\u2068e\u2069” → “\u2068x\u2069”. The answer changes from plural (90.0 %) to " +
      "singular (60.0 %). Of these, “\u2068e\u2069” matters most: without it P(plural) of the first " +
      "changes by −70.0 points.",
  );
  assert.equal(conclusionOf([pane(view(), "near")]), "");
});

test("of two texts words are named, whatever their pieces", () => {
  const [one, two] = ["cab", "mat"].map(
    (start) =>
      new View({
        ...viewData({
          labels: ["[CLS]", start, "##inets", "are"],
          words: { groups: [[0], [1, 2], [3]], labels: ["[CLS]", `${start}inets`, "are"] },
          blanked: [{ positions: [1, 2], said: said(0.5), change: -0.4 }],
        }),
      }),
  );
  assert.equal(
    conclusionOf([pane(one, "near"), pane(two, "near")]),
    "The texts differ in “\u2068cabinets\u2069” → “\u2068matinets\u2069”. The answer stays plural: " +
      "90.0 % → 90.0 % (±0.0 points). Of these, “\u2068cabinets\u2069” matters most: without it " +
      "P(plural) of the first changes by −40.0 points.",
  );
});

test("the word that is said to matter most is the one whose removal changes most", () => {
  let seed = 1; // whatever the numbers are
  const random = () => {
    seed = (seed * 48271) % 2147483647;
    return seed / 2147483647;
  };
  for (let round = 0; round < 50; round += 1) {
    const changes = Array.from({ length: 5 }, () => random() ** 4 * (random() < 0.5 ? -0.9 : 0.1));
    const blanked = changes.map((change, at) => ({ positions: [at + 1], said: [], change }));
    const other = view({ labels: LABELS.map((label) => label.toUpperCase()), blanked: [] });
    const found = conclusionOf([pane(view({ blanked }), "near"), pane(other, "near")]);
    const sizes = changes.map(Math.abs);
    const largest = Math.max(...sizes);
    const named = /Of these, “\u2068(\w)\u2069” matters most.* by (.*) points\./.exec(found);
    assert.equal(Boolean(named), largest >= 0.01);
    if (!named) continue;
    assert.equal(named[1], LABELS[sizes.indexOf(largest) + 1]);
    assert.ok(Math.abs(Math.abs(Number(named[2].replace("−", "-"))) - 100 * largest) < 0.051);
  }
});
