import assert from "node:assert/strict";
import { test } from "node:test";
import {
  inSentence,
  numbered,
  quote,
  runsOf,
  spanOf,
} from "../../../../src/attnflow/views/explorer/static/names.js";

test("tokens that occur more than once have their position", () => {
  assert.deepEqual(numbered(["a", "the", "b", "the"]), ["a", "the:1", "b", "the:3"]);
  assert.deepEqual(numbered([]), []);
});

test("a quoted token does not turn the sentence around it", () => {
  assert.equal(quote("كتاب"), "“\u2068كتاب\u2069”");
});

test("a route is written as runs, from the input up", () => {
  const columns = ["input", "L1", "L2", "L3", "L4"];
  const runs = runsOf([7, 7, 2, 5, 5]);
  assert.deepEqual(runs, [
    { position: 5, first: 0, last: 1 },
    { position: 2, first: 2, last: 2 },
    { position: 7, first: 3, last: 4 },
  ]);
  assert.deepEqual(
    runs.map((run) => spanOf(run, columns)),
    ["input–1", "L2", "L3–4"],
  );
});

test("a title inside a sentence begins small, and an acronym stays one", () => {
  assert.equal(inSentence("Attention × gradient"), "attention × gradient");
  assert.equal(inSentence("ALTI"), "ALTI");
});
