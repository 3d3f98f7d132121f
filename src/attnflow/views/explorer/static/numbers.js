// Numbers for people, and base64 arrays for the page.

const KINDS = { f4: Float32Array, u2: Uint16Array };

export function unpack({ dtype, shape, data }) {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return { shape, values: new KINDS[dtype](bytes.buffer) };
}

const SMALLEST = 1e-6; // a number that stands alone is written out down to this
const SMALLEST_LISTED = 1e-4; // one among others, in their unit
const MOST_DIGITS = 9; // of odds that are written out
const ONES = 0.01; // numbers whose largest is smaller have a unit: 10⁻³, 10⁻⁶ …
const THOUSANDS = 1e4; // and so have those whose largest is this or more: 10³, 10⁶ …

// Three significant digits; a ratio to chance with its sign. As in the library.
export function digits(value, ratio = false) {
  const size = Math.abs(value);
  const times = ratio ? "×" : "";
  const usual = size === 0 || !Number.isFinite(size) || (size >= SMALLEST && size < THOUSANDS);
  if (usual) return `${plain(value)}${times}`;
  const power = powerFor(size);
  return `${plain(value / 10 ** power)}${times} ${unitOf(power)}`;
}

// A number among others that share a unit, a power of ten; null where each has its own.
export function listed(value, power = 0, ratio = false) {
  if (power === null) return digits(value, ratio);
  const scaled = value / 10 ** power;
  const times = ratio ? "×" : "";
  const tiny = scaled !== 0 && Math.abs(scaled) < SMALLEST_LISTED;
  return tiny ? `${scaled > 0 ? "<" : ">−"}${SMALLEST_LISTED}${times}` : `${plain(scaled)}${times}`;
}

// The unit of numbers up to this one: they read better as 4.20 × 10⁻³ than as 0.00420.
export function powerFor(largest) {
  if (!(largest > 0 && largest < Infinity) || (largest >= ONES && largest < THOUSANDS)) return 0;
  return 3 * Math.floor(exponent(largest) / 3);
}

// The unit of numbers most of which are at most `top`; none if another would be thousands of it.
export function sharedPower(top, values) {
  const power = powerFor(top);
  const most = values.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
  return power && most / 10 ** power >= 1000 ? null : power;
}

export const unitOf = (power) =>
  power ? `× 10${[...String(power)].map((sign) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign] ?? "⁻").join("")}` : "";

// How many times likelier something is, by the logarithm, as in the library.
export function timesOf(log) {
  const size = Math.exp(log);
  if (size < 1e4) return size.toFixed(size < 10 ? 1 : 0);
  const power = Math.floor(log / Math.LN10);
  if (power >= MOST_DIGITS) return unitOf(power).slice(2);
  return Number(size.toPrecision(2)).toLocaleString("en");
}

const exponent = (size) => Math.log10(Number(size.toPrecision(3)));

function plain(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  const places = Math.max(0, 2 - Math.floor(exponent(size)));
  return `${value < 0 ? "−" : ""}${size.toFixed(places)}`;
}

export function percent(share) {
  const size = Math.abs(share);
  const places = share > 0.9995 || size < 0.0005 ? 2 : 1;
  return `${share < 0 ? "−" : ""}${(100 * size).toFixed(places)} %`;
}

// A difference of two shares in points, with its sign; what rounds to nothing is neither more nor
// less.
export function points(share) {
  const size = (100 * Math.abs(share)).toFixed(1);
  return `${{ up: "+", down: "−", same: "±" }[direction(share)]}${size}`;
}

// What is said by a change without some tokens: where a probability falls, they speak for it.
export const speaks = (change) =>
  ({ up: "speaks-against", down: "speaks-for", same: "same" })[direction(change)];

export function direction(share) {
  if ((100 * Math.abs(share)).toFixed(1) === "0.0") return "same";
  return share > 0 ? "up" : "down";
}
