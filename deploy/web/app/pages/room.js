// A room's tables as they change: take a seat, open a table, watch somebody play.

import { h } from "../dom.js";
import { amount, roomName, sorry, t } from "../i18n.js";
import { follow } from "../net/stream.js";
import { randomId } from "../net/session.js";
import { toast } from "../parts/dialog.js";

export class RoomPage {
  constructor(app, roomId) {
    this.app = app;
    this.roomId = roomId;
    this.room = null;
    this.tables = new Map();
    this.code = "";
    this.stopped = new AbortController();
  }

  title() {
    return this.room ? roomName(this.room) : t("tables");
  }

  start() {
    const path = () => `/v1/lobby?room_id=${encodeURIComponent(this.roomId)}`;
    follow(this.app.session, path, (message) => this.take(message), this.stopped.signal).catch((error) => {
      toast(sorry(error));
      this.app.go("");
    });
  }

  close() {
    this.stopped.abort();
  }

  take(message) {
    if (message.snapshot) this.tables.clear();
    this.app.session.told(message.notice, message.snapshot);
    for (const room of message.rooms) if (room.roomId === this.roomId) this.room = room;
    for (const table of message.tables) this.tables.set(table.tableId, table);
    for (const tableId of message.goneTableIds) this.tables.delete(tableId);
    this.app.refresh();
    return "on";
  }

  async sit(tableId, seat) {
    await this.try("POST", `/v1/tables/${tableId}/seat`, { seat }, tableId);
  }

  async observe(tableId, seat) {
    await this.try("POST", `/v1/tables/${tableId}/observe`, { seat }, tableId);
  }

  async try(method, path, body, tableId) {
    try {
      await this.app.session.call(method, path, body);
      this.app.go(`tables/${tableId}`);
    } catch (error) {
      toast(sorry(error));
    }
  }

  async create(hidden) {
    try {
      const path = `/v1/rooms/${this.roomId}/tables`;
      const made = await this.app.session.call("POST", path, { requestId: randomId(), private: hidden });
      if (made.code) sessionStorage.setItem(`ddz.code.${made.tableId}`, made.code);
      this.app.go(`tables/${made.tableId}`);
    } catch (error) {
      toast(sorry(error));
    }
  }

  async find(event) {
    event.preventDefault();
    const code = new FormData(event.target).get("code").trim();
    if (!code) return;
    try {
      const { tableId } = await this.app.session.call("GET", `/v1/codes/${encodeURIComponent(code)}`);
      await this.app.session.call("POST", `/v1/tables/${tableId}/seat`, { code });
      this.app.go(`tables/${tableId}`);
    } catch (error) {
      toast(sorry(error));
    }
  }

  view() {
    if (!this.room) return h("p", { class: "loading" }, t("loading"));
    const byChoice = this.room.seating === "SEATING_BY_CHOICE";
    return h(
      "div",
      { class: "room-page" },
      h("h1", {}, roomName(this.room)),
      h("p", { class: "sub" }, t(`about_${this.room.terms.book}`)),
      h(
        "div",
        { class: "buttons" },
        h("a", { class: "button primary", href: `#/wait/${this.roomId}` }, t("find_me_a_table")),
        byChoice && h("button", { type: "button", onclick: () => this.create(false) }, t("open_a_table")),
        byChoice &&
          h("button", { type: "button", class: "quiet", onclick: () => this.create(true) }, t("open_a_private_table")),
      ),
      byChoice &&
        h(
          "form",
          { class: "code", onsubmit: (event) => this.find(event) },
          h("label", { for: "code" }, t("private_code")),
          h("input", { id: "code", name: "code", autocomplete: "off", maxlength: "16" }),
          h("button", { type: "submit", class: "quiet" }, t("enter")),
        ),
      h("h2", {}, t("tables")),
      this.tables.size
        ? h(
            "ul",
            { class: "tables-list" },
            [...this.tables.values()].map((table) => this.table(table, byChoice)),
          )
        : h("p", { class: "empty" }, t("no_tables")),
    );
  }

  table(table, byChoice) {
    const mine = table.players.some((player) => player.playerId === this.app.session.playerId);
    return h(
      "li",
      { class: "table-card", key: table.tableId, "data-table": table.tableId },
      h("div", { class: "mini", "aria-hidden": "true" }),
      h("p", { class: "phase" }, t(`phase_${table.phase}`)),
      h(
        "p",
        { class: "facts" },
        [
          table.baseChips !== "0" && `${t("base")} ${amount(table.baseChips)}`,
          table.observers > 0 && t("observers", { n: table.observers }),
        ]
          .filter(Boolean)
          .join(" · "),
      ),
      h(
        "ul",
        { class: "seats-list" },
        [0, 1, 2].map((seat) => this.seat(table, seat, byChoice && !mine)),
      ),
      mine && h("a", { class: "button primary", href: `#/tables/${table.tableId}` }, t("back_to_table")),
    );
  }

  seat(table, seat, open) {
    const player = table.players[seat];
    if (!player?.playerId) {
      return h(
        "li",
        { key: seat },
        open
          ? h(
              "button",
              { type: "button", class: "seat-free", onclick: () => this.sit(table.tableId, seat) },
              t("sit_here"),
            )
          : h("span", { class: "seat-free" }, t("free")),
      );
    }
    const me = player.playerId === this.app.session.playerId;
    return h(
      "li",
      { key: seat },
      h("span", { class: "name" }, player.displayName),
      !me &&
        h(
          "button",
          {
            type: "button",
            class: "quiet small",
            "aria-label": t("watch_name", { name: player.displayName }),
            onclick: () => this.observe(table.tableId, seat),
          },
          t("watch"),
        ),
    );
  }
}
