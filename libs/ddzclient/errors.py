"""What a call to the servers can end with.

Refusal (doudizhu.refusal)   the servers understood and said no: reason, sentence, field, data
ClientError
├── Unreachable              no answer within the time allowed, whatever was tried
├── ServerFault              a mistake of the servers (INTERNAL, UNKNOWN and their like)
├── TicketEnded              a matchmaking ticket ended without a table
└── TableGone                the stream of a table ended for good
"""

from __future__ import annotations

from typing import Final

import grpc
from google.rpc import status_pb2

from ddz.common.v1 import common_pb2
from doudizhu.refusal import Refusal

# The gateway's own refusals carry no detail: no token or a bad one, a path that is not routed, a limit, a bad body.
_BY_STATUS: Final = {
    grpc.StatusCode.UNAUTHENTICATED: "UNAUTHENTICATED",
    grpc.StatusCode.PERMISSION_DENIED: "FORBIDDEN",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "RATE_LIMITED",
    grpc.StatusCode.INVALID_ARGUMENT: "INVALID",
    grpc.StatusCode.UNIMPLEMENTED: "NOT_FOUND",
    grpc.StatusCode.NOT_FOUND: "NOT_FOUND",
}
_TRANSIENT_STATUS: Final = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}
_TRANSIENT_REASON: Final = {"UNAVAILABLE", "DRAINING", "OVERLOADED", "RATE_LIMITED"}
# What grpc itself says, as INTERNAL too, when a connection or a stream breaks under a call.
_BROKEN: Final = ("Internal error from Core", "RST_STREAM")
_DETAILS: Final = "grpc-status-details-bin"


class ClientError(Exception):
    """The call did not get an answer that could be used."""


class Unreachable(ClientError):
    """No answer within the time allowed; what was asked may or may not have been done."""


class ServerFault(ClientError):
    """The servers made a mistake; they have recorded it."""


class TicketEnded(ClientError):
    """A ticket was cancelled or expired; `state` is CANCELLED or EXPIRED."""

    def __init__(self, state: str) -> None:
        super().__init__(f"the ticket is {state.lower()}")
        self.state = state


class TableGone(ClientError):
    """The servers ended the stream of a table and ask nobody back; `why` is their word for it (closed, replaced)."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the table's stream has ended: {why}")
        self.why = why


def refusal_from_proto(proto: common_pb2.Refusal) -> Refusal:
    """The refusal that a message carries; a reason that a newer server has is its number."""
    known = common_pb2.Reason.DESCRIPTOR.values_by_number.get(proto.reason)
    reason = known.name.removeprefix("REASON_") if known else str(proto.reason)
    return Refusal(reason, proto.message, field=proto.field, **dict(proto.data))


def translate(error: grpc.aio.AioRpcError) -> Refusal | ClientError:
    """What a failed call means: the attached refusal, the gateway's own refusal, or a ClientError."""
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS and isinstance(value, bytes):
            for detail in status_pb2.Status.FromString(value).details:
                proto = common_pb2.Refusal()
                if detail.Unpack(proto):
                    return refusal_from_proto(proto)
    code, message = error.code(), error.details() or ""
    if code in _TRANSIENT_STATUS or any(words in message for words in _BROKEN):
        return Unreachable(f"{code.name}: {message}")
    if code in _BY_STATUS:
        return Refusal(_BY_STATUS[code], message or code.name)
    return ServerFault(f"{code.name}: {message}")


def is_transient(error: Exception) -> bool:
    """Whether the same request may well succeed a little later."""
    return isinstance(error, Unreachable) or (isinstance(error, Refusal) and error.reason in _TRANSIENT_REASON)
