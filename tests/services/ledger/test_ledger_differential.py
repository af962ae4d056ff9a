"""Random batches of every case, settled in Postgres and by the rules core alone: the same to the last chip.

DDZ_LEDGER_BATCHES sets how many batches of 32 (default 150; `make sim-ledger` takes 2,000).
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field

import asyncpg

from doudizhu import BOOKS, Outcome, Side, Stakes
from doudizhu import settle as settle_by_rules
from services.ledger.audit import audit
from services.ledger.grants import Grant
from services.ledger.ledger import Opened, OpenHand, Settled, SettleHand, check_outcome
from services.ledger.transaction import transact
from tests.services.ledger.harness import NOBODY_RELAYS, Database

BATCHES = int(os.environ.get("DDZ_LEDGER_BATCHES", "150"))
BATCH = 32
PLAYERS = 240
Three = tuple[int, int, int]


@dataclass
class Model:
    """What the rules core alone says everybody has."""

    chips: dict[str, int]
    rating: dict[str, int]
    system: int = 0
    cases: set[tuple[object, ...]] = field(default_factory=set)

    def settle(self, request: SettleHand) -> tuple[Three, Three, Three | None]:
        one, two, three = request.player_ids
        balances = (self.chips[one], self.chips[two], self.chips[three])
        ratings = (self.rating[one], self.rating[two], self.rating[three])
        stakes = Stakes(request.base, request.rake, balances, balances, ratings)
        result = settle_by_rules(request.book, request.outcome, stakes)
        for seat, player_id in enumerate(request.player_ids):
            self.chips[player_id] += result.chips[seat]
            self.rating[player_id] += (result.rating or (0, 0, 0))[seat]
        self.system += result.system
        outcome, short = request.outcome, min(self.chips[each] for each in request.player_ids) == 0
        self.cases.add(
            (request.book.id, outcome.winner, outcome.fled == outcome.landlord, outcome.elapsed_s < 60, short)
        )
        return result.chips, result.rake, result.rating


def random_outcome(rng: random.Random) -> Outcome:
    multiplier = rng.choice([1, 2, 6, 16, 96])
    if rng.random() < 0.6:
        side = rng.choice([Side.LANDLORD, Side.FARMERS])
        return Outcome(side, rng.randrange(3), rng.randint(1, 3), multiplier)
    landlord = rng.choice([None, 0, 1, 2])
    elapsed_s = rng.choice([0, 59, 60, 61, 500])
    return Outcome(
        None, landlord, rng.randint(0, 3), multiplier, rng.randrange(3), multiplier * rng.choice([1, 4]), elapsed_s
    )


def random_request(rng: random.Random, hand_id: str, player_ids: tuple[str, ...]) -> SettleHand:
    book, base = rng.choice(list(BOOKS.values())), rng.choice([1, 5, 10, 1000])
    rake = rng.choice([0, 3, 50])
    record = rng.randbytes(40)
    request = SettleHand(hand_id, "room", player_ids, book, random_outcome(rng), base, rake, record)
    check_outcome(request)
    return request


async def test_postgres_and_the_rules_core_agree(database: Database) -> None:
    rng = random.Random(2_026)
    players = [f"p{number}" for number in range(PLAYERS)]
    model = Model(dict.fromkeys(players, 0), dict.fromkeys(players, 0))
    connection = await asyncpg.connect(database.dsn())
    try:
        for number in range(BATCHES):
            await give_to_the_broke(connection, rng, model, number)
            rng.shuffle(players)
            trios = [tuple(players[at : at + 3]) for at in range(0, 3 * BATCH, 3)]
            ids = [f"h{number}-{index}" for index in range(BATCH)]
            openings = [OpenHand(hand_id, "t", trio, 0) for hand_id, trio in zip(ids, trios, strict=True)]
            assert all(isinstance(each, Opened) for each in await transact(connection, openings))
            requests = [random_request(rng, hand_id, trio) for hand_id, trio in zip(ids, trios, strict=True)]
            for request, reply in zip(requests, await transact(connection, requests), strict=True):
                assert isinstance(reply, Settled), reply
                end = reply.hand.end
                assert end is not None
                assert (end.chips, end.rake, end.rating) == by_rules(model, request), (request, end)
            await compare_balances(connection, model)
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            report = await audit(connection, 0, 0, records=False, news_limit=NOBODY_RELAYS)
    finally:
        await connection.close()
    assert report.faults == []
    assert report.totals["hands_settled"] == BATCHES * BATCH
    assert len(model.cases) >= 20, model.cases


def by_rules(model: Model, request: SettleHand) -> tuple[Three, Three, Three]:
    chips, rake, rating = model.settle(request)
    return chips, rake, rating or (0, 0, 0)


async def give_to_the_broke(connection: asyncpg.Connection, rng: random.Random, model: Model, number: int) -> None:
    """Keeps balances between nothing, little and much."""
    grants = [
        Grant(f"{number}-{player_id}", player_id, "gift", rng.choice([1, 7, 100, 5_000, 1_000_000]))
        for player_id in rng.sample(list(model.chips), BATCH)
        if model.chips[player_id] < 1_000
    ]
    if grants:
        await transact(connection, grants)
    for each in grants:
        model.chips[each.player_id] += each.chips


async def compare_balances(connection: asyncpg.Connection, model: Model) -> None:
    rows = await connection.fetch("SELECT * FROM ledger.balances($1)", list(model.chips))
    stored = {row["player_id"]: (row["chips"], row["rating"]) for row in rows}
    assert all(
        stored.get(player_id, (0, 0)) == (model.chips[player_id], model.rating[player_id]) for player_id in model.chips
    )
