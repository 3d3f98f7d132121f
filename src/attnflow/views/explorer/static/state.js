// What is shown; all of it goes into a link.

export const INITIAL = {
  method: "flow", layer: 0, query: null, key: null, query2: null, key2: null, mode: "trace",
  words: false, threshold: 3, columns: "layers", compare: null, blank: [], blank2: [], ranked: true,
};
const NUMBERS = ["layer", "query", "key", "query2", "key2", "threshold"];
const LISTS = ["blank", "blank2"];
const FLAGS = ["words", "ranked"];

export class Store {
  constructor() {
    this.state = { ...INITIAL };
    this.listeners = [];
  }

  subscribe(listener) {
    this.listeners.push(listener);
  }

  set(change) {
    const before = this.state;
    this.state = { ...before, ...change };
    this.listeners.forEach((listener) => listener(this.state, before));
  }
}

// `first` is what a document shows at first, where that is not the usual.
export function toHash(state, extra = {}, first = {}) {
  const usual = { ...INITIAL, ...first };
  const parts = new URLSearchParams();
  Object.entries(extra).forEach(([name, value]) => { if (value) parts.set(name, value); });
  Object.entries(state).forEach(([name, value]) => {
    if (value === null || String(value) === String(usual[name])) return;
    if (name in INITIAL) parts.set(name, FLAGS.includes(name) ? Number(value) : String(value));
  });
  return parts.toString();
}

export function fromHash(hash) {
  const state = {};
  const extra = {};
  new URLSearchParams(hash.replace(/^#/, "")).forEach((value, name) => {
    if (NUMBERS.includes(name)) {
      if (/^\d+$/.test(value)) state[name] = Number(value);
    } else if (LISTS.includes(name)) state[name] = value.split(",").filter((part) => /^\d+$/.test(part)).map(Number);
    else if (FLAGS.includes(name)) state[name] = value === "1";
    else if (name in INITIAL) state[name] = value;
    else extra[name] = value;
  });
  return { state, extra };
}
