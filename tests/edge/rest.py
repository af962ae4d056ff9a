"""A request of the protos as REST has it: verb, path and body by its google.api.http rule, and how such a call ends."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.parse
from collections.abc import Sequence
from typing import Any, Final

from google.api import annotations_pb2  # type: ignore[import-untyped]
from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

_VERBS: Final = ("get", "post", "patch", "delete", "put")
_TIMEOUT_S: Final = 20.0


def has_rest(method: MethodDescriptor) -> bool:
    """Whether the call can be made by REST."""
    return bool(method.GetOptions().HasExtension(annotations_pb2.http))


def as_rest(method: MethodDescriptor, message: Message) -> tuple[str, str, bytes]:
    """Verb, path with query, and body."""
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    verb = next(verb for verb in _VERBS if getattr(rule, verb))
    fields: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
    path = re.sub(
        r"\{(\w+)\}", lambda match: urllib.parse.quote(str(fields.pop(match[1], "")), safe=""), getattr(rule, verb)
    )
    if rule.body:
        body = fields if rule.body == "*" else fields.get(rule.body, {})
        return verb.upper(), path, json.dumps(body).encode()
    query = urllib.parse.urlencode([(name, value) for name, value in fields.items() if not isinstance(value, dict)])
    return verb.upper(), f"{path}?{query}" if query else path, b""


async def status(host: str, port: int, verb: str, path: str, body: bytes, headers: Sequence[tuple[str, str]]) -> int:
    """The status of one call; of a stream too, whose body is not waited for. Raises OSError and TimeoutError."""
    async with asyncio.timeout(_TIMEOUT_S):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            lines = [
                f"{verb} {path} HTTP/1.1",
                "host: localhost",
                "connection: close",
                "content-type: application/json",
            ]
            lines += [f"{name}: {value}" for name, value in headers] + [f"content-length: {len(body)}", "", ""]
            writer.write("\r\n".join(lines).encode() + body)
            await writer.drain()
            return int((await reader.readline()).split()[1])
        finally:
            writer.close()
