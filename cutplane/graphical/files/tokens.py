"""The words of a text file of a model, and errors that name the file and the line."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.text import PathOrFile, read_bytes
from cutplane.pieces.validation import Array

_MAX_ARITY = 64
"""Most variables of a factor, because numpy's arrays have no more axes."""
_CHUNK = 2**22
"""Bytes of text that are split into words at a time, because numpy needs some twenty bytes for each."""
_IS_SPACE = np.isin(np.arange(256, dtype=np.uint8), np.frombuffer(b" \t\n\r\v\f", dtype=np.uint8))
_LONE_SIGN = re.compile(rb"[-+](?![0-9])")
MAX_ENTRIES = 2**27
"""Most entries of all tables of a model, because they take 1 GB."""


class Tokens:
    """The words of a file, separated by white space, and the number of words read so far.

    Parameters
    ----------
    path_or_file : str, Path, or file object
        As in `read_bytes`.
    comments : bytes, optional
        A regular expression for the parts to skip.

    Attributes
    ----------
    n_words : int
    position : int
        Number of words read so far.
    """

    def __init__(self, path_or_file: PathOrFile, comments: bytes = b"") -> None:
        self.name, self._text = read_bytes(path_or_file)
        if comments:
            self._text = re.sub(comments, b"", self._text, flags=re.MULTILINE)
        self._text = self._text.replace(b"_", b"\xff")  # Python takes _ for a separator of digits
        self._starts = _starts_of_words(self._text)
        self.n_words = self._starts.size - 1
        self.position = 0

    @property
    def n_left(self) -> int:
        """Number of words not read yet."""
        return self.n_words - self.position

    def at(self, offset: int = 0) -> bytes:
        """Return the word that is `offset` words from here, without reading it."""
        place = self.position + offset
        return self._text[self._starts[place] : self._starts[place + 1]].rstrip()

    def word(self, what: str) -> str:
        """Read one word; an error says that `what` was expected."""
        self.expect(1, what)
        self.position += 1
        return _shown(self.at(-1))

    def choice(self, what: str, words: Sequence[str]) -> str:
        """Read one of some words."""
        word = self.word(what)
        if word not in words:
            self.fail(f"expected {what}, one of {', '.join(words)}, got {word!r}", -1)
        return word

    def next_is(self, word: str) -> bool:
        """Return whether the next word is this one."""
        return self.n_left > 0 and self.at() == word.encode()

    def ends_line(self) -> bool:
        """Return whether the last word read is the last one of its line."""
        return not self.n_left or self._line(0) != self._line(-1)

    def real(self, what: str, low: float = -math.inf) -> float:
        """Read a finite number of at least `low`."""
        self.expect(1, what)
        value = float(self.numbers(1, what)[0])
        if not low <= value < math.inf:
            self.fail(
                f"{what} is {value}, but must be finite"
                + (f" and at least {low:g}" if low > -math.inf else "")
            )
        self.position += 1
        return value

    def integer(self, what: str, low: float = 0, high: float = math.inf) -> int:
        """Read an integer of at least `low` and less than `high`."""
        self.expect(1, what)
        try:
            value = int(self.at())
        except ValueError:
            self.fail(f"expected {what}, an integer, got {_shown(self.at())!r}")
        if not low <= value < high:
            below = "" if high == math.inf else f" and less than {high}"
            self.fail(f"{what} is {value}, but must be at least {low}{below}")
        self.position += 1
        return value

    def integers(self, count: int, what: str) -> Array:
        """Read integers into an array of shape (count,)."""
        self.expect(count, what)
        values = self._parsed(count, int, f"{what}, integers of at most 64 bits")
        self.position += count
        return values

    def cardinalities(self, n_variables: int) -> Array:
        """Read the numbers of states of the variables."""
        values = self.integers(n_variables, "the numbers of states of the variables")
        for u in np.flatnonzero(values < 1).tolist():
            self.fail(f"variable {u} has {values[u]} states, but must have at least 1", u - n_variables)
        self.check_states(values.sum(dtype=np.float64))
        return values

    def check_states(self, total: float) -> None:
        """Fail if the total number of states is too large."""
        if total > MAX_ENTRIES:
            self.fail(f"the variables have {total:.3g} states, which is more than {MAX_ENTRIES}", -1)

    def scope(self, arity: int, n_variables: int) -> tuple[int, ...]:
        """Read the variables of a factor."""
        if arity > _MAX_ARITY:
            self.fail(
                f"a factor of {arity} variables is too large for a table; {_MAX_ARITY} are possible", -1
            )
        variables = tuple(self.integer("a variable", high=n_variables) for _ in range(arity))
        for i in range(1, arity):
            if variables[i] in variables[:i]:
                self.fail(f"the factor names the variable {variables[i]} twice", i - arity)
        return variables

    def scopes(self, count: int, n_variables: int) -> tuple[Array, Array]:
        """Read the variables of factors, each list after its length; return lengths and variables."""
        first, arities = self.position, []
        for _ in range(count):
            arities.append(min(self.integer("the arity of a factor"), _MAX_ARITY + 1))
            self.position += min(arities[-1], _MAX_ARITY)
        sizes = np.array(arities, dtype=np.int64)
        end, self.position = self.position, first
        if end <= self.n_words and sizes.max(initial=0) <= _MAX_ARITY:
            words = self.at_once(end - first, int)
            variables = None if words is None else np.delete(words, np.cumsum(1 + sizes) - 1 - sizes)
            if variables is not None and are_scopes(sizes, variables, n_variables):
                self.position = end
                return sizes, variables
        # Some word is wrong: the first one is found word by word.
        scopes = [self.scope(self.integer("the arity of a factor"), n_variables) for _ in range(count)]
        return sizes, np.array([u for scope in scopes for u in scope], dtype=np.int64)

    def numbers(self, count: int, what: str) -> Array:
        """Return the next `count` words as floats, without reading them; `what` names them in errors."""
        return self._parsed(min(count, self.n_left), float, what)

    def _parsed(self, count: int, kind: type[int] | type[float], what: str) -> Array:
        """Return the next `count` words as numbers."""
        values = self.at_once(count, kind)
        if values is not None:
            return values
        numbers = []
        for i in range(count):
            word = self.at(i)
            try:
                numbers.append(np.int64(int(word)) if kind is int else float(word))
            except (ValueError, OverflowError):
                self.fail(f"expected {what}, got {_shown(word)!r}", i)
        return np.array(numbers, dtype=kind)

    def at_once(self, count: int, kind: type[int] | type[float]) -> Array | None:
        """Return the next `count` words as numbers, read in one call of numpy; None if it may err.

        It reads "1-2" as two numbers, a lone sign as an integer, and an integer of more than 64 bits as the
        largest one.
        """
        begin, end = self._starts[[self.position, self.position + count]]
        if kind is int and _LONE_SIGN.search(self._text, begin, end):
            return None
        with warnings.catch_warnings():
            warnings.simplefilter(
                "error", DeprecationWarning
            )  # before numpy 2.3, of a word that is no number
            try:
                values = np.fromstring(self._text[begin:end], dtype=kind, sep=" ")
            except (ValueError, DeprecationWarning):
                return None
        is_small = kind is float or np.abs(values).max(initial=0) < 2**62
        return values if values.size == count and is_small else None

    def expect(self, count: int, what: str) -> None:
        """Raise `InvalidInputError` if fewer than `count` words remain."""
        if count > self.n_left:
            missing = f"{what} should follow" if count == 1 else f"{count} words should follow: {what}"
            self.position = self.n_words
            self.fail(f"the file ends too early; {missing}", -1)

    def finish(self, what: str) -> None:
        """Raise `InvalidInputError` if words remain; `what` names the last expected ones."""
        if self.n_left:
            self.fail(f"{_shown(self.at())!r} follows {what}, where the file should end")

    def fail(self, reason: str, offset: int = 0) -> NoReturn:
        """Raise `InvalidInputError` about the word that is `offset` words from here."""
        raise InvalidInputError(f"{self.place(offset)}: {reason}.")

    def place(self, offset: int = 0) -> str:
        """Return the file and the line of the word that is `offset` words from here."""
        return f"{self.name}, line {self._line(offset)}"

    def _line(self, offset: int) -> int:
        place = self.position + offset
        end = self._starts[min(place, self.n_words)] if place >= 0 else 0
        return self._text.count(b"\n", 0, end) + 1


def _starts_of_words(text: bytes) -> Array:
    """Return where each word begins, and the length of the text."""
    starts, was_space = [], True
    for begin in range(0, len(text), _CHUNK):
        is_space = _IS_SPACE[np.frombuffer(text, np.uint8, min(_CHUNK, len(text) - begin), begin)]
        starts.append(begin + np.flatnonzero(np.append(was_space, is_space[:-1]) & ~is_space))
        was_space = is_space[-1]
    return np.concatenate([*starts, [len(text)]])


def are_scopes(arities: Array, variables: Array, n_variables: int) -> bool:
    """Return whether lists of these lengths contain different variables each."""
    if not ((variables >= 0) & (variables < n_variables)).all():
        return False
    keys = np.sort(np.repeat(np.arange(arities.size), arities) * n_variables + variables)
    return bool((keys[1:] != keys[:-1]).all())


def _shown(word: bytes) -> str:
    text = word[:40].replace(b"\xff", b"_").decode(errors="replace")
    return text if len(word) <= 40 else text + "..."
