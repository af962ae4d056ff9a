// What an event does to a table as one person sees it: the snapshot that the servers would send after it.
// The state is the Snapshot of proto/ddz/table/v1/events.proto in its JSON form; `fold` changes it in place.
// libs/ddzclient/fold.py is the same in Python. Multipliers and chips stay decimal texts: they can pass 2^53.

import { bookOf } from "./books.js";

export const NO_CARDS = { cards: [], count: 0 };
const BIDS = ["pass", "1", "2", "3"];

/** The name of an event: played, passed … */
export const kindOf = (event) => Object.keys(event).find((name) => !["seq", "atMs", "clock"].includes(name));

/** Brings the state of `playerId` from event.seq - 1 to event.seq. */
export function fold(state, event, playerId) {
  const kind = kindOf(event);
  FOLDS[kind]?.(state, event[kind]); // a newer server may tell of more
  seated(state, kind, event[kind], playerId);
  if (kind === "played" || kind === "passed") followTrick(state, event, kind);
  state.seq = event.seq;
  state.atMs = event.atMs;
  state.clock = event.clock;
}

function seated(state, kind, event, playerId) {
  if (kind === "seatTaken" && event.player.playerId === playerId) place(state, event.seat, false);
  else if (kind === "seatLeft" && event.playerId === playerId) place(state, -1, false);
  else if (kind === "observerJoined" && event.observer.playerId === playerId) place(state, event.seat, true);
  else if (kind === "observerLeft" && event.playerId === playerId) place(state, -1, false);
}

function place(state, you, observing) {
  state.you = you;
  state.observing = observing;
}

function multiply(state, factor, by, multiplier) {
  state.multiplier = multiplier;
  if (String(by) === "1") return;
  const known = state.factors.find((entry) => entry.factor === factor);
  if (known) known.product = String(BigInt(known.product) * BigInt(by));
  else state.factors.push({ factor, product: String(by) });
}

function setFactors(state, factors, multiplier) {
  state.factors = factors.map((entry) => ({ ...entry }));
  state.multiplier = multiplier;
}

/** Forgets everything that belongs to one deal; the multiplier is what it begins with. */
function beforeDeal(state, redeals) {
  for (const name of ["landlord", "markedCard", "onTable"]) delete state[name];
  Object.assign(state, { level: 0, bottom: [], onTableSeat: 0, trick: [], factors: [], multiplier: "1" });
  for (const seat of state.seats) {
    Object.assign(seat, { cards: { ...NO_CARDS }, shown: false, choice: "", robChoice: "", combos: 0, bombs: 0 });
  }
  const book = bookOf(state.terms);
  const carried = book.redeal_factor ** Math.min(redeals, book.max_redeals);
  multiply(state, "FACTOR_INITIAL", state.terms.initialMultiplier, state.terms.initialMultiplier);
  multiply(state, "FACTOR_REDEAL", carried, String(BigInt(state.multiplier) * BigInt(carried)));
}

/** The trick runs from a lead to two consecutive passes. */
function followTrick(state, event, kind) {
  if (kind === "played") {
    if (!state.onTable) state.trick = [];
    state.onTable = event.played.combo;
    state.onTableSeat = event.played.seat;
  }
  state.trick.push(event);
  if (state.trick.slice(-2).filter((past) => past.passed).length === 2) {
    delete state.onTable;
    state.onTableSeat = 0;
    state.trick = [];
  }
}

/** Forgets who sat there; what belongs to the hand stays. */
function newPerson(state, number, player) {
  const seat = state.seats[number];
  const empty = { ready: false, agreed: false, connected: false, trustee: false, observersAllowed: false };
  Object.assign(seat, empty, { balanceChips: "0" });
  delete seat.player;
  if (player) seat.player = player;
}

function setBalances(state, balances) {
  state.seats.forEach((seat, index) => {
    seat.balanceChips = balances[index];
  });
}

function forgetObserver(state, playerId) {
  state.observers = state.observers.filter((view) => view.observer.playerId !== playerId);
}

function ended(state, event) {
  setFactors(state, event.outcome.factors, event.outcome.multiplier);
  state.lastOutcome = event.outcome;
}

