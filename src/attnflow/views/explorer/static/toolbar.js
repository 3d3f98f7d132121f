import { byId } from "./dom.js";
import { offer, pngFile, svgFile } from "./download.js";

const THEMES = ["system", "light", "dark"];

// What is at the top of the page: a link to what is shown, downloads and the theme.
// `page` has `explorer`, `say`, `document()` and `linkHash()`.
export function bindToolbar(page) {
  const { explorer } = page;
  const on = (id, act) => byId(id).addEventListener("click", act);
  on("link", () => copyLink(page));
  on("theme", () => nextTheme(explorer));
  on("save-json", () => offer(jsonFile(page.document()), "attnflow.json"));
  on("save-svg", () => {
    offer(svgFile(explorer.layout.graph), "attnflow.svg");
    explorer.redraw();
  });
  on("save-png", async () => offer(await pngFile(explorer.layout.graph), "attnflow.png"));
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => explorer.redraw());
}

const jsonFile = (content) => new Blob([JSON.stringify(content)], { type: "application/json" });

// A sandboxed frame (a notebook) has no address to keep the view in.
export function remember(page) {
  try {
    window.history.replaceState(null, "", `#${page.linkHash()}`);
  } catch {
    byId("link").hidden = true;
  }
}

async function copyLink(page) {
  const url = `${window.location.href.split("#")[0]}#${page.linkHash()}`;
  try {
    await navigator.clipboard.writeText(url);
    page.say("The link is copied.");
  } catch {
    remember(page);
    page.say("The link is in the address bar.");
  }
}

function nextTheme(explorer) {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "system") + 1) % THEMES.length];
  root.dataset.theme = next;
  byId("theme").textContent = next === "system" ? "Theme" : `Theme: ${next}`;
  explorer.redraw();
}
