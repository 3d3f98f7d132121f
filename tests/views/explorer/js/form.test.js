import assert from "node:assert/strict";
import { test } from "node:test";
import { named } from "../../../../src/attnflow/views/explorer/static/form.js";

test("targets are numbers where they are some, and keep the blank before a word", () => {
  assert.deepEqual(named({ target: " 7 ", contrast: "" }), { target: 7, contrast: "" });
  assert.deepEqual(named({ target: " Paris ", contrast: "  " }), {
    target: " Paris",
    contrast: "",
  });
});
