"""The verifiable deal: the documented method, nothing lost, nothing biased (RULES.md section 5, D-07)."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doudizhu import CLASSIC, HAPPY, ROB, Deal, Malformed, commitment, deal_cards
from doudizhu.cards import DECK
from tests.rules.build import seed

VECTORS = json.loads((Path(__file__).parent / "data" / "deals.json").read_text(encoding="utf-8"))
BOOKS = {"marked": CLASSIC, "unmarked": ROB}

seeds = st.binary(min_size=32, max_size=32)
client_seeds = st.lists(st.binary(max_size=40), max_size=3)


def by_the_document(marked: bool, deal_id: str, server_seed: bytes, client_seeds: list[bytes]) -> Deal:
    """docs/fairness.md, step by step, written apart from the code under test."""
    given_ = [*client_seeds, b"", b"", b""][:3]
    context = b""
    for part in [b"ddz.deal.v1", deal_id.encode("utf-8"), *given_]:
        context += len(part).to_bytes(4, "big") + part
    blocks = (
        hmac.new(server_seed, context + counter.to_bytes(4, "big"), hashlib.sha256).digest()
        for counter in itertools.count()
    )
    stream = itertools.chain.from_iterable(blocks)

    def draw(below: int) -> int:
        while True:
            byte = next(stream)
            if byte < 256 // below * below:
                return byte % below

    deck = list(range(54))
    for last in range(53, 0, -1):
        other = draw(last + 1)
        deck[last], deck[other] = deck[other], deck[last]
    place = draw(51) if marked else None
    first = draw(3) if place is None else place // 17
    hands = (tuple(sorted(deck[0:17])), tuple(sorted(deck[17:34])), tuple(sorted(deck[34:51])))
    return Deal(hands, tuple(sorted(deck[51:54])), None if place is None else deck[place], first)


@given(st.booleans(), st.text(max_size=20), seeds, client_seeds)
def test_the_deal_is_the_documented_one(marked: bool, deal_id: str, server: bytes, clients: list[bytes]) -> None:
    book = CLASSIC if marked else HAPPY
    assert deal_cards(book, deal_id, server, clients) == by_the_document(marked, deal_id, server, clients)


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["deal_id"] for vector in VECTORS])
def test_the_vectors_of_the_document(vector: dict[str, object]) -> None:
    server = bytes.fromhex(str(vector["server_seed"]))
    clients = [bytes.fromhex(text) for text in vector["client_seeds"]]  # type: ignore[attr-defined]
    deal = deal_cards(BOOKS[str(vector["method"])], str(vector["deal_id"]), server, clients)
    assert commitment(server).hex() == vector["commitment"]
    assert [list(hand) for hand in deal.hands] == vector["hands"]
    assert list(deal.bottom) == vector["bottom"]
    assert deal.marked == vector["marked"]
    assert deal.first_seat == vector["first_seat"]


def test_the_document_shows_the_vectors() -> None:
    text = (Path(__file__).parents[2] / "docs" / "fairness.md").read_text(encoding="utf-8")
    for vector in VECTORS:
        for shown in (vector["server_seed"], vector["commitment"], *map(str, vector["hands"]), str(vector["bottom"])):
            assert shown in text


@given(st.sampled_from([CLASSIC, HAPPY, ROB]), seeds, client_seeds)
def test_54_cards_17_each_and_3(book: object, server: bytes, clients: list[bytes]) -> None:
    deal = deal_cards(book, "hand", server, clients)  # type: ignore[arg-type]
    assert sorted([*deal.hands[0], *deal.hands[1], *deal.hands[2], *deal.bottom]) == list(DECK)
    assert [len(hand) for hand in deal.hands] == [17, 17, 17]
    if book is CLASSIC:
        assert deal.marked in deal.hands[deal.first_seat]
    else:
        assert deal.marked is None


def test_every_input_matters() -> None:
    base = deal_cards(ROB, "hand", seed(1), [b"a", b"", b"b"])
    others = [
        deal_cards(ROB, "hand.2", seed(1), [b"a", b"", b"b"]),
        deal_cards(ROB, "hand", seed(2), [b"a", b"", b"b"]),
        deal_cards(ROB, "hand", seed(1), [b"a", b"b", b""]),
        deal_cards(ROB, "hand", seed(1), [b"ab", b"", b""]),
        deal_cards(ROB, "hand", seed(1), []),
        deal_cards(ROB, "handa", seed(1), [b"", b"", b"b"]),
    ]
    assert len({deal.hands for deal in [base, *others]}) == 7
    assert deal_cards(ROB, "hand", seed(1), [b"a", b"", b"b"]) == base
    assert deal_cards(ROB, "hand", seed(1), [b"a"]) == deal_cards(ROB, "hand", seed(1), [b"a", b"", b""])


def test_wrong_seeds_are_refused() -> None:
    for server in (b"", bytes(31), bytes(33)):
        with pytest.raises(Malformed) as refused:
            deal_cards(ROB, "hand", server)
        assert refused.value.field == "server_seed"
        with pytest.raises(Malformed):
            commitment(server)
    with pytest.raises(Malformed) as refused:
        deal_cards(ROB, "hand", bytes(32), [b""] * 4)
    assert refused.value.field == "client_seeds"
    with pytest.raises(Malformed) as refused:
        deal_cards(ROB, "\ud800", bytes(32))
    assert refused.value.field == "deal_id"


def chi_square(counts: list[int], expected: float) -> float:
    return sum((count - expected) ** 2 / expected for count in counts)


# 0.999 quantiles of the chi-square distribution by degrees of freedom (Wilson-Hilferty).
QUANTILE_999 = {2: 13.8, 53: 90.6, 3 * 53: 219.9}
DEALS = 6000


def test_every_card_is_as_likely_everywhere() -> None:
    """Fixed seeds, so that the answer is always the same: a card's place (seat or bottom), the first seat."""
    places = [[0, 0, 0, 0] for _ in DECK]
    first = [0, 0, 0]
    for number in range(DEALS):
        deal = deal_cards(ROB, str(number), seed(number))
        first[deal.first_seat] += 1
        for place, cards in enumerate((*deal.hands, deal.bottom)):
            for card in cards:
                places[card][place] += 1
    expected = [DEALS * 17 / 54] * 3 + [DEALS * 3 / 54]
    statistic = sum((count - mean) ** 2 / mean for card in places for count, mean in zip(card, expected, strict=True))
    assert statistic * 53 / 54 < QUANTILE_999[3 * 53]
    assert chi_square(first, DEALS / 3) < QUANTILE_999[2]