// The others change the clock alone.
const FOLDS = {
  opened: (state, event) => {
    state.terms = event.terms;
  },
  seatTaken: (state, event) => newPerson(state, event.seat, event.player),
  seatLeft: (state, event) => {
    newPerson(state, event.seat);
    if (state.baseSetter === event.seat) delete state.baseSetter;
  },
  baseAsked: (state, event) => {
    state.baseSetter = event.seat;
  },
  baseSet: (state, event) => {
    state.baseSetter = event.seat;
    state.baseChips = event.baseChips;
    for (const seat of state.seats) seat.agreed = seat.seat === event.seat;
  },
  baseAnswered: (state, event) => {
    state.seats[event.seat].agreed = event.agree;
  },
  baseReset: (state) => {
    state.baseChips = "0";
    delete state.baseSetter;
    for (const seat of state.seats) seat.agreed = false;
  },
  readySet: (state, event) => {
    state.seats[event.seat].ready = event.ready;
  },
  handOpening: (state, event) => {
    beforeDeal(state, event.redeals);
    delete state.proof;
    Object.assign(state, { handId: event.handId, baseChips: event.baseChips, redeals: event.redeals });
    state.players = state.seats.map((seat) => seat.player);
  },
  handOpened: (state, event) => setBalances(state, event.carriedChips),
  committed: (state, event) => {
    state.proof = { dealId: event.dealId, commitment: event.commitment, serverSeed: "", clientSeeds: ["", "", ""] };
  },
  seedGiven: (state, event) => {
    state.proof.clientSeeds[event.seat] = event.seed;
  },
  dealt: (state, event) => {
    state.proof = event.proof;
    state.seats.forEach((seat, index) => {
      seat.cards = event.hands[index];
    });
    state.bottom = event.bottom;
    if (event.markedCard !== undefined) state.markedCard = event.markedCard;
    setFactors(state, event.factors, event.multiplier);
  },
  bidMade: (state, event) => {
    state.seats[event.seat].choice = BIDS[event.level];
    state.level = Math.max(state.level, event.level);
  },
  callMade: (state, event) => {
    state.seats[event.seat].choice = event.call ? "call" : "pass";
    state.level = event.call ? 1 : 0;
  },
  robMade: (state, event) => {
    state.seats[event.seat].robChoice = event.rob ? "rob" : "no_rob";
    multiply(state, "FACTOR_ROB", event.factor, event.multiplier);
  },
  shown: (state, event) => {
    Object.assign(state.seats[event.seat], { shown: true, cards: { cards: event.cards, count: event.cards.length } });
    multiply(state, "FACTOR_SHOW", event.factor, event.multiplier);
  },
  landlordSet: (state, event) => {
    Object.assign(state, { landlord: event.seat, level: event.level, bottom: event.bottom });
    const { cards, count } = state.seats[event.seat].cards;
    const known = cards.length ? [...cards, ...event.bottom].sort((a, b) => a - b) : [];
    state.seats[event.seat].cards = { cards: known, count: count + event.bottom.length };
  },
  played: (state, event) => {
    const left = state.seats[event.seat].cards.cards.filter((card) => !event.combo.cards.includes(card));
    const seat = state.seats[event.seat];
    seat.cards = { cards: left, count: event.cardsLeft };
    seat.combos += 1;
    if (["bomb", "rocket"].includes(event.combo.type)) seat.bombs += 1;
    multiply(state, "FACTOR_BOMB", event.factor, event.multiplier);
  },
  redealing: (state) => beforeDeal(state, state.redeals),
  handVoided: (state, event) => {
    state.redeals = event.redeals;
    state.trick = [];
    state.proof = event.proofs?.at(-1) ?? state.proof;
  },
  handWon: (state, event) => {
    state.seats.forEach((seat, index) => {
      seat.cards = event.hands[index];
    });
    ended(state, event);
  },
  handFled: ended,
  handSettled: (state, event) => {
    state.lastResult = event;
    state.redeals = 0;
    state.proof = event.proofs.at(-1);
    setBalances(state, event.balancesChips);
  },
  trusteeSet: (state, event) => {
    state.seats[event.seat].trustee = event.on;
  },
  observerJoined: (state, event) => {
    forgetObserver(state, event.observer.playerId);
    state.observers.push({ observer: event.observer, seat: event.seat });
  },
  observerLeft: (state, event) => forgetObserver(state, event.playerId),
  cardsAllowed: (state, event) => {
    state.seats[event.seat].observersAllowed = event.allow;
  },
  presenceSet: (state, event) => {
    state.seats[event.seat].connected = event.connected;
  },
};
