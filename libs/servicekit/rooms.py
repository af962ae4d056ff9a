"""The rooms file: YAML that mirrors ddz.lobby.v1.Room, checked before anybody sits down.

    extends: rooms.yaml        # optional: take the rooms of another file, in the same folder ...
    clocks: {play_ms: 20000}   # ... and lay these clocks over all of its rooms; without extends, the default clocks
    rooms:
    - room_id: rob-beginner
      name_zh: 抢地主 初级场
      name_en: Rob, beginners
      seating: matched         # or by_choice
      terms: {book: rob, base_chips: 10, initial_multiplier: 1, rake_chips: 5, minimum_chips: 100}

Beside the fields of ddz.common.v1.Terms, `base_chips` stands for equal bounds, `book_fields` (a mapping) for
book_fields_json, and `book_file` (a file with all fields of a rule book, docs/own-rule-book.md) for book and both.
terms.room_id and terms.matched follow from the room.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import protovalidate
import yaml
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from prometheus_client import Counter

from ddz.common.v1 import common_pb2
from ddz.lobby.v1 import lobby_pb2
from doudizhu import rulebook
from doudizhu.refusal import Refusal
from servicekit import logs, metrics
from servicekit.errors import Trouble

Path_ = tuple[str | int, ...]

RELOADS: Final = Counter("ddz_rooms_reloads", "Changes of the rooms file, by whether it could be used", ["result"])
for _result in ("ok", "refused"):
    RELOADS.labels(_result)

log = logs.get("rooms")

_POLL_S: Final = 1.0
_TOP: Final = {"extends", "clocks", "rooms"}
_SHORT: Final[dict[str | int, str]] = {
    "base_min_chips": "base_chips",
    "base_max_chips": "base_chips",
    "book_fields_json": "book_fields",
}
_KINDS: Final = {
    FieldDescriptor.TYPE_STRING: "a text",
    FieldDescriptor.TYPE_INT32: "a whole number",
    FieldDescriptor.TYPE_INT64: "a whole number",
    FieldDescriptor.TYPE_BOOL: "true or false",
}


class RoomsError(OSError):
    """A rooms file cannot be used; the message names file, line, room and field. An OSError: nobody starts with it."""


class _Document:
    """A YAML file with the line of everything in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
            self.root = yaml.compose(text, Loader=yaml.SafeLoader)
            self.data = yaml.safe_load(text)
        except OSError as error:
            raise RoomsError(f"{path}: cannot be read: {error}.") from None
        except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: the 30th of February, for one
            raise RoomsError(f"{path}: is no YAML: {error}".replace("\n", " ")) from None

    def line(self, path: Path_) -> int:
        """The line of a key or an entry, or of the innermost thing around it that is written there."""
        node, line = self.root, 1
        for step in path:
            if isinstance(node, yaml.MappingNode):
                key, node = next(((key, value) for key, value in node.value if key.value == step), (None, None))
                line = line if key is None else key.start_mark.line + 1
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
                node = node.value[step]
                line = node.start_mark.line + 1
        return int(line)

    def wrong(self, path: Path_, what: str, room: str = "") -> RoomsError:
        """The error for the value at `path`, called by its short form where that is what is written."""
        if path and path[-1] in _SHORT and self.line(path) == self.line(path[:-1]):
            path = (*path[:-1], _SHORT[path[-1]])
        field = ".".join(str(step) for step in path if isinstance(step, str) and step != "rooms")
        where = f"room {room}: " if room else ""
        return RoomsError(f"{self.path}:{self.line(path)}: {where}{field or 'the file'} {what}")


