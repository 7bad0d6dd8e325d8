"""Linear programmes from MPS files; every line of a file is read or refused."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.text import read_text
from cutplane.pieces.validation import Array

T = TypeVar("T")

_FIELDS = (1, 3), (4, 12), (14, 22), (24, 36), (39, 47), (49, 61)
"""Columns of the fields of a line in the fixed format, in which names may contain blanks, because no
separator marks them."""
_INFINITE = 1e20
"""Absolute value from which a bound is infinite, because MPS files write inf as 1e20 or 1e30."""
_LARGEST = 1e15
"""Absolute value from which other numbers are refused, because HiGHS accepts no such coefficients."""
_SENSES = {"MIN": 1.0, "MINIMIZE": 1.0, "MINIMISE": 1.0, "MAX": -1.0, "MAXIMIZE": -1.0, "MAXIMISE": -1.0}
_INTEGER = "BV", "LI", "UI"
_SEMICONTINUOUS = "SC", "SI"
_BOUNDS = {"FR": (-math.inf, math.inf), "BV": (0.0, 1.0), "MI": (-math.inf, None), "PL": (None, math.inf)}
"""The lower and the upper bound for the bound types without a number."""


class MpsLine(NamedTuple):
    """The words of a line of a file; a line without indentation begins a section."""

    file: Lines
    number: int
    words: list[str]
    begins: bool

    def __str__(self) -> str:
        return " ".join(self.words)

    def fail(self, reason: str) -> NoReturn:
        """Raise `InvalidInputError` about this line."""
        self.file.fail(self.number, reason)

    def value(self, word: str, *, infinite: bool = False) -> float:
        """Convert a word of this line to a number."""
        try:
            value = float("nan" if "_" in word or not word.isascii() else word.upper().replace("D", "E"))
        except ValueError:
            value = math.nan
        if math.isnan(value) or (math.isinf(value) and not infinite):
            self.fail(f"{word!r} in '{self}' is no {'' if infinite else 'finite '}number")
        if abs(value) >= _LARGEST and not infinite:
            self.fail(f"{word} in '{self}' has an absolute value of {_LARGEST:g} or more; change the units")
        return value


class Lines:
    """The lines of a file in MPS format without comments; the last one must be ENDATA.

    Parameters
    ----------
    path : str or Path
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.name, text = read_text(path, errors="backslashreplace")
        self._lines = text.split("\n")
        self._failed = 0

    def parsed(self, parse: Callable[[Iterator[MpsLine]], T]) -> T:
        """Apply `parse` to the lines in the free format and, if this fails, in the fixed format."""
        try:
            return parse(self._of(str.split))
        except InvalidInputError as error:
            failed, first = self._failed, error
        data = [_fields(text) or [] for text in self._lines if text[:1].isspace() and text.strip()]
        blank = next((word for words in data for word in words if " " in word), None)
        if blank is None or not all(data):
            raise first
        try:
            answer = parse(self._of(_fields))
        except InvalidInputError as error:
            raise error if self._failed > failed else first from None
        warn(f"{self.name} is read in the fixed format, because a name, {blank!r}, contains a blank.")
        return answer

    def fail(self, number: int, reason: str) -> NoReturn:
        """Raise `InvalidInputError` about a line."""
        self._failed = number
        raise InvalidInputError(f"{self.name}, line {number}: {reason}.")

    def _of(self, split: Callable[[str], Any]) -> Iterator[MpsLine]:
        lines = [
            (number, text)
            for number, text in enumerate(self._lines, start=1)
            if text.strip() and not text.startswith("*")
        ]
        for place, (number, text) in enumerate(lines):
            begins = not text[0].isspace()
            words = text.split() if begins else split(text)
            if begins:
                words[0] = words[0].upper()
            if words == ["ENDATA"] and begins and place + 1 < len(lines):
                number, text = lines[place + 1]
                self.fail(number, f"{text.strip()[:40]!r} follows ENDATA, which must be the end")
            yield MpsLine(self, number, words, begins)
        if not lines or lines[-1][1].split() != ["ENDATA"]:
            self.fail(len(self._lines), "the file is cut off, because its last line must be ENDATA")


