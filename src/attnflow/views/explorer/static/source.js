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
      const request = { method: name, layers: part, query };
      view.addScores(await this.send("scores", view, request, kind));
    }
    progress(layers.length, layers.length);
  }

  // Single heads of these layers: all layers at once where that is little, else one by one.
  async heads(view, method, query, wanted, kind, progress) {
    const many = view.size * view.data.heads * view.depth > HEADS_AT_ONCE;
    const lacking = wanted.filter((layer) => !view.heads(method, layer, query));
    const parts = many ? lacking.map((layer) => [layer]) : [view.layers];
    for (const [done, layers] of parts.entries()) {
      progress(done, parts.length);
      view.addHeads(await this.send("heads", view, { method, layers, query }, kind));
    }
    progress(parts.length, parts.length);
  }

  async trace(view, method, layer, query, key, kind) {
    view.addTrace(await this.send("trace", view, { method, layer, query, key }, kind));
  }

  async blank(view, positions, kind) {
    const { blanked } = await this.send("blank", view, { sets: [positions] }, kind);
    blanked.forEach((entry) => view.addBlanked(entry));
  }
}
