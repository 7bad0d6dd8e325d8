"""Readers of files that labelled examples come in."""

from __future__ import annotations

import gzip
import io
from os import PathLike, fspath
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_count

Source = str | PathLike[str] | io.TextIOBase


def read_conll(
    file: Source, sep: str | None = None, comment: str = "-DOCSTART-"
) -> list[list[tuple[str, ...]]]:
    """Read sentences in columns, as the shared tasks of CoNLL have them: a token a line, empty lines between.

    Parameters
    ----------
    file : str, path or open text file
        A name that ends in .gz is decompressed.
    sep : str, optional
        What separates columns; by default any white space.
    comment : str, default "-DOCSTART-"
        What lines begin with that are left out; "#" for CoNLL-U.

    Returns
    -------
    list of list of tuple of str
        The columns of each token of each sentence.

    Raises
    ------
    InvalidInputError
        If lines have different numbers of columns, or there is no token.

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
    sentences: list[list[tuple[str, ...]]] = [[]]
    width = 0
    for number, line in enumerate(_text(file).splitlines(), start=1):
        if not line.strip():
            sentences.append([])
        elif not line.startswith(comment):
            token = tuple(line.split(sep))
            width = width or len(token)
            if len(token) != width:
                raise InvalidInputError(
                    f"Line {number} has {len(token)} columns, and the first token has {width}: {line!r}."
                )
            sentences[-1].append(token)
    if not width:
        raise InvalidInputError("The file holds no token.")
    return [sentence for sentence in sentences if sentence]


def read_multilabel_arff(file: Source, n_labels: int) -> tuple[Array, Array]:
    """Read examples with several labels from an ARFF file, as in the collection of Mulan.

    Parameters
    ----------
    file : str, path or open text file
        Numeric attributes, of which the last `n_labels` are 0 or 1, not in ARFF's sparse form. A name that
        ends in .gz is decompressed.
    n_labels : int

    Returns
    -------
    X : ndarray of shape (m, n)
    Y : ndarray of int, shape (m, n_labels)

    Raises
    ------
    InvalidInputError
        If the file is no such file, or has fewer attributes.

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
    from scipy.io import arff

    count = as_count("n_labels", n_labels)
    try:
        data, _ = arff.loadarff(io.StringIO(_text(file)))
        table = np.array([[float(entry) for entry in row] for row in data.tolist()])
    except (arff.ArffError, ValueError, NotImplementedError, StopIteration) as error:
        raise InvalidInputError(f"The file is no ARFF file with numeric attributes: {error}.") from error
    if table.ndim != 2 or table.shape[1] <= count:
        raise InvalidInputError(
            f"The file has no {count} labels beside an attribute: its shape is {table.shape}."
        )
    X, Y = table[:, :-count], table[:, -count:]
    if not np.isin(Y, (0.0, 1.0)).all():
        raise InvalidInputError(f"The last {count} attributes must be 0 or 1; is n_labels right?")
    return X, Y.astype(np.int64)


def _text(file: Any) -> str:
    """Return the text of a file."""
    if hasattr(file, "read"):
        return file.read()
    with (gzip.open if fspath(file).endswith(".gz") else open)(file, "rt", encoding="utf-8") as opened:
        return opened.read()
