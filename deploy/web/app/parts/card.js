// One card, and rows of cards.

import { h } from "../dom.js";
import { indexOf, isRed, signOf, suitOf } from "../game/cards.js";
import { t } from "../i18n.js";

/** What a card is called. */
export function cardName(card) {
  if (card === 52) return t("small_joker");
  if (card === 53) return t("big_joker");
  return t("card_name", { suit: t(suitOf(card)), rank: indexOf(card) });
}

const look = (card) => `card ${isRed(card) ? "red" : "black"} ${suitOf(card)}`;

function face(card) {
  if (card >= 52) {
    return [
      h("span", { class: "joker-word", "aria-hidden": "true" }, ..."JOKER"),
      h("span", { class: "pip", "aria-hidden": "true" }, "★"),
    ];
  }
  return [
    h("span", { class: "corner", "aria-hidden": "true" }, h("b", {}, indexOf(card)), h("i", {}, signOf(card))),
    h("span", { class: "pip", "aria-hidden": "true" }, signOf(card)),
  ];
}

/** A card that is only to be looked at. */
export function cardView(card, extra = "") {
  return h(
    "span",
    { class: `${look(card)} ${extra}`, key: `c${card}`, role: "img", "aria-label": cardName(card) },
    face(card),
  );
}

/** A card that can be picked. */
export function cardButton(card, properties, extra = "") {
  const { class: _, ...rest } = properties;
  return h(
    "button",
    { type: "button", key: `c${card}`, "aria-label": cardName(card), ...rest, class: `${look(card)} ${extra}` },
    face(card),
  );
}

export const cardBack = (key, extra = "") => h("span", { class: `card back ${extra}`, key, "aria-hidden": "true" });

/** Cards in a row, overlapping as the stylesheet says; `label` names the whole for who does not see it. */
export function cardRow(cards, label, extra = "") {
  const name = `${label} ${cards.map(cardName).join(" ")}`.trim();
  return h(
    "span",
    { class: `row ${extra}`, role: "img", "aria-label": name, vars: { n: String(cards.length) } },
    cards.map((card) => h("span", { class: look(card), key: `c${card}` }, face(card))),
  );
}
