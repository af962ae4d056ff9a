// One player at the table: who it is, what he is, how many cards he has, and his clock.

import { h } from "../dom.js";
import { amount, t } from "../i18n.js";
import { sorted } from "../game/cards.js";
import { cardBack, cardRow } from "./card.js";

const WAITS = {
  PHASE_BASE: "baseMs",
  PHASE_AGREE: "agreeMs",
  PHASE_BID: "auctionMs",
  PHASE_CALL: "auctionMs",
  PHASE_ROB: "auctionMs",
  PHASE_SHOW_WINDOW: "showWindowMs",
  PHASE_SHOW: "showMs",
  PHASE_PLAY: "playMs",
  PHASE_COUNTDOWN: "countdownMs",
};

/** A clock that the ticker keeps; null when nobody is waited for. */
export function clockView(state, seat, hidden) {
  const { clock, terms } = state;
  if (clock.deadlineMs === "0" || (seat !== undefined && clock.seat !== seat)) return null;
  const total = terms.clocks[WAITS[clock.phase]] ?? 0;
  return h(
    "span",
    {
      class: "clock",
      key: `clock${clock.deadlineMs}`,
      role: "timer",
      "aria-hidden": hidden ? "true" : null,
      "aria-label": t("seconds_left"),
      "data-deadline": clock.deadlineMs,
      "data-total": String(total),
    },
    h("span", {}),
  );
}

/** landlord, farmer, or empty while it is not known. */
export const roleOf = (state, seat) =>
  state.landlord === undefined ? "" : state.landlord === seat ? "landlord" : "farmer";

/** A letter for the picture; of a guest, whose name is a word and a number, the end of the number. */
const initial = (name) => /\d{1,2}$/.exec(name)?.[0] ?? [...(name || "?")][0];

/** Name, points and marks of a seat. */
export function plate(state, seat, me) {
  const view = state.seats[seat];
  const role = roleOf(state, seat);
  if (!view.player)
    return h("div", { class: "plate empty", key: `plate${seat}` }, h("span", { class: "name" }, t("free")));
  const marks = [
    role && h("span", { class: `role ${role}`, key: "role" }, t(role)),
    view.trustee && h("span", { class: "mark trustee", key: "trustee" }, t("trustee")),
    !view.connected && h("span", { class: "mark away", key: "away" }, t("away")),
    view.shown && h("span", { class: "mark", key: "shown" }, t("shown")),
    state.baseSetter === seat &&
      state.clock.phase === "PHASE_BASE" &&
      h("span", { class: "mark", key: "sets" }, t("sets_the_base")),
    state.clock.phase === "PHASE_READY" && view.ready && h("span", { class: "mark good", key: "ready" }, t("ready")),
    state.clock.phase === "PHASE_AGREE" && view.agreed && h("span", { class: "mark good", key: "agreed" }, t("agreed")),
  ];
  return h(
    "div",
    { class: `plate ${role} ${state.clock.seat === seat ? "turn" : ""} ${me ? "me" : ""}`, key: `plate${seat}` },
    h(
      "span",
      { class: "avatar", "aria-hidden": "true", vars: { hue: String(hueOf(view.player.playerId)) } },
      initial(view.player.displayName),
    ),
    h(
      "span",
      { class: "who" },
      h("span", { class: "name" }, view.player.displayName, view.player.bot && h("small", {}, ` ${t("bot")}`)),
      view.balanceChips !== "0" && h("span", { class: "chips" }, amount(view.balanceChips)),
    ),
    h("span", { class: "marks" }, marks),
  );
}

/** A colour of his own for everybody, far from those of the neighbours. */
const hueOf = (playerId) => ([...playerId].reduce((sum, sign) => sum * 31 + sign.charCodeAt(0), 7) * 137) % 360;

/** An opponent: plate, pile of backs with their number, or open cards. */
export function opponent(state, seat, side) {
  const { cards, count } = state.seats[seat].cards;
  const open = cards.length > 0;
  return h(
    "div",
    { class: `seat ${side} ${open ? "open" : ""}`, key: `seat${seat}`, "data-seat": String(seat) },
    plate(state, seat, false),
    h(
      "div",
      { class: "pile" },
      open
        ? cardRow(sorted(cards, false), t("cards_of", { name: state.seats[seat].player?.displayName ?? "" }), "small")
        : count > 0 &&
            h(
              "span",
              { class: "stack" },
              Array.from({ length: Math.min(3, count) }, (_, index) => cardBack(`b${index}`, "mini")),
            ),
      count > 0 &&
        h("span", { class: `count ${count <= 2 ? "few" : ""}`, "aria-label": t("cards_left", { n: count }) }, count),
    ),
    clockView(state, seat),
  );
}