def _fields(text: str) -> list[str] | None:
    """Return the nonblank fields of a line in the fixed format; None if the line has another format."""
    between = [text[high:low] for (_, high), (low, _) in zip(((0, 0), *_FIELDS), _FIELDS, strict=False)]
    numbers = any(" " in text[low:high].strip() for low, high in (_FIELDS[3], _FIELDS[5]))
    if numbers or "\t" in text or any(part.strip() for part in [*between, text[_FIELDS[-1][1] :]]):
        return None
    return [word for low, high in _FIELDS if (word := text[low:high].strip())]


def warn(message: str) -> None:
    """Warn with the location of the reader's caller."""
    warnings.warn(message, UserWarning, stacklevel=4)


@dataclass
class LinearProgramme:
    """minimise sign * (<cost, x> + constant) over row_lower <= A x <= row_upper, lower <= x <= upper.

    Attributes
    ----------
    rows, columns : dict of str to int
    objective : str
        The name of the row of costs.
    sides : set of str
        The names of the right-hand side.
    sign : float
        1 for a minimisation, -1 for a maximisation.
    unused : list of str
        Further rows of type N, which are not constraints.
    """

    rows: dict[str, int]
    columns: dict[str, int]
    objective: str
    sides: set[str]
    sign: float
    constant: float
    A: Any
    row_lower: Array
    row_upper: Array
    cost: Array
    lower: Array
    upper: Array
    unused: list[str] = field(default_factory=list)