def test_every_card_is_as_likely_to_be_marked_and_every_seat_to_hold_it() -> None:
    marked = [0] * 54
    first = [0, 0, 0]
    for number in range(DEALS):
        deal = deal_cards(CLASSIC, str(number), seed(number))
        assert deal.marked is not None
        marked[deal.marked] += 1
        first[deal.first_seat] += 1
    assert chi_square(marked, DEALS / 54) < QUANTILE_999[53]
    assert chi_square(first, DEALS / 3) < QUANTILE_999[2]


def test_the_order_within_the_deck_is_uniform_too() -> None:
    """Pairs of cards: how often two cards meet in one hand; a poor shuffle leaves neighbours together."""
    together = [0] * 53
    for number in range(DEALS):
        deal = deal_cards(ROB, str(number), seed(number))
        seat_of = {card: seat for seat, cards in enumerate((*deal.hands, deal.bottom)) for card in cards}
        for card in range(53):
            together[card] += seat_of[card] == seat_of[card + 1]
    likely = (3 * 17 * 16 + 3 * 2) / (54 * 53)
    deviations = [(count - DEALS * likely) / (DEALS * likely * (1 - likely)) ** 0.5 for count in together]
    assert sum(deviation**2 for deviation in deviations) < QUANTILE_999[53]
