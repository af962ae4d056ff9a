"""Calls from service to service: their refusals go on to our caller, their silence becomes UNAVAILABLE."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, TypeVar

import grpc

from doudizhu.refusal import Refusal
from servicekit import errors

T = TypeVar("T")

# Statuses after which nobody knows whether the other service did it.
_SILENT: Final = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
}


async def ask(call: Awaitable[T], who: str) -> T:
    """The answer of a call to the service `who`.

    Raises the Refusal that the service attached, or UNAVAILABLE without `data` when it gave no answer; any other
    status is a fault of ours and goes on as it is.
    """
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        refusal = errors.from_rpc_error(error)
        if refusal is not None:
            raise refusal from None
        if error.code() not in _SILENT:
            raise
        raise Silence(who) from None


class Silence(Refusal):
    """The other service gave no answer: the call may have been done or not, so only an idempotent one is repeated."""

    def __init__(self, who: str) -> None:
        super().__init__(errors.Trouble.UNAVAILABLE, f"The {who} service does not answer; try again in a moment.")
