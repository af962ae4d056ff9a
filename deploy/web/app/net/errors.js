// What a call can end with: a Refusal (the servers understood and said no) or Unreachable (no answer that can be used).

export class Refusal extends Error {
  /** `reason` as in proto/ddz/common/v1/common.proto without its prefix; `message` is the servers' English sentence. */
  constructor(reason, message, data = {}) {
    super(message);
    this.reason = reason;
    this.data = data;
  }
}

export class Unreachable extends Error {}

const TRANSIENT = new Set(["UNAVAILABLE", "DRAINING", "OVERLOADED", "RATE_LIMITED"]);

/** Whether the same request may well succeed a little later. */
export const isTransient = (error) =>
  error instanceof Unreachable || (error instanceof Refusal && TRANSIENT.has(error.reason));

// The gateway's own refusals carry no detail.
const BY_STATUS = { 400: "INVALID", 401: "UNAUTHENTICATED", 403: "FORBIDDEN", 404: "NOT_FOUND", 429: "RATE_LIMITED" };

/** The error that an answer with a bad status means. */
export async function errorOf(answer) {
  let body = {};
  try {
    body = await answer.json();
  } catch {
    // No JSON: the status alone has to do.
  }
  const detail = body.details?.find((entry) => entry["@type"]?.endsWith("/ddz.common.v1.Refusal"));
  if (detail) return new Refusal(detail.reason.replace("REASON_", ""), detail.message, detail.data);
  const reason = BY_STATUS[answer.status];
  return reason ? new Refusal(reason, body.message ?? "") : new Unreachable(body.message ?? `status ${answer.status}`);
}

/** Waits longer and longer, at most `longest` ms, with a chance part, so that not everybody comes back at once. */
export class Backoff {
  constructor(longest = 5000) {
    this.longest = longest;
    this.reset();
  }

  reset() {
    this.next = 200;
  }

  /** Ends at once when the network comes back or the signal is aborted. */
  async wait(signal) {
    const ms = this.next * (0.5 + Math.random() / 2);
    this.next = Math.min(this.next * 2, this.longest);
    await new Promise((resolve) => {
      const timer = setTimeout(done, ms);
      function done() {
        clearTimeout(timer);
        window.removeEventListener("online", done);
        signal?.removeEventListener("abort", done);
        resolve();
      }
      window.addEventListener("online", done);
      signal?.addEventListener("abort", done);
    });
  }
}
