"""Readers of files of labelled examples: columns of the CoNLL tasks, and ARFF files with several labels."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import NoReturn

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.text import PathOrFile, read_text
from cutplane.pieces.validation import Array, as_count

_ATTRIBUTE = re.compile(
    r"""@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s'"{}]+)\s*"""
    r"""(\s(numeric|real|integer)|\{(?P<values>[^{}]*)\})""",
    re.IGNORECASE,
)


def read_conll(
    file: PathOrFile, sep: str | None = None, comment: str = "-DOCSTART-"
) -> list[list[tuple[str, ...]]]:
    """Read sentences in CoNLL format: a token per line, in columns, and an empty line after each sentence.

    Parameters
    ----------
    file : str, Path, or file object
        May be compressed by gzip.
    sep : str, optional
        Separator of columns; by default any white space.
    comment : str, default "-DOCSTART-"
        The start of lines that are comments; "#" for CoNLL-U, "" if there are none.

    Returns
    -------
    list of list of tuple of str
        The columns of each token of each sentence.

    Raises
    ------
    InvalidInputError
        If lines have different numbers of columns, or there is no token; the message names the line.

    Examples
    --------
    >>> import io
    >>> from cutplane.datasets import read_conll
    >>> text = "He PRP B-NP" + chr(10) + "sleeps VBZ B-VP" + chr(10) * 2 + "Yes UH B-INTJ"
    >>> for sentence in read_conll(io.StringIO(text)):
    ...     words, parts, chunks = zip(*sentence)
    ...     print(words, chunks)
    ('He', 'sleeps') ('B-NP', 'B-VP')
    ('Yes',) ('B-INTJ',)
    """
    if sep == "":
        raise InvalidInputError("sep must not be empty; None stands for any white space.")
    name, text = read_text(file)
    sentences: list[list[tuple[str, ...]]] = [[]]
    width = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            sentences.append([])
        elif not (comment and line.startswith(comment)):
            token = tuple(line.split(sep))
            width = width or len(token)
            if len(token) != width:
                raise InvalidInputError(
                    f"{name}, line {number} has {len(token)} columns, the first token {width}: {line[:80]!r}."
                )
            sentences[-1].append(token)
    if not width:
        raise InvalidInputError(f"{name} holds no token.")
    return [sentence for sentence in sentences if sentence]


def read_multilabel_arff(file: PathOrFile, n_labels: int) -> tuple[Array, Array]:
    """Read examples with several labels from an ARFF file, for example of the collection of Mulan.

    Parameters
    ----------
    file : str, Path, or file object
        May be compressed by gzip. Attributes are numeric or have a list of numbers, and the last `n_labels`
        attributes are 0 or 1. Missing entries and ARFF's sparse form are not supported.
    n_labels : int

    Returns
    -------
    X : ndarray of shape (m, n)
    Y : ndarray of int, shape (m, n_labels)

    Raises
    ------
    InvalidInputError
        If the file has another form, or at most `n_labels` attributes; the message names the line.

    Examples
    --------
    >>> import io
    >>> from cutplane.datasets import read_multilabel_arff
    >>> names = "@relation r", "@attribute a numeric", "@attribute b {0,1}", "@attribute c {0,1}"
    >>> text = chr(10).join([*names, "@data", "0.5,1,0"])
    >>> X, Y = read_multilabel_arff(io.StringIO(text), n_labels=2)
    >>> X.tolist(), Y.tolist()
    ([[0.5]], [[1, 0]])
    """
    count = as_count("n_labels", n_labels)
    name, text = read_text(file)
    lines = ((number, line.strip()) for number, line in enumerate(text.split("\n"), start=1))
    lines = [(number, line) for number, line in lines if line and not line.startswith("%")]
    allowed: list[set[float] | None] = []  # allowed values of each attribute, None for any number
    rows: list[list[float]] = []
    section = ""

    def fail(number: int, reason: str) -> NoReturn:
        raise InvalidInputError(f"{name}, line {number}: {reason}.")

    for number, line in lines:
        keyword = line.split(None, 1)[0].lower()
        if section == "@data":
            rows.append(_numbers(line, allowed, partial(fail, number)))
        elif keyword == "@attribute" and section in ("@relation", "@attribute"):
            found = _ATTRIBUTE.fullmatch(line)
            if not found:
                fail(number, f"{line!r} is no numeric attribute: its type must be numeric or {{0, 1}}")
            values = found["values"]
            allowed.append(None if values is None else set(_numbers(values, None, partial(fail, number))))
        elif (keyword, section) not in (("@relation", ""), ("@data", "@attribute")):
            fail(
                number, f"{line[:80]!r} is not read here: @relation, @attribute and @data are, in this order"
            )
        elif keyword == "@data" and line.lower() != "@data":
            fail(number, f"{line[5:]!r} follows @data; examples begin on the next line")
        section = keyword if section != "@data" else section
    if section != "@data" or not rows:
        fail(text.count("\n") + 1, "the file ends without examples")
    if len(allowed) <= count:
        raise InvalidInputError(
            f"{name} has {len(allowed)} attributes, so that there are no {count} labels beside an attribute."
        )
    table = np.array(rows)
    X, Y = table[:, :-count], table[:, -count:]
    if not np.isin(Y, (0.0, 1.0)).all():
        raise InvalidInputError(f"The last {count} attributes of {name} must be 0 or 1; is n_labels right?")
    return X, Y.astype(np.int64)


def _numbers(
    text: str, allowed: list[set[float] | None] | None, fail: Callable[[str], NoReturn]
) -> list[float]:
    """Return the numbers between the commas of a line, or raise if the type of an attribute excludes one."""
    if text.startswith("{"):
        fail("examples in ARFF's sparse form are not read; write all entries")
    words = [word.strip() for word in text.split(",")]
    if allowed is not None and len(words) != len(allowed):
        fail(f"there are {len(words)} entries for {len(allowed)} attributes")
    numbers = []
    for place, word in enumerate(words):
        try:
            number = float("" if "_" in word else word)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            fail(f"the entry {word[:40]!r} is no finite number")
        values = None if allowed is None else allowed[place]
        if values is not None and number not in values:
            fail(f"the entry {word!r} of attribute {place + 1} is none of its values {sorted(values)}")
        numbers.append(number)
    return numbers
