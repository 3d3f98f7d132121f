import assert from "node:assert/strict";
import { test } from "node:test";

import {
  Answered,
  spanFromText,
  spanToText,
} from "../../../../src/attnflow/views/explorer/static/written.js";
import { pack } from "./support.js";

const data = {
  tokens: ["one", " two", " un", "do", "."],
  labels: ["one", "two", "un", "do", "."],
  ordinary: [0, 1, 2, 3],
  answer: [2, 3, 4],
  words: [[0, 1], [2]],
  pieces: [
    [0, 1],
    [1, 2],
    [2, 3],
  ],
  parts: [
    { name: "a", role: "source", drop: 0, positions: [0] },
    { name: "b", role: "source", drop: 1, positions: [1] },
    { name: "answer", role: "answer", drop: null, positions: [2, 3, 4] },
  ],
  scores: pack([0.5, 0.25, 0, 0, 0, 0.25, 0.25, 0.5, 0, 0, 0.1, 0.2, 0.3, 0.4, 0], [3, 5]),
  part_scores: pack([0.5, 0.25, 0, 0.25, 0.25, 0.5, 0.1, 0.2, 0.7], [3, 3]),
  drops: pack([1, 0, 2, 0.5, 0, 0], [3, 2]),
  probabilities: [0.5, 0.5, 1],
  method: { ratio: false },
};

test("a span is the rows of its words, in any order", () => {
  const answered = new Answered(data);
  assert.deepEqual(answered.rowsOf({ first: 1, last: 0 }), [0, 1, 2]);
  assert.deepEqual(answered.rowsOf({ first: 0, last: 0 }), [0, 1]);
  assert.equal(answered.textOf([0, 1]), " undo");
  assert.ok(answered.isWhole(answered.whole));
  assert.ok(!answered.isWhole({ first: 1, last: 1 }));
});

test("parts have the mean of their scores, shares that sum to 1, and drops that add up", () => {
  const table = new Answered(data).table([0, 1]);
  assert.deepEqual(
    table.map(({ score }) => score),
    [0.375, 0.25, 0.25],
  );
  assert.ok(Math.abs(table.reduce((sum, { share }) => sum + share, 0) - 1) < 1e-9);
  assert.deepEqual(
    table.map(({ drop }) => drop),
    [3, 0.5, null],
  );
});

test("scores below 0 have no shares", () => {
  const signed = { ...data, part_scores: pack([-1, 2, 0, 1, 1, 1, 0, 0, 1], [3, 3]) };
  assert.deepEqual(
    new Answered(signed).table([2]).map(({ share }) => share),
    [null, null, null],
  );
});

test("ratios to chance have no shares", () => {
  const ratios = { ...data, method: { ratio: true } };
  assert.ok(new Answered(ratios).table([0]).every(({ share }) => share === null));
});

test("an unlikely answer is told by its mean token, a likely one as a whole", () => {
  const likely = new Answered(data);
  assert.ok(Math.abs(likely.odds([0, 1], Math.log(2)) - 0.125) < 1e-12);
  const unlikely = new Answered({ ...data, probabilities: [0.1, 0.1, 1] });
  assert.ok(Math.abs(unlikely.odds([0, 1]) - 0.1) < 1e-12);
  assert.ok(Math.abs(unlikely.odds([0, 1], Math.log(4)) - 0.05) < 1e-12);
  assert.ok(Math.abs(unlikely.odds([0], Math.log(4)) - 0.025) < 1e-12);
});

test("the strongest tokens come with their part, special ones are left out", () => {
  const found = new Answered(data).strongest([2], 2);
  assert.deepEqual(
    found.map(({ label, part }) => [label, part]),
    [
      ["do", "answer"],
      ["un", "answer"],
    ],
  );
  assert.deepEqual(new Answered({ ...data, scores: null }).strongest([0], 3), []);
});

test("words are as likely as their tokens together", () => {
  assert.ok(Math.abs(new Answered(data).probability([0, 1]) - 0.25) < 1e-12);
});

test("spans in links", () => {
  assert.equal(spanToText({ first: 3, last: 3 }), "3");
  assert.equal(spanToText({ first: 5, last: 3 }), "5-3");
  assert.deepEqual(spanFromText("2-4", 9), { first: 2, last: 4 });
  assert.deepEqual(spanFromText("2", 9), { first: 2, last: 2 });
  ["", undefined, "x", "9", "1-9", "-1"].forEach((text) =>
    assert.equal(spanFromText(text, 9), null),
  );
});
