// What is said aloud about an event, for who does not see the table.

import { kindOf } from "../game/fold.js";
import { t } from "../i18n.js";
import { cardName } from "./card.js";
import { choiceText, comboText } from "./spot.js";

/** A sentence about an event, or an empty text. */
export function newsOf(state, event) {
  const kind = kindOf(event);
  const one = event[kind];
  const name =
    one.seat === undefined
      ? ""
      : one.seat === state.you && !state.observing
        ? t("you")
        : (state.seats[one.seat]?.player?.displayName ?? "");
  const who = (text) => `${name}: ${text}`;
  switch (kind) {
    case "bidMade":
      return who(choiceText(one.level ? String(one.level) : "pass", state.terms.book));
    case "callMade":
      return who(choiceText(one.call ? "call" : "pass", state.terms.book));
    case "robMade":
      return who(choiceText(one.rob ? "rob" : "no_rob", state.terms.book));
    case "shown":
      return who(t("shown"));
    case "landlordSet":
      return who(`${t("landlord")}. ${t("bottom")}: ${one.bottom.map(cardName).join(", ")}`);
    case "played":
      return who(
        `${comboText(one.combo)} ${one.combo.cards.map(cardName).join(", ")}. ${t("cards_left", { n: one.cardsLeft })}`,
      );
    case "passed":
      return who(t("pass"));
    case "seatTaken":
      return who(t("sat_down"));
    case "trusteeSet":
      return one.on ? who(t("trustee")) : "";
    case "handVoided":
      return t(`void_${one.reason}`);
    case "redealing":
      return t("void_all_passed");
    default:
      return "";
  }
}
