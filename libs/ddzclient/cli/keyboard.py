"""Lines from a person: an editor for what is being typed, and the reading of keys without blocking the event loop."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import io
import os
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from typing import Final

_ENTER: Final = "\r\n"
_RUB_OUT: Final = "\x7f\x08"
_CLEAR: Final = "\x15"  # Ctrl-U
_END: Final = "\x04"  # Ctrl-D
_ESCAPE: Final = "\x1b"
LONGEST: Final = 200  # signs of a line; the rest is dropped


class Editor:
    """One line at a time out of what keys send; arrows and other keys that send sequences are ignored."""

    def __init__(self) -> None:
        self.text = ""
        self.ended = False
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._escape = ""
        self._after_return = False

    def feed(self, data: bytes) -> list[str]:
        """The lines that these bytes finish; sets `ended` at the end of the input. Empty bytes are that end."""
        if not data:
            self.ended = True
            return []
        lines = []
        for sign in self._decoder.decode(data):
            newline_of_return = sign == "\n" and self._after_return
            self._after_return = sign == "\r"
            if self._escape:
                self._skip(sign)
            elif sign in _ENTER:
                if not newline_of_return:
                    lines.append(self.text)
                self.text = ""
            else:
                self._edit(sign)
        return lines

    def _edit(self, sign: str) -> None:
        if sign == _ESCAPE:
            self._escape = sign
        elif sign in _RUB_OUT:
            self.text = self.text[:-1]
        elif sign == _CLEAR:
            self.text = ""
        elif sign == _END:
            self.ended = self.ended or not self.text
        elif (sign.isprintable() or sign == "\t") and len(self.text) < LONGEST:
            self.text += sign

    def _skip(self, sign: str) -> None:
        """ESC [ … letter, ESC O letter, or ESC and one sign."""
        if self._escape == _ESCAPE and sign in "[O":
            self._escape += sign
        elif not (len(self._escape) > 1 and "\x20" <= sign <= "\x3f"):
            self._escape = ""


@contextlib.contextmanager
def raw(stream: int) -> Iterator[None]:
    """Keys come at once and are not echoed; Ctrl-C still interrupts. The terminal is as before at the end."""
    before = termios.tcgetattr(stream)
    try:
        tty.setcbreak(stream)
        yield
    finally:
        termios.tcsetattr(stream, termios.TCSADRAIN, before)


def start_reading(stream: int, keys: asyncio.Queue[bytes]) -> None:
    """Puts what comes into the queue, empty bytes at the end. A thread, as files cannot be polled; it ends with us."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        while True:
            try:
                data = os.read(stream, 4096)
            except OSError:
                data = b""
            with contextlib.suppress(RuntimeError):  # the loop has ended first
                loop.call_soon_threadsafe(keys.put_nowait, data)
            if not data:
                return

    threading.Thread(target=read, name="keyboard", daemon=True).start()


def standard_input() -> int | None:
    """Its descriptor; None when who started us has closed it, or put something in its place that has none."""
    try:
        return None if sys.stdin is None else sys.stdin.fileno()
    except io.UnsupportedOperation:
        return None
