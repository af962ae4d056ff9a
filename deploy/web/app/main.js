// Starts the page: who plays, which page is open, and the frame around it.

import { h, render } from "./dom.js";
import { amount, language, setLanguage, sorry, t } from "./i18n.js";
import { Session } from "./net/session.js";
import { HandPage } from "./pages/hand.js";
import { LeadersPage } from "./pages/leaders.js";
import { LobbyPage } from "./pages/lobby.js";
import { ProfilePage } from "./pages/profile.js";
import { RoomPage } from "./pages/room.js";
import { TablePage } from "./pages/table.js";
import { WaitPage } from "./pages/wait.js";
import { noticeView } from "./parts/bar.js";
import { toast } from "./parts/dialog.js";
import { startTicker } from "./parts/ticker.js";

const PAGES = {
  "": LobbyPage,
  rooms: RoomPage,
  wait: WaitPage,
  tables: TablePage,
  leaders: LeadersPage,
  me: ProfilePage,
  hands: HandPage,
};
const PART = /^[\w.-]{0,96}$/;
const LINKS = [
  ["", "lobby"],
  ["leaders", "leaders"],
  ["me", "me"],
];

class App {
  constructor() {
    this.session = new Session();
    this.page = null;
    this.route = "";
    this.profile = null;
  }

  async start() {
    setLanguage(language());
    startTicker(() => this.session.now());
    window.addEventListener("hashchange", () => this.open());
    window.addEventListener("resize", () => this.refresh());
    window.addEventListener("online", () => this.refresh());
    window.addEventListener("offline", () => this.refresh());
    render(document.getElementById("page"), h("p", { class: "loading" }, t("connecting")));
    for (;;) {
      try {
        await this.session.logIn();
        break;
      } catch (error) {
        const retry = new Promise((resolve) => {
          render(
            document.getElementById("page"),
            h(
              "div",
              { class: "loading" },
              h("p", {}, sorry(error)),
              h("button", { type: "button", onclick: resolve }, t("try_again")),
            ),
          );
        });
        await retry;
      }
    }
    this.open();
  }

  /** Opens the page of an address such as rooms/rob-beginner. */
  go(route) {
    if (location.hash === `#/${route}`) this.open();
    else location.hash = `#/${route}`;
  }

  open() {
    const parts = location.hash.replace(/^#\/?/, "").split("/");
    const [name, ...rest] = parts.every((part) => PART.test(part)) ? parts : [""]; // they become parts of calls' paths
    this.page?.close?.();
    this.route = name in PAGES ? name : "";
    this.page = new PAGES[this.route](this, ...rest);
    document.body.dataset.page = this.route || "lobby";
    render(document.getElementById("page"));
    window.scrollTo(0, 0);
    this.refresh();
    this.page.start?.();
    if (this.route !== "tables") this.loadProfile();
  }

  async loadProfile() {
    try {
      this.profile = (await this.session.call("GET", "/v1/profile")).profile;
      this.refresh();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Shows the state as it is now. */
  refresh() {
    if (!this.page) return;
    render(document.getElementById("top"), this.route === "tables" ? null : this.header());
    render(document.getElementById("page"), this.page.view());
    const title = this.page.title?.() ?? t("lobby");
    document.title = `${title} · ${t("brand")}`;
  }

  fail(error) {
    toast(sorry(error));
  }

  languageSwitch() {
    const other = language() === "zh" ? "en" : "zh";
    const change = () => {
      setLanguage(other);
      this.refresh();
    };
    return h(
      "button",
      { type: "button", class: "quiet language", lang: other === "zh" ? "zh-Hans" : "en", onclick: change },
      other === "zh" ? "中文" : "English",
    );
  }

  header() {
    const { profile } = this;
    return h(
      "div",
      { class: "header" },
      h(
        "a",
        { class: "brand", href: "#/" },
        h("img", { src: "/art/icon.svg", alt: "", width: "32", height: "32" }),
        t("brand"),
      ),
      h(
        "nav",
        { "aria-label": t("pages") },
        LINKS.map(([route, key]) =>
          h("a", { href: `#/${route}`, "aria-current": route === this.route ? "page" : null }, t(key)),
        ),
      ),
      h(
        "span",
        { class: "purse" },
        profile && h("span", { class: "chips" }, h("span", { class: "sr" }, t("chips")), amount(profile.chips)),
        this.languageSwitch(),
      ),
      noticeView(this.session.notice),
    );
  }
}

new App().start();
