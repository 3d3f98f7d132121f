import assert from "node:assert/strict";
import { test } from "node:test";
import {
  fromHash,
  INITIAL,
  Store,
  toHash,
} from "../../../../src/attnflow/views/explorer/static/state.js";

const STATE = {
  ...INITIAL,
  method: "dummy",
  layer: 3,
  words: true,
  ranked: false,
  carried: 70,
  columns: "heads",
  compare: "text",
  panes: [
    { query: 0, key: 2, blank: [] },
    { query: 4, key: 1, blank: [5, 6] },
  ],
};

test("a link restores the state", () => {
  const { state, extra } = fromHash(`#${toHash(STATE, { text: "a&b = c#d" })}`);
  assert.deepEqual({ ...INITIAL, ...state }, STATE);
  assert.deepEqual(extra, { text: "a&b = c#d" });
});

test("a link is short: the usual is left out, a pane is three numbers", () => {
  assert.equal(
    toHash(STATE)
      .split("&")
      .filter((part) => part.startsWith("pane="))
      .join("&"),
    "pane=0.2&pane=4.1.5-6",
  );
  assert.equal(toHash(INITIAL), "");
  assert.equal(
    toHash({ ...INITIAL, method: "dummy", words: true }, {}, { method: "dummy", words: true }),
    "",
  );
  assert.equal(toHash({ ...INITIAL, words: false }, {}, { words: true }), "words=0");
});

test("numbers that are none are left out", () => {
  const { state } = fromHash("#layer=x&carried=-1&pane=1.x.2-y-3&pane=&pane=.7");
  assert.deepEqual(state, {
    panes: [
      { query: 1, key: null, blank: [2, 3] },
      { query: null, key: null, blank: [] },
      { query: null, key: 7, blank: [] },
    ],
  });
});

test("parts of older links and unknown names change nothing", () => {
  const { state } = fromHash("#query=4&key=5&blank=1,2&query2=1&panes=3&toString=1&__proto__=2");
  assert.deepEqual(state, {});
});

test("one pane changes and the others stay as they were", () => {
  const store = new Store();
  const seen = [];
  store.set({ panes: STATE.panes });
  store.subscribe((state) => seen.push(state));
  store.setPane(1, { key: 9 }, { layer: 2 });
  assert.equal(seen.length, 1);
  assert.equal(seen[0].layer, 2);
  assert.equal(seen[0].panes[0], STATE.panes[0]);
  assert.deepEqual(seen[0].panes[1], { query: 4, key: 9, blank: [5, 6] });
  assert.equal(STATE.panes[1].key, 1);
});
