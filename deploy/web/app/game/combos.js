// Combos: what a set of cards can be, and what a hand can put down (docs/RULES.md section 3).
// One generator serves both: the readings of some cards are the combos of a hand of just these cards that use them all.
// A combo here is {type, rank, body, counts}: rank and counts by rank index, body the length of a chain, 1 otherwise.

import { ACE, TWO, SMALL_JOKER, BIG_JOKER, counted, written } from "./cards.js";

const TYPES = [
  "rocket",
  "bomb",
  "single",
  "pair",
  "trio",
  "trio_single",
  "trio_pair",
  "straight",
  "pair_straight",
  "trio_straight",
  "airplane_singles",
  "airplane_pairs",
  "four_single",
  "four_two_singles",
  "four_two_pairs",
  "four_single_pair",
];
const CHAINS = { straight: [1, 5], pair_straight: [2, 3], trio_straight: [3, 2] }; // cards a rank, ranks at least
const MOST_CARDS = 20;

const fours = (type) => type.startsWith("four_");
export const isBomb = (combo) => combo.type === "bomb" || combo.type === "rocket";

function sum(counts, ranks, each) {
  const added = [...counts];
  for (const rank of ranks) added[rank] += each;
  return added;
}

const NONE = new Array(15).fill(0);
const some = (rank, count) => sum(NONE, [rank], count);

/** Every choice of `count` units of those available, each unit `each` cards of a rank; none twice. */
function* choices(available, count, each, repeat, from = 0) {
  if (count === 0) {
    yield NONE;
    return;
  }
  for (let rank = from; rank < 15; rank += 1) {
    const most = Math.min(repeat ? available[rank] : Math.min(available[rank], 1), count);
    for (let taken = 1; taken <= most; taken += 1) {
      for (const rest of choices(available, count - taken, each, repeat, rank + 1)) {
        yield sum(rest, [rank], taken * each);
      }
    }
  }
}

/** Single wings or kickers (wings_repeat, rocket_as_wings). */
function* singles(book, available, count) {
  for (const choice of choices(available, count, 1, book.wings_repeat)) {
    if (book.rocket_as_wings || !(choice[SMALL_JOKER] && choice[BIG_JOKER])) yield choice;
  }
}

/** Pair wings or kickers (quad_as_two_pairs). */
function pairs(book, available, count) {
  const units = available.map((cards) => (cards === 4 && book.quad_as_two_pairs ? 2 : cards >= 2 ? 1 : 0));
  return choices(units, count, 2, true);
}

const without = (hand, ranks) => hand.map((count, rank) => (ranks.includes(rank) ? 0 : count));
const less = (hand, counts) => hand.map((count, rank) => count - counts[rank]);
const plus = (one, other) => one.map((count, rank) => count + other[rank]);

/** Chains of a hand with `width` cards a rank: [ranks, counts]. */
function* chains(book, hand, width, least) {
  const order = [...Array(ACE + 1).keys()];
  if (book.ace_low_chains) order.unshift(ACE, TWO); // an ace may stand at both ends
  for (let first = 0; first < order.length; first += 1) {
    let counts = NONE;
    for (let last = first; last < order.length; last += 1) {
      const rank = order[last];
      counts = sum(counts, [rank], width);
      if (counts[rank] > hand[rank] || (last - first + 1) * width > MOST_CARDS) break;
      if (last - first + 1 >= least) yield [order.slice(first, last + 1), counts];
    }
  }
}

function* airplanes(book, hand, ranks, body) {
  const rank = ranks.at(-1);
  const rest = book.wing_from_body ? less(hand, body) : without(hand, ranks);
  for (const wings of singles(book, rest, ranks.length)) {
    yield { type: "airplane_singles", rank, body: ranks.length, counts: plus(body, wings) };
  }
  for (const wings of pairs(book, without(hand, ranks), ranks.length)) {
    yield { type: "airplane_pairs", rank, body: ranks.length, counts: plus(body, wings) };
  }
}

