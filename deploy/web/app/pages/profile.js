// The player: name, points, statistics, and the statement, from which each hand can be played again.

import { h } from "../dom.js";
import { amount, signed, sorry, t, when } from "../i18n.js";
import { toast } from "../parts/dialog.js";
import { headCell } from "../parts/sheet.js";
import { titleOf } from "./lobby.js";

export class ProfilePage {
  constructor(app) {
    this.app = app;
    this.transfers = null;
    this.next = "";
  }

  title() {
    return t("me");
  }

  async start() {
    await this.more();
  }

  async more() {
    try {
      const token = this.next ? `&page_token=${encodeURIComponent(this.next)}` : "";
      const page = await this.app.session.call("GET", `/v1/transfers?page_size=50${token}`);
      this.transfers = [...(this.transfers ?? []), ...page.transfers];
      this.next = page.nextPageToken;
      this.app.refresh();
    } catch (error) {
      toast(sorry(error));
    }
  }

  async rename(event) {
    event.preventDefault();
    const displayName = new FormData(event.target).get("name").trim();
    if (!displayName) return;
    try {
      const { avatarId } = this.app.profile.player;
      await this.app.session.call("PATCH", "/v1/profile", { displayName, avatarId });
      await this.app.session.renew(); // the name is in the token, and so at the next table
      toast(t("saved"));
      await this.app.loadProfile();
    } catch (error) {
      toast(sorry(error));
    }
  }

  view() {
    const { profile } = this.app;
    if (!profile) return h("p", { class: "loading" }, t("loading"));
    const statistics = profile.statistics ?? {};
    const facts = [
      ["chips", amount(profile.chips)],
      ["rating", amount(profile.rating)],
      ["title", titleOf(profile)],
      ["hands_played", statistics.hands ?? 0],
      ["won_as_landlord", `${statistics.landlordWins ?? 0} / ${statistics.landlordHands ?? 0}`],
      ["won_as_farmer", `${statistics.farmerWins ?? 0} / ${statistics.farmerHands ?? 0}`],
      ["greatest_multiplier", statistics.greatestMultiplier ?? 0],
      ["flees", statistics.flees ?? 0],
    ];
    return h(
      "div",
      { class: "profile" },
      h("h1", {}, profile.player.displayName),
      h(
        "dl",
        { class: "facts grid" },
        facts.map(([key, value]) => h("div", { key }, h("dt", {}, t(key)), h("dd", {}, value))),
      ),
      h(
        "form",
        { class: "code", onsubmit: (event) => this.rename(event) },
        h("label", { for: "name" }, t("your_name")),
        h("input", { id: "name", name: "name", maxlength: "32", autocomplete: "nickname" }),
        h("button", { type: "submit" }, t("save")),
      ),
      h("h2", {}, t("statement")),
      this.transfers === null ? h("p", { class: "loading" }, t("loading")) : this.statement(),
    );
  }

  statement() {
    if (!this.transfers.length) return h("p", { class: "empty" }, t("no_transfers"));
    return h(
      "div",
      {},
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": t("statement") },
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["at", "what", "amount", "balance", "replay"].map((key) => headCell(key)),
            ),
          ),
          h(
            "tbody",
            {},
            this.transfers.map((entry) => this.entry(entry)),
          ),
        ),
      ),
      this.next && h("button", { type: "button", class: "quiet", onclick: () => this.more() }, t("more")),
    );
  }

  entry(entry) {
    const good = BigInt(entry.amount) >= 0n;
    return h(
      "tr",
      { key: entry.transferId },
      h("td", {}, when(entry.atMs)),
      h("td", {}, `${t(`transfer_${entry.kind}`)} · ${t(entry.unit)}`),
      h("td", { class: `number ${good ? "gain" : "loss"}` }, signed(entry.amount)),
      h("td", { class: "number" }, amount(entry.balanceAfter)),
      h(
        "td",
        {},
        entry.handId &&
          h("a", { href: `#/hands/${entry.handId}`, "aria-label": `${t("replay")} ${entry.handId}` }, t("replay")),
      ),
    );
  }
}
