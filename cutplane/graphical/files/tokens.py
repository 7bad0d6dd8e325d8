"""The words of a text file of a model, and errors that name the file and the line."""

from __future__ import annotations

import math
import re
import warnings
from typing import NoReturn

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.text import PathOrFile, read_bytes
from cutplane.pieces.validation import Array

MAX_ARITY = 64
"""Most variables of a table, because numpy's arrays have no more axes."""
MAX_ENTRIES = 2**27
"""Most entries of all tables of a model, because they take 1 GB."""
_CHUNK = 2**22
"""Bytes of text that are split into words at a time, because numpy needs some twenty bytes for each."""
_LONE_SIGN = re.compile(rb"[-+](?![0-9])")
_LINE_END = ord("\n")
_SPACES = b" \t\n\r\v\f"
_WORD, _SPACE, _BRACKET, _QUOTE = range(4)


class Words:
    """The words of a file, numbered from 0, and errors about them.

    Parameters
    ----------
    path_or_file : str, Path, or file object
        As in `read_bytes`.
    comments : bytes, optional
        A regular expression for the parts to skip.
    nested : bool, default False
        Whether the file is similar to JSON: each bracket is a word, commas and colons are spaces, and a pair
        of quotation marks encloses a word.
    """

    def __init__(self, path_or_file: PathOrFile, comments: bytes = b"", nested: bool = False) -> None:
        self.name, self._text = read_bytes(path_or_file)
        if comments:
            self._text = re.sub(comments, b"", self._text, flags=re.MULTILINE)
        self._text = self._text.replace(b"_", b"\xff")  # Python takes _ for a separator of digits
        self._spaces = _SPACES + b",:" if nested else _SPACES
        self._starts = self._find_words(nested)
        self.n_words = self._starts.size - 1

    def _find_words(self, nested: bool) -> Array:
        """Return where each word begins, and the length of the text."""
        kinds = np.full(256, _WORD, dtype=np.uint8)
        kinds[list(self._spaces)] = _SPACE
        if nested:
            kinds[list(b"{}[]")], kinds[list(b'"')] = _BRACKET, _QUOTE
        starts, last, is_open = [], _SPACE, False
        for begin in range(0, len(self._text), _CHUNK):
            text = np.frombuffer(self._text[begin : begin + _CHUNK], dtype=np.uint8)
            found = kinds[text]
            if nested:
                quotes = found == _QUOTE
                quoted = np.logical_xor.accumulate(np.append(is_open, quotes))[1:]
                is_open = bool(quoted[-1])
                ends = text == _LINE_END
                ends[-1] |= begin + text.size == len(self._text)
                for place in np.flatnonzero(quoted & ends).tolist():
                    line = self._text.count(b"\n", 0, begin + place) + 1
                    raise InvalidInputError(f"{self.name}, line {line}: a quotation mark is not closed.")
                found[quoted | quotes] = _SPACE
                found[quoted & quotes] = _BRACKET
            before = np.append(np.uint8(last), found[:-1])
            is_start = (found == _BRACKET) | ((found == _WORD) & (before != _WORD))
            starts.append(begin + np.flatnonzero(is_start))
            last = found[-1]
        return np.concatenate([*starts, [len(self._text)]])

    def at(self, number: int) -> bytes:
        """Return a word."""
        return self._text[self._starts[number] : self._starts[number + 1]].rstrip(self._spaces)

    def fail(self, reason: str, number: int) -> NoReturn:
        """Raise `InvalidInputError` about a word."""
        raise InvalidInputError(f"{self.place(number)}: {reason}.")

    def place(self, number: int) -> str:
        """Return the file and the line of a word."""
        return f"{self.name}, line {self.line(number)}"

    def line(self, number: int) -> int:
        """Return the line of a word."""
        end = self._starts[min(number, self.n_words)] if number >= 0 else 0
        return self._text.count(b"\n", 0, end) + 1

    def check_states(self, total: float, number: int) -> None:
        """Fail if the total number of states is too large."""
        if total > MAX_ENTRIES:
            self.fail(f"the variables have {total:.3g} states, which is more than {MAX_ENTRIES}", number)

    def check_scopes(self, arities: Array, variables: Array, places: Array, n_variables: int) -> None:
        """Fail if a variable does not exist, or is twice in one of the lists of these lengths."""
        for i in np.flatnonzero((variables < 0) | (variables >= n_variables))[:1].tolist():
            reason = f"a variable is {variables[i]}, but must be at least 0 and less than {n_variables}"
            self.fail(reason, int(places[i]))
        keys = np.repeat(np.arange(arities.size) * n_variables, arities) + variables
        ordered = np.sort(keys)
        for key in ordered[1:][ordered[1:] == ordered[:-1]][:1]:
            i = np.flatnonzero(keys == key)[1]
            self.fail(f"the function names the variable {variables[i]} twice", int(places[i]))


