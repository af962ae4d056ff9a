// The player's own cards: picked by click, by dragging over several, or by keyboard.

import { h } from "../dom.js";
import { sorted } from "../game/cards.js";
import { t } from "../i18n.js";
import { cardBack, cardButton } from "./card.js";

const SORT_KEY = "ddz.sort";
const NARROW = 640; // below this width many cards stand in two rows …
const LOW = 480; // … unless the window is lower than this

export class HandView {
  /** `changed`: what is picked has changed. */
  constructor(changed) {
    this.changed = changed;
    this.picked = new Set();
    this.byCount = localStorage.getItem(SORT_KEY) === "count";
    this.cards = [];
    this.drag = null;
    this.focus = 0;
  }

  sort() {
    this.byCount = !this.byCount;
    localStorage.setItem(SORT_KEY, this.byCount ? "count" : "rank");
    this.changed();
  }

  pick(cards) {
    this.picked = new Set(cards);
    this.changed();
  }

  clear() {
    if (this.picked.size) this.pick([]);
  }

  get selected() {
    return this.cards.filter((card) => this.picked.has(card));
  }

  /** The rows of cards; `count` backs when they are hidden. `live` = they can be picked. */
  view(cards, count, live) {
    this.cards = sorted(cards, this.byCount);
    for (const card of this.picked) if (!this.cards.includes(card)) this.picked.delete(card);
    this.focus = Math.max(0, Math.min(this.focus, this.cards.length - 1));
    if (!this.cards.length) return this.backs(count);
    const rows = window.innerWidth < NARROW && window.innerHeight > LOW && this.cards.length > 10 ? 2 : 1;
    const perRow = Math.ceil(this.cards.length / rows);
    const lines = Array.from({ length: rows }, (_, row) => this.cards.slice(row * perRow, (row + 1) * perRow));
    return h(
      "div",
      { class: "hand", key: "hand", role: "group", "aria-label": t("your_cards"), ...this.handlers(live) },
      lines.map((line) =>
        h(
          "div",
          { class: "hand-row", vars: { n: String(Math.max(line.length, 2)) } },
          line.map((card) => this.card(card, live)),
        ),
      ),
    );
  }

  card(card, live) {
    const index = this.cards.indexOf(card);
    const picked = this.picked.has(card);
    const properties = {
      "data-index": String(index),
      "data-card": String(card),
      "aria-pressed": String(picked),
      tabindex: index === this.focus ? "0" : "-1",
      "aria-disabled": live ? null : "true",
    };
    return cardButton(card, properties, picked ? "picked" : "");
  }

  backs(count) {
    return h(
      "div",
      { class: "hand", key: "backs", role: "img", "aria-label": t("cards_left", { n: count }) },
      h(
        "div",
        { class: "hand-row", vars: { n: String(Math.max(count, 2)) } },
        Array.from({ length: count }, (_, index) => cardBack(`b${index}`)),
      ),
    );
  }

  handlers(live) {
    const handlers = { onkeydown: (event) => this.key(event) };
    if (!live) return handlers;
    return {
      ...handlers,
      onpointerdown: (event) => this.begin(event),
      onpointermove: (event) => this.over(event),
      onpointerup: () => this.end(),
      onpointercancel: () => this.end(),
      onclick: (event) => {
        // detail is 0 for a click that a key made; the pointer's have been dealt with.
        if (event.detail === 0) this.toggle(indexAt(event.target));
      },
    };
  }

  begin(event) {
    const index = indexAt(event.target);
    if (index < 0 || event.button > 0) return;
    this.drag = { from: index, base: new Set(this.picked) };
    event.currentTarget.setPointerCapture(event.pointerId);
    this.sweep(index);
  }

  over(event) {
    if (!this.drag) return;
    const index = indexAt(document.elementFromPoint(event.clientX, event.clientY));
    if (index >= 0) this.sweep(index);
  }

  end() {
    this.drag = null;
  }

  /** Everything between the first card and this one is turned over from what it was. */
  sweep(index) {
    const [low, high] = [Math.min(index, this.drag.from), Math.max(index, this.drag.from)];
    const picked = new Set(this.drag.base);
    for (const card of this.cards.slice(low, high + 1)) {
      if (picked.has(card)) picked.delete(card);
      else picked.add(card);
    }
    this.focus = index;
    this.pick(picked);
  }

  toggle(index) {
    if (index < 0) return;
    this.drag = { from: index, base: new Set(this.picked) };
    this.sweep(index);
    this.end();
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -100, End: 100 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    this.focus = Math.max(0, Math.min(this.cards.length - 1, this.focus + step));
    this.changed();
    event.currentTarget.querySelector(`[data-index="${this.focus}"]`)?.focus();
  }
}

const indexAt = (element) => Number(element?.closest("[data-index]")?.dataset.index ?? -1);
