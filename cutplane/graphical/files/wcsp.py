"""Reading weighted constraint satisfaction problems."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np

from cutplane.graphical.files.tokens import MAX_ENTRIES, Tokens
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.text import PathOrFile
from cutplane.pieces.validation import Array, as_scalar


class _CostFunction(NamedTuple):
    default: int
    table: Array


def read_wcsp(path_or_file: PathOrFile, upper_bound: float | None = None) -> GraphicalModel:
    r"""Read a weighted constraint satisfaction problem from a file in the WCSP format [1]_.

    .. math:: E(x) = \sum_A c_A(x_A), \qquad c_A(x_A) = \infty \text{ where the file says at least } U

    A cost function is given in extension: a default cost, and the tuples of states that have another. A tuple
    that is given twice has the last of its costs, with a warning if they differ. Cost functions shared by
    several scopes (a negative arity where they are defined, a negative number of tuples where they are used)
    are read; those defined in intention, by a keyword, are not.

    Parameters
    ----------
    path_or_file : str, Path, or file object
        A file object may be open for text or for bytes. Contents compressed by gzip are recognised.
    upper_bound : float, optional
        U: a cost of at least U is forbidden. Positive, inf forbids nothing; by default as the file says. It
        applies to each cost function, not to their sum, so that a labelling may have a finite energy of U or
        more.

    Returns
    -------
    GraphicalModel

    Raises
    ------
    InvalidInputError
        If the file is not in this format, the message names the line; or if its tables need more than 2**27
        entries.

    References
    ----------
    .. [1] "Weighted constraint satisfaction problem file format (wcsp)",
       https://toulbar2.github.io/toulbar2/formats/wcspformat.html

    Examples
    --------
    >>> import io
    >>> from cutplane.graphical import read_wcsp
    >>> text = '''differ 3 2 4 10
    ... 2 2 2
    ... -2 0 1 0 2
    ... 0 0 10
    ... 1 1 3
    ... 2 1 2 0 -1
    ... 1 0 5 1
    ... 0 4
    ... 0 100 0'''
    >>> model = read_wcsp(io.StringIO(text), upper_bound=1000)
    >>> model.energy([0, 0, 1]), model.energy([0, 1, 1])
    (114.0, 107.0)
    >>> read_wcsp(io.StringIO(text.replace("0 100 0", "0 2 0"))).energy([0, 0, 1])
    inf
    """
    tokens = Tokens(path_or_file)
    name = tokens.word("the name of the problem")
    if name.startswith("{"):
        tokens.fail("this is a file in the CFN format (JSON); write it as WCSP, such as with toulbar2 -z", -1)
    if name in ("MARKOV", "BAYES"):
        tokens.fail(f"a file that begins with {name} is in the UAI format; use read_uai", -1)
    n = tokens.integer("the number of variables")
    most = tokens.integer("the largest number of states")
    count = tokens.integer("the number of cost functions")
    bound = tokens.integer("the upper bound")
    if upper_bound is not None:
        bound = as_scalar("upper_bound", upper_bound, low=0.0, low_open=True, infinite=True)
    cardinalities = tokens.cardinalities(n)
    for u in np.flatnonzero(cardinalities > most).tolist():
        tokens.fail(
            f"variable {u} has {cardinalities[u]} states, but the first line says at most {most}", u - n
        )
    shared: list[_CostFunction] = []
    factors, room = [], MAX_ENTRIES
    for _ in range(count):
        arity = tokens.integer("the arity of a cost function", low=-math.inf)
        scope = tokens.scope(abs(arity), n)
        shape = tuple(cardinalities[list(scope)].tolist())
        room -= math.prod(shape)
        if room < 0:
            tokens.fail(
                f"the table of a cost function of {len(shape)} variables has {math.prod(shape)} entries; all "
                f"tables together can have {MAX_ENTRIES}",
                -1,
            )
        function = _cost_function(tokens, shape, bound, shared)
        if arity < 0:
            shared.append(function)
        factors.append((scope, function.table))
    tokens.finish("the last cost function")
    return GraphicalModel(cardinalities, factors)


def _cost_function(
    tokens: Tokens, shape: tuple[int, ...], bound: float, shared: list[_CostFunction]
) -> _CostFunction:
    default = tokens.integer("a default cost", low=-1)
    if default == -1:
        keyword = tokens.word("the keyword of a cost function defined in intention")
        tokens.fail(
            f"the cost function {keyword!r} is defined in intention; define it in extension, by tuples of "
            "states and their costs",
            -1,
        )
    count = tokens.integer("the number of tuples", low=-len(shared))
    if count < 0:
        function = shared[-count - 1]
        if function.table.shape != shape or function.default != default:
            tokens.fail(
                f"the shared cost function {-count} has default cost {function.default} and states "
                f"{function.table.shape}, the one that refers to it {default} and {shape}",
                -1,
            )
        return function
    arity = len(shape)
    tuples = tokens.integers(count * (arity + 1), "the states and costs of tuples").reshape(count, arity + 1)
    states, costs = tuples[:, :arity], tuples[:, arity]
    wrong = np.argwhere((tuples < 0) | (tuples >= np.array([*shape, np.inf])))
    for row, column in wrong.tolist():
        value, at = tuples[row, column], (row - count) * (arity + 1) + column
        if column == arity:
            tokens.fail(f"the cost of a tuple is {value}, but must be at least 0", at)
        tokens.fail(f"a tuple has the state {value} of a variable that has {shape[column]} states", at)
    table = np.full(math.prod(shape), np.inf if default >= bound else float(default))
    strides = np.cumprod((1, *shape[:0:-1]), dtype=np.int64)[::-1]
    places, costs = states @ strides[:arity], np.where(costs >= bound, np.inf, costs)
    table[places] = costs
    for row in np.flatnonzero(table[places] != costs)[:1].tolist():
        given = tuple(states[row].tolist())
        place = tokens.place((row - count) * (arity + 1))
        warnings.warn(
            f"{place}: the tuple {given} is given again with another cost, which counts.", stacklevel=3
        )
    return _CostFunction(default, table.reshape(shape))
