// Follows one table over lost connections, and does commands exactly once.

import { Lasts } from "../game/lasts.js";
import { fold, kindOf } from "../game/fold.js";
import { witnessed } from "../game/record.js";
import { base64Of } from "../game/deal.js";
import { randomId } from "./session.js";
import { follow } from "./stream.js";

export class Table {
  /** `changed(event)`: the state is newer; `event` is null after a snapshot. `ended(why)`: nothing will come any more. */
  constructor(session, tableId, { changed, ended }) {
    this.session = session;
    this.tableId = tableId;
    this.state = null;
    this.lasts = new Lasts();
    this.connected = false;
    this.reconnects = 0;
    this.stopped = new AbortController();
    this.changed = changed;
    this.ended = ended;
    this.seeded = "";
    this.acted = { on: "", done: null }; // the last action: its kind and the state on which it was decided
  }

  /** Follows until `close`; tells `ended` when the servers want no more of it. */
  async run() {
    try {
      await follow(
        this.session,
        () => this.path(),
        (message) => this.take(message),
        this.stopped.signal,
        (up) => this.line(up),
      );
    } catch (error) {
      this.ended(error.reason ?? "fault", error);
    }
  }

  close() {
    this.stopped.abort();
  }

  /**
   * Does an action, e.g. {bid: {level: 1}}; throws what refuses it. A second one of its kind on the same state is a
   * double click: nothing is sent, and it ends as the first does.
   */
  act(action) {
    const [kind] = Object.keys(action);
    const on = `${kind} ${this.state.epoch} ${this.state.seq}`;
    if (on !== this.acted.on) {
      const acted = { on, done: this.send(action) };
      this.acted = acted;
      acted.done.catch(() => (acted.on = "")); // what was refused may be tried again
    }
    return this.acted.done;
  }

  /** Sends a command until it is answered; its id makes repeating it harmless. */
  async send(action) {
    const command = { commandId: randomId(), ...action };
    await this.session.call("POST", `/v1/tables/${this.tableId}/actions`, command);
  }

  path() {
    const known = this.state ? `?after_seq=${this.state.seq}&epoch=${this.state.epoch}` : "";
    return `/v1/tables/${this.tableId}/events${known}`;
  }

  line(up) {
    if (up === this.connected) return;
    if (!up) this.reconnects += 1;
    this.connected = up;
    if (this.state) this.changed(null);
  }

  take(message) {
    if (message.snapshot) this.takeSnapshot(message.snapshot);
    else if (message.events) return this.takeEvents(message.events.events);
    else if (message.notice) {
      this.session.told(message.notice);
      if (this.state) this.changed(null);
    } else if (message.heartbeat) {
      this.session.heard(message.heartbeat.atMs);
      if (Number(message.heartbeat.seq) > Number(this.state?.seq ?? 0)) return "again"; // something got lost
    } else if (message.goodbye) {
      if (message.goodbye.reconnect) return "again";
      this.ended(message.goodbye.why);
      return "end";
    }
    return "on";
  }

  takeSnapshot(state) {
    // With the first a notice that still holds comes behind it; who comes back is told either way.
    if (!this.state) this.session.told(null, true);
    this.state = { ...state, seq: Number(state.seq) };
    for (const seat of this.state.seats) seat.cards ??= { cards: [], count: 0 };
    this.session.heard(state.atMs);
    this.lasts.restore(this.state);
    this.witness();
    this.changed(null);
  }

  takeEvents(events) {
    for (const one of events) {
      const event = { ...one, seq: Number(one.seq) };
      if (!this.state || event.seq > this.state.seq + 1) return "again"; // a gap: the next stream begins after what is known
      if (event.seq <= this.state.seq) continue;
      this.session.heard(event.atMs);
      this.lasts.take(event, Boolean(this.state.onTable));
      fold(this.state, event, this.session.playerId);
      if (kindOf(event) === "committed") this.witness();
      this.changed(event);
    }
    return "on";
  }

  /** Keeps the commitment for later, and adds a seed of our own to the deal, so that nobody can have chosen it. */
  witness() {
    const { proof, clock, you, observing } = this.state;
    if (!proof || clock.phase !== "PHASE_SEED" || this.seeded === proof.dealId) return;
    this.seeded = proof.dealId;
    witnessed.add(proof.dealId, { commitment: proof.commitment });
    // For a trustee's seat the deal does not wait: a seed would come too late.
    if (you < 0 || observing || this.state.seats[you].trustee || proof.clientSeeds[you]) return;
    const seed = base64Of(crypto.getRandomValues(new Uint8Array(16)));
    const { dealId } = proof;
    this.send({ giveSeed: { seed } }).then(
      () => witnessed.add(dealId, { seed }),
      () => {}, // the deal came first: it stands without our seed
    );
  }
}
