"""Plots as PNG with the standard library alone: lines and bars with axes, labelled in a 3 x 5 font."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

Colour = tuple[int, int, int]
Points = Sequence[tuple[float, float]]

INK: Final[Colour] = (40, 40, 40)
GRID: Final[Colour] = (225, 225, 225)
COLOURS: Final[tuple[Colour, ...]] = ((31, 119, 180), (214, 39, 40), (44, 160, 44), (148, 103, 189))

# Five rows of three bits for each character, one octal digit a row.
_LETTERS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ .,-/:%()=+"
_GLYPHS: Final = (
    "75557 26227 71747 71717 55711 74717 74757 71111 75757 75717 25755 65656 74447 65556 74647 74644 74557 55755 72227 "
    "11157 55655 44447 57755 75555 25552 65644 25573 65655 34216 72222 55557 55552 55775 55255 55222 71247 00000 00002 "
    "00024 00700 11244 02020 51245 24442 21112 07070 02720"
)
_FONT: Final = dict(zip(_LETTERS, _GLYPHS.split(), strict=True))
_SCALE: Final = 2


class Picture:
    """A white canvas of pixels, from the top left."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._rows = [bytearray(b"\xff" * 3 * width) for _ in range(height)]

    def fill(self, x: int, y: int, width: int, height: int, colour: Colour) -> None:
        """A rectangle, as far as it lies on the canvas."""
        left, right = max(x, 0), min(x + width, self.width)
        for row in self._rows[max(y, 0) : max(y + height, 0)]:
            row[3 * left : 3 * right] = bytes(colour) * max(right - left, 0)

    def line(self, x0: float, y0: float, x1: float, y1: float, colour: Colour) -> None:
        """A line two pixels wide."""
        steps = max(int(max(abs(x1 - x0), abs(y1 - y0))), 1)
        for step in range(steps + 1):
            self.fill(round(x0 + (x1 - x0) * step / steps), round(y0 + (y1 - y0) * step / steps), 2, 2, colour)

    def text(self, x: int, y: int, text: str, colour: Colour = INK) -> None:
        """Capitals, digits and a few signs."""
        for index, character in enumerate(text.upper()):
            for row, bits in enumerate(_FONT[character]):
                for column in range(3):
                    if int(bits) & 4 >> column:
                        self.fill(x + (4 * index + column) * _SCALE, y + row * _SCALE, _SCALE, _SCALE, colour)

    def save(self, path: Path) -> None:
        """Writes the PNG; makes the folder."""
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        pixels = zlib.compress(b"".join(b"\x00" + bytes(row) for row in self._rows))
        path.parent.mkdir(parents=True, exist_ok=True)
        chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", pixels), _chunk(b"IEND", b""))
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def text_width(text: str) -> int:
    """How many pixels a text takes."""
    return 4 * _SCALE * len(text)


@dataclass(frozen=True)
class Axis:
    """From `least` to `greatest` with marks at `ticks`; `place` maps a value into 0..1 (linear when None)."""

    least: float
    greatest: float
    ticks: Sequence[float]
    name: str
    place: Callable[[float], float] | None = None

    def at(self, value: float) -> float:
        place = self.place or float
        low, high = place(self.least), place(self.greatest)
        return (place(value) - low) / (high - low)


class Panel:
    """A rectangle of a picture with a title and two axes, in which lines and bars are drawn."""

    def __init__(self, picture: Picture, box: tuple[int, int, int, int], title: str, x: Axis, y: Axis) -> None:
        self._picture, self._x, self._y = picture, x, y
        left, top, width, height = box
        self._left, self._top, self._width, self._height = left + 60, top + 30, width - 80, height - 70
        self._legend = 0
        picture.text(self._left, top + 8, title)
        for tick in y.ticks:
            row = self._row(tick)
            picture.fill(self._left, row, self._width, 1, GRID)
            label = _number(tick)
            picture.text(self._left - text_width(label) - 4, row - 5, label)
        for tick in x.ticks:
            label = _number(tick)
            picture.text(self._column(tick) - text_width(label) // 2, self._top + self._height + 8, label)
        picture.text(self._left + self._width // 2 - text_width(x.name) // 2, self._top + self._height + 24, x.name)
        picture.text(left + 4, top + 8, y.name)
        picture.fill(self._left, self._top, 1, self._height, INK)
        picture.fill(self._left, self._top + self._height, self._width, 1, INK)

    def lines(self, points: Points, colour: Colour, name: str = "") -> None:
        """Joins the points."""
        at = [(self._column(x), self._row(y)) for x, y in points]
        for (x0, y0), (x1, y1) in itertools.pairwise(at):
            self._picture.line(x0, y0, x1, y1, colour)
        self._name(name, colour)

    def bars(self, points: Points, colour: Colour, name: str = "") -> None:
        """A bar from 0 for each point."""
        width = max(self._width // max(len(points), 1) - 1, 1)
        for x, y in points:
            row = self._row(y)
            self._picture.fill(self._column(x) - width // 2, row, width, self._top + self._height - row, colour)
        self._name(name, colour)

    def _name(self, name: str, colour: Colour) -> None:
        if name:
            self._picture.text(self._left + self._width - text_width(name), self._top + 14 * self._legend, name, colour)
            self._legend += 1

    def _column(self, value: float) -> int:
        return self._left + round(self._x.at(value) * self._width)

    def _row(self, value: float) -> int:
        return self._top + self._height - round(self._y.at(value) * self._height)


def _number(value: float) -> str:
    return f"{value / 1000:g}K" if abs(value) >= 1000 else f"{value:g}"
