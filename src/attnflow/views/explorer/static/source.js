import { post } from "./client.js";
import { View } from "./view.js";

const AT_ONCE = 64; // tokens of an input up to which all layers are requested together
const HEADS_AT_ONCE = 20000; // scores of single heads

// The server's API; results are added to the view, so that each is requested once.
export class Server {
  constructor(api) {
    this.api = api;
  }

  // A document, and its views.
  async explain(request, kind) {
    const document = await post(`${this.api}/explain`, request, kind);
    const views = document.views.map((data) => Object.assign(new View(data), { request }));
    return { document, views };
  }

  // The document of a whole answer.
  answer(request) {
    return post(`${this.api}/answer`, request, "explain/0");
  }

  send(path, view, parameters, kind) {
    return post(`${this.api}/${path}`, { ...view.request, ...parameters }, kind);
  }

  // Something of one method, on its own edges; those of the document are as they were asked for.
  ask(path, view, { method, edges }, parameters, kind) {
    const other = edges && edges !== view.data.rule.name ? { edges } : {};
    return this.send(path, view, { method, ...other, ...parameters }, kind);
  }

  // Scores of a position, the visible layer first; `progress` is called after each part.
  async scores(view, method, query, layer, kind, progress) {
    const { name, layered } = method;
    const all = layered ? view.layers : [view.depth];
    const layers = all.filter((l) => !view.row(name, l, query));
    layers.sort((a, b) => Math.abs(a - layer) - Math.abs(b - layer));
    const together = view.size > AT_ONCE ? 1 : layers.length;
    for (let done = 0; done < layers.length; done += together) {
      progress(done, layers.length);
      const part = layers.slice(done, done + together);
      view.addScores(await this.ask("scores", view, method, { layers: part, query }, kind));
    }
    progress(layers.length, layers.length);
  }

  // Single heads of these layers: all layers at once where that is little, else one by one.
  async heads(view, method, query, wanted, kind, progress) {
    const many = view.size * view.data.heads * view.depth > HEADS_AT_ONCE;
    const lacking = wanted.filter((layer) => !view.heads(method.name, layer, query));
    const parts = many ? lacking.map((layer) => [layer]) : [view.layers];
    for (const [done, layers] of parts.entries()) {
      progress(done, parts.length);
      view.addHeads(await this.ask("heads", view, method, { layers, query }, kind));
    }
    progress(parts.length, parts.length);
  }

  // With `verify` the edges of the cut are removed from the model.
  async trace(view, method, place, kind, verify = false) {
    const asked = verify ? { ...place, verify } : place;
    view.addTrace(await this.ask("trace", view, method, asked, kind));
  }

  async blank(view, sets, kind) {
    const { blanked } = await this.send("blank", view, { sets }, kind);
    blanked.forEach((entry) => view.addBlanked(entry));
  }
}