class Tokens(Words):
    """Reads the words of a file one after the other; `position` is the number of words read so far."""

    def __init__(self, path_or_file: PathOrFile, comments: bytes = b"") -> None:
        super().__init__(path_or_file, comments)
        self.position = 0

    @property
    def n_left(self) -> int:
        """Number of words not read yet."""
        return self.n_words - self.position

    def word(self, what: str) -> str:
        """Read one word; an error says that `what` was expected."""
        self.expect(1, what)
        self.position += 1
        return shown(self.at(self.position - 1))

    def next_is(self, word: str) -> bool:
        """Return whether the next word is this one."""
        return self.n_left > 0 and self.at(self.position) == word.encode()

    def ends_line(self) -> bool:
        """Return whether the last word read is the last one of its line."""
        return not self.n_left or self.line(self.position) != self.line(self.position - 1)

    def real(self, what: str, low: float = -math.inf) -> float:
        """Read a finite number of at least `low`."""
        self.expect(1, what)
        value = float(self.numbers(1, what)[0])
        if not math.isfinite(value) or value < low:
            least = f" and at least {low:g}" if low > -math.inf else ""
            self.fail(f"{what} is {value}, but must be finite{least}", self.position)
        self.position += 1
        return value

    def integer(self, what: str, low: float = 0, high: float = math.inf) -> int:
        """Read an integer of at least `low` and less than `high`."""
        self.expect(1, what)
        word = self.at(self.position)
        try:
            value = int(word)
        except ValueError:
            self.fail(f"expected {what}, an integer, got {shown(word)!r}", self.position)
        if not low <= value < high:
            below = "" if high == math.inf else f" and less than {high}"
            self.fail(f"{what} is {value}, but must be at least {low}{below}", self.position)
        self.position += 1
        return value

    def cardinalities(self, n_variables: int) -> Array:
        """Read the numbers of states of the variables."""
        values = self.integers(n_variables, "the numbers of states of the variables")
        for u in np.flatnonzero(values < 1).tolist():
            place = self.position - n_variables + u
            self.fail(f"variable {u} has {values[u]} states, but must have at least 1", place)
        self.check_states(values.sum(dtype=np.float64), self.position - 1)
        return values

    def scope(self, arity: int, n_variables: int) -> Array:
        """Read the variables of a factor."""
        places = self.position + np.arange(min(arity, self.n_left))
        variables = self.integers(arity, "the variables of a factor")
        self.check_scopes(np.array([arity]), variables, places, n_variables)
        return variables

    def integers(self, count: int, what: str) -> Array:
        """Read integers into an array of shape (count,)."""
        self.expect(count, what)
        values = self._parsed(count, np.int64, what)
        self.position += count
        return values

    def numbers(self, count: int, what: str) -> Array:
        """Return the next `count` words as floats, without reading them; `what` names them in errors."""
        return self._parsed(min(count, self.n_left), np.float64, what)

    def _parsed(self, count: int, kind: type[np.int64] | type[np.float64], what: str) -> Array:
        """Return the next `count` words as numbers, without reading them.

        One call of numpy reads all, unless it may err: it reads "1-2" as two numbers, a lone sign as an
        integer, and an integer of more than 64 bits as the largest one.
        """
        begin, end = self._starts[[self.position, self.position + count]]
        if kind is np.float64 or not _LONE_SIGN.search(self._text, begin, end):
            with warnings.catch_warnings():
                # Before numpy 2.3, a word that is no number is only deprecated.
                warnings.simplefilter("error", DeprecationWarning)
                try:
                    values = np.fromstring(self._text[begin:end], dtype=kind, sep=" ")
                except (ValueError, DeprecationWarning):
                    values = np.empty(0)
            if values.size == count and (kind is np.float64 or np.abs(values).max(initial=0) < 2**62):
                return values
        values = np.zeros(count, dtype=kind)
        for i in range(count):
            word = self.at(self.position + i)
            try:
                values[i] = np.int64(int(word)) if kind is np.int64 else float(word)
            except (ValueError, OverflowError):
                integer = ", an integer of at most 64 bits" if kind is np.int64 else ""
                self.fail(f"expected {what}{integer}, got {shown(word)!r}", self.position + i)
        return values

    def expect(self, count: int, what: str) -> None:
        """Raise `InvalidInputError` if fewer than `count` words remain."""
        if count > self.n_left:
            missing = f"{what} should follow" if count == 1 else f"{count} words should follow: {what}"
            self.fail(f"the file ends too early; {missing}", self.n_words - 1)

    def skip(self, count: int, what: str) -> None:
        """Read some words without returning them."""
        self.expect(count, what)
        self.position += count

    def finish(self, what: str) -> None:
        """Raise `InvalidInputError` if words remain; `what` names the last expected ones."""
        if self.n_left:
            word = shown(self.at(self.position))
            self.fail(f"{word!r} follows {what}, where the file should end", self.position)

    def fail(self, reason: str, number: int | None = None) -> NoReturn:
        super().fail(reason, self.position - 1 if number is None else number)


def shown(word: bytes) -> str:
    """Return a word, shortened, for an error."""
    text = word[:40].replace(b"\xff", b"_").decode(errors="replace")
    return text if len(word) <= 40 else text + "..."
