// Numbers for people, and base64 arrays for the page.

const KINDS = { f4: Float32Array, u2: Uint16Array };

export function unpack({ dtype, shape, data }) {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return { shape, values: new KINDS[dtype](bytes.buffer) };
}

const SMALLEST = 1e-4;

// Three significant digits, never an exponent; a ratio to chance with its sign. As in the library.
export function digits(value, ratio = false) {
  const size = Math.abs(value);
  const sign = value < 0 ? "−" : "";
  const times = ratio ? "×" : "";
  if (!Number.isFinite(value)) return `–${times}`;
  if (size === 0) return `0${times}`;
  if (size < SMALLEST) return `${sign ? `>${sign}` : "<"}${SMALLEST}${times}`;
  const places = Math.max(0, 2 - Math.floor(Math.log10(Number(size.toPrecision(3)))));
  return `${sign}${size.toFixed(places)}${times}`;
}

export const percent = (share) =>
  `${(100 * share).toFixed(share > 0.9995 || share < 0.0005 ? 2 : 1)} %`;

// A difference of two shares in points, with its sign; what rounds to nothing is neither more nor
// less.
export function points(share) {
  const size = (100 * Math.abs(share)).toFixed(1);
  return `${{ up: "+", down: "−", same: "±" }[direction(share)]}${size}`;
}

export function direction(share) {
  if ((100 * Math.abs(share)).toFixed(1) === "0.0") return "same";
  return share > 0 ? "up" : "down";
}