function* kickers(book, rest, kind) {
  if (kind === "single") yield* singles(book, rest, 1);
  else if (kind === "two_singles") yield* singles(book, rest, 2);
  else if (kind === "two_pairs") yield* pairs(book, rest, 2);
  else {
    for (const pair of pairs({ quad_as_two_pairs: false }, rest, 1)) {
      for (const single of choices(less(rest, pair), 1, 1, false)) yield plus(pair, single);
    }
  }
}

function* ofOneRank(book, hand, rank) {
  const plain = (type, count) => ({ type, rank, body: 1, counts: some(rank, count) });
  yield plain("single", 1);
  if (hand[rank] >= 2) yield plain("pair", 2);
  if (hand[rank] >= 3) {
    const trio = some(rank, 3);
    const rest = without(hand, [rank]);
    yield plain("trio", 3);
    for (const single of choices(rest, 1, 1, false)) yield { ...plain("trio_single"), counts: plus(trio, single) };
    for (const pair of pairs({ quad_as_two_pairs: false }, rest, 1))
      yield { ...plain("trio_pair"), counts: plus(trio, pair) };
  }
  if (hand[rank] === 4) {
    const four = some(rank, 4);
    yield plain("bomb", 4);
    for (const kind of book.four_kickers) {
      for (const kick of kickers(book, less(hand, four), kind)) {
        yield { type: `four_${kind}`, rank, body: 1, counts: plus(four, kick) };
      }
    }
  }
}

/** Every combo of a hand, given as rank counts; one set of ranks can come up in several readings. */
export function* combos(book, hand) {
  for (let rank = 0; rank < 15; rank += 1) if (hand[rank]) yield* ofOneRank(book, hand, rank);
  if (hand[SMALL_JOKER] && hand[BIG_JOKER]) {
    yield { type: "rocket", rank: BIG_JOKER, body: 1, counts: sum(NONE, [SMALL_JOKER, BIG_JOKER], 1) };
  }
  for (const [type, [width, least]] of Object.entries(CHAINS)) {
    for (const [ranks, counts] of chains(book, hand, width, least)) {
      yield { type, rank: ranks.at(-1), body: ranks.length, counts };
      if (width === 3 && ranks.length * 4 <= MOST_CARDS) yield* airplanes(book, hand, ranks, counts);
    }
  }
}

/** What combos of one type compare by: in a chain a two comes before a three. */
const strength = (combo) => (combo.body > 1 && combo.rank === TWO ? -1 : combo.rank);

/** Whether a combo may follow another. */
export function beats(book, combo, over) {
  if (combo.type === "rocket" || over.type === "rocket") return over.type !== "rocket";
  if (combo.type === "bomb" || over.type === "bomb") {
    return combo.type === "bomb" && (over.type !== "bomb" || combo.rank > over.rank);
  }
  const alike = combo.type === over.type && combo.body === over.body;
  const across = book.fours_compare_across && fours(combo.type) && fours(over.type);
  return (alike || across) && strength(combo) > strength(over);
}

const size = (counts) => counts.reduce((total, count) => total + count, 0);

/** Every way to read some cards, the default one first: by type, longest body, highest rank (D-02). */
export function readings(book, cards) {
  const found = new Map();
  if (cards.length <= MOST_CARDS) {
    for (const combo of combos(book, counted(cards))) {
      if (size(combo.counts) === cards.length) found.set(`${combo.type} ${combo.rank} ${combo.body}`, combo);
    }
  }
  const order = (one, other) =>
    TYPES.indexOf(one.type) - TYPES.indexOf(other.type) || other.body - one.body || strength(other) - strength(one);
  return [...found.values()].sort(order);
}

/** What these cards are when they are put down over `over` (null = a lead); null when they may not be. */
export function fitting(book, cards, over) {
  const found = readings(book, cards);
  return (over ? found.find((combo) => beats(book, combo, over)) : found[0]) ?? null;
}

/** Every set of cards that a hand may put down, each once under its best reading, as a list of combos. */
export function moves(book, cards, over) {
  const found = new Map();
  for (const combo of combos(book, counted(cards))) {
    if (over && !beats(book, combo, over)) continue;
    const text = written(combo.counts);
    const known = found.get(text);
    if (!known || TYPES.indexOf(combo.type) < TYPES.indexOf(known.type)) found.set(text, combo);
  }
  return [...found.values()];
}
