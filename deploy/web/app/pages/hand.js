// A recorded hand: played again step by step with open cards, and its deal computed again in this browser.

import { h } from "../dom.js";
import { sorted } from "../game/cards.js";
import { bytesOf, hexOf } from "../game/deal.js";
import { compared, replayed } from "../game/record.js";
import { Refusal } from "../net/errors.js";
import { amount, signed, sorry, t, when } from "../i18n.js";
import { cardRow, cardView } from "../parts/card.js";
import { headCell } from "../parts/sheet.js";
import { comboText, choiceText, spot } from "../parts/spot.js";

const STEP_MS = 1200;

export class HandPage {
  constructor(app, handId) {
    this.app = app;
    this.handId = handId;
    this.hand = null;
    this.error = null;
    this.at = 0;
    this.timer = null;
    this.proof = null;
    this.keys = (event) => this.key(event);
  }

  title() {
    return t("replay");
  }

  async start() {
    document.addEventListener("keydown", this.keys);
    try {
      // Browsers compute hashes only for pages that came safely: by TLS, or from this machine.
      if (!crypto.subtle) throw new Refusal("NEEDS_HTTPS", "open the page by https");
      this.hand = await this.app.session.call("GET", `/v1/hands/${this.handId}`);
      this.replay = await replayed(this.hand.record);
    } catch (error) {
      this.error = error;
    }
    this.app.refresh();
  }

  close() {
    document.removeEventListener("keydown", this.keys);
    clearInterval(this.timer);
  }

  go(step) {
    this.at = Math.max(0, Math.min(this.replay.frames.length - 1, step));
    if (this.at === this.replay.frames.length - 1) this.stop();
    this.app.refresh();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
  }

  toggle() {
    if (this.timer) this.stop();
    else {
      if (this.at === this.replay.frames.length - 1) this.at = 0;
      this.timer = setInterval(() => this.go(this.at + 1), STEP_MS);
    }
    this.app.refresh();
  }

  key(event) {
    if (!this.replay || ["INPUT", "BUTTON", "A"].includes(event.target.tagName)) return;
    if (event.key === "ArrowRight") this.go(this.at + 1);
    else if (event.key === "ArrowLeft") this.go(this.at - 1);
  }

  /** Everything is computed anew from what the ledger has recorded, here and now. */
  async verify() {
    const { record } = this.hand;
    const { faults, deals } = await replayed(record);
    const mine = record.players.findIndex((player) => player.playerId === this.app.session.playerId);
    this.proof = { faults, deals, seen: compared(record, mine) };
    this.app.refresh();
  }

  view() {
    if (this.error) return h("p", { class: "empty" }, sorry(this.error));
    if (!this.replay) return h("p", { class: "loading" }, t("loading"));
    const { record } = this.hand;
    return h(
      "div",
      { class: "replay" },
      h("h1", {}, t("replay")),
      h(
        "p",
        { class: "sub" },
        `${t(`book_${record.terms.book}`)} · ${t("base")} ${amount(record.baseChips)} · ${when(record.startedAtMs)}`,
      ),
      this.board(record),
      this.controls(),
      this.settlement(record),
      this.checks(record),
    );
  }

  board(record) {
    const frame = this.replay.frames[this.at];
    const product = Object.values(frame.factors).reduce((all, factor) => all * factor, 1n);
    return h(
      "div",
      { class: "board felt" },
      h(
        "div",
        { class: "board-top" },
        h(
          "span",
          { class: "bottom", role: "group", "aria-label": t("bottom") },
          frame.bottom.map((card) => cardView(card, "mini")),
        ),
        h("span", { class: "times" }, `×${product}`),
        h("span", { class: "said", role: "status" }, this.sentence(record, frame)),
      ),
      [0, 1, 2].map((seat) =>
        h(
          "div",
          { class: `lane ${frame.step.seat === seat ? "turn" : ""}`, key: `lane${seat}` },
          h(
            "div",
            { class: "lane-name" },
            h("b", {}, record.players[seat].displayName),
            frame.landlord !== undefined &&
              h(
                "span",
                { class: `role ${frame.landlord === seat ? "landlord" : "farmer"}` },
                t(frame.landlord === seat ? "landlord" : "farmer"),
              ),
            frame.shown[seat] && h("span", { class: "mark" }, t("shown")),
            h("span", { class: "count" }, frame.hands[seat].length),
          ),
          h(
            "div",
            { class: "lane-cards" },
            frame.hands[seat].length
              ? cardRow(
                  sorted(frame.hands[seat], false),
                  t("cards_of", { name: record.players[seat].displayName }),
                  "small",
                )
              : null,
          ),
          spot(
            frame.lasts[seat],
            frame.landlord === undefined ? frame.choices[seat] : "",
            "lane-spot",
            record.terms.book,
          ),
        ),
      ),
    );
  }

