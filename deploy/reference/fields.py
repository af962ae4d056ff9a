"""What the reference says of messages: each field with its type, unit and range, out of its comment and its rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import Message

import buf.validate.validate_pb2  # noqa: F401  registers the rules

_FIELD = FieldDescriptorProto
_TYPES: Final = {
    _FIELD.TYPE_INT32: "number", _FIELD.TYPE_UINT32: "number", _FIELD.TYPE_INT64: "text of an int64",
    _FIELD.TYPE_UINT64: "text of a uint64", _FIELD.TYPE_BOOL: "bool", _FIELD.TYPE_STRING: "text",
    _FIELD.TYPE_BYTES: "base64",
}  # fmt: skip
# The last part of a name is its unit.
_UNITS: Final = {
    "at_ms": "ms since the epoch", "until_ms": "ms since the epoch", "deadline_ms": "ms since the epoch",
    "since_ms": "ms since the epoch", "ms": "ms", "s": "s", "chips": "chips", "rating": "rating points",
}  # fmt: skip


class Comments:
    """The comments of one file by the paths of descriptor.proto."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._found = {tuple(one.path): one for one in file.source_code_info.location}

    def leading(self, *path: int) -> str:
        """The comment above."""
        return _text(self._found[path].leading_comments) if path in self._found else ""

    def of(self, *path: int) -> str:
        """The comments above and behind, in one line."""
        if path not in self._found:
            return ""
        both = (self._found[path].leading_comments, self._found[path].trailing_comments)
        return " ".join(" ".join(_text(text).split()) for text in both if text).replace("|", "\\|")

    def of_file(self) -> str:
        """The comment at the top of the file, and those that stand alone before a message."""
        top = _text(self._found[(12,)].leading_comments) if (12,) in self._found else ""
        alone = [_text(text) for place in self._found.values() for text in place.leading_detached_comments]
        return "\n\n".join(text for text in (top, *alone) if text)


def _text(comment: str) -> str:
    return "\n".join(line.strip() for line in comment.strip().splitlines())


def fields_table(
    message: DescriptorProto, comments: Comments, path: tuple[int, ...], file: FileDescriptorProto, route: str = ""
) -> str:
    """One row for each field; `route`: the REST path that may hold some of them."""
    rows = ["| field | type | unit | range | |", "|---|---|---|---|---|"]
    for index, field in enumerate(message.field):
        comment = comments.of(*path, 2, index)
        if f"{{{field.name}}}" in route:
            comment = f"In the path. {comment}".strip()
        rows.append(
            f"| `{field.json_name}` | {_type(field, file)} | {_unit(field.name)} | {_range(field)} | {comment} |"
        )
    return "\n".join([*rows, ""])


def oneofs_text(message: DescriptorProto) -> Iterator[str]:
    """Which fields exclude each other."""
    for index, oneof in enumerate(message.oneof_decl):
        names = [f"`{f.json_name}`" for f in message.field if f.HasField("oneof_index") and f.oneof_index == index]
        if not oneof.name.startswith("_"):
            yield f"One of {', '.join(names)}.\n"


def link(kind: str, file: FileDescriptorProto) -> str:
    """A message or an enumeration, linked to where it is described."""
    _, package, _, name = kind.lstrip(".").split(".")
    page = "" if package == file.package.split(".")[1] else f"{package}.md"
    return f"[{name}]({page}#{name.lower()})"


def _type(field: FieldDescriptorProto, file: FileDescriptorProto) -> str:
    if field.type_name.endswith("DataEntry"):
        return "texts by name"
    kind = link(field.type_name, file) if field.type_name else _TYPES[field.type]
    if field.label == _FIELD.LABEL_REPEATED:
        return f"list of {kind}"
    return f"{kind}, may be unset" if field.proto3_optional else kind


def _unit(name: str) -> str:
    parts = name.split("_")
    for length in (2, 1):
        if unit := _UNITS.get("_".join(parts[-length:])):
            return unit
    return ""


def _range(field: FieldDescriptorProto) -> str:
    """What protovalidate holds the field to."""
    extension = descriptor_pool.Default().FindExtensionByName("buf.validate.field")
    if not field.options.HasExtension(extension):  # type: ignore[arg-type]
        return ""
    return ", ".join(_rules(field.options.Extensions[extension]))  # type: ignore[index]


def _rules(rules: Message) -> Iterator[str]:
    for descriptor, value in rules.ListFields():
        match descriptor.name:
            case "required" if value:
                yield "required"
            case "repeated":
                yield from _list(value)
            case "ignore":
                continue
            case "enum":
                yield "a value other than 0"
            case "string" | "bytes":
                yield from _sizes(value, "characters" if descriptor.name == "string" else "bytes")
            case _:
                yield from _bounds(value)


def _list(rules: Any) -> Iterator[str]:
    if rules.min_items or rules.max_items:
        same = rules.min_items == rules.max_items
        yield f"{rules.min_items}{'' if same else f' to {rules.max_items}'} items"
    if rules.unique:
        yield "no two alike"
    if rules.HasField("items"):
        yield from (f"each {rule}" for rule in _rules(rules.items))


def _sizes(rules: Any, what: str) -> Iterator[str]:
    least, most = rules.min_len, rules.max_len
    if most:
        yield f"{least} to {most} {what}"
    elif least:
        yield f"at least {least} {what}"
    if getattr(rules, "pattern", ""):
        yield "`" + rules.pattern.replace("|", "\\|") + "`"
    if allowed := list(getattr(rules, "in")):
        yield " or ".join(f'"{value}"' for value in allowed)


def _bounds(rules: Any) -> Iterator[str]:
    found = {descriptor.name: value for descriptor, value in rules.ListFields()}
    if "gte" in found and "lte" in found:
        yield f"{found['gte']} to {found['lte']}"
    elif "gte" in found:
        yield f"at least {found['gte']}"
    elif "lte" in found:
        yield f"at most {found['lte']}"
