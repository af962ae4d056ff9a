"""The one table from a typed reason to a gRPC status, and the way of a Refusal over the wire and back.

A caller's mistake arrives as doudizhu.Refusal and leaves as a status with a ddz.common.v1.Refusal attached. Anything
else is a fault of ours: INTERNAL, logged and counted, without a word of what went wrong inside.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import grpc
import protovalidate
from google.protobuf import any_pb2
from google.protobuf.message import Message
from google.rpc import status_pb2

from ddz.common.v1 import common_pb2
from doudizhu.refusal import Refusal

Code = grpc.StatusCode

STATUS: Final[dict[str, grpc.StatusCode]] = {
    "INVALID": Code.INVALID_ARGUMENT,
    "MALFORMED": Code.INVALID_ARGUMENT,
    "NOT_FOUND": Code.NOT_FOUND,
    "UNAUTHENTICATED": Code.UNAUTHENTICATED,
    "FORBIDDEN": Code.PERMISSION_DENIED,
    "RATE_LIMITED": Code.RESOURCE_EXHAUSTED,
    "OVERLOADED": Code.RESOURCE_EXHAUSTED,
    "UNAVAILABLE": Code.UNAVAILABLE,
    "DRAINING": Code.UNAVAILABLE,
    "KEY_CONFLICT": Code.ALREADY_EXISTS,
    "GAP": Code.OUT_OF_RANGE,
    "NOT_YOUR_TURN": Code.FAILED_PRECONDITION,
    "WRONG_PHASE": Code.FAILED_PRECONDITION,
    "ILLEGAL_COMBO": Code.INVALID_ARGUMENT,
    "AMBIGUOUS_COMBO": Code.INVALID_ARGUMENT,
    "DOES_NOT_BEAT": Code.FAILED_PRECONDITION,
    "CARD_NOT_HELD": Code.INVALID_ARGUMENT,
    "DUPLICATE_CARD": Code.INVALID_ARGUMENT,
    "INVALID_PASS": Code.FAILED_PRECONDITION,
    "BID_TOO_LOW": Code.FAILED_PRECONDITION,
    "ROB_NOT_ALLOWED": Code.FAILED_PRECONDITION,
    "SHOW_NOT_ALLOWED": Code.FAILED_PRECONDITION,
    "BOMB_LIMIT": Code.FAILED_PRECONDITION,
    "HAND_OVER": Code.FAILED_PRECONDITION,
    "NOT_A_PLAYER": Code.PERMISSION_DENIED,
    "ROOM_FULL": Code.FAILED_PRECONDITION,
    "SEAT_TAKEN": Code.FAILED_PRECONDITION,
    "BELOW_MINIMUM": Code.FAILED_PRECONDITION,
    "ABOVE_MAXIMUM": Code.FAILED_PRECONDITION,
    "BASE_OUT_OF_BOUNDS": Code.INVALID_ARGUMENT,
    "BASE_DISAGREED": Code.FAILED_PRECONDITION,
    "TIMED_OUT": Code.FAILED_PRECONDITION,
    "ALREADY_SEATED": Code.FAILED_PRECONDITION,
    "PLAYER_IN_HAND": Code.FAILED_PRECONDITION,
    "TABLE_CLOSED": Code.FAILED_PRECONDITION,
    "BAD_CREDENTIALS": Code.UNAUTHENTICATED,
    "NAME_TAKEN": Code.ALREADY_EXISTS,
    "TOO_LATE": Code.FAILED_PRECONDITION,
    "BANNED": Code.PERMISSION_DENIED,
    "MAINTENANCE": Code.FAILED_PRECONDITION,
    "LIMIT_REACHED": Code.RESOURCE_EXHAUSTED,
}


class Trouble(StrEnum):
    """Reasons that services give besides those of the rules and of their own domain."""

    INVALID = "INVALID"
    NOT_FOUND = "NOT_FOUND"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "FORBIDDEN"
    OVERLOADED = "OVERLOADED"
    UNAVAILABLE = "UNAVAILABLE"
    DRAINING = "DRAINING"
    LIMIT_REACHED = "LIMIT_REACHED"
    BANNED = "BANNED"
    MAINTENANCE = "MAINTENANCE"


def to_proto(refusal: Refusal) -> common_pb2.Refusal:
    """The wire form of a refusal."""
    reason = common_pb2.Reason.Value(f"REASON_{refusal.reason}")
    return common_pb2.Refusal(reason=reason, message=refusal.message, field=refusal.field, data=refusal.data)


def to_status(refusal: Refusal) -> status_pb2.Status:
    """google.rpc.Status with the refusal as its detail (sent as grpc-status-details-bin)."""
    detail = any_pb2.Any()
    detail.Pack(to_proto(refusal))
    return status_pb2.Status(code=STATUS[refusal.reason].value[0], message=refusal.message, details=[detail])


def from_rpc_error(error: grpc.RpcError) -> Refusal | None:
    """The refusal that a called service attached to its status; None when it attached none."""
    metadata = error.trailing_metadata() if isinstance(error, grpc.aio.AioRpcError) else None
    for key, value in metadata or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            status = status_pb2.Status.FromString(value)
            for detail in status.details:
                proto = common_pb2.Refusal()
                if detail.Unpack(proto):
                    reason = common_pb2.Reason.Name(proto.reason).removeprefix("REASON_")
                    return Refusal(reason, proto.message, field=proto.field, **dict(proto.data))
    return None


def validate(message: Message) -> None:
    """Raises Refusal INVALID that names the first field against the rules written in the proto."""
    try:
        protovalidate.validate(message, fail_fast=True)
    except protovalidate.ValidationError as error:
        violation = error.violations[0].proto
        path = ".".join(element.field_name for element in violation.field.elements) if violation.field else ""
        raise Refusal(Trouble.INVALID, f"{path or 'the request'} {violation.message}", field=path) from None
