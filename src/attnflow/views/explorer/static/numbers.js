// Numbers for people, and base64 arrays for the page.

const KINDS = { f4: Float32Array, u2: Uint16Array };

export function unpack({ dtype, shape, data }) {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return { shape, values: new KINDS[dtype](bytes.buffer) };
}

export function digits(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  return size >= 0.001 ? Number(value.toPrecision(3)).toString() : value.toExponential(1);
}

export const percent = (share) =>
  `${(100 * share).toFixed(share > 0.9995 || share < 0.0005 ? 2 : 1)} %`;

// A change of a share, with its sign; what rounds to nothing is neither more nor less.
export function signed(share) {
  const size = (100 * Math.abs(share)).toFixed(1);
  return `${{ up: "+", down: "−", same: "±" }[direction(share)]}${size} %`;
}

export function direction(share) {
  if ((100 * Math.abs(share)).toFixed(1) === "0.0") return "same";
  return share > 0 ? "up" : "down";
}
