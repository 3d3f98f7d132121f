// The colours of the style sheet, for drawings.

const NAMES = ["paper", "ink", "muted", "rule", "edge", "cut", "less", "more", "font"];
let cached = null;

export function palette() {
  if (cached) return cached;
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(`--${name}`).trim();
  cached = Object.fromEntries(NAMES.map((name) => [name, get(name)]));
  cached.slots = new Map();
  cached.slot = (slot) => get(`slot-${slot}`) || get("slot-7");
  return cached;
}

export const resetColours = () => {
  cached = null;
};

// The colour of a method, for lines; its ramp goes from the paper over that colour to a deep one.
export const colourOf = (method) => palette().slot(method.slot);

// The colour of a score with a sign.
export const signColour = (value) => (value < 0 ? palette().less : palette().more);

// The colour of letters on it.
export const inkOn = (method) => legibleOn(parse(colourOf(method)));

export function rampOf({ slot, signed }) {
  const { slots, paper, less, more } = palette();
  if (signed) {
    if (!slots.has("signs")) {
      const [below, above] = [less, more].map((colour) => ramp(parse(paper), parse(colour)));
      slots.set("signs", (share) => (share < 0 ? below(-share) : above(share)));
    }
    return slots.get("signs");
  }
  if (!slots.has(slot)) slots.set(slot, ramp(parse(paper), parse(palette().slot(slot))));
  return slots.get(slot);
}

const parse = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const blend = (a, b, t) => a.map((v, i) => v + (b[i] - v) * t);
const css = (rgb) => `rgb(${rgb.map(Math.round).join(",")})`;
const lightness = ([red, green, blue]) => 0.299 * red + 0.587 * green + 0.114 * blue;

const WITHIN = 0.85; // of the ramp; the rest is for scores above the scale's top, however high

// Even steps in lightness: darker than the colour on light paper, lighter on dark. A share above 1
// is that of a special token, or of another layer than the one that sets the scale.
function ramp(paper, middle) {
  const deep =
    lightness(paper) > 128 ? blend(middle, [0, 0, 0], 0.45) : blend(middle, [255, 255, 255], 0.7);
  return (share) => {
    const within = share > 1 ? 1 - (1 - WITHIN) / share : WITHIN * Math.max(0, share);
    const rgb =
      within < 0.7 ? blend(paper, middle, within / 0.7) : blend(middle, deep, (within - 0.7) / 0.3);
    return { fill: css(rgb), ink: legibleOn(rgb) };
  };
}

// The one of two inks that stands out more, by the contrast that WCAG defines.
const INKS = ["#000000", "#ffffff"];

function legibleOn(rgb) {
  const own = luminance(rgb);
  const contrast = (hex) => {
    const other = luminance(parse(hex));
    return (Math.max(own, other) + 0.05) / (Math.min(own, other) + 0.05);
  };
  return contrast(INKS[0]) >= contrast(INKS[1]) ? INKS[0] : INKS[1];
}

function luminance(rgb) {
  const [red, green, blue] = rgb.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
