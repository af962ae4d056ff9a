"""What was acknowledged against what is stored and what was told."""

from __future__ import annotations

import asyncpg

from ddz.ledger.v1 import news_pb2
from servicekit import clients, stream
from tests.chaos.ledger_caller import Tally


async def compare_stored(root: asyncpg.Connection, tally: Tally) -> None:
    """Every acknowledged request against what is stored."""
    rows = await root.fetch(
        "SELECT hand_id, voided, chips, rake, balance_before, rating, flee_chips FROM ledger.settlement"
    )
    stored = {row["hand_id"]: row for row in rows}
    for hand_id, acknowledged in tally.settled.items():
        row = stored.get(hand_id)
        if row is None or row["voided"]:
            tally.check(False, "lost", f"{hand_id} was acknowledged and is not settled")
            continue
        seats = acknowledged.seats
        same = (
            [seat.chips for seat in seats] == row["chips"]
            and [seat.rake_chips for seat in seats] == row["rake"]
            and [seat.balance_before_chips for seat in seats] == row["balance_before"]
            and [seat.rating for seat in seats] == row["rating"]
            and acknowledged.system_chips == sum(row["rake"]) + row["flee_chips"]
        )
        tally.check(same, "mismatched", f"{hand_id}: {acknowledged} is stored as {dict(row)}")
    for hand_id in tally.voided:
        tally.check(hand_id in stored and stored[hand_id]["voided"], "lost", f"{hand_id} was voided and is not")
    given = {row["key"]: row["chips_after"] for row in await root.fetch("SELECT key, chips_after FROM ledger.granted")}
    for key, balance in tally.granted.items():
        tally.check(key in given, "lost", f"{key} was given and is not stored")
        tally.check(given.get(key) == balance.chips, "mismatched", f"{key}: {balance} is stored as {given.get(key)}")
    tally.check(len(given) == len(tally.granted), "doubled", f"{len(given)} gifts, {len(tally.granted)} acknowledged")
    backs = {row["hand_id"]: row["chips"] for row in await root.fetch("SELECT hand_id, chips FROM ledger.reversal")}
    for hand_id, reply in tally.reversed.items():
        tally.check(hand_id in backs, "lost", f"{hand_id} was reversed and is not")
        tally.check(
            backs.get(hand_id) == list(reply.chips), "mismatched", f"{hand_id}: {reply}, stored {backs.get(hand_id)}"
        )
    made = len(tally.settled) + len(tally.voided)
    tally.check(len(stored) == made, "doubled", f"{len(stored)} hands have ended, {made} were acknowledged")


async def compare_news(bus_url: str, root: asyncpg.Connection, tally: Tally) -> None:
    """Everything on the stream: each key at least once, always the same, and what was acknowledged."""
    told: dict[str, news_pb2.HandSettled] = {}
    changed: dict[str, news_pb2.AccountChanged] = {}
    async with clients.nats_bus(bus_url, name="chaos") as bus:
        jetstream = bus.jetstream()
        messages = (await jetstream.stream_info(stream.STREAM)).state.messages
        news = await jetstream.subscribe("ddz.>", stream=stream.STREAM, ordered_consumer=True)
        for _ in range(messages):
            message = await news.next_msg(timeout=30)
            tally.counts["events"] += 1
            key = (message.headers or {})["Nats-Msg-Id"]
            if message.subject == "ddz.hand.settled":
                event = news_pb2.HandSettled.FromString(message.data)
                tally.check(told.setdefault(key, event) == event, "event_differs", f"{key} was told in two ways")
            else:
                change = news_pb2.AccountChanged.FromString(message.data)
                tally.check(changed.setdefault(key, change) == change, "event_differs", f"{key} was told in two ways")
    tally.counts["event_keys"] = len(told) + len(changed)
    tally.counts["event_repeats"] = tally.counts["events"] - tally.counts["event_keys"]
    for hand_id, settlement in tally.settled.items():
        event = told.get(hand_id, news_pb2.HandSettled())
        tally.check(event.settlement == settlement, "event_missing", f"{hand_id} is told as {event}")
    for key, balance in tally.granted.items():
        tally.check(key in changed and changed[key].balances[0] == balance, "event_missing", f"{key} is not told")
    for hand_id in tally.reversed:
        tally.check(f"reverse:{hand_id}" in changed, "event_missing", f"the reversal of {hand_id} is not told")
    rows = await root.fetch("SELECT hand_id FROM ledger.settlement WHERE NOT voided")
    tally.check(set(told) == {row["hand_id"] for row in rows}, "event_missing", "told and settled hands differ")
