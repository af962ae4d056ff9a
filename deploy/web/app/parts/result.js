// How the hand ended: who won, what each gets, and what it was multiplied by.

import { h } from "../dom.js";
import { bookOf } from "../game/books.js";
import { amount, signed, t } from "../i18n.js";
import { clockView } from "./seat.js";
import { headCell } from "./sheet.js";

/** The seat on which somebody plays or has played the hand; -1: none, even if he has sat down since. */
export const seatOf = (state, playerId) => state.players.findIndex((player) => player.playerId === playerId);

/** The sheet over the table after a settled hand. `page` has app, table, act, leave and hideResult. */
export function result(page) {
  const { state } = page.table;
  const settled = state.lastResult;
  const outcome = state.lastOutcome;
  const players = state.players.map((player) => player.displayName);
  const own = seatOf(state, page.app.session.playerId);
  const mine = own < 0 ? null : BigInt(settled.chips[own]);
  const rated = settled.rating.some((change) => change !== "0");
  return h(
    "section",
    {
      class: `result ${mine === null ? "" : mine > 0n ? "won" : mine < 0n ? "lost" : ""}`,
      key: `result${settled.handId}`,
      "aria-labelledby": "result-title",
    },
    h("h2", { id: "result-title" }, headline(outcome, mine, players)),
    // The base is reset when who set it has left.
    outcome && state.baseChips !== "0" && h("p", { class: "sum" }, formula(state, outcome)),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h("tr", {}, headCell("player"), headCell("chips"), rated && headCell("rating"), headCell("balance")),
        ),
        h(
          "tbody",
          {},
          [0, 1, 2].map((seat) =>
            h(
              "tr",
              { key: seat, class: seat === own ? "mine" : "" },
              h(
                "th",
                { scope: "row" },
                players[seat],
                outcome?.landlord === seat && h("span", { class: "role landlord" }, t("landlord")),
              ),
              h(
                "td",
                { class: `number ${BigInt(settled.chips[seat]) >= 0n ? "gain" : "loss"}` },
                signed(settled.chips[seat]),
              ),
              rated && h("td", { class: "number" }, signed(settled.rating[seat])),
              h("td", { class: "number" }, amount(settled.balancesChips[seat])),
            ),
          ),
        ),
      ),
    ),
    factors(outcome),
    settled.systemChips !== "0" &&
      h("p", { class: "fine" }, t("to_the_system", { chips: amount(settled.systemChips) })),
    h(
      "div",
      { class: "buttons" },
      h(
        "button",
        { type: "button", class: "quiet", "data-act": "leave-result", onclick: () => page.leave() },
        t("leave"),
      ),
      h("a", { class: "button", href: `#/hands/${settled.handId}`, "data-act": "verify" }, t("verify_this_deal")),
      next(page, state),
    ),
  );
}

function next(page, state) {
  const { phase } = state.clock;
  const asked = phase === "PHASE_READY" && bookOf(state.terms).ready_to_start;
  if (asked && !state.observing && state.you >= 0 && !state.seats[state.you].ready) {
    return h(
      "button",
      {
        type: "button",
        class: "primary",
        key: "ready",
        "data-act": "ready",
        onclick: () => page.act({ ready: { ready: true } }),
      },
      t("ready"),
    );
  }
  if (phase === "PHASE_COUNTDOWN" && state.you >= 0) {
    return h(
      "button",
      { type: "button", class: "primary", key: "next", "data-act": "next", onclick: () => page.hideResult() },
      t("next_hand_in"),
      " ",
      clockView(state, undefined, true),
    );
  }
  return h(
    "button",
    { type: "button", class: "primary", key: "close", "data-act": "next", onclick: () => page.hideResult() },
    t("close"),
  );
}

function headline(outcome, mine, players) {
  if (outcome?.fled !== undefined) return t("name_fled", { name: players[outcome.fled] });
  if (mine !== null) return t(mine > 0n ? "you_won" : mine < 0n ? "you_lost" : "hand_over");
  return t(outcome?.winner === "SIDE_LANDLORD" ? "landlord_won" : "farmers_won");
}

function formula(state, outcome) {
  const multiplier = outcome.fled === undefined ? outcome.multiplier : outcome.fleeMultiplier;
  const level = Math.max(outcome.level, 1);
  return t("formula", { base: amount(state.baseChips), level, multiplier: amount(multiplier) });
}

function factors(outcome) {
  const found = (outcome?.factors ?? []).filter((entry) => entry.product !== "1");
  return (
    found.length > 0 &&
    h(
      "ul",
      { class: "factors" },
      found.map((entry) =>
        h("li", { key: entry.factor }, `${t(entry.factor.toLowerCase())} ×${amount(entry.product)}`),
      ),
    )
  );
}
