// Who has the most points or chips, and the ladder of titles.

import { h } from "../dom.js";
import { amount, sorry, t } from "../i18n.js";
import { toast } from "../parts/dialog.js";
import { headCell } from "../parts/sheet.js";
import { titleOf } from "./lobby.js";

// RULES.md section 10 and D-13: the least rating of each title.
const TITLES = [
  ["casual_labourer", 0],
  ["farmhand", 100],
  ["tenant", 200],
  ["poor_peasant", 400],
  ["fisher", 600],
  ["hunter", 1000],
  ["middle_peasant", 2000],
  ["rich_peasant", 4000],
  ["shopkeeper", 6000],
  ["merchant", 10000],
  ["bailiff", 20000],
  ["lesser_proprietor", 50000],
  ["great_proprietor", 100000],
  ["lesser_landlord", 200000],
  ["great_landlord", 500000],
  ["county_magistrate", 1000000],
  ["vice_prefect", 2000000],
  ["prefect", 5000000],
  ["viceroy", 10000000],
  ["governor", 20000000],
  ["chancellor", 50000000],
  ["emperor", 100000000],
];

export class LeadersPage {
  constructor(app) {
    this.app = app;
    this.unit = "rating";
    this.leaders = null;
  }

  title() {
    return t("leaders");
  }

  async start() {
    try {
      const { unit } = this;
      const { leaders } = await this.app.session.call("GET", `/v1/leaders?unit=${unit}&limit=50`);
      if (unit === this.unit) this.leaders = leaders;
      this.app.refresh();
    } catch (error) {
      toast(sorry(error));
    }
  }

  show(unit) {
    this.unit = unit;
    this.start();
    this.app.refresh();
  }

  view() {
    return h(
      "div",
      { class: "leaders" },
      h("h1", {}, t("leaders")),
      h(
        "div",
        { class: "switch", role: "group", "aria-label": t("leaders") },
        ["rating", "chips"].map((unit) =>
          h(
            "button",
            {
              type: "button",
              key: unit,
              "aria-pressed": String(unit === this.unit),
              onclick: () => this.show(unit),
            },
            t(unit),
          ),
        ),
      ),
      this.leaders ? this.ranking() : h("p", { class: "loading" }, t("loading")),
      h("h2", {}, t("titles")),
      h(
        "ol",
        { class: "titles" },
        TITLES.map(([id, least]) => this.step(id, least)),
      ),
    );
  }

  ranking() {
    return h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": t("leaders") },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["place", "player", "title", "rating", "chips"].map((key) => headCell(key)),
          ),
        ),
        h(
          "tbody",
          {},
          this.leaders.map((leader) =>
            h(
              "tr",
              {
                key: leader.player.playerId,
                class: leader.player.playerId === this.app.session.playerId ? "mine" : "",
              },
              h("td", { class: `place place-${leader.place}` }, leader.place),
              h("td", {}, leader.player.displayName),
              h("td", {}, titleOf(leader)),
              h("td", { class: "number" }, amount(leader.rating)),
              h("td", { class: "number" }, amount(leader.chips)),
            ),
          ),
        ),
      ),
    );
  }

  step(id, least) {
    const rating = Number(this.app.profile?.rating ?? 0);
    const reached = rating >= least;
    return h(
      "li",
      { key: id, class: reached ? "reached" : "" },
      h("b", {}, t(`title_${id}`)),
      h("span", {}, amount(String(least))),
    );
  }
}