def load(path: Path) -> tuple[lobby_pb2.Room, ...]:
    """The rooms of a file in its order; raises RoomsError. A room that passes can be played without overflow."""
    document = _Document(path)
    data = document.data
    if not isinstance(data, dict):
        raise document.wrong((), "must be a mapping with the key rooms")
    if unknown := sorted(set(map(str, data)) - _TOP):
        raise document.wrong((unknown[0],), "is not a key of a rooms file")
    clocks = data.get("clocks", {})
    if "extends" in data:
        return _extended(document, str(data["extends"]), clocks)
    entries = data.get("rooms")
    if not isinstance(entries, list) or not entries:
        raise document.wrong(("rooms",), "must be a list of at least one room")
    rooms: list[lobby_pb2.Room] = []
    for index, entry in enumerate(entries):
        room = _room(document, ("rooms", index), entry, clocks)
        if any(other.room_id == room.room_id for other in rooms):
            raise document.wrong(("rooms", index, "room_id"), "is used twice", room.room_id)
        rooms.append(room)
    return tuple(rooms)


def admit(room: lobby_pb2.Room, chips: int) -> None:
    """Raises Refusal BELOW_MINIMUM or ABOVE_MAXIMUM, the bound in its data, for whom the room is not (RULES.md 4)."""
    terms = room.terms
    minimum = least_chips(room)
    if chips < minimum:
        words = f"This room asks for at least {minimum} chips."
        raise Refusal("BELOW_MINIMUM", words, minimum_chips=minimum, chips=chips, room_id=room.room_id)
    if terms.maximum_chips and chips > terms.maximum_chips:
        words = f"This room is for at most {terms.maximum_chips} chips."
        raise Refusal("ABOVE_MAXIMUM", words, maximum_chips=terms.maximum_chips, chips=chips, room_id=room.room_id)


def least_chips(room: lobby_pb2.Room) -> int:
    """What a player needs to be able to sit in the room at its lowest base."""
    return max(room.terms.minimum_chips, book_of(room.terms).minimum_bases * room.terms.base_min_chips)


class Rooms:
    """The rooms of a file as they stand now; raises RoomsError when it cannot be used at the start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = _stamp(path)
        self._rooms = {room.room_id: room for room in load(path)}

    def all(self) -> tuple[lobby_pb2.Room, ...]:
        """Every room, in the file's order."""
        return tuple(self._rooms.values())

    def __contains__(self, room_id: str) -> bool:
        return room_id in self._rooms

    def get(self, room_id: str) -> lobby_pb2.Room:
        """One room; raises Refusal NOT_FOUND."""
        room = self._rooms.get(room_id)
        if room is None:
            raise Refusal(Trouble.NOT_FOUND, f"There is no room {room_id}.", field="room_id")
        return room

    def reload(self) -> bool:
        """Reads the file again if it has changed; whether it had. A bad one raises RoomsError and changes nothing."""
        if _stamp(self._path) == self._seen:
            return False
        self.reread()
        return True

    def reread(self) -> None:
        """Reads the file again, whether it has changed or not. Raises as `reload`."""
        self._seen = _stamp(self._path)
        self._rooms = {room.room_id: room for room in load(self._path)}

    async def follow(self, changed: Callable[[], None]) -> None:
        """Reads the file again whenever it changes, for ever; a bad one is logged and counted, and the rooms stay."""
        while True:
            await asyncio.sleep(_POLL_S)
            try:
                if self.reload():
                    RELOADS.labels("ok").inc()
                    log.info("rooms changed", extra={"rooms": len(self._rooms)})
                    changed()
            except RoomsError as error:
                RELOADS.labels("refused").inc()
                log.error("rooms file refused", extra={"why": str(error)})
            except Exception:  # a fault of this module must not end the watch
                RELOADS.labels("refused").inc()
                metrics.FAULTS.labels("rooms").inc()
                log.exception("unexpected exception")


def _stamp(path: Path) -> tuple[tuple[str, int, int], ...]:
    """What changes when a file of the folder does: an extended file and a rule book lie beside who names them."""
    found = []
    try:
        for file in path.parent.iterdir():
            if file.name.startswith("."):  # an editor's own
                continue
            with contextlib.suppress(FileNotFoundError):  # gone since
                state = file.stat()
                if stat.S_ISREG(state.st_mode):
                    found.append((file.name, state.st_mtime_ns, state.st_size))
    except OSError as error:
        raise RoomsError(f"{path}: cannot be read: {error}.") from None
    return tuple(sorted(found))


