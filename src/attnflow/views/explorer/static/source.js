import { post } from "./client.js";
import { View } from "./view.js";

const AT_ONCE = 64; // tokens of an input up to which all layers are asked for together
const HEADS_AT_ONCE = 20000; // scores of single heads

// What a document does not hold is asked of the server, once.
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

  ask(path, view, question, kind) {
    return post(`${this.api}/${path}`, { ...view.request, ...question }, kind);
  }

  // Scores of a position, the layer that is looked at first; `progress` is told how far it is.
  async scores(view, method, query, layer, kind, progress) {
    const layers = view.layers.filter((l) => !view.row(method, l, query));
    layers.sort((a, b) => Math.abs(a - layer) - Math.abs(b - layer));
    const together = view.size > AT_ONCE ? 1 : layers.length;
    for (let done = 0; done < layers.length; done += together) {
      progress(done, layers.length);
      const part = layers.slice(done, done + together);
      view.addScores(await this.ask("scores", view, { method, layers: part, query }, kind));
    }
    progress(layers.length, layers.length);
  }

  async heads(view, method, query, layer, kind) {
    const many = view.size * view.data.heads * view.depth > HEADS_AT_ONCE;
    const layers = many ? [layer] : view.layers;
    view.addHeads(await this.ask("heads", view, { method, layers, query }, kind));
  }

  async trace(view, method, layer, query, key, kind) {
    view.addTrace(await this.ask("trace", view, { method, layer, query, key }, kind));
  }

  async blank(view, positions, kind) {
    const { blanked } = await this.ask("blank", view, { sets: [positions] }, kind);
    blanked.forEach((entry) => view.addBlanked(entry));
  }
}
