import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["node_modules/", ".venv/", "build/", "dist/", "out/", "docs/"] },
  js.configs.recommended,
  {
    files: ["src/attnflow/views/explorer/static/**/*.js"],
    languageOptions: { globals: globals.browser },
    rules: {
      "no-control-regex": "off", // tokens may be control characters
      "max-lines": ["error", 200],
      eqeqeq: "error",
      "prefer-const": "error",
      "no-var": "error",
    },
  },
  {
    files: ["tests/views/explorer/js/**/*.js"],
    languageOptions: { globals: globals.node },
  },
];
