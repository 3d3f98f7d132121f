// The colours of the style sheet, for what is drawn.

let cached = null;

export function palette() {
  if (cached) return cached;
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(`--${name}`).trim();
  cached = {
    paper: get("paper"), ink: get("ink"), muted: get("muted"), rule: get("rule"), edge: get("edge"), cut: get("cut"),
    raw: get("raw"), rollout: get("rollout"), flow: get("flow"), less: get("less"), more: get("more"), font: get("font"),
    ramp: Object.fromEntries(["raw", "rollout", "flow"].map((name) => [name, ramp(get("paper"), get(name), get(`deep-${name}`))])),
  };
  return cached;
}

export const forgetColours = () => { cached = null; };

const parse = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const blend = (a, b, t) => a.map((v, i) => v + (b[i] - v) * t);
const css = (rgb) => `rgb(${rgb.map(Math.round).join(",")})`;

// From the paper over the method's colour to a deep one: even steps in lightness.
function ramp(paper, middle, deep) {
  const [a, b, c] = [paper, middle, deep].map(parse);
  const at = (share) => (share < 0.7 ? blend(a, b, share / 0.7) : blend(b, c, (share - 0.7) / 0.3));
  return (share) => {
    const rgb = at(Math.min(1, Math.max(0, share)));
    const light = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
    return { fill: css(rgb), ink: light > 140 ? "#14171c" : "#ffffff" };
  };
}

export function rampOf(method) {
  return palette().ramp[method] ?? palette().ramp.flow;
}
