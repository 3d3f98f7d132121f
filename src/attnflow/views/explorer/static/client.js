// Requests to the server. A newer request of the same kind cancels the older one.

const running = new Map();

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
      const response = await fetch(path, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
        signal: abort.signal,
      });
      const answer = await response.json();
      if (response.ok) return answer;
      const error = new ServerError(
        answer.error?.code ?? "error",
        answer.error?.message ?? response.statusText,
      );
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

export const wasCancelled = (error) => error.name === "AbortError";

export function cancelAll() {
  running.forEach((abort) => abort.abort());
  running.clear();
}
