import { make } from "./dom.js";

// The patches of an image, or the frames of a sound, lie on a drawing of it.
export function placePatches(host, buttons, { grid, image }) {
  const [left, top, right, bottom] = grid.box;
  const [width, height] = [(right - left) / grid.columns, (bottom - top) / grid.rows];
  const heard = grid.seconds !== null;
  const alt = `The ${heard ? "sound" : "image"} that was explained`;
  const patches = buttons.filter((button) => button.classList.contains("patch"));
  host.replaceChildren(...(image ? [make("img", { src: image, alt })] : []), ...patches);
  host.classList.toggle("empty", !image);
  host.classList.toggle("sound", heard);
  patches.forEach((button, i) => {
    const [along, column] = [Math.floor(i / grid.columns), i % grid.columns];
    const row = heard ? grid.rows - 1 - along : along; // low frequencies are below
    button.style.left = `${100 * (left + width * column)}%`;
    button.style.top = `${100 * (top + height * row)}%`;
    button.style.width = `${100 * width}%`;
    button.style.height = `${100 * height}%`;
  });
}
