"""JSON read a row at a time, so that a file needs the memory of its longest row and not its own size."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import IO

from gapo.pairs.table import LONGEST_ROW, ROW_IN_WORDS

FIRST_READ = 2**16  # characters; doubled until a row is whole, so that no row is parsed often
NEAR_THE_END = 12  # characters: the longest escape, \ud83d\ude00, may be cut anywhere
_SPACE = re.compile(r"[ \t\n\r]*")


class NotJson(ValueError):
    """The text is no JSON; the message says what is wrong and at which line and column."""


class RowTooLong(NotJson):
    """One value is longer than a row may be."""


def _once(members: list[tuple[str, object]]) -> dict[str, object]:
    """An object; a key that is there twice has two meanings, and nobody can say which was meant."""
    found = dict(members)
    if len(found) < len(members):
        names = [name for name, _ in members]
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise NotJson(f"key {twice[:40]!r} is there twice")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


def parsed(text: str) -> object:
    """The value of a whole text; raises NotJson."""
    return _decoded(text, 0, whole=True)[0]


def _decoded(text: str, place: int, *, whole: bool = False) -> tuple[object, int]:
    """The value that begins at this place, and where it ends. A cut-off one raises json.JSONDecodeError."""
    try:
        return (_DECODER.decode(text), len(text)) if whole else _DECODER.raw_decode(text, place)
    except json.JSONDecodeError as error:
        if whole:
            raise NotJson(f"{error.msg.lower()} at column {error.colno}") from None
        raise
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except NotJson:
        raise
    except ValueError:  # Python refuses numbers of more than 4,300 digits: reading them takes the square of the time
        raise NotJson("a number has thousands of digits") from None


class JsonStream:
    """Values of a text, one after the other. What was read is forgotten as soon as it was given out."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._text, self._place = "", 0
        self._line, self._column = 1, 1  # of the first character of `_text`
        self._ended = False

    def peek(self) -> str:
        """The next character that is no space; "" at the end."""
        while True:
            match = _SPACE.match(self._text, self._place)
            assert match is not None  # it matches nothing at all, too
            self._place = match.end()
            if self._place < len(self._text) or not self._more(FIRST_READ):
                return self._text[self._place : self._place + 1]

    def take(self, *wanted: str) -> str:
        """The next character, which must be one of these."""
        found = self.peek()
        if found not in wanted or not found:
            raise self._wrong(f"expecting {' or '.join(map(repr, wanted))}", self._place)
        self._place += 1
        return found

    def value(self) -> object:
        """The next value, no longer than a row may be."""
        self.peek()
        size = FIRST_READ
        while True:
            try:
                found, end = _decoded(self._text, self._place)
                if end < len(self._text) or not self._more(size):  # a number may go on
                    self._place = end
                    return found
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - NEAR_THE_END
                if cut and len(self._text) - self._place > LONGEST_ROW:
                    raise RowTooLong(f"one row has more than {ROW_IN_WORDS}") from None
                before = self._place
                if not cut or not self._more(size):
                    raise self._wrong(error.msg.lower(), error.pos - before + self._place) from None
            except NotJson as error:
                raise self._wrong(str(error), self._place) from None
            size = min(
                2 * size, max(1, LONGEST_ROW + 1 - (len(self._text) - self._place))
            )  # never more than is allowed

    def rows(self) -> Iterator[object]:
        """The values of a list, which begins here."""
        self.take("[")
        if self.peek() == "]":
            self.take("]")
            return
        while True:
            yield self.value()
            if self.take(",", "]") == "]":
                return

    def members(self) -> Iterator[str]:
        """The keys of an object, which begins here; whoever asks takes each value before the next key."""
        self.take("{")
        if self.peek() == "}":
            self.take("}")
            return
        while True:
            key = self.value() if self.peek() == '"' else None
            if not isinstance(key, str):
                raise self._wrong("expecting a key in double quotes", self._place)
            self.take(":")
            yield key
            if self.take(",", "}") == "}":
                return

    def end(self) -> None:
        """Nothing may follow."""
        if self.peek():
            raise self._wrong("something follows the end", self._place)

    def _more(self, size: int) -> bool:
        """Forget what was taken and read on; False at the end of the file."""
        if self._ended:
            return False
        gone = self._text[: self._place]
        self._line, self._column = self._at(len(gone))
        fresh = self._file.read(size)
        self._text, self._place = self._text[self._place :] + fresh, 0
        self._ended = not fresh
        return bool(fresh)

    def _at(self, place: int) -> tuple[int, int]:
        lines = self._text.count("\n", 0, place)
        if not lines:
            return self._line, self._column + place
        return self._line + lines, place - self._text.rindex("\n", 0, place)

    def _wrong(self, what: str, place: int) -> NotJson:
        line, column = self._at(place)
        return NotJson(f"{what} at line {line} column {column}")
