import assert from "node:assert/strict";
import { test } from "node:test";
import {
  digits,
  direction,
  speaks,
  listed,
  percent,
  points,
  powerFor,
  sharedPower,
  timesOf,
  unitOf,
  unpack,
} from "../../../../src/attnflow/views/explorer/static/numbers.js";
import { pack } from "./support.js";

test("arrays are unpacked with their shape", () => {
  const { shape, values } = unpack(pack([0.5, -2, 3e-5], [3, 1]));
  assert.deepEqual(shape, [3, 1]);
  assert.ok(values instanceof Float32Array);
  assert.deepEqual([...values], [0.5, -2, Math.fround(3e-5)]);
  assert.deepEqual([...unpack(pack([1, 65535], [2], "u2")).values], [1, 65535]);
});

test("odds are written out up to a thousand million", () => {
  const shown = [4, 350, 70_900, 3.2e14].map((size) => timesOf(Math.log(size)));
  assert.deepEqual(shown, ["4.0", "350", "71,000", "10¹⁴"]);
});

test("scores have three digits, however large", () => {
  const shown = {
    0: "0",
    0.12345: "0.123",
    1: "1.00",
    "-0.5": "−0.500",
    12.345: "12.3",
    1234.6: "1235",
    0.9999: "1.00",
    0.00012: "0.000120",
    0.00001: "0.0000100",
    "-0.00001": "−0.0000100",
    "2e-8": "20.0 × 10⁻⁹",
  };
  for (const [value, text] of Object.entries(shown)) assert.equal(digits(Number(value)), text);
  assert.equal(digits(5.721, true), "5.72×");
});

test("numbers that stand together share a unit, as in the library", () => {
  assert.deepEqual([0.7, 0.01, 0.0099999, 0.0042, 2e-8, 0].map(powerFor), [0, 0, -3, -3, -9, 0]);
  assert.equal(unitOf(-3), "× 10⁻³");
  assert.equal(unitOf(0), "");
  assert.equal(listed(0.0042, -3), "4.20");
  assert.equal(listed(2e-9, 0), "<0.0001");
  assert.equal(listed(-2e-9, 0), ">−0.0001");
  assert.equal(listed(5.721, 0, true), "5.72×");
});

test("a number that is thousands of the others' unit leaves each its own", () => {
  assert.equal(sharedPower(2e-6, [1e-6, 2e-6]), -6);
  assert.equal(sharedPower(2e-6, [1e-6, 0.997141]), null);
  assert.equal(sharedPower(0.2, [0.997141]), 0);
  assert.equal(listed(0.997141, null), "0.997");
  assert.equal(listed(0.000002, null), "0.00000200");
  assert.equal(unitOf(null), "");
});

test("shares near 0 and 1 have one more digit", () => {
  assert.equal(percent(0.1234), "12.3 %");
  assert.equal(percent(0.0004), "0.04 %");
  assert.equal(percent(0.99987), "99.99 %");
});

test("changes have a sign, and none where nothing is seen to change", () => {
  assert.equal(points(0.123), "+12.3");
  assert.equal(points(-0.123), "−12.3");
  assert.equal(points(-0.0001), "±0.0");
  assert.deepEqual([0.1, -0.1, -0.0001].map(direction), ["up", "down", "same"]);
  assert.deepEqual([0.1, -0.1, -0.0001].map(speaks), ["speaks-against", "speaks-for", "same"]);
});