def book_of(terms: common_pb2.Terms) -> rulebook.RuleBook:
    """The rule book of the terms: a known one with the room's overrides, or one given whole.

    Raises doudizhu.Malformed that names the field.
    """
    return rulebook.book_of(terms.book, terms.book_fields_json)


def _extended(document: _Document, name: str, clocks: object) -> tuple[lobby_pb2.Room, ...]:
    if "rooms" in document.data:
        raise document.wrong(("rooms",), "cannot stand beside extends")
    base = document.path.parent / name
    if base == document.path or "extends" in _mapping(_Document(base).data):
        raise document.wrong(("extends",), "must name a file that extends none itself")
    rooms = load(base)
    over = common_pb2.Clocks()
    _fill(document, ("clocks",), clocks, over, "")
    _check_rules(document, ("clocks",), over, "")
    for room in rooms:
        for field in clocks if isinstance(clocks, Mapping) else ():
            setattr(room.terms.clocks, field, getattr(over, field))
    return rooms


def _room(document: _Document, path: Path_, entry: object, clocks: object) -> lobby_pb2.Room:
    if not isinstance(entry, dict):
        raise document.wrong(path, "must be a mapping")
    name = str(entry.get("room_id", f"number {path[-1]}"))
    entry = dict(entry)
    if isinstance(entry.get("seating"), str):
        entry["seating"] = f"SEATING_{str(entry['seating']).upper().removeprefix('SEATING_')}"
    if isinstance(entry.get("terms"), dict):
        entry["terms"] = _terms(document, (*path, "terms"), entry["terms"], clocks, name)
    room = lobby_pb2.Room()
    _fill(document, path, entry, room, name)
    room.terms.room_id = room.room_id
    room.terms.matched = room.seating == lobby_pb2.SEATING_MATCHED
    _check_rules(document, path, room, name)
    _check(document, (*path, "terms"), room)
    return room


def _terms(document: _Document, path: Path_, entry: Mapping[str, Any], clocks: object, room: str) -> dict[str, Any]:
    """The terms with the file's own short forms written out."""
    terms = dict(entry)
    for field in ("room_id", "matched"):
        if field in terms:
            raise document.wrong((*path, field), "follows from the room: leave it out", room)
    if "base_chips" in terms:
        if "base_min_chips" in terms or "base_max_chips" in terms:
            raise document.wrong((*path, "base_chips"), "cannot stand beside base_min_chips and base_max_chips", room)
        terms["base_min_chips"] = terms["base_max_chips"] = terms.pop("base_chips")
    if "book_fields" in terms:
        _check_plain(document, (*path, "book_fields"), terms["book_fields"], room)
    if "book_file" in terms:
        fields = _book_file(document, (*path, "book_file"), terms.pop("book_file"), room)
        terms = {"book": fields["id"], "book_fields": {**fields, **terms.pop("book_fields", {})}, **terms}
    if "book_fields" in terms:
        terms["book_fields_json"] = json.dumps(terms.pop("book_fields"), sort_keys=True)
    if isinstance(clocks, dict):
        own = terms.get("clocks", {})
        terms["clocks"] = {**clocks, **own} if isinstance(own, dict) else own
    return terms


def _book_file(document: _Document, path: Path_, name: object, room: str) -> dict[str, object]:
    """All fields of the operator's own rule book, from a YAML or JSON file beside the rooms file."""
    if not isinstance(name, str):
        raise document.wrong(path, "must be the name of a file", room)
    own = _Document(document.path.parent / name)
    _check_plain(own, (), own.data, room)
    try:
        return rulebook.dump(rulebook.load(own.data))
    except Refusal as refusal:
        what = refusal.message.removeprefix(f"{refusal.field} ")
        raise own.wrong((refusal.field,), what, room) from None


