"""What is counted of the queue: every way in and every way out, and how long it took."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

JOINS: Final = Counter("ddz_match_joins", "Joins, by what they led to", ["room", "result"])  # queued, same, seated
CANCELS: Final = Counter("ddz_match_cancels", "Cancels, by their answer", ["room", "result"])
EXPIRIES: Final = Counter("ddz_match_expiries", "Tickets that ended by themselves, by why", ["room", "why"])
CLAIMS: Final = Counter("ddz_match_claims", "Threes found, by what became of them", ["room", "result"])
MATCHES: Final = Counter("ddz_match_made", "Matches made", ["room"])
WAITING: Final = Gauge("ddz_match_waiting", "Tickets that wait", ["room"])
OPENING: Final = Gauge("ddz_match_opening", "Tables that this instance is opening")
WATCHED: Final = Gauge("ddz_match_watched", "Tickets that are watched on this instance")
WAIT_SECONDS: Final = Histogram(
    "ddz_match_wait_seconds",
    "From joining to a table, for each player",
    ["room"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600),
)
FOUND_SECONDS: Final = Histogram(
    "ddz_match_open_seconds",
    "From the claim of three to their open table",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)


def begin(room_id: str) -> None:
    """Shows the series of a room from the start: one that begins with its first event shows no rise."""
    for result in ("queued", "same", "seated"):
        JOINS.labels(room_id, result)
    for result in ("done", "room_gone", "claimed", "cancelled", "matched", "expired", "seated"):
        CANCELS.labels(room_id, result)
    for why in ("gone", "too_long"):
        EXPIRIES.labels(room_id, why)
    for result in ("matched", "inherited", "back", "lost", "left"):
        CLAIMS.labels(room_id, result)
    MATCHES.labels(room_id)
    WAIT_SECONDS.labels(room_id)
