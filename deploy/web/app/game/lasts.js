// What each seat did last, for as long as players want to see it: until the next lead, also when the trick is over.

import { kindOf } from "./fold.js";

/** Three entries by seat: {combo}, {pass: true} or null. `key` is new for every new deed, so that it can be animated. */
export class Lasts {
  constructor() {
    this.clear();
  }

  clear() {
    this.seats = [null, null, null];
  }

  /** Takes over what a snapshot tells of the running trick. */
  restore(state) {
    this.clear();
    for (const event of state.trick) this.take(event, true);
  }

  /** `following`: the event was put on the combo of somebody else. Call it before the event is folded in. */
  take(event, following) {
    const kind = kindOf(event);
    if (kind === "played") {
      if (!following) this.clear();
      this.seats[event.played.seat] = { combo: event.played.combo, key: event.seq, trustee: event.played.byTrustee };
    } else if (kind === "passed") {
      this.seats[event.passed.seat] = { pass: true, key: event.seq, trustee: event.passed.byTrustee };
    } else if (["handOpening", "dealt", "redealing", "handSettled"].includes(kind)) {
      this.clear();
    }
  }
}