def _check_plain(document: _Document, path: Path_, fields: object, room: str) -> None:
    """Raises RoomsError for what JSON cannot say: YAML knows dates and sets, and keys that are no texts."""
    if not isinstance(fields, dict):
        raise document.wrong(path, "must be a mapping", room)
    for name, value in fields.items():
        here = (*path, str(name))
        if not isinstance(name, str):
            raise document.wrong(here, "is not the name of a field", room)
        if not all(one is None or isinstance(one, str | int | float) for one in _entries(value)):
            raise document.wrong(here, f"must be a text, a number, true, false, null or a list, not {value!r}", room)


def _entries(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _mapping(data: object) -> Mapping[object, object]:
    return data if isinstance(data, dict) else {}


def _fill(document: _Document, path: Path_, entry: object, message: Any, room: str) -> None:
    """Sets every field of `entry` in the message; raises RoomsError at the first that does not fit."""
    if not isinstance(entry, dict):
        raise document.wrong(path, "must be a mapping", room)
    descriptor: Descriptor = message.DESCRIPTOR
    for name, value in entry.items():
        here = (*path, str(name))
        field = descriptor.fields_by_name.get(str(name))
        if field is None:
            raise document.wrong(here, f"is not a field of {descriptor.name}", room)
        if field.message_type is not None:
            _fill(document, here, value, getattr(message, field.name), room)
            continue
        try:
            if isinstance(value, bool) != (field.type == FieldDescriptor.TYPE_BOOL):
                raise json_format.ParseError(f"not {value!r}")
            message.MergeFrom(json_format.ParseDict({field.name: value}, type(message)()))
        except (json_format.ParseError, ValueError):
            kind = _KINDS.get(field.type, "matched or by_choice")
            raise document.wrong(here, f"must be {kind}, not {value!r}", room) from None


def _check_rules(document: _Document, path: Path_, message: Message, room: str) -> None:
    """Raises RoomsError at the first field that is against the rules written in the proto."""
    try:
        protovalidate.validate(message, fail_fast=True)
    except protovalidate.ValidationError as error:
        violation = error.violations[0].proto
        field = tuple(element.field_name for element in violation.field.elements) if violation.field else ()
        raise document.wrong((*path, *field), violation.message, room) from None


def _check(document: _Document, path: Path_, room: lobby_pb2.Room) -> None:
    """What no single field can say: the bounds, the book, and that no settlement can overflow (RULES.md section 9)."""
    terms = room.terms
    if terms.base_min_chips > terms.base_max_chips:
        raise document.wrong((*path, "base_max_chips"), "must not be below base_min_chips", room.room_id)
    try:
        book = book_of(terms)
    except Refusal as refusal:
        known = terms.book in rulebook.BOOKS
        field = "book_fields" if known or terms.book_fields_json else "book"
        words = refusal.message if field == "book_fields" else f"{terms.book!r} is not a rule book's id"
        raise document.wrong((*path, field), f": {words}", room.room_id) from None
    if terms.book not in rulebook.BOOKS:
        terms.book_fields_json = json.dumps(rulebook.dump(book), sort_keys=True)
    if terms.maximum_chips and terms.maximum_chips < (least := least_chips(room)):
        words = f"must not be below {least}, which a player needs at the least base: nobody could sit down"
        raise document.wrong((*path, "maximum_chips"), words, room.room_id)
    if terms.base_min_chips != terms.base_max_chips and not book.negotiated_base:
        raise document.wrong((*path, "base_max_chips"), f"must be base_min_chips in {book.id}", room.room_id)
    if not rulebook.fits_int64(book, terms.base_max_chips, terms.initial_multiplier):
        words = "with initial_multiplier is so large that a settlement could overflow 64 bits"
        raise document.wrong((*path, "base_max_chips"), words, room.room_id)
