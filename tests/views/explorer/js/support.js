// Documents small enough to be written down.

const KINDS = { f4: Float32Array, u2: Uint16Array };

export function pack(values, shape, dtype = "f4") {
  const bytes = Buffer.from(new KINDS[dtype](values).buffer);
  return { dtype, shape, data: bytes.toString("base64") };
}

const USUAL = { layered: true, signed: false, tie_breaker: "" };
const METHODS = [
  {
    name: "near",
    title: "Near",
    label: "N",
    slot: 0,
    reaches_input: false,
    traced: true,
    ...USUAL,
  },
  { name: "far", title: "Far", label: "F", slot: 1, reaches_input: true, traced: true, ...USUAL },
];

// Four tokens, the middle two of one word, through two layers; position 0 asks.
export function viewData(changes = {}) {
  return {
    tokens: ["[CLS]", "cab", "##inets", "are"],
    labels: ["[CLS]", "cab", "##inets", "are"],
    words: { groups: [[0], [1, 2], [3]], labels: ["[CLS]", "cabinets", "are"] },
    segments: null,
    methods: METHODS,
    rule: { name: "attention", title: "Attention" },
    causal: false,
    ratio: false,
    ordinary: [1, 2, 3],
    blankable: [1, 2, 3],
    ends: [1, 2],
    layer: 2,
    query: 0,
    key: 2,
    options: {},
    said: [{ label: "plural", probability: 0.9 }],
    scores: ["near", "far"].map((method, i) => ({
      method,
      layers: [1, 2],
      queries: [0],
      values: pack(
        [8, 1, 0, 2, 9, 3, 4, 5].map((value) => value + i / 2),
        [2, 1, 4],
      ),
      words: pack([8, 10, 2, 9, 70, 5], [2, 1, 3]),
    })),
    head_scores: [
      { method: "far", layers: [2], query: 0, values: pack([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 4]) },
    ],
    edges: {
      step: pack([1, 2, 1, 2], [4], "u2"),
      query: pack([0, 1, 3, 0], [4], "u2"),
      key: pack([1, 3, 2, 0], [4], "u2"),
      weight: pack([0.8, 0.4, 0.2, 0.1], [4]),
      kept: 4,
    },
    traces: [],
    blanked: [{ positions: [1, 2], said: [{ label: "plural", probability: 0.4 }], change: -0.5 }],
    ...changes,
  };
}
