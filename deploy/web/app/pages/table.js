// The table: what the player sees of it, and what he does.

import { h } from "../dom.js";
import { bookOf, mayBomb } from "../game/books.js";
import { kindOf } from "../game/fold.js";
import { hints } from "../game/hint.js";
import { RANKS } from "../game/cards.js";
import { sorry, t } from "../i18n.js";
import { Table } from "../net/table.js";
import { actions, mayPlay, onTable } from "../parts/actions.js";
import { bar } from "../parts/bar.js";
import { announce, ask, sure, toast } from "../parts/dialog.js";
import { HandView } from "../parts/hand.js";
import { newsOf } from "../parts/news.js";
import { result, seatOf } from "../parts/result.js";
import { clockView, opponent, plate } from "../parts/seat.js";
import { spot } from "../parts/spot.js";

const BEFORE_HAND = ["PHASE_SEATING", "PHASE_BASE", "PHASE_AGREE", "PHASE_READY", "PHASE_COUNTDOWN"];
const AUCTION = ["PHASE_SHOW_WINDOW", "PHASE_BID", "PHASE_CALL", "PHASE_ROB"];
const SEATLESS = ["NOT_A_PLAYER", "TABLE_CLOSED"]; // refused so, a seat is gone already
const NEWS = { seatLeft: ["BELOW_MINIMUM", "BASE_DISAGREED", "TIMED_OUT"] };

export class TablePage {
  constructor(app, tableId) {
    this.app = app;
    this.table = new Table(app.session, tableId, {
      changed: (event) => this.changed(event),
      ended: (why, error) => this.ended(why, error),
    });
    this.hand = new HandView(() => app.refresh());
    this.hinted = { for: "", at: -1, found: [] };
    this.shownResult = "";
    this.over = false; // nothing will come any more
    this.keys = (event) => this.key(event);
    this.shut = (event) => shutSheets(event.target);
  }

  title() {
    return t("table");
  }

  start() {
    document.addEventListener("keydown", this.keys);
    document.addEventListener("pointerdown", this.shut);
    this.table.run();
  }

  /** Leaves the page, not the seat: the trustee plays until one is back. */
  close() {
    document.removeEventListener("keydown", this.keys);
    document.removeEventListener("pointerdown", this.shut);
    this.table.close();
  }

  // ---- what happens -------------------------------------------------------------------------------------------------

  changed(event) {
    const { state } = this.table;
    if (event) this.hear(state, event);
    this.app.refresh();
  }

  hear(state, event) {
    const kind = kindOf(event);
    const news = newsOf(state, event);
    if (news) announce(news);
    if (["handVoided", "redealing"].includes(kind)) toast(news);
    if (kind === "dealt" || kind === "handOpening") this.hand.clear();
    if (kind === "seatLeft" && event.seatLeft.playerId === this.app.session.playerId) {
      const reason = event.seatLeft.reason?.replace("REASON_", "");
      if (NEWS.seatLeft.includes(reason)) toast(t(`unseated_${reason}`));
    }
    if (mayPlay(state) && kind !== "trusteeSet") announce(`${news} ${t("your_turn")}`);
  }

  async ended(why, error) {
    if (why === "replaced") {
      const answer = await ask(t("opened_elsewhere"), t("opened_elsewhere_text"), [
        ["lobby", t("lobby"), "quiet"],
        ["here", t("play_here"), "primary"],
      ]);
      if (answer === "here") this.app.open();
      else this.app.go("");
      return;
    }
    if (error) toast(sorry(error));
    else if (why === "closed") toast(t("table_closed"));
    else if (why === "banned") toast(t("table_banned"));
    // A result that is still being read stays, also for who has lost his seat by it; it has its own way out.
    this.over = ["closed", "left"].includes(why) && this.resultDue();
    if (this.over) this.app.refresh();
    else this.app.go("");
  }

  // ---- what the player does -----------------------------------------------------------------------------------------

  async act(action) {
    try {
      await this.table.act(action);
      if (action.play || action.pass) this.hand.clear();
    } catch (error) {
      toast(sorry(error));
    }
  }

  /** Puts the picked cards down; `way` names a reading when there are several. */
  put(way) {
    const play = { cards: this.hand.selected };
    if (way) Object.assign(play, { type: way.type, rank: RANKS[way.rank] });
    return this.act({ play });
  }

  /** Picks the next suggestion; when there is none, says so. */
  hint() {
    const { state } = this.table;
    const key = `${state.handId} ${state.seq}`;
    if (this.hinted.for !== key) {
      this.hinted = { for: key, at: -1, found: this.suggestions(state) };
    }
    const { found } = this.hinted;
    if (!found.length) {
      toast(t("nothing_beats"));
      this.hand.clear();
      return;
    }
    this.hinted.at = (this.hinted.at + 1) % found.length;
    this.hand.pick(found[this.hinted.at]);
  }

  suggestions(state) {
    return hints(bookOf(state.terms), state.seats[state.you].cards.cards, onTable(state), mayBomb(state, state.you));
  }

  async disagree() {
    if (await sure(t("disagree"), t("disagree_text"), t("disagree"))) this.act({ answerBase: { agree: false } });
  }

