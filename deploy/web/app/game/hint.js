// What to suggest: legal moves in an order that a beginner would be glad of, the cheapest first.

import { BIG_JOKER, counted, taken, written } from "./cards.js";
import { isBomb, moves } from "./combos.js";

const BOMB_COST = 1000;
const BROKEN_COST = 6; // for each rank that a move tears apart
const MOST = 40; // nobody asks for a forty-first hint

/** Sets of cards to put down, best first; empty when the seat can only pass. `over` null = a lead. */
export function hints(book, cards, over, bombs = true) {
  const held = counted(cards);
  const legal = moves(book, cards, over).filter((combo) => bombs || !isBomb(combo));
  const whole = legal.map((combo) => ({ combo, cost: cost(combo, held, cards.length, over) }));
  whole.sort(
    (one, other) => one.cost - other.cost || written(one.combo.counts).localeCompare(written(other.combo.counts)),
  );
  return whole.slice(0, MOST).map(({ combo }) => taken(cards, combo.counts));
}

function cost(combo, held, left, over) {
  const used = combo.counts.reduce((total, count) => total + count, 0);
  if (used === left) return -BOMB_COST; // the last cards win
  let total = 0;
  let high = 0;
  combo.counts.forEach((count, rank) => {
    if (!count) return;
    high = Math.max(high, rank);
    total += (count * rank) / used;
    if (count < held[rank]) total += held[rank] === 4 ? BROKEN_COST * 6 : BROKEN_COST;
  });
  if (isBomb(combo)) total += BOMB_COST + combo.rank;
  else if (high >= BIG_JOKER - 2) total += 8; // twos and jokers are worth keeping
  // Who leads wants to be rid of many low cards; who follows, of just the rank that it takes.
  return over ? total + combo.rank : total - used * 2.5 + combo.rank * 0.2;
}
