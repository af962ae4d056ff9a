// The lobby: quick start, the rooms, and the way back to a table that one has left by accident.

import { h } from "../dom.js";
import { amount, roomName, sorry, t } from "../i18n.js";
import { randomId } from "../net/session.js";
import { follow } from "../net/stream.js";
import { toast } from "../parts/dialog.js";

const BOOKS = ["rob", "happy", "classic"];

export class LobbyPage {
  constructor(app) {
    this.app = app;
    this.rooms = null;
    this.online = 0;
    this.stopped = new AbortController();
  }

  title() {
    return t("lobby");
  }

  start() {
    follow(
      this.app.session,
      () => "/v1/lobby",
      (message) => this.take(message),
      this.stopped.signal,
    ).catch((error) => toast(sorry(error)));
  }

  close() {
    this.stopped.abort();
  }

  take(message) {
    if (message.snapshot) this.rooms = message.rooms;
    else {
      const news = new Map(message.rooms.map((room) => [room.roomId, room]));
      this.rooms = this.rooms?.map((room) => news.get(room.roomId) ?? room) ?? null;
    }
    this.online = message.online;
    this.app.session.told(message.notice, message.snapshot);
    this.app.refresh();
    return "on";
  }

  /** Whether no room is open to who has so little. */
  broke() {
    const { profile } = this.app;
    return (
      profile &&
      this.rooms?.length &&
      this.rooms.every((room) => BigInt(room.terms.minimumChips) > BigInt(profile.chips))
    );
  }

  async relief() {
    try {
      const { chips, claimsLeft } = await this.app.session.call("POST", "/v1/relief", { commandId: randomId() });
      toast(t("relief_given", { chips: amount(chips), n: claimsLeft }));
      await this.app.loadProfile();
    } catch (error) {
      toast(sorry(error));
    }
  }

  view() {
    const { profile } = this.app;
    return h(
      "div",
      { class: "lobby" },
      profile?.tableId &&
        h(
          "section",
          { class: "banner" },
          h("p", {}, t("you_sit_at_a_table")),
          h("a", { class: "button primary", href: `#/tables/${profile.tableId}` }, t("back_to_table")),
        ),
      this.broke() &&
        h(
          "section",
          { class: "banner" },
          h("p", {}, t("you_are_broke")),
          h("button", { type: "button", class: "primary", onclick: () => this.relief() }, t("claim_relief")),
        ),
      h(
        "section",
        { class: "hero" },
        h(
          "div",
          {},
          h("h1", {}, profile ? t("hello", { name: profile.player.displayName }) : t("brand")),
          h(
            "p",
            { class: "sub" },
            profile ? t("your_standing", { title: titleOf(profile), rating: amount(profile.rating) }) : " ",
          ),
          this.online > 0 && h("p", { class: "online" }, t("online", { n: this.online })),
        ),
        h(
          "div",
          { class: "quick" },
          h("a", { class: "button primary large", href: "#/wait/quick" }, t("quick_start")),
          h(
            "div",
            { class: "books" },
            BOOKS.map((book) =>
              h("a", { class: "button", href: `#/wait/quick/${book}`, key: book }, t(`book_${book}`)),
            ),
          ),
        ),
      ),
      this.rooms ? BOOKS.map((book) => this.book(book)) : h("p", { class: "loading" }, t("loading")),
    );
  }

  book(book) {
    const rooms = this.rooms.filter((room) => room.terms.book === book);
    return h(
      "section",
      { class: "rooms", key: book },
      h("h2", {}, t(`book_${book}`), h("small", {}, t(`about_${book}`))),
      h(
        "ul",
        { class: "cards-list" },
        rooms.map((room) => this.room(room)),
      ),
    );
  }

  room(room) {
    const { terms } = room;
    const chips = BigInt(this.app.profile?.chips ?? "0");
    const poor = chips < BigInt(terms.minimumChips);
    const rich = terms.maximumChips !== "0" && chips > BigInt(terms.maximumChips);
    const base =
      terms.baseMinChips === terms.baseMaxChips
        ? amount(terms.baseMinChips)
        : `${amount(terms.baseMinChips)}–${amount(terms.baseMaxChips)}`;
    const shut = this.app.profile && (poor || rich);
    return h(
      "li",
      { class: `room ${shut ? "shut" : ""}`, key: room.roomId },
      h("h3", {}, roomName(room)),
      h(
        "dl",
        {},
        h("div", {}, h("dt", {}, t("base")), h("dd", {}, base)),
        h("div", {}, h("dt", {}, t("entry")), h("dd", {}, entry(terms))),
        terms.rakeChips !== "0" && h("div", {}, h("dt", {}, t("rake")), h("dd", {}, amount(terms.rakeChips))),
        h(
          "div",
          {},
          h("dt", {}, t("playing")),
          h("dd", {}, t("players_at_tables", { players: room.players, tables: room.tables })),
        ),
      ),
      h(
        "div",
        { class: "buttons" },
        h(
          "a",
          { class: "button quiet", href: `#/rooms/${room.roomId}`, "aria-label": `${t("tables")}: ${roomName(room)}` },
          t("tables"),
        ),
        shut
          ? h("span", { class: "why" }, t(poor ? "too_few_chips" : "too_many_chips"))
          : h(
              "a",
              {
                class: "button primary",
                href: `#/wait/${room.roomId}`,
                "aria-label": `${t("play")}: ${roomName(room)}`,
              },
              t("play"),
            ),
      ),
    );
  }
}

const entry = (terms) =>
  terms.maximumChips === "0"
    ? `≥ ${amount(terms.minimumChips)}`
    : `${amount(terms.minimumChips)}–${amount(terms.maximumChips)}`;

/** The title in the player's language; the servers name it by id. */
export function titleOf(entry) {
  const key = `title_${entry.title}`;
  const text = t(key);
  return text === key ? entry.title : text;
}
