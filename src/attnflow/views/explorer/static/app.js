import { CitationsPage } from "./citations.js";
import { cancelAll, wasCancelled } from "./client.js";
import { byId } from "./dom.js";
import { Explorer } from "./explorer.js";
import { answerRequest, Form } from "./form.js";
import { GenerationPage } from "./generation.js";
import { Server } from "./source.js";
import { ignoredNote, ignoredParts } from "./links.js";
import { fromHash, Store, toHash } from "./state.js";
import { bindToolbar, saveToAddress } from "./toolbar.js";
import { View } from "./view.js";

const embedded = byId("document");
const store = new Store();
const server = embedded ? null : new Server("api");
const explorer = new Explorer(store, server, notify);
const generation = new GenerationPage(() => saveToAddress(page));
const comparesTexts = () => store.state.compare === "text";
let content = null; // the document that is shown
let cited = null; // the page of citations, where that is what is shown
let form = null; // only with a server

function notify(message, bad = false) {
  const status = byId("status");
  status.textContent = message;
  status.classList.toggle("bad", bad);
}

const firstShown = () => (content ? { method: content.method, words: Boolean(content.words) } : {});

function linkHash() {
  if (content?.generation) return answerHash();
  const { other, ...values } = form?.values ?? {};
  const extra = form ? { ...values, other: comparesTexts() ? other : "" } : {};
  return toHash(store.state, extra, firstShown());
}

function answerHash() {
  const parts = new URLSearchParams(generation.hash);
  const named = Object.entries(form?.values ?? {}).filter(([, value]) => value);
  named.forEach(([name, value]) => parts.set(name, value));
  return parts.toString();
}

// A whole answer has a page of its own.
function showAnswer(document, requested) {
  content = document;
  byId("view").hidden = true;
  offerGraph(false);
  generation.load(document.generation, requested);
}

function offerGraph(offered) {
  ["save-svg", "save-png"].forEach((id) => {
    byId(id).hidden = !offered;
  });
}

function openEmbedded() {
  content = JSON.parse(embedded.textContent);
  if (content.citations) {
    cited = new CitationsPage(content.citations);
    cited.show();
    return;
  }
  const link = fromHash(window.location.hash);
  if (content.generation) {
    showAnswer(content, link.extra.span);
    return;
  }
  const views = content.views.map((data) => new View(data));
  explorer.load(views, content, { ...firstShown(), ...link.state });
  sayIgnored(link, views);
}

function sayIgnored({ state, extra }, views) {
  const parts = ignoredParts({ requested: state, extra }, store.state, views, form?.values);
  if (parts.length) notify(ignoredNote(parts), true);
}

async function explain(requested = {}, extra = {}) {
  if (form.isEmpty) {
    notify("Write a text to explain.", true);
    return;
  }
  notify("Explaining …");
  byId("view").classList.add("busy");
  byId("explain").disabled = true;
  cancelAll();
  try {
    const whole = answerRequest(form);
    if (whole) {
      showAnswer(await server.answer(whole), extra.span);
      notify("");
      return;
    }
    generation.hide();
    offerGraph(true);
    const requests = await form.requests(comparesTexts());
    const send = (request, i) => server.explain(request, `explain/${i}`);
    const results = await Promise.all(requests.map(send));
    const views = results.flatMap((result) => result.views);
    content = { ...results[0].document, views: views.map(({ data }) => data) };
    notify("");
    explorer.load(views, content, { compare: store.state.compare, ...requested });
    sayIgnored({ state: requested, extra }, views);
  } catch (error) {
    if (!wasCancelled(error)) notify(error.message, true);
  } finally {
    byId("explain").disabled = false;
    byId("view").classList.remove("busy");
  }
}

async function openServer() {
  const answer = await (await fetch("api/models")).json();
  const { state, extra } = fromHash(window.location.hash);
  form = new Form(answer, extra);
  Object.assign(byId("run-link"), { hidden: !answer.run, href: "run" }); // a file has no other page
  if (state.compare) store.set({ compare: state.compare });
  form.showFields(comparesTexts());
  ["model", "compare"].forEach((id) =>
    byId(id).addEventListener("change", () => form.showFields(comparesTexts())),
  );
  form.onSubmit(() => explain());
  if (!form.model.reads_text) notify("Choose an image to explain.");
  else await explain(state, extra);
}

const shown = {
  get layout() {
    return explorer.layout;
  },
  redraw: () => (cited ?? (content?.generation ? generation : explorer)).redraw(),
  print: (on) =>
    cited || content?.generation ? (cited ?? generation).redraw() : explorer.print(on),
};
const page = { explorer: shown, notify, linkHash, document: () => content };
bindToolbar(page);
store.subscribe(() => {
  if (content) saveToAddress(page);
});
if (embedded) openEmbedded();
else openServer().catch((error) => notify(`The server does not answer: ${error.message}`, true));
