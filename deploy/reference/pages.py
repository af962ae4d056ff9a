"""The pages of the API's reference out of the comments, rules and routes of the protos.

A comment of an RPC ends in lines of its own `Callers: …` (default: by its service) and `Refuses: REASON, …`; what a
field means, and its unit where its name does not end in one, stands beside it. Lines for curl are put together from
examples.yaml.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import yaml
from google.api import annotations_pb2  # type: ignore[import-untyped]
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)

from deploy.reference.fields import Comments, fields_table, oneofs_text
from servicekit.errors import STATUS

HERE: Final = Path(__file__).resolve().parent
HTTP: Final = {
    grpc.StatusCode.INVALID_ARGUMENT: 400, grpc.StatusCode.FAILED_PRECONDITION: 400, grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401, grpc.StatusCode.PERMISSION_DENIED: 403, grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409, grpc.StatusCode.RESOURCE_EXHAUSTED: 429, grpc.StatusCode.UNAVAILABLE: 503,
}  # fmt: skip
PAGES: Final = ("lobby", "matchmaking", "table", "ledger", "admin", "common")
_MADE: Final = "<!-- Made from proto/ by `make proto`; change it there. -->\n"
_VERBS: Final = ("get", "post", "put", "patch", "delete")
_INSIDE: Final = "services inside only: the gateway does not know it"
_PLAYER: Final = "a player, by his token"


@dataclass(frozen=True, slots=True)
class Rpc:
    """One method with what its comment says of it."""

    service: str
    method: MethodDescriptorProto
    prose: str
    callers: str
    refuses: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.service}.{self.method.name}"

    @property
    def rest(self) -> list[tuple[str, str, str]]:
        """Verb, path and body of each REST binding."""
        rule = self.method.options.Extensions[annotations_pb2.http]
        rules = [rule, *rule.additional_bindings]
        return [(verb, getattr(one, verb), one.body) for one in rules for verb in _VERBS if getattr(one, verb)]


class Reference:
    """All that the descriptors say, ready to be written down."""

    def __init__(self, image: FileDescriptorSet) -> None:
        self._files = [file for file in image.file if file.package.startswith("ddz.")]
        self._comments = {file.name: Comments(file) for file in self._files}
        self._examples: Mapping[str, Any] = yaml.safe_load((HERE / "examples.yaml").read_text(encoding="utf-8"))
        unknown = set(self._examples) - {"before", *(rpc.name for rpc in self.rpcs())}
        assert not unknown, f"examples.yaml speaks of {unknown}, which no proto has"

    def rpcs(self, package: str = "") -> Iterator[Rpc]:
        """Every method, of one package or of all."""
        for file in self._of(package):
            comments = self._comments[file.name]
            for number, service in enumerate(file.service):
                for index, method in enumerate(service.method):
                    yield _rpc(service.name, method, comments.leading(6, number, 2, index))

    def pages(self) -> dict[str, str]:
        """File name -> text."""
        found = {f"{package}.md": self._page(package) for package in PAGES}
        return {"README.md": self._index(), "errors.md": self._errors(), **found}

    def _of(self, package: str) -> list[FileDescriptorProto]:
        return [file for file in self._files if package in ("", file.package.split(".")[1])]

    # ---- pages ----------------------------------------------------------------------------------------------------

    def _index(self) -> str:
        rows = [
            f"| [{rpc.method.name}]({package}.md#{rpc.method.name.lower()}) | {_routes(rpc)} | {_first(rpc.prose)} |"
            for package in PAGES
            for rpc in self.rpcs(package)
            if not rpc.service.endswith("InternalService")
        ]
        head = (HERE / "api.md").read_text(encoding="utf-8")
        return "\n".join([_MADE, head, "## All calls\n", "| call | REST | |", "|---|---|---|", *rows, ""])

    def _errors(self) -> str:
        comments = self._comments["ddz/common/v1/common.proto"]
        [number] = [index for index, enum in enumerate(self._common().enum_type) if enum.name == "Reason"]
        reasons = self._common().enum_type[number]
        rows = []
        for index, value in enumerate(reasons.value[1:], 1):
            status = STATUS[value.name.removeprefix("REASON_")]
            why = comments.of(5, number, 2, index)
            name = value.name.removeprefix("REASON_")
            rows.append(f"| `{name}` | {value.number} | `{status.name}` | {HTTP[status]} | {why} |")
        head = (HERE / "errors.md").read_text(encoding="utf-8")
        return "\n".join([_MADE, head, "| reason | number | gRPC | HTTP | |", "|---|---|---|---|---|", *rows, ""])

    def _common(self) -> FileDescriptorProto:
        return next(file for file in self._files if file.name == "ddz/common/v1/common.proto")

    def _page(self, package: str) -> str:
        parts = [_MADE, f"# {package.capitalize()}\n"]
        for file in self._of(package):
            comments = self._comments[file.name]
            parts.append(f"{comments.of_file()}\n")
            for number, service in enumerate(file.service):
                parts += self._service(package, file, number, service.name)
        parts.append("## Messages\n")
        for file in self._of(package):
            parts += self._messages(file)
        return "\n".join(parts).rstrip() + "\n"

    def _service(self, package: str, file: FileDescriptorProto, number: int, name: str) -> Iterator[str]:
        yield f"## {name}\n"
        if comment := self._comments[file.name].leading(6, number):
            yield f"{comment}\n"
        if not name.endswith("InternalService"):
            yield _block(self._examples["before"][package])
        for rpc in self.rpcs(package):
            if rpc.service == name:
                yield from self._call(rpc, file)

    def _call(self, rpc: Rpc, file: FileDescriptorProto) -> Iterator[str]:
        yield f"### {rpc.method.name}\n"
        yield f"{rpc.prose}\n"
        yield "| | |\n|---|---|"
        yield f"| who | {rpc.callers} |"
        yield f"| gRPC | `/{file.package}.{rpc.service}/{rpc.method.name}`{_streams(rpc.method)} |"
        yield f"| REST | {_routes(rpc) or 'none'} |"
        yield f"| refuses | {self._refusals(rpc)} |\n"
        if rpc.rest and not rpc.service.endswith("InternalService"):
            yield _block(self._curl(rpc))
        for title, kind in (("Request", rpc.method.input_type), ("Answer", rpc.method.output_type)):
            yield from self._fields(title, kind, rpc)

    def _refusals(self, rpc: Rpc) -> str:
        found = [f"[`{reason}`](errors.md) {HTTP[STATUS[reason]]}" for reason in rpc.refuses]
        return ", ".join([*found, "and [what every call may](errors.md)"])

    def _fields(self, title: str, kind: str, rpc: Rpc) -> Iterator[str]:
        file, path, message = self._find(kind)
        if not message.field:
            yield f"{title}: empty.\n"
            return
        yield f"{title}:\n"
        body = rpc.rest[0][1] if rpc.rest and title == "Request" else ""
        yield fields_table(message, self._comments[file.name], path, file, body)
        yield from oneofs_text(message)

    def _find(self, kind: str) -> tuple[FileDescriptorProto, tuple[int, ...], DescriptorProto]:
        for file in self._files:
            for number, message in enumerate(file.message_type):
                if kind == f".{file.package}.{message.name}":
                    return file, (4, number), message
        raise AssertionError(f"no message {kind}")

    def _messages(self, file: FileDescriptorProto) -> Iterator[str]:
        comments = self._comments[file.name]
        of_calls = {kind for rpc in self.rpcs() for kind in (rpc.method.input_type, rpc.method.output_type)}
        for number, message in enumerate(file.message_type):
            if f".{file.package}.{message.name}" in of_calls:
                continue
            yield f"### {message.name}\n"
            if comment := comments.leading(4, number):
                yield f"{comment}\n"
            yield fields_table(message, comments, (4, number), file) if message.field else "Empty.\n"
            yield from oneofs_text(message)
        for number, enum in enumerate(file.enum_type):
            if enum.name != "Reason":
                yield from _enum(enum, comments, number)

    # ---- curl -----------------------------------------------------------------------------------------------------

    def _curl(self, rpc: Rpc) -> list[str]:
        """Lines that can be run one after the other, from the top of the page on; `# 200` is the answer's status."""
        example = self._examples[rpc.name]
        verb, path, body = rpc.rest[0]
        for field, value in example.get("path", {}).items():
            path = path.replace(f"{{{field}}}", str(value))
        assert "{" not in path, f"examples.yaml fills nothing into {path} of {rpc.name}"
        words = ["curl", "-s"]
        if rpc.method.server_streaming:
            words = ["curl", "-sN", "--max-time", "3"]
        if verb not in ("get", "post"):
            words += ["-X", verb.upper()]
        if token := example.get("token", "" if rpc.callers.startswith("anybody") else "$TOKEN"):
            words.append(f'-H "authorization: Bearer {token}"')
        query = example.get("query", "")
        words.append(f"'$DDZ{path}{query}'".replace("'$DDZ", '"$DDZ').rstrip("'") + '"')
        if body:
            words.append(f"-d {_shell(example.get('body', {}))}")
        line = " ".join(words)
        if take := example.get("take"):
            [(variable, field)] = take.items()
            line = f"{variable}=$({line} | {_field(field)})"
        lines = [f"{line}  # {example.get('status', 200)}"]
        if rpc.method.server_streaming:
            lines.append(lines[0].replace("-H", "-H 'accept: text/event-stream' -H", 1))
        return lines


