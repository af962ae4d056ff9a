// Waiting for two others: how long it has taken, how long it may take, and the way out.

import { h } from "../dom.js";
import { roomName, seconds, sorry, t } from "../i18n.js";
import { follow } from "../net/stream.js";
import { announce, toast } from "../parts/dialog.js";

const EVERY_MS = 500;

export class WaitPage {
  /** `where`: a room's id, or "quick" for the best room of `book`, or of any. */
  constructor(app, where, book) {
    this.app = app;
    this.where = where;
    this.book = book ?? "";
    this.ticket = null;
    this.room = null;
    this.heardAt = 0;
    this.leaving = false;
    this.stopped = new AbortController();
    this.timer = setInterval(() => this.app.refresh(), EVERY_MS);
  }

  title() {
    return t("waiting");
  }

  async start() {
    const { session } = this.app;
    const [path, body] =
      this.where === "quick" ? ["/v1/quickstart", { book: this.book }] : ["/v1/tickets", { roomId: this.where }];
    try {
      const { ticket } = await session.call("POST", path, body);
      this.hear(ticket);
      if (this.leaving) await this.cancel();
      if (this.stopped.signal.aborted) return;
      const { rooms } = await session.call("GET", "/v1/rooms");
      this.room = rooms.find((room) => room.roomId === ticket.roomId);
      const watch = () => `/v1/tickets/${ticket.ticketId}`;
      await follow(session, watch, (message) => this.hear(message.ticket), this.stopped.signal);
    } catch (error) {
      if (this.stopped.signal.aborted) return;
      toast(sorry(error));
      this.app.go("");
    }
  }

  /** Leaves the page; the place in the queue stays until it is given up. */
  close() {
    this.stopped.abort();
    clearInterval(this.timer);
  }

  hear(ticket) {
    this.ticket = ticket;
    this.heardAt = performance.now();
    if (this.stopped.signal.aborted) return "end";
    if (ticket.state === "TICKET_STATE_MATCHED") {
      announce(t("matched"));
      this.app.go(`tables/${ticket.tableId}`);
      return "end";
    }
    if (["TICKET_STATE_CANCELLED", "TICKET_STATE_EXPIRED"].includes(ticket.state)) {
      if (ticket.state === "TICKET_STATE_EXPIRED") toast(t("ticket_expired"));
      this.app.go("");
      return "end";
    }
    this.app.refresh();
    return "on";
  }

  async cancel() {
    this.leaving = true; // before the ticket is here there is nothing to give back, and it would stay
    if (!this.ticket) return;
    try {
      await this.app.session.call("DELETE", `/v1/tickets/${this.ticket.ticketId}`);
      this.app.go("");
    } catch (error) {
      toast(sorry(error));
    }
  }

  view() {
    const waited = this.ticket ? Number(this.ticket.waitedMs) + performance.now() - this.heardAt : 0;
    const estimate = Number(this.ticket?.estimateMs ?? 0);
    const claimed = this.ticket?.state === "TICKET_STATE_CLAIMED";
    return h(
      "div",
      { class: "waiting" },
      h("div", { class: "dealing", "aria-hidden": "true" }, h("span"), h("span"), h("span")),
      h("h1", {}, t(claimed ? "opening_table" : "waiting_for_players")),
      h("p", { class: "sub" }, this.room ? roomName(this.room) : " "),
      h(
        "dl",
        { class: "facts" },
        h("div", {}, h("dt", {}, t("waited")), h("dd", {}, seconds(waited))),
        h("div", {}, h("dt", {}, t("estimate")), h("dd", {}, estimate ? seconds(estimate) : t("not_known"))),
        h("div", {}, h("dt", {}, t("place_in_line")), h("dd", {}, this.ticket?.position || "–")),
      ),
      h("button", { type: "button", class: "quiet", onclick: () => this.cancel() }, t("stop_waiting")),
    );
  }
}
