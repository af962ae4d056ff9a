"""What goes wrong between the ledger and Postgres is tried again, and is never an answer to a request."""

from __future__ import annotations

import asyncpg
import pytest

from doudizhu.refusal import Refusal
from services.ledger.trouble import insist

PASSES = [
    asyncpg.DeadlockDetectedError("40P01"),
    asyncpg.SerializationError("40001"),
    asyncpg.UniqueViolationError("23505"),
    asyncpg.AdminShutdownError("57P01"),
    asyncpg.CrashShutdownError("57P02"),
    asyncpg.CannotConnectNowError("57P03"),
    asyncpg.QueryCanceledError("57014"),
    asyncpg.IdleInTransactionSessionTimeoutError("25P03"),
    asyncpg.ReadOnlySQLTransactionError("25006"),
    asyncpg.ConnectionDoesNotExistError("08003"),
    asyncpg.ConnectionFailureError("08006"),
    asyncpg.TooManyConnectionsError("53300"),
    asyncpg.DiskFullError("53100"),
    asyncpg.InvalidCachedStatementError("0A000"),
    asyncpg.InterfaceError("the connection is closed"),
    asyncpg.InternalClientError("got result for unknown protocol state"),
    ConnectionResetError(),
    TimeoutError(),
]
STAYS = [
    asyncpg.CheckViolationError("23514"),
    asyncpg.InsufficientPrivilegeError("42501"),
    ValueError(),
    Refusal("INVALID", "no"),
]


def named(error: Exception) -> str:
    return type(error).__name__


class Work:
    """Fails so many times, then is done."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.times, self.runs = error, times, 0

    async def __call__(self) -> str:
        self.runs += 1
        if self.runs <= self.times:
            raise self.error
        return "done"


@pytest.mark.parametrize("error", PASSES, ids=named)
async def test_what_passes_is_tried_again_and_then_unavailable(error: Exception) -> None:
    work = Work(error, times=2)
    assert await insist(work, patience_s=60.0) == "done"
    assert work.runs == 3
    with pytest.raises(Refusal) as caught:
        await insist(Work(error, times=10**9), patience_s=0.03)
    assert caught.value.reason == "UNAVAILABLE"


@pytest.mark.parametrize("error", STAYS, ids=named)
async def test_what_stays_is_not_tried_again(error: Exception) -> None:
    work = Work(error, times=10**9)
    with pytest.raises(type(error)):
        await insist(work, patience_s=60.0)
    assert work.runs == 1