class MpsReader:
    """Reads the sections of an MPS file.

    Parameters
    ----------
    relax : bool
        Whether integer columns become continuous; otherwise they are refused.
    """

    def __init__(self, relax: bool):
        self.relax = relax
        self.sign: float | None = None
        self.kinds: dict[str, str] = {}  # types of rows: N, L, G, E
        self.columns: dict[str, int] = {}
        self.integer: dict[str, MpsLine] = {}
        self.within = False  # columns between the markers INTORG and INTEND
        self.last = ""  # the column of the last line
        self.entries: dict[tuple[str, str], float] = {}  # entries by row and column
        self.sides: dict[str, float] = {}
        self.ranges: dict[str, float] = {}
        self.bounds: dict[tuple[str, bool], float] = {}  # bounds by column, and whether it is the upper bound
        self.bounded: dict[str, MpsLine] = {}
        self.sets: dict[str, str] = {}  # names of the right-hand side, the ranges and the bounds

    def read(self, lines: Iterator[MpsLine]) -> LinearProgramme:
        """Return the programme."""
        readers = {
            "OBJSENSE": self._sense,
            "ROWS": self._row,
            "COLUMNS": self._column,
            "RHS": partial(self._numbers, "right-hand side", self.sides),
            "RANGES": partial(self._numbers, "range", self.ranges),
            "BOUNDS": self._bound,
        }
        done: list[str] = []
        for line in lines:
            name, *more = line.words
            if not line.begins:
                if not done or done[-1] == "NAME":
                    line.fail(f"'{line}' is in no section")
                readers[done[-1]](line)
                continue
            sections = ["NAME", *readers, "ENDATA"]
            if name not in sections:
                line.fail(
                    f"the section {name} is not supported, only {', '.join(sections)}; lines of data begin "
                    "with a blank"
                )
            if name in done:
                line.fail(f"there is a second section {name}")
            if name not in ("NAME", "OBJSENSE") and more:
                line.fail(f"{' '.join(more)!r} follows the name of the section {name}")
            before = {"NAME": "", "OBJSENSE": "", "ROWS": "", "COLUMNS": "ROWS"}.get(name, "COLUMNS")
            if before and before not in done:
                line.fail(f"there is no section {before} before {name}")
            done.append(name)
            if name == "OBJSENSE" and more:
                self._sense(line._replace(words=more))
            if name == "ENDATA":
                return self._programme(line, "OBJSENSE" in done)
        raise AssertionError("lines end with ENDATA")

    def _sense(self, line: MpsLine) -> None:
        if len(line.words) != 1 or line.words[0].upper() not in _SENSES:
            line.fail(f"OBJSENSE must be MIN or MAX, got '{line}'")
        if self.sign is not None:
            line.fail(f"a second OBJSENSE, '{line}', follows the first")
        self.sign = _SENSES[line.words[0].upper()]

    def _row(self, line: MpsLine) -> None:
        if len(line.words) != 2 or line.words[0].upper() not in ("N", "L", "G", "E"):
            line.fail(f"a row must be N, L, G or E and a name, got '{line}'")
        kind, name = line.words
        if name in self.kinds:
            line.fail(f"the row {name!r} is given twice")
        self.kinds[name] = kind.upper()

    def _column(self, line: MpsLine) -> None:
        name, *more = line.words
        if more[:1] == ["'MARKER'"]:
            begins = more[1:] == ["'INTORG'"]
            if begins == self.within or more[1:] not in (["'INTORG'"], ["'INTEND'"]):
                line.fail(f"the marker '{line}' is not supported, only INTORG and then INTEND")
            self.within = begins
            return
        if name != self.last and name in self.columns:
            line.fail(f"the lines of the column {name!r} must follow each other")
        if self.within:
            self._integer(line, name)
        self.last = name
        self.columns.setdefault(name, len(self.columns))
        for row, value in self._pairs(line, more):
            if (row, name) in self.entries:
                line.fail(f"the column {name!r} has the row {row!r} twice")
            self.entries[row, name] = value

    def _pairs(self, line: MpsLine, words: list[str]) -> Iterator[tuple[str, float]]:
        """Yield the one or two rows of a line with their numbers."""
        if len(words) not in (2, 4):
            line.fail(f"'{line}' must have one or two pairs of a row and a number")
        for row, word in zip(words[::2], words[1::2], strict=True):
            if row not in self.kinds:
                line.fail(f"there is no row {row!r}")
            yield row, line.value(word)

    def _unnamed(self, kind: str, line: MpsLine, words: list[str], named: bool) -> list[str]:
        """Remove the name of the set of right-hand sides, ranges or bounds from the words."""
        name = words[0] if named else ""
        if self.sets.setdefault(kind, name) != name:
            line.fail(f"there is a second {kind}, {name!r}; keep one of them")
        return words[1:] if named else words

    def _numbers(self, kind: str, numbers: dict[str, float], line: MpsLine) -> None:
        """Read right-hand sides or ranges of rows."""
        words = self._unnamed(kind, line, line.words, len(line.words) % 2 == 1)
        for row, value in self._pairs(line, words):
            if row in numbers:
                line.fail(f"the row {row!r} has two {kind}s")
            if kind == "range" and self.kinds[row] == "N":
                line.fail(f"the row {row!r} is of type N and cannot have a range")
            numbers[row] = value

    def _bound(self, line: MpsLine) -> None:
        kind, *words = line.words
        kind = kind.upper()
        if kind not in ("LO", "UP", "FX", *_BOUNDS, *_INTEGER, *_SEMICONTINUOUS):
            line.fail(f"the bound {kind!r} is not supported, only LO, UP, FX, FR, MI and PL")
        if kind in _BOUNDS and words:
            if len(words) == 3 or (len(words) == 2 and words[1] not in self.columns):
                line.value(words.pop(), infinite=True)  # a number that these bound types do not use
            words = [*words, "0"]
        if len(words) not in (2, 3):
            line.fail(f"the bound '{line}' must be a type, a name, a column and a number")
        column, word = self._unnamed("set of bounds", line, words, len(words) == 3)
        if column not in self.columns:
            line.fail(f"there is no column {column!r}")
        if kind in _SEMICONTINUOUS:
            line.fail(f"the column {column!r} is semi-continuous, which is not convex")
        if kind in _INTEGER:
            self._integer(line, column)
        value = line.value(word, infinite=kind not in ("FX", *_INTEGER))
        value = math.copysign(math.inf, value) if abs(value) >= _INFINITE else value
        numbered = (None if kind in ("UP", "UI") else value, None if kind in ("LO", "LI") else value)
        for is_upper, bound in zip((False, True), _BOUNDS.get(kind, numbered), strict=True):
            if bound is None:
                continue
            if bound == (-math.inf if is_upper else math.inf):
                line.fail(f"the bound '{line}' excludes every number")
            if (column, is_upper) in self.bounds:
                line.fail(f"the column {column!r} has two {'upper' if is_upper else 'lower'} bounds")
            self.bounds[column, is_upper] = bound
        self.bounded[column] = line

    def _integer(self, line: MpsLine, column: str) -> None:
        self.integer.setdefault(column, line)
        if not self.relax:
            line.fail(
                f"the column {column!r} is integer, but only continuous columns are supported; pass "
                "relax=True to make columns continuous"
            )

    def _programme(self, end: MpsLine, sensed: bool) -> LinearProgramme:
        if sensed and self.sign is None:
            end.fail("the section OBJSENSE says neither MIN nor MAX")
        if self.within:
            end.fail("the marker INTORG has no INTEND")
        free = [name for name, kind in self.kinds.items() if kind == "N"]
        if not free:
            end.fail("there is no row of type N, the objective")
        lower, upper = self._column_bounds()
        rows = {name: i for i, name in enumerate(name for name, kind in self.kinds.items() if kind != "N")}
        shape = len(rows), len(self.columns)
        cost, places, values = np.zeros(shape[1]), [], []
        for (row, column), value in self.entries.items():
            if row in rows:
                places.append((rows[row], self.columns[column]))
                values.append(value)
            elif row == free[0]:
                cost[self.columns[column]] = value
        low, high = np.full(shape[0], -np.inf), np.full(shape[0], np.inf)
        for row, i in rows.items():
            kind, side, width = self.kinds[row], self.sides.get(row, 0.0), self.ranges.get(row)
            if kind in "GE":
                low[i] = side
            if kind in "LE":
                high[i] = side
            if width is not None and (kind == "G" or (kind == "E" and width > 0.0)):
                high[i] = side + abs(width)
            elif width is not None:
                low[i] = side - abs(width)
        where = np.array(places, dtype=np.int64).reshape(-1, 2).T
        return LinearProgramme(
            rows=rows,
            columns=self.columns,
            objective=free[0],
            sides={self.sets.get("right-hand side", ""), "RHS"} - {""} - set(self.columns),
            sign=1.0 if self.sign is None else self.sign,
            constant=0.0 - self.sides.get(free[0], 0.0),
            A=sparse.csr_array((np.array(values, dtype=np.float64), tuple(where)), shape=shape),
            row_lower=low,
            row_upper=high,
            cost=cost,
            lower=lower,
            upper=upper,
            unused=free[1:],
        )

    def _column_bounds(self) -> tuple[Array, Array]:
        lower, upper = np.zeros(len(self.columns)), np.full(len(self.columns), np.inf)
        for (column, is_upper), value in self.bounds.items():
            (upper if is_upper else lower)[self.columns[column]] = value
        for column, j in self.columns.items():
            if column in self.integer and column not in self.bounded:
                self.integer[column].fail(
                    f"the integer column {column!r} has no bounds; add an upper bound, because some readers "
                    "assume 1 and others inf"
                )
            if upper[j] < 0.0 and (column, False) not in self.bounds:
                self.bounded[column].fail(
                    f"the column {column!r} has the upper bound {upper[j]:g} and no lower bound; add one, "
                    "because some readers assume 0 and others -inf"
                )
            if lower[j] > upper[j]:
                self.bounded[column].fail(
                    f"the lower bound {lower[j]:g} of {column!r} is above the upper bound {upper[j]:g}"
                )
        return lower, upper