  async leave() {
    const { state } = this.table;
    const seated = state && state.you >= 0 && state.clock.phase !== "PHASE_CLOSED";
    const live =
      seated &&
      !state.observing &&
      (!BEFORE_HAND.includes(state.clock.phase) || (state.terms.matched && !state.lastResult));
    if (live && !(await sure(t("leave"), t("leave_text"), t("flee")))) return;
    if (!seated || (await this.giveUp())) this.app.go("");
  }

  /** Gives the seat up; whether it is no longer the player's. */
  async giveUp() {
    try {
      await this.table.act({ leave: {} });
    } catch (error) {
      if (SEATLESS.includes(error.reason)) return true;
      toast(sorry(error));
      return false;
    }
    return true;
  }

  hideResult() {
    if (this.over) {
      this.app.go("");
      return;
    }
    this.shownResult = this.table.state.lastResult.handId;
    this.app.refresh();
  }

  key(event) {
    const { state } = this.table;
    if (
      !state ||
      !mayPlay(state) ||
      document.querySelector("dialog[open]") ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey
    )
      return;
    const own = event.target.closest?.("button, a, summary, input");
    if (event.key === "Enter" && (!own || own.dataset.card)) {
      event.preventDefault();
      // Of several readings the first is the one that the rules would take.
      document.querySelector("[data-act=play]:not([disabled]), [data-act=play-0]")?.click();
    } else if (event.key === "Escape") this.hand.clear();
    else if (event.key.toLowerCase() === "h" && own?.tagName !== "INPUT") this.hint();
    else if (event.key.toLowerCase() === "p" && own?.tagName !== "INPUT")
      document.querySelector("[data-act=pass]")?.click();
  }

  // ---- what he sees -------------------------------------------------------------------------------------------------

  /** Whether there is a result to read: of a hand that one has played, or that one observes. */
  resultDue() {
    const { state } = this.table;
    const settled = state?.lastResult?.handId;
    return (
      settled &&
      (state.observing || seatOf(state, this.app.session.playerId) >= 0) &&
      settled === state.handId &&
      settled !== this.shownResult &&
      [...BEFORE_HAND, "PHASE_CLOSED"].includes(state.clock.phase)
    );
  }

  view() {
    const { state } = this.table;
    if (!state) return h("p", { class: "loading" }, t("coming_to_table"));
    const me = Math.max(state.you, 0);
    const [right, left] = [(me + 1) % 3, (me + 2) % 3]; // play goes counter-clockwise
    return h(
      "div",
      { class: `table-page ${state.landlord === me ? "i-am-landlord" : ""}` },
      h("h1", { class: "sr" }, t("table")),
      bar(this),
      !this.table.connected && h("p", { class: "offline", role: "status" }, t("reconnecting")),
      h(
        "div",
        { class: "felt" },
        opponent(state, left, "left"),
        opponent(state, right, "right"),
        this.spot(left, "left"),
        this.spot(right, "right"),
        this.middle(state),
        this.spot(me, "mine"),
      ),
      h(
        "div",
        { class: "my-side" },
        h(
          "div",
          { class: "controls" },
          plate(state, me, true),
          h("div", { class: "deeds", "aria-live": "off" }, clockView(state, me), actions(this)),
          !state.observing &&
            state.seats[me].cards.cards.length > 0 &&
            h(
              "button",
              { type: "button", class: "quiet small", "data-act": "sort", onclick: () => this.hand.sort() },
              t(this.hand.byCount ? "sort_by_rank" : "sort_by_count"),
            ),
        ),
        this.hand.view(state.seats[me].cards.cards, state.seats[me].cards.count, this.pickable(state)),
      ),
      this.resultDue() && result(this),
    );
  }

  pickable(state) {
    return !state.observing && state.you >= 0 && !BEFORE_HAND.includes(state.clock.phase);
  }

  spot(seat, side) {
    const { state, lasts } = this.table;
    const view = state.seats[seat];
    const choice = AUCTION.includes(state.clock.phase) ? view.robChoice || view.choice : "";
    return spot(lasts.seats[seat], choice, side, state.terms.book);
  }

  middle(state) {
    if (state.clock.phase === "PHASE_COUNTDOWN" && !this.resultDue()) {
      return h("div", { class: "middle", key: "middle" }, h("p", {}, t("next_hand_in")), clockView(state));
    }
    if (state.clock.phase === "PHASE_SHOW_WINDOW")
      return h("div", { class: "middle", key: "middle" }, clockView(state));
    if (BEFORE_HAND.includes(state.clock.phase)) {
      const sitting = state.seats.filter((seat) => seat.player).length;
      return h(
        "div",
        { class: "middle", key: "middle" },
        h("p", {}, sitting < 3 ? t("n_of_three", { n: sitting }) : ""),
      );
    }
    return h("div", { class: "middle", key: "middle" });
  }
}

/** Closes what has been opened over the table, except where the player has just pressed. */
function shutSheets(target) {
  for (const sheet of document.querySelectorAll(".bar details[open]")) if (!sheet.contains(target)) sheet.open = false;
}
