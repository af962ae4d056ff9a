// What the table waits for from this player, as buttons.

import { h } from "../dom.js";
import { bookOf } from "../game/books.js";
import { fitting, readings } from "../game/combos.js";
import { RANKS } from "../game/cards.js";
import { amount, t } from "../i18n.js";
import { comboText } from "./spot.js";

const button = (name, label, onclick, more = {}) =>
  h("button", { type: "button", key: name, "data-act": name, onclick, ...more }, label);

/** The combo on the table as the rules have it; null for a lead. */
export function onTable(state) {
  const combo = state.onTable;
  return combo ? { type: combo.type, rank: RANKS.indexOf(combo.rank), body: combo.body } : null;
}

/** Whether the landlord may still show: he has put nothing down. */
function mayShow(state) {
  const { you, landlord, seats } = state;
  return bookOf(state.terms).landlord_shows && landlord === you && !seats[you].shown && seats[you].combos === 0;
}

export const mayPlay = (state) =>
  !state.observing &&
  state.you >= 0 &&
  state.clock.seat === state.you &&
  ["PHASE_PLAY", "PHASE_SHOW"].includes(state.clock.phase);

/** Buttons, or a sentence on who is waited for. `page` has table, hand and act. */
export function actions(page) {
  const { state } = page.table;
  const { phase, seat } = state.clock;
  if (state.observing || state.you < 0) return note(t("you_watch", { name: nameOf(state, state.you) }));
  const mine = seat === state.you;
  const me = state.seats[state.you];
  if (me.trustee)
    return group(button("back", t("trustee_is_on"), () => page.act({ trustee: { on: false } }), { class: "primary" }));
  if (phase === "PHASE_SEATING") return note(t("waiting_for_players"));
  if (phase === "PHASE_BASE")
    return mine ? base(page, state) : note(t("name_sets_base", { name: nameOf(state, seat) }));
  if (phase === "PHASE_AGREE") return me.agreed ? note(t("others_answer")) : agree(page, state);
  if (phase === "PHASE_READY") {
    if (!bookOf(state.terms).ready_to_start) return note(t("waiting_for_players")); // held back until all are there
    return me.ready
      ? group(
          note(t("waiting_for_ready")),
          button("unready", t("not_ready"), () => page.act({ ready: { ready: false } }), { class: "quiet" }),
        )
      : group(button("ready", t("ready"), () => page.act({ ready: { ready: true } }), { class: "primary" }));
  }
  if (phase === "PHASE_OPENING" || phase === "PHASE_SEED") return note(t("shuffling"));
  if (phase === "PHASE_SHOW_WINDOW") {
    return me.shown
      ? note(t("you_have_shown"))
      : group(button("show", showLabel(state), () => page.act({ show: { show: true } }), { class: "primary" }));
  }
  if (phase === "PHASE_SETTLING") return note(t("settling"));
  if (!mine) return seat >= 0 ? note(t("turn_of", { name: nameOf(state, seat) })) : null;
  if (phase === "PHASE_BID") return bids(page, state);
  if (phase === "PHASE_CALL") return yesNo(page, "call", t("choice_call"), t("choice_no_call"));
  if (phase === "PHASE_ROB")
    return yesNo(page, "rob", `${t("choice_rob")} ×${bookOf(state.terms).rob_factor}`, t("choice_no_rob"));
  return play(page, state);
}

const nameOf = (state, seat) => state.seats[seat]?.player?.displayName ?? "";
const note = (text) => h("p", { class: "note", key: "note" }, text);
const group = (...buttons) => h("div", { class: "buttons", key: "buttons" }, buttons);
const showLabel = (state) =>
  `${t(`show_${state.terms.book === "classic" ? "classic" : "rob"}`)} ×${bookOf(state.terms).show_factor}`;

function base(page, state) {
  const [least, most] = [BigInt(state.terms.baseMinChips), BigInt(state.terms.baseMaxChips)];
  const steps = [least, (least * 3n + most) / 4n, (least + most) / 2n, most];
  return group(
    note(t("set_the_base")),
    [...new Set(steps)].map((chips) =>
      button(`base-${chips}`, amount(String(chips)), () => page.act({ setBase: { baseChips: String(chips) } }), {
        class: "primary",
      }),
    ),
  );
}

function agree(page, state) {
  return group(
    note(t("agree_to_base", { base: amount(state.baseChips) })),
    button("agree", t("agree"), () => page.act({ answerBase: { agree: true } }), { class: "primary" }),
    button("disagree", t("disagree"), () => page.disagree(), { class: "quiet" }),
  );
}

function bids(page, state) {
  return group(
    button("bid-0", t("choice_no_bid"), () => page.act({ bid: { level: 0 } }), { class: "quiet" }),
    [1, 2, 3].map((level) =>
      button(`bid-${level}`, t(`choice_${level}`), () => page.act({ bid: { level } }), {
        class: "primary",
        disabled: level <= state.level,
      }),
    ),
  );
}

const yesNo = (page, name, yes, no) =>
  group(
    button(`${name}-no`, no, () => page.act({ [name]: { [name]: false } }), { class: "quiet" }),
    button(`${name}-yes`, yes, () => page.act({ [name]: { [name]: true } }), { class: "primary" }),
  );

function play(page, state) {
  const over = onTable(state);
  const book = bookOf(state.terms);
  const { selected } = page.hand;
  const fits = selected.length ? fitting(book, selected, over) : null;
  const ways = fits && !over ? readings(book, selected) : [];
  const buttons =
    ways.length > 1
      ? ways.map((way, index) =>
          button(
            `play-${index}`,
            `${t("put_down")} ${comboText(way)} ${RANKS[way.rank].replace("T", "10")}`,
            () => page.put(way),
            { class: "primary" },
          ),
        )
      : [button("play", t("put_down"), () => page.put(null), { class: "primary", disabled: !fits })];
  return group(
    over && button("pass", t("pass"), () => page.act({ pass: {} }), { class: "quiet" }),
    mayShow(state) && button("show", showLabel(state), () => page.act({ show: { show: true } })),
    state.clock.phase === "PHASE_SHOW" &&
      mayShow(state) &&
      button("no-show", t("no_show"), () => page.act({ show: { show: false } }), { class: "quiet" }),
    button("hint", t("hint"), () => page.hint()),
    buttons,
  );
}
