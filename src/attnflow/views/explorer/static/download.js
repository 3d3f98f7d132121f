import { make } from "./dom.js";
import { palette } from "./colours.js";

export function saveFile(blob, name) {
  const url = URL.createObjectURL(blob);
  const anchor = make("a", { href: url, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export function svgFile(chart) {
  const { node } = chart.svg(chart.width);
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  paper.setAttribute("width", "100%");
  paper.setAttribute("height", "100%");
  paper.setAttribute("fill", palette().paper);
  node.prepend(paper);
  const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
  title.textContent = chart.title;
  node.prepend(title);
  // XML allows no control characters, and a token may be one.
  const text = new XMLSerializer()
    .serializeToString(node)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "\ufffd");
  return new Blob([text], { type: "image/svg+xml" });
}

export const pngFile = (chart) =>
  new Promise((resolve) => {
    chart.png().toBlob(resolve, "image/png");
  });
