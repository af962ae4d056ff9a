// Who plays: a guest, known by a key that only this device has. Calls carry a token that is renewed before it runs out.

import { Backoff, Refusal, Unreachable, errorOf, isTransient } from "./errors.js";

const DEVICE_KEY = "ddz.device";
const RENEW_BEFORE_MS = 30_000;
const TIMEOUT_MS = 10_000;
const ATTEMPTS = 4;

/** 32 random hexadecimal digits. */
export const randomId = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

function deviceKey() {
  const known = localStorage.getItem(DEVICE_KEY) ?? randomId();
  localStorage.setItem(DEVICE_KEY, known);
  return known;
}

export class Session {
  constructor() {
    this.player = null;
    this.tokens = null;
    this.renewing = null;
    this.notice = ""; // what operators tell to all while the system is closed
    this.clockOffsetMs = -Infinity; // server's clock minus ours: the greatest seen, for news only ever comes late
  }

  get playerId() {
    return this.player.playerId;
  }

  /** Logs in as this device's guest, a new one the first time. */
  async logIn() {
    const answer = await this.attempts(() => this.send("POST", "/v1/login", { guest: { deviceKey: deviceKey() } }));
    this.player = answer.player;
    this.tokens = answer.session;
  }

  /** Now, by the server's clock. */
  now() {
    return Date.now() + (Number.isFinite(this.clockOffsetMs) ? this.clockOffsetMs : 0);
  }

  /** Takes note of what a stream says of maintenance: a frame that begins it and says nothing means that there is none. */
  told(notice, begins) {
    if (notice) this.notice = notice.maintenance ? notice.message : "";
    else if (begins) this.notice = "";
  }

  /** Takes note of a time that the servers have just named. */
  heard(atMs) {
    this.clockOffsetMs = Math.max(this.clockOffsetMs, Number(atMs) - Date.now());
  }

  /** One call as this player, tried again while it fails in passing. Throws Refusal or Unreachable. */
  async call(method, path, body) {
    return this.attempts(async () => {
      const headers = await this.headers();
      try {
        return await this.send(method, path, body, headers);
      } catch (error) {
        if (!(error instanceof Refusal && error.reason === "UNAUTHENTICATED")) throw error;
        await this.renew();
        return this.send(method, path, body, await this.headers());
      }
    });
  }

  async headers() {
    if (Number(this.tokens.accessExpiresAtMs) - this.now() < RENEW_BEFORE_MS) await this.renew();
    return { authorization: `Bearer ${this.tokens.accessToken}` };
  }

  /** New tokens: by the refresh token, or by logging in again when that one is used up. Callers share one renewal. */
  renew() {
    this.renewing ??= this.renewed().finally(() => {
      this.renewing = null;
    });
    return this.renewing;
  }

  async renewed() {
    try {
      const answer = await this.send("POST", "/v1/refresh", { refreshToken: this.tokens.refreshToken });
      this.tokens = answer.session;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      await this.logIn();
    }
  }

  async attempts(call) {
    const backoff = new Backoff();
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await call();
      } catch (error) {
        if (!isTransient(error) || attempt === ATTEMPTS) throw error;
      }
      await backoff.wait();
    }
  }

  async send(method, path, body, headers = {}) {
    let answer;
    try {
      answer = await fetch(path, {
        method,
        headers: { ...headers, ...(body ? { "content-type": "application/json" } : {}) },
        body: body && JSON.stringify(body),
        signal: AbortSignal.timeout(TIMEOUT_MS),
        cache: "no-store",
      });
    } catch (error) {
      throw new Unreachable(error.message);
    }
    const date = Date.parse(answer.headers.get("date") ?? "");
    if (date) this.heard(date);
    if (!answer.ok) throw await errorOf(answer);
    return answer.json();
  }
}
