import { byId } from "./dom.js";
import { saveFile, pngFile, svgFile } from "./download.js";

const THEMES = ["system", "light", "dark"];

// The top of the page: a link to the view, downloads and the theme.
// `page` has `explorer`, `notify`, `document()`, `linkHash()` and `address`.
export function bindToolbar(page) {
  const { explorer } = page;
  const on = (id, act) => byId(id).addEventListener("click", act);
  on("link", () => copyLink(page));
  on("theme", () => nextTheme(explorer));
  on("save-json", () => saveFile(jsonFile(page.document()), "attnflow.json"));
  on("save-svg", () => {
    saveFile(svgFile(explorer.layout.graph), "attnflow.svg");
    explorer.redraw();
  });
  on("save-png", async () => saveFile(await pngFile(explorer.layout.graph), "attnflow.png"));
  document.querySelectorAll(".menu").forEach(closeMenu);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => explorer.redraw());
  window.addEventListener("beforeprint", () => toPaper(explorer, true));
  window.addEventListener("afterprint", () => toPaper(explorer, false));
}

// Paper is light, whatever the theme of the screen, and has a width of its own.
function toPaper(explorer, on) {
  const { documentElement: root, body } = document;
  if (on) root.dataset.screen = root.dataset.theme ?? "system";
  root.dataset.theme = on ? "light" : root.dataset.screen;
  body.classList.toggle("printing", on);
  explorer.print(on);
}

// A menu closes when something in it was chosen, and when anything else is clicked.
function closeMenu(menu) {
  document.addEventListener("click", ({ target }) => {
    if (!menu.contains(target) || target.closest("button, input")) menu.open = false;
  });
}

const jsonFile = (content) => new Blob([JSON.stringify(content)], { type: "application/json" });

async function copyLink(page) {
  const url = `${window.location.href.split("#")[0]}#${page.linkHash()}`;
  try {
    await navigator.clipboard.writeText(url);
    page.notify("The link is copied.");
  } catch {
    page.address.save();
    page.notify("The link is in the address bar.");
  }
}

function nextTheme(explorer) {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "system") + 1) % THEMES.length];
  root.dataset.theme = next;
  byId("theme").textContent = next === "system" ? "Theme" : `Theme: ${next}`;
  explorer.redraw();
}
