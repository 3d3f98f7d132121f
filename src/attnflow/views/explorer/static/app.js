import { cancelAll, wasCancelled } from "./client.js";
import { byId, make, makeSwitch } from "./dom.js";
import { offer, pngFile, svgFile } from "./download.js";
import { Explorer } from "./explorer.js";
import { Server } from "./source.js";
import { fromHash, Store, toHash } from "./state.js";
import { View } from "./view.js";

const THEMES = ["system", "light", "dark"];
const embedded = byId("document");
const store = new Store();
const server = embedded ? null : new Server("api");
const explorer = new Explorer(store, server, say);
let content = null;
let models = [];

function say(message, bad = false) {
  const status = byId("status");
  status.textContent = message;
  status.classList.toggle("bad", bad);
}

function extras() {
  if (embedded) return {};
  const { model, text, target, other } = readForm();
  return { model, text, target, other: store.state.compare === "text" ? other : "" };
}

const firstShown = () => (content ? { method: content.method, words: Boolean(content.words) } : {});
const linkHash = () => toHash(store.state, extras(), firstShown());

function remember() {
  // A sandboxed frame (a notebook) has no address to keep the view in.
  try {
    window.history.replaceState(null, "", `#${linkHash()}`);
  } catch { byId("link").hidden = true; }
}

function bindControls() {
  const on = (id, event, act) => byId(id).addEventListener(event, act);
  on("layer", "input", (event) => store.set({ layer: Number(event.target.value) }));
  on("threshold", "input", (event) => store.set({ threshold: Number(event.target.value) }));
  on("words", "change", (event) => store.set({ words: event.target.checked }));
  on("ranked", "change", (event) => store.set({ ranked: event.target.checked }));
  on("compare", "change", (event) => { store.set({ compare: event.target.value }); if (server) showFields(); });
  on("link", "click", copyLink);
  on("theme", "click", nextTheme);
  on("save-json", "click", () => offer(new Blob([JSON.stringify(content)], { type: "application/json" }), "attnflow.json"));
  on("save-svg", "click", () => { offer(svgFile(explorer.sides[0].graph), "attnflow.svg"); explorer.redraw(); });
  on("save-png", "click", async () => offer(await pngFile(explorer.sides[0].graph), "attnflow.png"));
  document.addEventListener("keydown", shortcut);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => explorer.redraw());
  const showMode = modeSwitch();
  store.subscribe((state) => { showMode(state.mode); remember(); });
}

function modeSwitch() {
  const choices = [
    { value: "trace", label: "trace to it", title: "Show how the score of a token came about" },
    { value: "ask", label: "ask about it", title: "Explain this position instead" },
    { value: "blank", label: "blank it out", title: "See what the model says without it" },
  ];
  const fieldset = make("fieldset", { class: "switch small", id: "modes" }, make("legend", {}, "Click a token to"));
  byId("panes").prepend(fieldset);
  return makeSwitch(fieldset, "mode", choices, (mode) => store.set({ mode }));
}

function shortcut(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !explorer.views.length) return;
  if (/^(TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.type === "text") return;
  const methods = { 1: "raw", 2: "rollout", 3: "flow" };
  const method = methods[event.key];
  if (method && (server || explorer.views[0].methods.includes(method))) store.set({ method });
  const move = { "[": -1, "]": 1 }[event.key];
  if (move) store.set({ layer: Math.min(explorer.views[0].depth, Math.max(1, store.state.layer + move)) });
  if (event.key === "Escape") byId("downloads").open = false;
}

async function copyLink() {
  const url = `${window.location.href.split("#")[0]}#${linkHash()}`;
  try {
    await navigator.clipboard.writeText(url);
    say("The link is copied.");
  } catch {
    remember();
    say("The link is in the address bar.");
  }
}

function nextTheme() {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "system") + 1) % THEMES.length];
  root.dataset.theme = next;
  byId("theme").textContent = next === "system" ? "Theme" : `Theme: ${next}`;
  explorer.redraw();
}

function openEmbedded() {
  content = JSON.parse(embedded.textContent);
  const { state } = fromHash(window.location.hash);
  explorer.load(content.views.map((data) => new View(data)), content.method, { ...firstShown(), ...state });
}

function readForm() {
  return { model: byId("model").value, text: byId("text").value, target: byId("target").value, other: byId("other").value };
}

function showFields() {
  const kind = models.find(({ name }) => name === byId("model").value)?.kind;
  byId("text-field").hidden = kind === "image";
  byId("image-field").hidden = kind !== "image";
  byId("target-field").hidden = kind !== "pair";
  byId("other-field").hidden = store.state.compare !== "text" || kind === "image";
  byId("model-field").hidden = models.length < 2;
}

function readImage() {
  const [file] = byId("image").files;
  return new Promise((resolve, reject) => {
    if (!file) return reject(new Error("Choose an image first."));
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    return reader.readAsDataURL(file);
  });
}

async function requests() {
  const { model, text, target, other } = readForm();
  const kind = models.find(({ name }) => name === model)?.kind;
  if (kind === "image") return [{ model, image: await readImage() }];
  const first = { model, text, ...(kind === "pair" && target ? { target } : {}) };
  return store.state.compare === "text" && other.trim() ? [first, { ...first, text: other }] : [first];
}

async function explain(wanted = {}) {
  say("Explaining …");
  byId("explain").disabled = true;
  cancelAll();
  try {
    const asked = await requests();
    const views = (await Promise.all(asked.map((request, i) => server.explain(request, `explain/${i}`)))).flat();
    content = { format: "attnflow-view/1", views: views.map((view) => view.data), method: store.state.method };
    say("");
    explorer.load(views, store.state.method, { compare: store.state.compare, ...wanted });
  } catch (error) {
    if (!wasCancelled(error)) say(error.message, true);
  } finally {
    byId("explain").disabled = false;
  }
}

async function openServer() {
  const answer = await (await fetch("api/models")).json();
  models = answer.models;
  const { state, extra } = fromHash(window.location.hash);
  byId("model").replaceChildren(...models.map(({ name }) => make("option", { value: name }, name)));
  if (models.some(({ name }) => name === extra.model)) byId("model").value = extra.model;
  byId("text").value = extra.text ?? answer.example;
  byId("target").value = extra.target ?? "";
  byId("other").value = extra.other ?? "";
  byId("ask").hidden = false;
  if (state.compare) store.set({ compare: state.compare });
  showFields();
  byId("model").addEventListener("change", () => { showFields(); if (byId("image-field").hidden) explain(); });
  byId("image").addEventListener("change", () => explain());
  byId("ask").addEventListener("submit", (event) => { event.preventDefault(); explain(); });
  for (const id of ["text", "target", "other"]) {
    byId(id).addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); explain(); } });
  }
  if (byId("image-field").hidden) await explain(state);
  else say("Choose an image to explain.");
}

bindControls();
if (embedded) openEmbedded();
else openServer().catch((error) => say(`The server does not answer: ${error.message}`, true));
