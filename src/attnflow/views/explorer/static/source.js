import { post } from "./client.js";
import { View } from "./view.js";

// What a document does not hold is asked of the server, once.
export class Server {
  constructor(api) {
    this.api = api;
  }

  async explain(request, kind) {
    const answer = await post(`${this.api}/explain`, request, kind);
    return answer.views.map((data) => {
      const view = new View(data);
      view.request = request;
      return view;
    });
  }

  // Scores of a position, the layer that is looked at first; `progress` is told how far it is.
  async scores(view, method, query, layer, kind, progress) {
    const layers = view.data.ends.map((_, i) => i + 1).filter((l) => !view.row(method, l, query));
    layers.sort((a, b) => Math.abs(a - layer) - Math.abs(b - layer));
    const together = view.size > 64 ? 1 : layers.length;
    for (let done = 0; done < layers.length; done += together) {
      progress(done, layers.length);
      const part = layers.slice(done, done + together);
      view.addScores(await post(`${this.api}/scores`, { ...view.request, method, layers: part, query }, kind));
    }
    progress(layers.length, layers.length);
  }

  async heads(view, method, query, layer, kind) {
    const layers = view.size * view.data.heads * view.depth > 20000 ? [layer] : view.data.ends.map((_, i) => i + 1);
    view.addHeads(await post(`${this.api}/heads`, { ...view.request, method, layers, query }, kind));
  }

  async trace(view, method, layer, query, key, kind) {
    view.addTrace(await post(`${this.api}/trace`, { ...view.request, method, layer, query, key }, kind));
  }

  async blank(view, positions, kind) {
    const { blanked } = await post(`${this.api}/blank`, { ...view.request, sets: [positions] }, kind);
    blanked.forEach((entry) => view.addBlanked(entry));
  }
}
