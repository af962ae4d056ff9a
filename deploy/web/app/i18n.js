// Words in the player's language, and numbers as it writes them.

import { en } from "./words/en.js";
import { zh } from "./words/zh.js";

const KEY = "ddz.language";
const WORDS = { zh, en };

let current = localStorage.getItem(KEY) ?? (navigator.language.startsWith("zh") ? "zh" : "en");

export const language = () => current;

export function setLanguage(next) {
  current = next;
  localStorage.setItem(KEY, next);
  document.documentElement.lang = next === "zh" ? "zh-Hans" : "en";
}

/** The text of a key with its {parameters} put in. A key that has no text is a mistake of ours and stands for itself. */
export function t(key, parameters = {}) {
  const text = WORDS[current][key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(parameters[name] ?? ""));
}

export const has = (key) => key in WORDS[current];

/** What to say about a failed call. */
export function sorry(error) {
  const key = `reason_${error.reason}`;
  if (error.reason) return has(key) ? t(key, error.data) : error.message;
  return t("unreachable");
}

/** Chips and points, which come as decimal texts. */
export const amount = (text) => BigInt(text || "0").toLocaleString(current === "zh" ? "zh-CN" : "en-US");
export const signed = (text) => (BigInt(text || "0") > 0n ? `+${amount(text)}` : amount(text));

export const roomName = (room) => (current === "zh" ? room.nameZh : room.nameEn);

export function when(ms) {
  const form = new Intl.DateTimeFormat(current === "zh" ? "zh-CN" : "en-GB", {
    dateStyle: "short",
    timeStyle: "short",
  });
  return form.format(new Date(Number(ms)));
}

/** Whole seconds of a wait. */
export const seconds = (ms) => t("seconds", { n: Math.max(0, Math.ceil(Number(ms) / 1000)) });