  sentence(record, frame) {
    const { kind, seat, action } = frame.step;
    const who = seat >= 0 && seat !== undefined ? record.players[seat].displayName : "";
    const late = action?.byTrustee ? ` (${t("trustee")})` : "";
    const { book } = record.terms;
    const words = {
      deal: () => t("step_deal", { n: frame.step.number + 1 }),
      bid: () => choiceText(action.bid.level ? String(action.bid.level) : "pass", book),
      call: () => choiceText(action.call.call ? "call" : "pass", book),
      rob: () => choiceText(action.rob.rob ? "rob" : "no_rob", book),
      show: () => t(action.show.show ? "shown" : "no_show"),
      closeShow: () => t("step_show_closed"),
      landlord: () => t("step_landlord"),
      play: () => comboText(frame.lasts[seat].combo),
      pass: () => t("pass"),
      flee: () => t("flee"),
    };
    return `${who} ${words[kind]()}${late}`.trim();
  }

  controls() {
    const last = this.replay.frames.length - 1;
    const move = (event) => {
      this.stop();
      this.go(Number(event.target.value));
    };
    const step = (by) => () => {
      this.stop();
      this.go(this.at + by);
    };
    return h(
      "div",
      { class: "player-controls" },
      h("button", { type: "button", "data-act": "back", disabled: this.at === 0, onclick: step(-1) }, t("step_back")),
      h(
        "button",
        { type: "button", class: "primary", "data-act": "run", onclick: () => this.toggle() },
        t(this.timer ? "stop" : "run"),
      ),
      h("button", { type: "button", "data-act": "on", disabled: this.at === last, onclick: step(1) }, t("step_on")),
      h("input", {
        type: "range",
        min: "0",
        max: String(last),
        value: this.at,
        "aria-label": t("step"),
        oninput: move,
      }),
      h("span", { class: "count" }, `${this.at + 1} / ${last + 1}`),
    );
  }

  settlement(record) {
    const { settlement } = this.hand;
    if (!settlement) return null;
    const { multiplier, level, fled } = record.outcome;
    return h(
      "section",
      {},
      h("h2", {}, t("settlement")),
      h(
        "p",
        { class: "sum" },
        t("formula", {
          base: amount(record.baseChips),
          level: Math.max(level, 1),
          multiplier: amount(fled === undefined ? multiplier : record.outcome.fleeMultiplier),
        }),
      ),
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": t("settlement") },
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["player", "chips", "rating", "balance"].map((key) => headCell(key)),
            ),
          ),
          h(
            "tbody",
            {},
            settlement.seats.map((seat, index) =>
              h(
                "tr",
                { key: index },
                h("th", { scope: "row" }, record.players[index].displayName),
                h("td", { class: `number ${BigInt(seat.chips) >= 0n ? "gain" : "loss"}` }, signed(seat.chips)),
                h("td", { class: "number" }, signed(seat.rating)),
                h("td", { class: "number" }, amount(seat.balanceAfterChips)),
              ),
            ),
          ),
        ),
      ),
    );
  }

  checks(record) {
    return h(
      "section",
      { class: "checks" },
      h("h2", {}, t("fair_deal")),
      h("p", {}, t("fair_text")),
      h(
        "button",
        { type: "button", class: "primary", "data-act": "verify", onclick: () => this.verify() },
        t("verify_this_deal"),
      ),
      h(
        "div",
        { role: "status" },
        this.proof &&
          h(
            "ul",
            { class: "findings" },
            this.proof.faults.length
              ? this.proof.faults.map(([key, parameters], index) =>
                  h("li", { class: "bad", key: index }, t(key, parameters)),
                )
              : ["proof_seed", "proof_cards", "proof_play"].map((key) =>
                  h("li", { class: "good", key }, t(key, { n: this.proof.deals })),
                ),
            this.proof.seen.map(([dealId, what]) =>
              h(
                "li",
                { class: { same: "good", other: "bad", unseen: "open" }[what], key: dealId },
                t(`proof_${what}`, { dealId }),
              ),
            ),
          ),
      ),
      record.actions
        .filter((action) => action.deal)
        .map(({ deal }) =>
          h(
            "dl",
            { class: "proof", key: deal.dealId },
            [
              ["deal_id", deal.dealId],
              ["commitment", hexOf(bytesOf(deal.commitment))],
              ["server_seed", hexOf(bytesOf(deal.serverSeed))],
              ...deal.clientSeeds.map((seed, seat) => [
                "client_seed",
                hexOf(bytesOf(seed)) || "–",
                record.players[seat].displayName,
              ]),
            ].map(([key, value, name], index) =>
              h("div", { key: index }, h("dt", {}, t(key, { name })), h("dd", {}, value)),
            ),
          ),
        ),
    );
  }
}
