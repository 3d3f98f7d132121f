import assert from "node:assert/strict";
import { test } from "node:test";
import { align } from "../../../../src/attnflow/views/explorer/static/align.js";

const words = (text) => text.split(" ").filter(Boolean);
const aligned = (left, right) => align(words(left), words(right));

test("what is common stands beside itself", () => {
  assert.deepEqual(aligned("a b c", "a b c"), [
    [0, 0],
    [1, 1],
    [2, 2],
  ]);
});

test("as many words between common ones stand for each other", () => {
  assert.deepEqual(aligned("the keys are here", "the key is here"), [
    [0, 0],
    [1, 1],
    [2, 2],
    [3, 3],
  ]);
});

test("more words on one side stand alone", () => {
  assert.deepEqual(aligned("the old keys", "the keys"), [
    [0, 0],
    [1, null],
    [2, 1],
  ]);
  assert.deepEqual(aligned("the keys", "the very old keys"), [
    [0, 0],
    [null, 1],
    [null, 2],
    [1, 3],
  ]);
});

test("the longest common subsequence is kept, not the first match", () => {
  const pairs = aligned("a b c d", "b c d a");
  const common = pairs.filter(([i, j]) => i !== null && j !== null);
  assert.deepEqual(common, [
    [1, 0],
    [2, 1],
    [3, 2],
  ]);
});

test("every word is there once", () => {
  const pairs = aligned("x a y b b z", "a b w b q r");
  for (const [side, count] of [
    [0, 6],
    [1, 6],
  ]) {
    const seen = pairs.map((pair) => pair[side]).filter((at) => at !== null);
    assert.deepEqual(seen, [...Array(count).keys()]);
  }
});

test("one side, or both, may be empty", () => {
  assert.deepEqual(aligned("", "a"), [[null, 0]]);
  assert.deepEqual(aligned("", ""), []);
});
