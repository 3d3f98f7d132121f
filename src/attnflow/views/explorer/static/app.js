import { Address } from "./address.js";
import { CitationsPage } from "./citations.js";
import { cancelAll, get, wasCancelled } from "./client.js";
import { byId } from "./dom.js";
import { Explorer } from "./explorer.js";
import { answerRequest, Form } from "./form.js";
import { GenerationPage } from "./generation.js";
import { Server } from "./source.js";
import { ignoredNote, ignoredParts } from "./links.js";
import { fromHash, INITIAL, Store, toHash } from "./state.js";
import { bindToolbar } from "./toolbar.js";
import { View } from "./view.js";

const embedded = byId("document");
const store = new Store();
const server = embedded ? null : new Server("api");
const explorer = new Explorer(store, server, notify);
const generation = new GenerationPage(() => address.save());
const address = new Address(linkHash, followLink);
const comparesTexts = () => store.state.compare === "text";
let content = null; // the document that is shown
let cited = null; // the page of citations, where that is what is shown
let form = null; // only with a server
let explained = ""; // the inputs that are shown

function notify(message, bad = false) {
  const status = byId("status");
  status.textContent = message;
  status.classList.toggle("bad", bad);
}

// A message that something went wrong goes when something else is tried.
function settle() {
  if (byId("status").classList.contains("bad")) notify("");
}

const firstShown = () => (content ? { method: content.method } : {});

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
  address.save([], true);
  sayIgnored(link, views);
}

function sayIgnored({ state, extra }, views) {
  const parts = ignoredParts({ requested: state, extra }, store.state, views, form?.values);
  if (parts.length) notify(ignoredNote(parts), true);
}

// What the address asks for: another view of what is shown or, of a server, another input.
async function followLink() {
  if (cited) return;
  const { state, extra } = fromHash(window.location.hash);
  settle();
  if (form) {
    form.fill(extra);
    form.showFields(state.compare === "text");
    if (inputs(state.compare === "text") !== explained) {
      store.set({ compare: state.compare ?? "" });
      await explain(state, extra, INITIAL);
      return;
    }
  }
  if (content?.generation) generation.show(extra.span);
  else if (content) {
    explorer.load(explorer.views, content, { ...firstShown(), ...state }, INITIAL);
    sayIgnored({ state, extra }, explorer.views);
  }
}

function inputs(withOther) {
  const { other, ...values } = form.values;
  return JSON.stringify([values, withOther ? other : ""]);
}

async function explain(requested = {}, extra = {}, before = store.state) {
  if (form.isEmpty) {
    notify("Write a text to explain.", true);
    return;
  }
  notify("Explaining …");
  byId("view").classList.add("busy");
  byId("explain").disabled = true;
  cancelAll();
  try {
    const asked = inputs(comparesTexts());
    const whole = answerRequest(form);
    if (whole) {
      showAnswer(await server.answer(whole), extra.span);
      explained = asked;
      notify("");
      address.save([], !extra.span);
      return;
    }
    const requests = await form.requests(comparesTexts());
    const send = (request, i) => server.explain(request, `explain/${i}`);
    const results = await Promise.all(requests.map(send));
    generation.hide();
    offerGraph(true);
    const views = results.flatMap((result) => result.views);
    content = { ...results[0].document, views: views.map(({ data }) => data) };
    explained = asked;
    notify("");
    explorer.load(views, content, { compare: store.state.compare, ...requested }, before);
    sayIgnored({ state: requested, extra }, views);
  } catch (error) {
    if (!wasCancelled(error)) notify(error.message, true);
  } finally {
    byId("explain").disabled = false;
    byId("view").classList.remove("busy");
  }
}

// The text that is shown and another one, side by side.
function explainBeside(text) {
  byId("other").value = text;
  address.following = true; // one step, with what comes of it
  store.set({ compare: "text" });
  address.following = false;
  form.showFields(true);
  explain();
}

async function openServer() {
  const answer = await get("api/models");
  const { state, extra } = fromHash(window.location.hash);
  form = new Form(answer, extra);
  Object.assign(byId("run-link"), { hidden: !answer.run, href: "run" }); // a file has no other page
  if (state.compare) store.set({ compare: state.compare });
  form.showFields(comparesTexts());
  ["model", "compare"].forEach((id) =>
    byId(id).addEventListener("change", () => form.showFields(comparesTexts())),
  );
  byId("input-form").addEventListener("input", settle);
  form.onSubmit(() => explain());
  explorer.actions.explainBeside = explainBeside;
  if (!form.model.reads_text) notify("Choose an image to explain.");
  else {
    address.following = true; // the first view is no step that one goes back from
    await explain(state, extra);
    address.following = false;
    address.save([], true);
  }
}

const shown = {
  get layout() {
    return explorer.layout;
  },
  redraw: () => (cited ?? (content?.generation ? generation : explorer)).redraw(),
  print: (on) =>
    cited || content?.generation ? (cited ?? generation).redraw() : explorer.print(on),
};
bindToolbar({ explorer: shown, notify, linkHash, document: () => content, address });
store.subscribe((_, changed) => {
  settle();
  if (content) address.save(changed);
});
if (embedded) openEmbedded();
else openServer().catch((error) => notify(error.message, true));
