// Streams of the servers: newline-delimited JSON, held by fetch.

import { Backoff, Refusal, Unreachable, errorOf, isTransient } from "./errors.js";

const SILENCE_MS = 45_000; // three heartbeats of the servers

/** The messages of one stream as they come. Ends with it; throws Refusal, or Unreachable when it breaks or is silent. */
export async function* messages(session, path, signal) {
  const breaker = new AbortController();
  const stop = () => breaker.abort();
  let timer = setTimeout(stop, SILENCE_MS);
  signal.addEventListener("abort", stop);
  window.addEventListener("offline", stop); // the connection is gone, whatever the operating system still believes
  try {
    const answer = await fetch(path, { headers: await session.headers(), signal: breaker.signal, cache: "no-store" });
    if (!answer.ok) throw await errorOf(answer);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(stop, SILENCE_MS);
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) if (line) yield JSON.parse(line);
    }
  } catch (error) {
    if (error instanceof Refusal || error instanceof SyntaxError) throw error;
    throw new Unreachable(error.message);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
    window.removeEventListener("offline", stop);
    breaker.abort();
  }
}

/**
 * Follows one stream after the other until `take` returns "end", the signal is aborted, or the servers refuse.
 * `path()` is asked anew for each; `take(message)` may return "again" for a new stream at once.
 * `connected(yes)` is told when the line is up or down.
 */
export async function follow(session, path, take, signal, connected = () => {}) {
  const backoff = new Backoff(1000); // at a table every second is one of the player's turn
  while (!signal.aborted) {
    try {
      for await (const message of messages(session, path(), signal)) {
        if (signal.aborted) return;
        connected(true);
        const next = take(message);
        if (next === "end") return;
        backoff.reset();
        if (next === "again") break;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refusal && error.reason === "UNAUTHENTICATED") await session.renew().catch(() => {});
      else if (!isTransient(error)) throw error;
    }
    if (signal.aborted) return;
    connected(false);
    await backoff.wait(signal);
  }
}
