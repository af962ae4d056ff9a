"""The gateway's descriptors from the generated code alone: an image needs neither protoc nor the .proto files."""

from __future__ import annotations

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor

from ddz.admin.v1 import admin_pb2
from ddz.ledger.v1 import ledger_pb2
from ddz.lobby.v1 import lobby_pb2
from ddz.matchmaking.v1 import matchmaking_pb2
from ddz.table.v1 import table_pb2

_SERVED = (lobby_pb2, matchmaking_pb2, table_pb2, ledger_pb2, admin_pb2)


def descriptors() -> descriptor_pb2.FileDescriptorSet:
    """The files of the public services with all that they import, each after its imports (as protoc orders them)."""
    found: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    for module in _SERVED:
        _add(module.DESCRIPTOR, found)
    return descriptor_pb2.FileDescriptorSet(file=found.values())


def _add(file: FileDescriptor, found: dict[str, descriptor_pb2.FileDescriptorProto]) -> None:
    if file.name in found:
        return
    for imported in file.dependencies:
        _add(imported, found)
    found[file.name] = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(found[file.name])
