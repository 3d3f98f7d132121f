// Requests to the server. A newer request of the same kind cancels the older one.

const running = new Map();
const NO_ANSWER =
  "The server does not answer: it may have been stopped, or the network is down. Start it again " +
  "with attnflow serve and try again: this page keeps what it shows.";

export class ServerError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export async function post(path, body, kind = path) {
  running.get(kind)?.abort();
  const abort = new AbortController();
  running.set(kind, abort);
  try {
    for (let attempt = 0; ; attempt += 1) {
      const response = await reach(path, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
        signal: abort.signal,
      });
      const answer = await readJson(response);
      if (response.ok) return answer;
      const error = new ServerError(answer.error.code, answer.error.message);
      if (error.code !== "busy" || attempt >= 5) throw error;
      const advised = 1000 * Number(response.headers.get("Retry-After") ?? 0);
      await new Promise((resolve) => {
        setTimeout(resolve, Math.max(advised, 400 * 2 ** attempt));
      });
    }
  } finally {
    if (running.get(kind) === abort) running.delete(kind);
  }
}

export async function get(path) {
  const answer = await readJson(await reach(path));
  if (answer.error) throw new ServerError(answer.error.code, answer.error.message);
  return answer;
}

// The response, or an error that says in plain words that there is none.
async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (wasCancelled(error)) throw error;
    throw new ServerError("unreachable", NO_ANSWER);
  }
}

// What was answered; a proxy in between may answer with a page of its own.
async function readJson(response) {
  const text = await response.text();
  try {
    const answer = JSON.parse(text);
    if (response.ok || answer.error) return answer;
  } catch {
    // not JSON
  }
  const { status, statusText } = response;
  const what = [status, statusText].filter(Boolean).join(" ");
  throw new ServerError(
    "unreadable",
    `The server answered “${what}” and nothing that can be shown.
    Its log, or that of a proxy before it, may say why. Then try again.`,
  );
}

export const wasCancelled = (error) => error.name === "AbortError";

export function cancelAll() {
  running.forEach((abort) => abort.abort());
  running.clear();
}
