// The verifiable deal, computed again in the browser with WebCrypto. The method is docs/fairness.md, step by step.

import { suitOf } from "./cards.js";

const encoder = new TextEncoder();

/** The bytes of a base64 text, as bytes fields come in JSON. */
export const bytesOf = (base64) => Uint8Array.from(atob(base64 ?? ""), (sign) => sign.charCodeAt(0));
export const base64Of = (bytes) => btoa(String.fromCharCode(...bytes));
export const hexOf = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** SHA-256 of the server seed. */
export async function commitmentOf(serverSeed) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", serverSeed));
}

function number(value) {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}

function joined(parts) {
  const whole = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Numbers below k out of the HMAC's bytes, each as likely as the other. */
class Stream {
  static async of(dealId, serverSeed, clientSeeds) {
    const texts = [encoder.encode("ddz.deal.v1"), encoder.encode(dealId), ...clientSeeds];
    const stream = new Stream();
    stream.context = joined(texts.flatMap((text) => [number(text.length), text]));
    stream.key = await crypto.subtle.importKey("raw", serverSeed, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    stream.blocks = 0;
    stream.bytes = [];
    return stream;
  }

  async below(k) {
    for (;;) {
      if (!this.bytes.length) {
        const message = joined([this.context, number(this.blocks)]);
        this.bytes = [...new Uint8Array(await crypto.subtle.sign("HMAC", this.key, message))];
        this.blocks += 1;
      }
      const byte = this.bytes.shift();
      if (byte < 256 - (256 % k)) return byte % k;
    }
  }
}

const ascending = (cards) => [...cards].sort((a, b) => a - b);

/** {hands, bottom, first, marked}: what the deal must be; `markedCard`: whether the book has one. */
export async function dealOf(dealId, serverSeed, clientSeeds, markedCard) {
  const stream = await Stream.of(dealId, serverSeed, clientSeeds);
  const deck = [...Array(54).keys()];
  for (let i = 53; i > 0; i -= 1) {
    const j = await stream.below(i + 1);
    [deck[i], deck[j]] = [deck[j], deck[i]];
  }
  const hands = [0, 17, 34].map((from) => ascending(deck.slice(from, from + 17)));
  const bottom = ascending(deck.slice(51));
  if (!markedCard) return { hands, bottom, first: await stream.below(3) };
  const place = await stream.below(51);
  return { hands, bottom, first: Math.floor(place / 17), marked: deck[place] };
}

export const isJoker = (card) => suitOf(card) === "joker";
