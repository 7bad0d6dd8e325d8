"""Reading and writing weighted constraint satisfaction problems."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factors import places_of, starts_of
from cutplane.graphical.files.builder import FactorBlock, ModelBuilder, SparseTables, as_digits, blocks_of
from cutplane.graphical.files.global_functions import KeywordFunction, add_function
from cutplane.graphical.files.tokens import MAX_ARITY, Tokens
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.text import PathOrFile, write_text
from cutplane.pieces.validation import Array, as_scalar

_MANY = 2**15
"""Most cost functions to read at once, because about ten arrays are as large as their text."""


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
        tokens.fail("this is a file in the CFN format; use read_cfn")
    if name in ("MARKOV", "BAYES"):
        tokens.fail(f"a file that begins with {name} is in the UAI format; use read_uai")
    n = tokens.integer("the number of variables")
    most = tokens.integer("the largest number of states")
    count = tokens.integer("the number of cost functions")
    bound = tokens.integer("the upper bound")
    if upper_bound is not None:
        bound = as_scalar("upper_bound", upper_bound, low=0.0, low_open=True, infinite=True)
    sizes = tokens.cardinalities(n)
    for u in np.flatnonzero(sizes > most).tolist():
        place = tokens.position - n + u
        tokens.fail(f"variable {u} has {sizes[u]} states, but the first line says at most {most}", place)
    builder = ModelBuilder(sizes, tokens.fail)

    def add(tables: SparseTables, places: Array | None = None) -> None:
        defaults, costs = (np.where(part >= bound, np.inf, part) for part in (tables.defaults, tables.costs))
        ignored = builder.add_tuples(tables._replace(defaults=defaults, costs=costs))
        if places is not None and ignored.size:
            _warn_of_repetition(tokens, tables, places, int(ignored[0]))

    shared: list[tuple[SparseTables, list[int]]] = []
    while count:
        heads = _plain_functions(tokens, min(count, _MANY))
        count -= max(1, len(heads))
        if heads:
            add(*_read_tables(tokens, heads, sizes))
            continue
        head, arity = tokens.position, tokens.integer("the arity of a cost function", low=-math.inf)
        scope = tokens.scope(abs(arity), n)
        if tokens.integer("a default cost", low=-1) == -1:
            keyword = tokens.word("the keyword of a cost function defined in intention")
            add_function(_WcspFunction(tokens, builder, scope.tolist(), bound), keyword)
            continue
        number = tokens.integer("the number of tuples", low=-len(shared))
        if number >= 0:
            tokens.skip(number * (abs(arity) + 1), "the states and costs of tuples")
            tables, places = _read_tables(tokens, [head], sizes)
            shared.append((tables, []))
            add(tables, places)
            continue
        tables, uses = shared[-number - 1]
        shapes = builder.shape(tables.scopes), builder.shape(scope)
        if shapes[0] != shapes[1]:
            tokens.fail(
                f"the shared cost function {-number} has states {shapes[0]}, its user has {shapes[1]}"
            )
        uses += scope.tolist()
    tokens.finish("the last cost function")
    for tables, uses in shared:
        count = len(uses) // tables.arities[0]
        builder.check_room(count * tables.costs.size)
        add(
            SparseTables(
                arities=np.repeat(tables.arities, count),
                scopes=np.array(uses, dtype=np.int64),
                defaults=np.repeat(tables.defaults, count),
                owners=np.repeat(np.arange(count), tables.costs.size),
                states=np.tile(tables.states, count),
                costs=np.tile(tables.costs, count),
            )
        )
    return builder.model()


def _plain_functions(tokens: Tokens, most: int) -> list[int]:
    """Skip the next cost functions with tables, up to one of another kind, and return where they begin."""
    heads = []
    while len(heads) < most:
        try:
            arity = int(tokens.at(tokens.position))
            number = tokens.position + arity + 2
            is_plain = 0 <= arity <= MAX_ARITY and tokens.at(number - 1) != b"-1"
            count = int(tokens.at(number)) if is_plain else -1
        except (ValueError, IndexError):
            break
        end = number + 1 + count * (arity + 1)
        if count < 0 or end > tokens.n_words:
            break
        heads.append(tokens.position)
        tokens.position = end
    return heads


def _read_tables(tokens: Tokens, heads: list[int], cardinalities: Array) -> tuple[SparseTables, Array]:
    """Read the cost functions that begin at these words, up to the next word, and the places of tuples."""
    start, count = heads[0], tokens.position - heads[0]
    tokens.position = start
    words = tokens.integers(count, "a variable, a state or a cost")
    at = np.array(heads) - start
    arities = np.abs(words[at])
    links = places_of(at + 1, arities)
    scopes = words[links]
    tokens.check_scopes(arities, scopes, start + links, cardinalities.size)
    at += arities + 1
    counts = words[at + 1]
    owners = np.repeat(np.arange(at.size), counts)
    widths = arities[owners]
    tuples = at[owners] + 2 + (np.arange(owners.size) - starts_of(counts)[owners]) * (widths + 1)
    digits = places_of(tuples, widths)
    sizes = cardinalities[scopes[places_of(starts_of(arities)[owners], widths)]]
    tables = SparseTables(arities, scopes, words[at], owners, words[digits], words[tuples + widths])
    for what, low, high, values, places in (
        ("a default cost", -1, math.inf, tables.defaults, at),
        ("a state of a tuple", 0, sizes, tables.states, digits),
        ("the cost of a tuple", 0, math.inf, tables.costs, tuples + widths),
    ):
        for i in np.flatnonzero((values < np.maximum(low, 0)) | (values >= high))[:1].tolist():
            less = f" and less than {high[i]}" if isinstance(high, np.ndarray) else ""
            tokens.fail(f"{what} is {values[i]}, but must be at least {low}{less}", start + int(places[i]))
    return tables, start + tuples


def _warn_of_repetition(tokens: Tokens, tables: SparseTables, places: Array, first: int) -> None:
    """Warn about the next tuple that has the states of a tuple and another cost."""
    owner = tables.owners[first]
    same, arity = np.flatnonzero(tables.owners == owner), int(tables.arities[owner])
    links = starts_of(tables.arities[tables.owners])[same]
    keys = tables.states[places_of(links, np.full(same.size, arity))].reshape(same.size, arity)
    key = keys[first - same[0]]
    is_other = (same > first) & (keys == key).all(1) & (tables.costs[same] != tables.costs[first])
    place = tokens.place(int(places[same[np.argmax(is_other)]]))
    warnings.warn(
        f"{place}: the tuple {tuple(key.tolist())} is given again with another cost; the last one counts.",
        stacklevel=4,
    )


class _WcspFunction(KeywordFunction):
    """A cost function whose parameters are words; lists begin with their length."""

    def __init__(self, tokens: Tokens, builder: ModelBuilder, scope: list[int], bound: float) -> None:
        super().__init__(builder, scope, bound)
        self.fail, self._tokens = tokens.fail, tokens

    def read(self, kind: str, what: str) -> Any:
        if kind == "w":
            return self._tokens.word(what)
        return self._tokens.integer(what, low=-math.inf if kind == "i" else 0)

    def length(self, what: str, width: int = 1) -> int:
        return self.read("v", f"the number of {what.removeprefix('the ')}")

    def halves(self) -> tuple[list[int], list[int]]:
        n, m = self.length("variables"), self.length("variables")
        variables = [self.read("v", "a variable") for _ in range(n + m)]
        return variables[:n], variables[n:]


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
    digits = as_digits(precision)
    least = [np.minimum.reduceat(block.costs, block.starts) for block in blocks_of(model)]
    offset = math.fsum([model.constant, *(low for part in least for low in part.tolist())])
    is_infinite = offset == math.inf

    def blocks() -> Iterator[tuple[FactorBlock, Array]]:
        """Yield blocks, and their costs as floats without a fraction."""
        for block, low in zip(() if is_infinite else blocks_of(model), least, strict=not is_infinite):
            yield block, np.rint((block.costs - np.repeat(low, block.sizes)) * 10.0**digits)

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