def _rpc(service: str, method: MethodDescriptorProto, comment: str) -> Rpc:
    told = {"Callers": _INSIDE if service.endswith("InternalService") else _PLAYER, "Refuses": ""}
    prose = []
    current = ""
    for line in comment.splitlines():
        key, colon, rest = line.partition(":")
        if colon and key in told:
            current, told[key] = key, rest.strip()
        elif current:
            told[current] += f" {line.strip()}"
        else:
            prose.append(line)
    refuses = tuple(word for word in told["Refuses"].rstrip(".").replace(" ", "").split(",") if word)
    unknown = set(refuses) - set(STATUS)
    assert not unknown, f"{service}.{method.name} refuses with {unknown}, which is no reason"
    return Rpc(service, method, "\n".join(prose), told["Callers"].rstrip("."), refuses)


def _enum(enum: EnumDescriptorProto, comments: Comments, number: int) -> Iterator[str]:
    yield f"### {enum.name}\n"
    if comment := comments.leading(5, number):
        yield f"{comment}\n"
    yield "| value | number | |\n|---|---|---|"
    for index, value in enumerate(enum.value):
        yield f"| `{value.name}` | {value.number} | {comments.of(5, number, 2, index)} |"
    yield ""


def _routes(rpc: Rpc) -> str:
    return "<br>".join(f"`{verb.upper()} {path}`{_body(body)}" for verb, path, body in rpc.rest)


def _body(field: str) -> str:
    return f", whose body is `{field}`" if field not in ("", "*") else ""


def _streams(method: MethodDescriptorProto) -> str:
    if method.client_streaming:
        return ", a stream up and a stream down"
    return ", a stream down" if method.server_streaming else ""


def _first(prose: str) -> str:
    """The first sentence."""
    return prose.replace("\n", " ").split(". ")[0].rstrip(".") + "."


def _block(lines: Sequence[str]) -> str:
    return "\n".join(["```bash", *lines, "```\n"])


def _shell(body: Mapping[str, Any]) -> str:
    """JSON as a word of the shell, in which "$NAME" is a variable."""
    text = json.dumps(body, ensure_ascii=False)
    parts = text.split('"$')
    done = parts[0]
    for part in parts[1:]:
        name, _, rest = part.partition('"')
        done += f"\"'${name}'\"{rest}"
    return f"'{done}'"


def _field(name: str) -> str:
    """What takes one text out of an answer."""
    return f'sed -n \'s/.*"{name}":"\\([^"]*\\)".*/\\1/p\''
