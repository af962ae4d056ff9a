"""The verifiable deal (RULES.md D-07): a commitment before, client seeds, the server seed after.

docs/fairness.md describes the method for those who want to compute it again elsewhere.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from doudizhu.cards import DECK, HAND_SIZE
from doudizhu.refusal import Malformed, Reason
from doudizhu.rulebook import RuleBook

SERVER_SEED_BYTES: Final = 32
_DOMAIN: Final = b"ddz.deal.v1"
_DEALT: Final = 3 * HAND_SIZE


@dataclass(frozen=True, slots=True)
class Deal:
    """Who got which cards. `first_seat`: the marked card's holder, or a seat drawn from the same stream."""

    hands: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    bottom: tuple[int, ...]
    marked: int | None
    first_seat: int


def commitment(server_seed: bytes) -> bytes:
    """The SHA-256 of a server seed of 32 bytes: what every client gets before the deal."""
    _check_server_seed(server_seed)
    return hashlib.sha256(server_seed).digest()


def deal_cards(book: RuleBook, deal_id: str, server_seed: bytes, client_seeds: Sequence[bytes] = ()) -> Deal:
    """The deal that these seeds determine (RULES.md section 5), each hand and the bottom in ascending order.

    `client_seeds` are by seat; b"" and a missing one are the same: none given. Raises Malformed when the server
    seed is not 32 bytes long, when there are more than three client seeds, and when the id is no UTF-8 text.
    """
    _check_server_seed(server_seed)
    if len(client_seeds) > 3:
        raise Malformed(Reason.INVALID, f"there are three seats, not {len(client_seeds)}", field="client_seeds")
    stream = _stream(server_seed, _context(deal_id, client_seeds))
    deck = list(DECK)
    for last in range(len(deck) - 1, 0, -1):
        other = _draw(stream, last + 1)
        deck[last], deck[other] = deck[other], deck[last]
    marked: int | None = None
    if book.marked_card:
        # Any card that was dealt to a seat: the same as drawing one of 54 first and the bottom from the other 53.
        place = _draw(stream, _DEALT)
        marked, first_seat = deck[place], place // HAND_SIZE
    else:
        first_seat = _draw(stream, 3)
    one, two, three = (tuple(sorted(deck[start : start + HAND_SIZE])) for start in range(0, _DEALT, HAND_SIZE))
    return Deal((one, two, three), tuple(sorted(deck[_DEALT:])), marked, first_seat)


def _check_server_seed(server_seed: bytes) -> None:
    if len(server_seed) != SERVER_SEED_BYTES:
        raise Malformed(
            Reason.INVALID, f"a server seed has {SERVER_SEED_BYTES} bytes, not {len(server_seed)}", field="server_seed"
        )


def _context(deal_id: str, client_seeds: Sequence[bytes]) -> bytes:
    """Length prefixes make it injective: no two sets of inputs share a context."""
    try:
        encoded_id = deal_id.encode()
    except UnicodeEncodeError:
        raise Malformed(Reason.INVALID, "a deal's id is text that UTF-8 can hold", field="deal_id") from None
    parts = [_DOMAIN, encoded_id, *client_seeds, b"", b"", b""][:5]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _stream(key: bytes, context: bytes) -> Iterator[int]:
    """Bytes 0..255 without end: HMAC-SHA256(key, context | counter), the counter in 4 bytes from 0."""
    counter = 0
    while True:
        yield from hmac.digest(key, context + counter.to_bytes(4, "big"), "sha256")
        counter += 1


def _draw(stream: Iterator[int], below: int) -> int:
    """A uniform number 0..below-1 for below <= 256; bytes that would favour small numbers are thrown away."""
    limit = 256 - 256 % below
    for byte in stream:
        if byte < limit:
            return byte % below
    raise AssertionError("the stream has no end")
