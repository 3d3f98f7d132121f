// The state of the page. All of it goes into a link, after "#"; docs/explorer.md lists the names.
// A pane is the selection in one input: the explained position, the traced token, and those blanked
// out. In a link it is pane=QUERY.KEY.BLANKED-BLANKED, once for each input.

export const INITIAL = {
  method: null,
  layer: 0,
  mode: "trace",
  words: null,
  carried: 90,
  behind: false,
  columns: "layers",
  compare: null,
  ranked: true,
  panes: [],
};
export const CLICK_MODES = ["trace", "explain", "blank", "change", "knockout"];
const NUMBERS = ["layer", "carried"];
const FLAGS = ["words", "ranked", "behind"];

export class Store {
  constructor() {
    this.state = { ...INITIAL };
    this.listeners = [];
  }

  subscribe(listener) {
    this.listeners.push(listener);
  }

  set(change) {
    this.state = { ...this.state, ...change };
    this.listeners.forEach((listener) => listener(this.state, Object.keys(change)));
  }

  // Change one of the panes, and perhaps more.
  setPane(index, change, more = {}) {
    const panes = this.state.panes.map((pane, at) =>
      at === index ? { ...pane, ...change } : pane,
    );
    this.set({ panes, ...more });
  }
}

// `first` is what a document shows at first, where that differs from `INITIAL`.
export function toHash(state, extra = {}, first = {}) {
  const usual = { ...INITIAL, ...first };
  const parts = new URLSearchParams();
  Object.entries(extra).forEach(([name, value]) => {
    if (value) parts.set(name, value);
  });
  Object.entries(state).forEach(([name, value]) => {
    if (name === "panes" || value === null || value === usual[name]) return;
    if (Object.hasOwn(INITIAL, name)) parts.set(name, FLAGS.includes(name) ? Number(value) : value);
  });
  state.panes.forEach((pane) => parts.append("pane", paneToText(pane)));
  return parts.toString();
}

// The state in a link, and its other parts; unknown ones are harmless.
export function fromHash(hash) {
  const state = {};
  const extra = {};
  new URLSearchParams(hash.replace(/^#/, "")).forEach((value, name) => {
    if (name === "pane") state.panes = [...(state.panes ?? []), paneFromText(value)];
    else if (name === "panes") return;
    else if (!Object.hasOwn(INITIAL, name)) extra[name] = value;
    else if (FLAGS.includes(name)) state[name] = value === "1";
    else if (!NUMBERS.includes(name)) state[name] = value;
    else if (isNumber(value)) state[name] = Number(value);
  });
  return { state, extra };
}

const isNumber = (text) => /^\d+$/.test(text);

function paneToText({ query, key, blank }) {
  const parts = [query ?? "", key ?? ""];
  return [...parts, ...(blank.length ? [blank.join("-")] : [])].join(".");
}

function paneFromText(text) {
  const [query = "", key = "", blank = ""] = text.split(".");
  const position = (part) => (isNumber(part) ? Number(part) : null);
  const positions = blank.split("-").filter(isNumber).map(Number);
  return { query: position(query), key: position(key), blank: positions };
}
