// The strip above the table: what is played for, the bottom cards, the multiplier by factor, and the menu.

import { h } from "../dom.js";
import { bytesOf, hexOf } from "../game/deal.js";
import { amount, t } from "../i18n.js";
import { cardBack, cardView } from "./card.js";

const HIDDEN_BOTTOM = ["PHASE_SHOW_WINDOW", "PHASE_BID", "PHASE_CALL", "PHASE_ROB"];

/** The three bottom cards, or their backs while nobody may see them. */
export function bottomView(state) {
  const hidden = !state.bottom.length && HIDDEN_BOTTOM.includes(state.clock.phase);
  return h(
    "div",
    { class: "bottom", role: "group", "aria-label": t("bottom") },
    state.bottom.map((card) => cardView(card, "mini")),
    hidden && [0, 1, 2].map((index) => cardBack(`b${index}`, "mini")),
    state.markedCard !== undefined &&
      !state.bottom.length && [
        h("span", { class: "label", key: "l" }, t("marked_card")),
        cardView(state.markedCard, "mini marked"),
      ],
  );
}

/** The multiplier; opened, what it is made of. */
export function multiplierView(state) {
  const factors = state.factors.filter((entry) => entry.product !== "1");
  return h(
    "details",
    { class: "multiplier" },
    h(
      "summary",
      { "aria-label": t("multiplier_is", { n: state.multiplier }) },
      h("span", { "aria-hidden": "true" }, "×"),
      amount(state.multiplier || "1"),
    ),
    h(
      "dl",
      { class: "sheet" },
      factors.map((entry) =>
        h(
          "div",
          { key: entry.factor },
          h("dt", {}, t(entry.factor.toLowerCase())),
          h("dd", {}, `×${amount(entry.product)}`),
        ),
      ),
      !factors.length && h("div", {}, h("dt", {}, t("no_factors")), h("dd", {}, "×1")),
      state.level > 0 && h("div", { key: "level" }, h("dt", {}, t("level")), h("dd", {}, state.level)),
      h("div", { key: "base" }, h("dt", {}, t("base")), h("dd", {}, amount(state.baseChips))),
    ),
  );
}

/** What operators tell to all while the system is closed. */
export function noticeView(notice) {
  return notice && h("p", { class: "notice", role: "status" }, t("maintenance", { notice }));
}

/** `page`: the table page, whose deeds the menu calls. */
export function bar(page) {
  const { state } = page.table;
  const seat = state.you >= 0 && !state.observing ? state.seats[state.you] : null;
  const code = sessionStorage.getItem(`ddz.code.${state.tableId}`);
  return h(
    "header",
    { class: "bar" },
    h("button", { type: "button", class: "quiet", "data-act": "leave", onclick: () => page.leave() }, t("leave")),
    h(
      "span",
      { class: "facts" },
      h("span", { class: "book" }, t(`book_${state.terms.book}`)),
      state.baseChips !== "0" && h("span", { class: "base" }, `${t("base")} ${amount(state.baseChips)}`),
      code && h("span", { class: "code-is" }, t("code_is", { code })),
    ),
    noticeView(page.app.session.notice),
    bottomView(state),
    state.multiplier !== "0" && multiplierView(state),
    h(
      "details",
      { class: "menu" },
      h("summary", { "aria-label": t("menu") }, "☰\ufe0e"),
      h(
        "div",
        { class: "sheet" },
        seat &&
          h(
            "button",
            {
              type: "button",
              "data-act": "trustee",
              "aria-pressed": String(seat.trustee),
              onclick: () => page.act({ trustee: { on: !seat.trustee } }),
            },
            t(seat.trustee ? "trustee_off" : "trustee_on"),
          ),
        seat &&
          h(
            "button",
            {
              type: "button",
              "data-act": "allow",
              "aria-pressed": String(seat.observersAllowed),
              onclick: () => page.act({ allowObservers: { allow: !seat.observersAllowed } }),
            },
            t(seat.observersAllowed ? "forbid_observers" : "allow_observers"),
          ),
        h(
          "p",
          { class: "observers" },
          state.observers.length
            ? t("watched_by", { names: state.observers.map((view) => view.observer.displayName).join(", ") })
            : t("nobody_watches"),
        ),
        h(
          "p",
          { class: "fair" },
          state.proof?.commitment
            ? t("commitment_is", { commitment: hexOf(bytesOf(state.proof.commitment)) })
            : t("fair_deal"),
        ),
        page.app.languageSwitch(),
      ),
    ),
  );
}
