// What a seat did last, in front of it: a choice of the auction, a combo, or a pass.

import { h } from "../dom.js";
import { sorted } from "../game/cards.js";
import { has, t } from "../i18n.js";
import { cardRow } from "./card.js";

/** The words of a choice: pass, 1, 2, 3, call, rob, no_rob. */
export const choiceText = (choice, book) =>
  t(choice === "pass" ? (book === "rob" ? "choice_no_call" : "choice_no_bid") : `choice_${choice}`);

export const comboText = (combo) => (has(`combo_${combo.type}`) ? t(`combo_${combo.type}`) : "");

/** The cards of a combo in the order in which they are read: the body first. */
export function inOrder(cards) {
  return sorted(cards, true);
}

/** `last`: an entry of Lasts; `choice`: of the auction, shown while nothing has been played. */
export function spot(last, choice, side, book) {
  const content = last?.combo
    ? h(
        "div",
        { class: `combo ${last.combo.type}`, key: `k${last.key}` },
        cardRow(inOrder(last.combo.cards), comboText(last.combo)),
        ["rocket", "bomb"].includes(last.combo.type) || last.combo.cards.length > 4
          ? h("span", { class: "combo-name", "aria-hidden": "true" }, comboText(last.combo))
          : null,
      )
    : last?.pass
      ? h("span", { class: "bubble pass", key: `k${last.key}` }, t("pass"))
      : choice
        ? h(
            "span",
            { class: `bubble ${["pass", "no_rob"].includes(choice) ? "pass" : "yes"}`, key: `c${choice}` },
            choiceText(choice, book),
          )
        : null;
  return h("div", { class: `spot ${side}`, key: side }, content);
}
