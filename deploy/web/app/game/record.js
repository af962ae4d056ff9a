// A recorded hand: played again step by step, and checked (docs/fairness.md).
// A frame is the table after one step, open: {hands, bottom, landlord, choices, lasts, factors, step, at}.

import { bookOf } from "./books.js";
import { isBomb, readings } from "./combos.js";
import { RANKS } from "./cards.js";
import { bytesOf, commitmentOf, dealOf, hexOf, isJoker } from "./deal.js";

const KINDS = ["deal", "bid", "call", "rob", "show", "closeShow", "play", "pass", "flee"];
const AUCTION = ["bid", "call", "rob"];

export const actionKind = (action) => KINDS.find((kind) => action[kind] !== undefined);

/** Every frame of a record, the first after its first deal. Faults are sentences' keys with their parameters. */
export async function replayed(record) {
  const book = bookOf(record.terms);
  const faults = [];
  const frames = [];
  const { actions } = record;
  const lastAuction = actions.findLastIndex((action) => AUCTION.includes(actionKind(action)));
  let frame = null;
  let deals = 0;
  for (const [index, action] of actions.entries()) {
    const kind = actionKind(action);
    if (kind === "deal") {
      frame = await dealt(record, book, action, deals, faults);
      deals += 1;
    } else {
      frame = acted(frame, book, action, kind, faults);
    }
    frames.push(frame);
    if (index === lastAuction && record.outcome.landlord !== undefined) {
      frame = crowned(frame, record.outcome.landlord);
      frames.push(frame);
    }
  }
  checkEnd(record, frame, faults);
  return { frames, faults, deals };
}

async function dealt(record, book, action, number, faults) {
  const { dealId, commitment, serverSeed, clientSeeds } = action.deal;
  const seed = bytesOf(serverSeed);
  const seeds = [0, 1, 2].map((seat) => bytesOf(clientSeeds[seat]));
  const expected = number ? `${record.handId}.${number}` : record.handId;
  if (dealId !== expected) faults.push(["fault_deal_id", { dealId, expected }]);
  if (hexOf(await commitmentOf(seed)) !== hexOf(bytesOf(commitment))) faults.push(["fault_commitment", { dealId }]);
  const { hands, bottom, first, marked } = await dealOf(dealId, seed, seeds, book.marked_card);
  const factors = { FACTOR_INITIAL: BigInt(record.terms.initialMultiplier) };
  const carried = book.redeal_factor ** Math.min(record.redeals, book.max_redeals);
  if (carried > 1) factors.FACTOR_REDEAL = BigInt(carried);
  if (marked !== undefined && isJoker(marked)) factors.FACTOR_MARKED_JOKER = BigInt(book.marked_joker_factor);
  return {
    hands,
    bottom,
    factors,
    marked,
    landlord: undefined,
    turn: first,
    choices: ["", "", ""],
    lasts: [null, null, null],
    shown: [false, false, false],
    passes: 0,
    lead: true,
    step: { kind: "deal", number, first },
    at: Number(action.atMs),
  };
}

function times(factors, name, by) {
  return by === 1 ? factors : { ...factors, [name]: (factors[name] ?? 1n) * BigInt(by) };
}

function acted(before, book, action, kind, faults) {
  const { seat } = action;
  const frame = { ...before, choices: [...before.choices], step: { kind, seat, action }, at: Number(action.atMs) };
  if (kind === "bid") frame.choices[seat] = action.bid.level ? String(action.bid.level) : "pass";
  else if (kind === "call") frame.choices[seat] = action.call.call ? "call" : "pass";
  else if (kind === "rob") {
    frame.choices[seat] = action.rob.rob ? "rob" : "no_rob";
    if (action.rob.rob) frame.factors = times(frame.factors, "FACTOR_ROB", book.rob_factor);
  } else if (kind === "show" && action.show.show) {
    frame.shown = frame.shown.with(seat, true);
    frame.factors = times(frame.factors, "FACTOR_SHOW", book.show_factor);
  } else if (kind === "play") put(frame, book, seat, action.play, faults);
  else if (kind === "pass") {
    frame.passes += 1;
    frame.lead = frame.passes === 2;
    frame.lasts = frame.lasts.with(seat, { pass: true });
  }
  return frame;
}

function put(frame, book, seat, play, faults) {
  const held = frame.hands[seat];
  if (play.cards.some((card) => !held.includes(card))) faults.push(["fault_not_held", { seat }]);
  const found = readings(book, play.cards);
  const named = found.find(
    (one) => (!play.type || one.type === play.type) && (!play.rank || RANKS[one.rank] === play.rank),
  );
  if (!named) faults.push(["fault_no_combo", { seat }]);
  const combo = { cards: play.cards, type: named?.type ?? "", rank: named ? RANKS[named.rank] : "" };
  frame.hands = frame.hands.with(
    seat,
    held.filter((card) => !play.cards.includes(card)),
  );
  frame.lasts = (frame.lead ? [null, null, null] : frame.lasts).with(seat, { combo });
  Object.assign(frame, { lead: false, passes: 0 });
  if (named && isBomb(named)) {
    frame.factors = times(frame.factors, "FACTOR_BOMB", named.type === "bomb" ? book.bomb_factor : book.rocket_factor);
  }
}

function crowned(before, landlord) {
  const hand = [...before.hands[landlord], ...before.bottom].sort((a, b) => a - b);
  return { ...before, landlord, hands: before.hands.with(landlord, hand), step: { kind: "landlord", seat: landlord } };
}

/** The end must be what the record says: who won, and the multiplier. */
function checkEnd(record, frame, faults) {
  const { outcome } = record;
  if (outcome.fled !== undefined || !frame) return;
  const winner = frame.hands.findIndex((hand) => hand.length === 0);
  const side = winner === outcome.landlord ? "SIDE_LANDLORD" : "SIDE_FARMERS";
  if (winner < 0 || side !== outcome.winner) faults.push(["fault_winner", {}]);
  const spring = new Set(["FACTOR_SPRING", "FACTOR_ANTI_SPRING"]);
  const computed = Object.values(frame.factors).reduce((product, factor) => product * factor, 1n);
  const springs = outcome.factors
    .filter((entry) => spring.has(entry.factor))
    .reduce((p, e) => p * BigInt(e.product), 1n);
  if (computed * springs !== BigInt(outcome.multiplier)) faults.push(["fault_multiplier", {}]);
}

/** What the browser itself saw before the deal, kept for this check: deal id -> {commitment, seed}. */
export const witnessed = {
  key: "ddz.witnessed",
  all() {
    return JSON.parse(localStorage.getItem(this.key) ?? "{}");
  },
  add(dealId, what) {
    const entries = Object.entries({ ...this.all(), [dealId]: { ...this.all()[dealId], ...what } });
    localStorage.setItem(this.key, JSON.stringify(Object.fromEntries(entries.slice(-100))));
  },
};

/** Each deal of a record against what this browser was shown before it: [dealId, "same" | "other" | "unseen"]. */
export function compared(record, seatOfMine) {
  const seen = witnessed.all();
  return record.actions
    .filter((action) => action.deal)
    .map(({ deal }) => {
      const known = seen[deal.dealId];
      if (!known?.commitment) return [deal.dealId, "unseen"];
      const seedKept = !known.seed || seatOfMine < 0 || deal.clientSeeds[seatOfMine] === known.seed;
      return [deal.dealId, known.commitment === deal.commitment && seedKept ? "same" : "other"];
    });
}
