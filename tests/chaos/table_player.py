"""A seat that plays through the gateway with the SDK's view of a table, and remembers what was acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import jwt

from ddz.table.v1 import events_pb2, table_pb2, table_pb2_grpc
from ddzclient.errors import ClientError, TableGone
from ddzclient.policy import hand_of, in_hand, to_wire
from ddzclient.table import Action, TableView
from doudizhu import default_action
from doudizhu import hand as rules
from doudizhu.refusal import Refusal
from services.table.terms import Reason
from tests.chaos.acknowledged import Acknowledged

_TOKEN_LIFE_S: Final = 6 * 3600
_LOOK_AGAIN_S: Final = 1.0
SHORTEST_PACE: Final = 0.5  # of Orders.pace_s: how long a player thinks at least, and at most
LONGEST_PACE: Final = 1.5
_BETWEEN_HANDS: Final = {
    events_pb2.PHASE_SEATING,
    events_pb2.PHASE_BASE,
    events_pb2.PHASE_AGREE,
    events_pb2.PHASE_READY,
    events_pb2.PHASE_COUNTDOWN,
}


@dataclass
class Orders:
    """What all seats are told, and what they have seen."""

    pace_s: float
    hold: bool = False
    leave: bool = False
    acknowledged: list[Acknowledged] = field(default_factory=list)
    refused: int = 0
    turned_away: list[tuple[str, str]] = field(default_factory=list)  # from a table, who
    reconnects: int = 0
    wrong: list[str] = field(default_factory=list)


class Tokens:
    """Signs tokens as the lobby does."""

    def __init__(self, keys_file: Path) -> None:
        key: dict[str, Any] = json.loads(keys_file.read_text())["keys"][0]
        self._key, self._kid = jwt.PyJWK(key).key, key["kid"]

    def of(self, player_id: str) -> str:
        now = int(time.time())
        claims = {"sub": player_id, "iss": "ddz-lobby", "aud": "ddz", "iat": now, "exp": now + _TOKEN_LIFE_S}
        return jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": self._kid})


class Seat:
    """One player: enters its table and answers whatever it asks, until it is told to leave."""

    def __init__(
        self, stub: table_pb2_grpc.TableServiceAsyncStub, table_id: str, player_id: str, token: str, orders: Orders
    ) -> None:
        self.table_id, self.player_id, self._orders = table_id, player_id, orders
        self.entered = False  # the table has let it in
        self._token = token
        self._rng = random.Random(player_id)
        self._ids = (f"c{number}" for number in itertools.count(1))
        self.view = TableView(stub, table_id, player_id, self._metadata, self._renew)

    async def _metadata(self, table_id: str) -> list[tuple[str, str | bytes]]:
        return [("authorization", f"Bearer {self._token}"), ("x-table-id", table_id)]

    async def _renew(self) -> None:
        """The token outlives the run: a gateway that has just started has not read the keys yet."""

    async def play(self) -> None:
        """Enters once the table lets it in, and plays to the end."""
        try:
            async with self.view as view:
                self.entered = True
                known = (0, 0)
                while True:
                    with contextlib.suppress(TimeoutError):  # orders may have changed, or a refusal was the last word
                        async with asyncio.timeout(_LOOK_AGAIN_S):
                            await view.newer(known)
                    state = view.state
                    known = (state.epoch, state.seq)
                    if self._orders.hold:
                        await asyncio.sleep(0.1)
                        continue
                    action = self._answer(state)
                    if action is None:
                        continue
                    if in_hand(state) and not self._orders.leave:
                        await asyncio.sleep(self._orders.pace_s * self._rng.uniform(SHORTEST_PACE, LONGEST_PACE))
                    await self._act(action)
        except TableGone:
            pass
        except Refusal as refusal:
            if refusal.reason == Reason.NOT_A_PLAYER:  # he was away for too long
                self._orders.turned_away.append((self.table_id, self.player_id))
            else:
                self._orders.wrong.append(f"{self.player_id}: {refusal!r}")
        except ClientError as error:
            self._orders.wrong.append(f"{self.player_id}: {error!r}")
        finally:
            self._orders.reconnects += self.view.reconnects

    async def _act(self, action: Action) -> None:
        command_id = next(self._ids)
        try:
            seq = await self.view.act(action, command_id=command_id, timeout_s=120.0)
        except Refusal:
            self._orders.refused += 1
            return
        name = action.DESCRIPTOR.name
        self._orders.acknowledged.append(Acknowledged(self.table_id, self.player_id, command_id, name, seq))

    def _answer(self, state: events_pb2.Snapshot) -> Action | None:
        phase, seat = state.clock.phase, state.seats[state.you]
        if self._orders.leave and phase in _BETWEEN_HANDS:
            return table_pb2.Leave()
        if seat.trustee:
            return table_pb2.Trustee(on=False)
        if phase == events_pb2.PHASE_BASE and state.clock.seat == state.you:
            return table_pb2.SetBase(base_chips=state.terms.base_min_chips)
        if phase == events_pb2.PHASE_AGREE and not seat.agreed:
            return table_pb2.AnswerBase(agree=True)
        if phase == events_pb2.PHASE_READY and not seat.ready:
            return table_pb2.Ready(ready=True)
        if not in_hand(state) or state.clock.seat != state.you:
            return None
        return to_wire(self._choose(hand_of(state)))

    def _choose(self, hand: rules.Hand) -> rules.Action:
        assert hand.turn is not None
        match hand.phase:
            case rules.Phase.BID:
                return rules.Bid(hand.turn, 3 if self._rng.random() < 0.6 else 0)
            case rules.Phase.CALL:
                return rules.Call(hand.turn, self._rng.random() < 0.6)
            case rules.Phase.ROB:
                return rules.Rob(hand.turn, self._rng.random() < 0.3)
            case rules.Phase.SHOW:
                return rules.Show(hand.turn, self._rng.random() < 0.3)
        return default_action(hand)
