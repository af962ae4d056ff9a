"""Every way into the queue and out of it is counted, and how long it took."""

from __future__ import annotations

import asyncio

from prometheus_client import REGISTRY

from tests.services.lobby.conftest import refusal_of
from tests.services.matchmaking.conftest import ROOM, Hall, Open, until


class Counts:
    """What has been counted since it was made."""

    def __init__(self) -> None:
        self._before = self._now()

    def _now(self) -> dict[tuple[str, str], float]:
        return {
            (sample.name, next((value for key, value in sample.labels.items() if key in ("result", "why")), "")): (
                sample.value
            )
            for metric in REGISTRY.collect()
            for sample in metric.samples
            if sample.labels.get("room") == ROOM and sample.labels.get("le", "+Inf") == "+Inf"
        }

    def of(self, name: str, label: str = "") -> float:
        return self._now().get((name, label), 0) - self._before.get((name, label), 0)


async def test_joins_cancels_and_matches_are_counted(hall: Hall) -> None:
    counts = Counts()
    players = hall.players(4)
    first = await players[0].join()
    await players[0].join()
    await players[0].cancel(first.ticket_id)
    await players[0].cancel(first.ticket_id)
    tickets = [await player.join() for player in players[1:]]
    await asyncio.gather(
        *(player.end_of(ticket.ticket_id) for player, ticket in zip(players[1:], tickets, strict=True))
    )
    await refusal_of(players[1].cancel(tickets[0].ticket_id))
    await players[1].join()
    assert counts.of("ddz_match_joins_total", "queued") == 4
    assert counts.of("ddz_match_joins_total", "same") == 1
    assert counts.of("ddz_match_joins_total", "seated") == 1
    assert counts.of("ddz_match_cancels_total", "done") == 1
    assert counts.of("ddz_match_cancels_total", "cancelled") == 1
    assert counts.of("ddz_match_cancels_total", "matched") == 1
    assert counts.of("ddz_match_made_total") == 1
    assert counts.of("ddz_match_claims_total", "matched") == 1
    assert counts.of("ddz_match_wait_seconds_count") == 3


async def test_expiries_are_counted_by_why(opened: Open) -> None:
    counts = Counts()
    async with opened(lease_s=0.2, longest_s=60.0) as hall:
        await hall.player().join()
        await until(lambda: reached(counts, "gone"))
    async with opened(longest_s=0.2) as hall:
        await hall.player().join()
        await until(lambda: reached(counts, "too_long"))


async def reached(counts: Counts, why: str) -> bool:
    return counts.of("ddz_match_expiries_total", why) == 1
