// Cards are numbers 0..53: rank x 4 + suit; ranks 3 4 5 6 7 8 9 T J Q K A 2, suits spades, hearts, clubs, diamonds;
// 52 is the small joker, 53 the big one (proto/ddz/common/v1/hand.proto).

export const RANKS = "3456789TJQKA2xX";
export const ACE = 11;
export const TWO = 12;
export const SMALL_JOKER = 13; // as a rank
export const BIG_JOKER = 14;

const SUITS = ["spades", "hearts", "clubs", "diamonds"];
const SIGNS = ["♠\ufe0e", "♥\ufe0e", "♣\ufe0e", "♦\ufe0e"]; // as text, never as emoji

export const rankOf = (card) => (card < 52 ? card >> 2 : card === 52 ? SMALL_JOKER : BIG_JOKER);
export const suitOf = (card) => (card < 52 ? SUITS[card & 3] : "joker");
export const signOf = (card) => (card < 52 ? SIGNS[card & 3] : "★");
export const isRed = (card) => card === 53 || (card < 52 && (card & 1) === 1);

/** What stands on a card: 3..10 J Q K A 2; jokers have none. */
export function indexOf(card) {
  const sign = RANKS[rankOf(card)];
  return card >= 52 ? "" : sign === "T" ? "10" : sign;
}

/** How many of each rank, weakest first. */
export function counted(cards) {
  const counts = new Array(15).fill(0);
  for (const card of cards) counts[rankOf(card)] += 1;
  return counts;
}

/** The cards of a hand to put down for these rank counts, lowest card numbers first; null when it has not got them. */
export function taken(cards, counts) {
  const left = [...counts];
  const found = [...cards].sort((a, b) => a - b).filter((card) => left[rankOf(card)] > 0 && left[rankOf(card)]-- > 0);
  return left.some((count) => count > 0) ? null : found;
}

/** Rank counts of a text such as 33344456. */
export function parsed(text) {
  const counts = new Array(15).fill(0);
  for (const sign of text) counts[RANKS.indexOf(sign)] += 1;
  return counts;
}

/** The text of rank counts, weakest first. */
export function written(counts) {
  return counts.map((count, rank) => RANKS[rank].repeat(count)).join("");
}

/** Left to right as players hold them: the highest first; or by how many of a rank there are, the most first. */
export function sorted(cards, byCount) {
  const counts = counted(cards);
  const weight = (card) => (byCount ? counts[rankOf(card)] * 100 : 0) + rankOf(card);
  return [...cards].sort((a, b) => weight(b) - weight(a) || a - b);
}
