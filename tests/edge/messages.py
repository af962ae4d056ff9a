"""Random requests of any message type, from its descriptor: now what a client would send, now what none would."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from ddz.ledger.v1 import ledger_pb2
from ddz.lobby.v1 import lobby_pb2
from ddz.matchmaking.v1 import matchmaking_pb2
from ddz.table.v1 import table_pb2

METHODS: Final = [
    method
    for file in (lobby_pb2, matchmaking_pb2, table_pb2, ledger_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    if "Internal" not in service.full_name
    for method in service.methods
]
_PLAUSIBLE: Final = 0.75  # how often a value is one that a client might send
_NUMBERS: Final = (0, 1, 2, 3, 10, 53, 54, 199, 200, 201, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**64 - 1)
_RANGES: Final = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
_ALPHABETS: Final = (
    "abcdefgh0123456789-_",
    "ABCDEFGHJKLMNPQRSTUVWXYZ23456789",
    "'\";\\%{}[]()$#@!\n\r\t ",
    "地主叫分王炸",
    "\x00\uffff\u202e🃏",
)
_LENGTHS: Final = (0, 1, 2, 8, 16, 32, 33, 64, 65, 128, 129, 256, 5_000)


class Messages:
    """A source of requests; `known` gives, by the name of a field, texts that mean something to the system."""

    def __init__(self, source: random.Random, known: Mapping[str, Sequence[str]]) -> None:
        self._random = source
        self._known = known

    def message(self, descriptor: Descriptor) -> Message:
        """One message with some of its fields set."""
        made: Any = GetMessageClass(descriptor)()
        chosen = {group.name: self._random.choice(group.fields) for group in descriptor.oneofs}
        for field in descriptor.fields:
            group = field.containing_oneof
            if (group is not None and chosen[group.name] is not field) or self._random.random() > 0.85:
                continue
            self._set(made, field)
        return cast("Message", made)

    def _set(self, made: Any, field: FieldDescriptor) -> None:
        if field.is_repeated:
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                return
            count = self._random.choice((0, 1, 1, 2, 3, 5, 20, 21, 200))
            values = [self._value(field) for _ in range(count)]
            getattr(made, field.name).extend(values)
        elif field.message_type is not None:
            getattr(made, field.name).CopyFrom(self._part(field))
        else:
            setattr(made, field.name, self._value(field))

    def _value(self, field: FieldDescriptor) -> Any:
        match field.type:
            case FieldDescriptor.TYPE_MESSAGE:
                return self._part(field)
            case FieldDescriptor.TYPE_STRING:
                return self._text(field.name)
            case FieldDescriptor.TYPE_BYTES:
                return self._random.randbytes(self._random.choice(_LENGTHS[:9]))
            case FieldDescriptor.TYPE_BOOL:
                return self._random.random() < 0.5
            case FieldDescriptor.TYPE_ENUM:
                assert field.enum_type is not None
                return self._random.choice([*(value.number for value in field.enum_type.values), 99, -1])
            case FieldDescriptor.TYPE_DOUBLE | FieldDescriptor.TYPE_FLOAT:
                return self._random.choice((0.0, -1.0, 1e300, float("inf"), float("nan")))
        low, high = _RANGES[field.type]
        if self._random.random() < _PLAUSIBLE:
            return self._random.randrange(0, 60)
        return min(max(self._random.choice(_NUMBERS), low), high)

    def _part(self, field: FieldDescriptor) -> Message:
        assert field.message_type is not None
        return self.message(field.message_type)

    def _text(self, name: str) -> str:
        if name in self._known and self._random.random() < _PLAUSIBLE:
            return self._random.choice(self._known[name])
        alphabet, length = self._random.choice(_ALPHABETS), self._random.choice(_LENGTHS)
        return "".join(self._random.choices(alphabet, k=length))


def spoilt(source: random.Random, data: bytes) -> bytes:
    """The bytes with a few of them changed, left out or repeated; or others altogether."""
    if not data or source.random() < 0.3:
        return source.randbytes(source.choice((1, 2, 5, 20, 100, 1_000)))
    found = bytearray(data)
    for _ in range(source.randrange(1, 5)):
        at = source.randrange(len(found))
        match source.randrange(3):
            case 0:
                found[at] = source.randrange(256)
            case 1:
                del found[at:]
            case _:
                found[at:at] = found[: source.randrange(len(found) + 1)]
        if not found:
            return b"\xff"
    return bytes(found)
