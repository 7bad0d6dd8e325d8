"""The words of a text file of a model, and errors that name the file and the line."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.text import PathOrFile, read_bytes
from cutplane.pieces.validation import Array

_MAX_ARITY = 64
"""Most variables of a factor, because numpy's arrays have no more axes."""
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
    words : list of bytes
    position : int
        Number of words read so far.
    """

    def __init__(self, path_or_file: PathOrFile, comments: bytes = b"") -> None:
        self.name, self._text = read_bytes(path_or_file)
        if comments:
            self._text = re.sub(comments, b"", self._text, flags=re.MULTILINE)
        self.words = self._text.replace(b"_", b"\xff").split()  # Python takes _ for a separator of digits
        self.position = 0

    @property
    def n_left(self) -> int:
        """Number of words not read yet."""
        return len(self.words) - self.position

    def word(self, what: str) -> str:
        """Read one word; an error says that `what` was expected."""
        self.expect(1, what)
        self.position += 1
        return _shown(self.words[self.position - 1])

    def choice(self, what: str, words: Sequence[str]) -> str:
        """Read one of some words."""
        word = self.word(what)
        if word not in words:
            self.fail(f"expected {what}, one of {', '.join(words)}, got {word!r}", -1)
        return word

    def next_is(self, word: str) -> bool:
        """Return whether the next word is this one."""
        return self.n_left > 0 and self.words[self.position] == word.encode()

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
            value = int(self.words[self.position])
        except ValueError:
            self.fail(f"expected {what}, an integer, got {_shown(self.words[self.position])!r}")
        if not low <= value < high:
            below = "" if high == math.inf else f" and less than {high}"
            self.fail(f"{what} is {value}, but must be at least {low}{below}")
        self.position += 1
        return value

    def integers(self, count: int, what: str) -> Array:
        """Read integers into an array of shape (count,)."""
        self.expect(count, what)
        words = self.words[self.position : self.position + count]
        try:
            values = np.array(list(map(int, words)), dtype=np.int64)
        except (ValueError, OverflowError):
            self.position += next(i for i, word in enumerate(words) if not _is_int64(word))
            wrong = _shown(self.words[self.position])
            self.fail(f"expected {what}, integers of at most 64 bits, got {wrong!r}")
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

    def numbers(self, count: int, what: str) -> Array:
        """Return the next `count` words as floats, without reading them; `what` names them in errors."""
        words = self.words[self.position : self.position + count]
        try:
            return np.array(list(map(float, words)))
        except ValueError:
            wrong = next(i for i, word in enumerate(words) if not _is_number(word))
            self.fail(f"expected {what}, got {_shown(words[wrong])!r}", wrong)

    def expect(self, count: int, what: str) -> None:
        """Raise `InvalidInputError` if fewer than `count` words remain."""
        if count > self.n_left:
            missing = f"{what} should follow" if count == 1 else f"{count} words should follow: {what}"
            self.position = len(self.words)
            self.fail(f"the file ends too early; {missing}", -1)

    def finish(self, what: str) -> None:
        """Raise `InvalidInputError` if words remain; `what` names the last expected ones."""
        if self.n_left:
            self.fail(f"{_shown(self.words[self.position])!r} follows {what}, where the file should end")

    def fail(self, reason: str, offset: int = 0) -> NoReturn:
        """Raise `InvalidInputError` about the word that is `offset` words from here."""
        raise InvalidInputError(f"{self.place(offset)}: {reason}.")

    def place(self, offset: int = 0) -> str:
        """Return the file and the line of the word that is `offset` words from here."""
        return f"{self.name}, line {self._line(offset)}"

    def _line(self, offset: int) -> int:
        read = np.cumsum([len(line.split()) for line in self._text.split(b"\n")])
        return min(int(np.searchsorted(read, self.position + offset, side="right")) + 1, read.size)


def _is_int64(word: bytes) -> bool:
    try:
        return -(2**63) <= int(word) < 2**63
    except ValueError:
        return False


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _shown(word: bytes) -> str:
    text = word[:40].replace(b"\xff", b"_").decode(errors="replace")
    return text if len(word) <= 40 else text + "..."
