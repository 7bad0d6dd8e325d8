"""Reading and writing weighted constraint satisfaction problems."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factors import places_of, starts_of
from cutplane.graphical.files.builder import SPARSE, FactorBlock, ModelBuilder, blocks_of
from cutplane.graphical.files.global_functions import FunctionRequest, add_function
from cutplane.graphical.files.tokens import Tokens
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.text import PathOrFile, write_text
from cutplane.pieces.validation import Array, as_count, as_scalar

_FEW, _MANY = 10, 2**15
"""Cost functions to read at once: more than 10, because numpy's calls take as long as reading 10 one by one,
and no more than 32,768, because about ten arrays are as large as their text."""


class _Tuples(NamedTuple):
    shape: tuple[int, ...]
    default: float
    states: Array
    costs: Array


def read_wcsp(path_or_file: PathOrFile, upper_bound: float | None = None) -> GraphicalModel:
    r"""Read a weighted constraint satisfaction problem from a file in the WCSP format [1]_.

    .. math:: E(x) = \sum_A c_A(x_A), \qquad c_A(x_A) = \infty \text{ if the file says at least } U

    A cost function in extension has a default cost, and tuples of states with other costs. If a tuple is
    given twice, its last cost counts, with a warning if the costs differ. Several scopes may share a
    function: its definition has a negative arity, and each use has a negative number of tuples and a default
    cost that is ignored. A cost function in intention has a keyword: an arithmetic comparison of two
    variables, ``clique``, ``knapsack``, ``max``, or a member of the families ``alldiff``, ``among``, ``gcc``,
    ``regular``, ``same``, ``sum`` and ``overlap``.

    Parameters
    ----------
    path_or_file : str, Path, or file object
        A file object may be open for text or for bytes. Contents compressed by gzip are recognised.
    upper_bound : float, optional
        U, positive: a cost of at least U is forbidden; inf forbids nothing. By default U is the upper bound
        of the file. It applies to each cost function separately, so that a labelling may have a finite energy
        of U or more.

    Returns
    -------
    GraphicalModel
        Its first variables are the variables of the file. A cost function in intention becomes a chain of
        small tables, and so does a function of four or more variables with few tuples. Their auxiliary
        variables are appended; the energy of the file is the least energy over them.

    Raises
    ------
    InvalidInputError
        If the file is not in this format or a keyword is not supported, the message names the line; or if its
        tables need more than 2**27 entries.

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

    Four queens in different columns, and not side by side in neighbouring rows:

    >>> text = "queens 4 4 2 1  4 4 4 4  4 0 1 2 3 -1 salldiff var 1  2 0 1 -1 >= 2 0"
    >>> read_wcsp(io.StringIO(text)).map().labelling[:4].tolist()
    [2, 0, 1, 3]
    """
    tokens = Tokens(path_or_file)
    name = tokens.word("the name of the problem")
    if name.startswith("{"):
        tokens.fail("this is a file in the CFN format; use read_cfn", -1)
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
    builder = ModelBuilder(cardinalities.tolist(), lambda reason: tokens.fail(reason, -1))

    def limited(cost: float) -> float:
        if cost < 0:
            tokens.fail(f"a cost is {cost:g}, but must be at least 0", -1)
        return math.inf if cost >= bound else float(cost)

    shared: list[_Tuples] = []

    def read_one() -> None:
        arity = tokens.integer("the arity of a cost function", low=-math.inf)
        scope = tokens.scope(abs(arity), n)
        default = tokens.integer("a default cost", low=-1)
        if default == -1:
            keyword = tokens.word("the keyword of a cost function defined in intention")
            add_function(FunctionRequest(builder, scope, _WcspParameters(tokens, scope), limited), keyword)
            return
        tuples = _read_tuples(tokens, builder.shape(scope), default, shared)
        if arity < 0:
            shared.append(tuples)
        costs = np.where(tuples.costs >= bound, np.inf, tuples.costs)
        builder.add_tuples(scope, limited(tuples.default), tuples.states, costs)

    while count:
        heads = _plain_functions(tokens, min(count, _MANY))
        if len(heads) <= _FEW or not _read_plain(tokens, heads, bound, builder):
            for _ in range(max(1, len(heads) - 1)):
                read_one()
        count -= max(1, len(heads) - 1)
    tokens.finish("the last cost function")
    return builder.model()


def _plain_functions(tokens: Tokens, most: int) -> list[int]:
    """Return where the next cost functions with small tables begin, up to one of another kind, and end."""
    places, start = [tokens.position], tokens.position
    while len(places) <= most:
        try:
            arity = int(tokens.at())
            is_plain = 0 <= arity < SPARSE and tokens.at(arity + 1) != b"-1"
            count = int(tokens.at(arity + 2)) if is_plain else -1
        except (ValueError, IndexError):
            break
        tokens.position += arity + 3 + count * (arity + 1)
        if count < 0 or tokens.position > tokens.n_words:
            break
        places.append(tokens.position)
    tokens.position = start
    return places


def _read_plain(tokens: Tokens, places: list[int], bound: float, builder: ModelBuilder) -> bool:
    """Read the cost functions at these places, or return False if anything about them is unusual."""
    words = tokens.at_once(places[-1] - places[0], int)
    if words is None:
        return False
    heads = np.array(places[:-1]) - places[0]
    arities = words[heads]
    heads += arities + 1
    defaults, counts = words[heads], words[heads + 1]
    owners = np.repeat(np.arange(counts.size), counts)
    widths = arities[owners]
    numbers = np.arange(owners.size) - starts_of(counts)[owners]
    tuples = heads[owners] + 2 + numbers * (widths + 1)
    costs = words[tuples + widths]
    if defaults.min(initial=0) < 0 or costs.min(initial=0) < 0:
        return False
    scopes, states = words[places_of(heads - arities, arities)], words[places_of(tuples, widths)]
    defaults, costs = (np.where(part >= bound, np.inf, part) for part in (defaults, costs))
    if not builder.add_all_tuples(arities, scopes, defaults, owners, states, costs):
        return False
    tokens.position = places[-1]
    return True


class _WcspParameters:
    """The parameters of a cost function after its keyword; lists begin with their length."""

    def __init__(self, tokens: Tokens, scope: Sequence[int]) -> None:
        self._tokens, self._scope = tokens, scope

    def keyword(self, name: str, allowed: Sequence[str]) -> str:
        word = self._tokens.word(name)
        if word not in allowed:
            self.fail(f"expected {name}, one of {', '.join(allowed)}, got {word!r}")
        return word

    def cost(self, name: str) -> float:
        return self._tokens.integer(name)

    def count(self, name: str) -> int:
        return self._tokens.integer(name, low=-math.inf)

    def rows(self, name: str, kinds: str) -> list[Any]:
        count = self._tokens.integer(f"the number of {name.removeprefix('the ')}")
        values = self._tokens.integers(count * len(kinds), name).reshape(count, len(kinds)).tolist()
        return [row[0] if len(kinds) == 1 else tuple(row) for row in values]

    def halves(self) -> tuple[Sequence[int], Sequence[int]]:
        sizes = [self._tokens.integer("the length of a list of variables") for _ in range(2)]
        variables = self._tokens.integers(sum(sizes), "the variables of two lists").tolist()
        for u in variables:
            if u not in self._scope:
                self.fail(f"the variable {u} is not one of the cost function, {self._scope}")
        return variables[: sizes[0]], variables[sizes[0] :]

    def fail(self, reason: str) -> NoReturn:
        self._tokens.fail(reason, -1)


def _read_tuples(
    tokens: Tokens, shape: tuple[int, ...], default: float, shared: Sequence[_Tuples]
) -> _Tuples:
    """Read tuples of states with their costs, or the number of the function to share."""
    count, arity = tokens.integer("the number of tuples", low=-len(shared)), len(shape)
    if count < 0:
        tuples = shared[-count - 1]
        if tuples.shape != shape:
            tokens.fail(
                f"the shared cost function {-count} has states {tuples.shape}, its user has {shape}", -1
            )
        return tuples
    flat = tokens.integers(count * (arity + 1), "the states and costs of tuples")
    table = flat.reshape(count, arity + 1)
    if flat.min(initial=0) < 0 or (table[:, :arity] >= shape).any():
        _refuse(tokens, table, shape)
    rows = table.tolist()
    if len({tuple(row[:-1]) for row in rows}) < count:
        _warn_of_repetition(tokens, rows)
    return _Tuples(shape, default, table[:, :arity], table[:, arity])


def _refuse(tokens: Tokens, table: Array, shape: tuple[int, ...]) -> None:
    """Fail because of a state that does not exist, or a negative cost."""
    for row, column in np.argwhere((table < 0) | (table >= np.array([*shape, np.inf]))).tolist():
        value, at = table[row, column], (row - len(table)) * table.shape[1] + column
        if column == len(shape):
            tokens.fail(f"the cost of a tuple is {value}, but must be at least 0", at)
        tokens.fail(f"a tuple has the state {value} of a variable that has {shape[column]} states", at)


def _warn_of_repetition(tokens: Tokens, rows: list[list[int]]) -> None:
    """Warn about the first tuple that is repeated with another cost."""
    costs: dict[tuple[int, ...], int] = {}
    for i, (*key, cost) in enumerate(rows):
        if costs.setdefault(tuple(key), cost) != cost:
            place = tokens.place((i - len(rows)) * len(rows[0]))
            warnings.warn(
                f"{place}: the tuple {tuple(key)} is given again with another cost; the last one counts.",
                stacklevel=4,
            )
            return


def write_wcsp(model: GraphicalModel, path_or_file: PathOrFile, precision: int = 0) -> float:
    r"""Write a model to a file in the WCSP format, whose costs are integers >= 0.

    .. math:: E(x) \approx \text{offset} + 10^{-p} \sum_A c_A(x_A)

    Parameters
    ----------
    model : GraphicalModel
    path_or_file : str, Path, or file object
        A path that ends with ``.gz`` is compressed. A file object may be open for text or for bytes.
    precision : int, default 0
        p, the number of digits of energies after the decimal point, from 0 to 15.

    Returns
    -------
    float
        The offset: the constant and the least energies of the factors, which are subtracted.

    Raises
    ------
    InvalidInputError
        If `precision` is out of range, or the costs are too large for integers of 63 bits.

    See Also
    --------
    read_wcsp : The reverse, up to the offset, the factor, and rounding.

    Examples
    --------
    >>> import io
    >>> from cutplane.graphical import GraphicalModel, write_wcsp
    >>> file, inf = io.StringIO(), float("inf")
    >>> write_wcsp(GraphicalModel([2, 2], [((0, 1), [[-1, 1], [inf, 0]])]), file)
    -1.0
    >>> print(file.getvalue())
    model 2 2 1 4
    2 2
    2 0 1 0 3
    0 1 2
    1 0 4
    1 1 1
    <BLANKLINE>
    """
    digits = as_count("precision", precision, low=0)
    if digits > 15:
        raise InvalidInputError(f"precision must be at most 15, got {precision}.")
    least = [np.minimum.reduceat(block.costs, block.starts) for block in blocks_of(model)]
    offset = math.fsum([model.constant, *(low for part in least for low in part.tolist())])
    is_infinite = offset == math.inf

    def blocks() -> Iterator[tuple[FactorBlock, Array]]:
        """Yield blocks, and their costs as floats without a fraction."""
        for block, low in zip(() if is_infinite else blocks_of(model), least, strict=not is_infinite):
            above = block.costs - np.repeat(low, np.diff(np.append(block.starts, block.costs.size)))
            yield block, np.rint(above * 10.0**digits)

    most = 1.0
    for block, costs in blocks():
        most += float(np.maximum.reduceat(np.where(np.isfinite(costs), costs, 0.0), block.starts).sum())
    if most >= 2.0**62:
        raise InvalidInputError(
            f"The costs of the model sum to {most:.3g}, which is too large for a WCSP file; reduce precision."
        )
    bound, sizes = int(most) + 1, model.cardinalities.tolist()

    def parts() -> Iterator[str]:
        count = 1 if is_infinite else sum(low.size for low in least)
        yield f"model {len(sizes)} {max(sizes, default=0)} {count} {bound}\n{' '.join(map(str, sizes))}\n"
        if is_infinite:
            yield f"0 {bound} 0\n"
        states: dict[tuple[int, ...], list[str]] = {}
        for block, costs in blocks():
            whole = np.where(np.isfinite(costs), costs, 0.0).astype(np.int64)
            whole[np.isinf(costs)] = bound
            lines, words = [], whole.tolist()
            for scope, (begin, end) in zip(block.scopes, block.ends, strict=True):
                shape = tuple([sizes[u] for u in scope])
                if shape not in states:
                    states[shape] = [" ".join(map(str, key)) for key in np.ndindex(shape)]
                kept = [
                    f"{key} {cost}" for key, cost in zip(states[shape], words[begin:end], strict=True) if cost
                ]
                lines += [f"{len(scope)} {' '.join(map(str, scope))} 0 {len(kept)}", *kept]
            yield "\n".join(lines) + "\n"

    write_text(parts(), path_or_file)
    return 0.0 if is_infinite else offset
