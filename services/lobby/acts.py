"""What operators do, once and written down: the act before it is done, then what came of it (docs/decisions/0023)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

import asyncpg
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from prometheus_client import Counter

from ddz.admin.v1 import admin_pb2
from ddz.common.v1 import common_pb2
from doudizhu.refusal import Refusal
from servicekit import errors
from servicekit.clients import AWAY
from services.lobby.account import Reason

ACTS: Final = Counter("ddz_admin_acts", "What operators did, by call and by what came of it", ["act", "outcome"])

for _method in admin_pb2.DESCRIPTOR.services_by_name["AdminService"].methods:
    ACTS.labels(_method.name, "done")  # shown as 0 until there is one

DONE: Final = "done"
FAULT: Final = "FAULT"
# What a repeat of the act may well find otherwise, so that it is tried anew.
_IN_PASSING: Final = frozenset({Reason.UNAVAILABLE, Reason.OVERLOADED, Reason.DRAINING, Reason.RATE_LIMITED})
_NO_TEXT: Final = ("act_id", "reason")  # have columns of their own
_NEWEST: Final = 2**62

Answer = TypeVar("Answer", bound=Message)


class Ended(NamedTuple):
    """The final outcome of an act: `answer` is the response, or the refusal (ddz.common.v1.Refusal)."""

    outcome: str
    answer: bytes


class Acts:
    """The tables `act` and `outcome` of the schema lobby, by their functions alone."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def do(
        self, operator_id: str, act_id: str, request: Any, kind: type[Answer], work: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """Does the act of a request, unless it has been done: then its first answer, a `kind` or its Refusal.

        Raises what `work` raises, KEY_CONFLICT when the id was another act's.
        """
        name = request.DESCRIPTOR.name.removesuffix("Request")
        ended = await self._begin(operator_id, act_id, name, request)
        if ended is not None:
            ACTS.labels(name, "repeated").inc()
            return _answer(ended, kind)
        try:
            answer = await work()
        except Refusal as refusal:
            ACTS.labels(name, "refused").inc()
            told, final = errors.to_proto(refusal).SerializeToString(), refusal.reason not in _IN_PASSING
            ended = await self._end(act_id, final, refusal.reason, refusal.message, told)
            if ended is None:
                raise
            return _answer(ended, kind)
        except AWAY as error:
            ACTS.labels(name, "refused").inc()
            await self._end(act_id, False, Reason.UNAVAILABLE, type(error).__name__, b"")
            raise
        except Exception as error:
            ACTS.labels(name, "fault").inc()
            await self._end(act_id, False, FAULT, type(error).__name__, b"")
            raise
        ended = await self._end(act_id, True, DONE, "", answer.SerializeToString())
        assert ended is not None, "a final outcome is one"
        ACTS.labels(name, "done").inc()
        return _answer(ended, kind)

    async def page(self, before: int, size: int) -> tuple[list[admin_pb2.Act], str]:
        """The newest acts below a number, 0 = all; and where the next page begins, empty at the end."""
        rows = await self._pool.fetch("SELECT * FROM lobby.list_acts($1, $2)", before or _NEWEST, size + 1)
        acts = [
            admin_pb2.Act(
                act_id=row["act_id"],
                operator_id=row["operator_id"],
                act=row["act"],
                arguments_json=row["arguments"],
                reason=row["reason"],
                at_ms=row["at_ms"],
                outcome=row["outcome"],
                detail=row["detail"],
            )
            for row in rows[:size]
        ]
        return acts, str(rows[size - 1]["number"]) if len(rows) > size else ""

    async def _begin(self, operator_id: str, act_id: str, name: str, request: Any) -> Ended | None:
        """Writes the act down; its outcome when it has been done."""
        fields = MessageToDict(request, preserving_proto_field_name=True)
        arguments = {field: value for field, value in fields.items() if field not in _NO_TEXT}
        row = await self._pool.fetchrow(
            "SELECT * FROM lobby.begin_act($1, $2, $3, $4, $5)",
            act_id,
            operator_id,
            name,
            json.dumps(arguments, sort_keys=True),
            fields.get("reason", ""),
        )
        if not row["same"]:
            raise Refusal(Reason.KEY_CONFLICT, "This act_id was another act's: choose a new one.", field="act_id")
        return None if row["outcome"] is None else Ended(row["outcome"], row["answer"])

    async def _end(self, act_id: str, final: bool, outcome: str, detail: str, answer: bytes) -> Ended | None:
        """Writes down what came of it; the final outcome, if there is one."""
        row = await self._pool.fetchrow(
            "SELECT * FROM lobby.end_act($1, $2, $3, $4, $5)", act_id, final, outcome, detail, answer
        )
        return None if row is None else Ended(row["outcome"], row["answer"])


def _answer(ended: Ended, kind: type[Answer]) -> Answer:
    if ended.outcome == DONE:
        return kind.FromString(ended.answer)
    told = common_pb2.Refusal.FromString(ended.answer)
    reason = common_pb2.Reason.Name(told.reason).removeprefix("REASON_")
    raise Refusal(reason, told.message, field=told.field, **dict(told.data))
