"""Least energies of all states, and sums over all labellings, by messages on a tree of cliques."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.factors import starts_of
from cutplane.graphical.shifting import shifted
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array

ENTRIES = 2**23
"""Entries of all cliques together at most, because these are 64 MB and some tenths of a second."""


class CliqueLayout(NamedTuple):
    """Cliques in the order of elimination, in flat read-only arrays for compiled code.

    A clique is the variable that is eliminated and, as earlier axes of its table, those that this joins. Its
    operands are the tables first, then the messages of its children (a table has the child -1). Operands have
    one entry of `offsets`, and at least two of `shapes` and `strides`.
    """

    variables: Array
    counts: Array
    clique_starts: Array
    message_starts: Array
    operand_starts: Array
    children: Array
    offsets: Array
    shape_starts: Array
    shapes: Array
    strides: Array
    axis_starts: Array
    axes: Array
    axis_strides: Array


class CliqueTree:
    r"""The cliques of an elimination of all variables of a model, as a tree.

    The first pass sends messages from the leaves to the roots, each of which minimises a variable out. The
    second pass sends messages back, which give each variable the least energy of each of its states. With
    :math:`-\log \sum \exp(-E)` in place of the minimum, the first pass sums over all labellings, and going
    back draws labellings (Dawid 1992, doi:10.1007/BF01890546).

    Parameters
    ----------
    model : FactorGraph
    alive : ndarray of bool, shape (n_states,), optional
        The states that labellings may take, laid out like ``model.unaries``; all finite ones by default.
    deadline : float, default inf
    max_entries : int, default 2**23
        Entries of all cliques together.

    Attributes
    ----------
    kept : ndarray of int
        The numbers of the states of `alive`; costs and answers of the methods have one entry for each.
    unaries : ndarray
        The costs of `kept`, shifted to the minimum 0 for each variable, as the costs of all tables are.
    constant : float
        The sum of all these minima, rounded down, which the answers do not contain.

    Raises
    ------
    InvalidInputError
        If the cliques of every order tried have more entries.
    TimeoutError
        If the deadline has passed.
    """

    def __init__(
        self,
        model: FactorGraph,
        alive: Array | None = None,
        *,
        deadline: float = np.inf,
        max_entries: int = ENTRIES,
    ) -> None:
        alive = np.isfinite(model.unaries) if alive is None else alive
        self.kept = np.flatnonzero(alive)
        owners = np.repeat(np.arange(model.n_variables), model.cardinalities)[self.kept]
        counts = np.bincount(owners, minlength=model.n_variables)
        self.is_infeasible = bool((counts == 0).any() or model.constant == np.inf)
        self.unaries, self.constant = np.zeros(self.kept.size), model.constant
        if self.is_infeasible:
            return
        self._states = self.kept - model.unary_starts[owners]
        work = shifted(model if alive.all() else _sliced(model, counts, self._states))
        self.unaries, self.constant, self.unary_starts = work.unaries, work.constant, work.unary_starts
        self._tables = work.tables
        self._cliques = _cliques(work, counts.tolist(), deadline, max_entries)

    def least(self, unaries: Array | None = None) -> tuple[Array | None, float]:
        """Return a labelling of least energy, with these unary costs, and that energy less the constant.

        None if no energy is finite.
        """
        totals, _, low = self._collect(unaries, soft=False)
        return None if low == np.inf else self._draw(totals, np.empty((1, 0)))[0], low

    def min_marginals(self, unaries: Array | None = None) -> Array:
        """Return the least energy with each state, less the constant; additions and comparisons only."""
        from cutplane.graphical.exact.clique_passes import distribute

        if self.is_infeasible or not self.kept.size:
            return np.full(self.kept.size, np.inf)
        _, values, _ = self._collect(unaries, soft=False)
        cliques = self._cliques
        sizes = np.diff(cliques.message_starts)
        roots = np.flatnonzero(np.isin(np.arange(sizes.size), cliques.children, invert=True))
        up = self._tables.size + cliques.message_starts[roots]
        down = up + cliques.message_starts[-1]
        least = values[up]
        others = np.cumsum(np.append(0.0, least))[:-1] + np.cumsum(np.append(0.0, least[::-1]))[-2::-1]
        values[self._tables.size + cliques.message_starts[-1] :] = np.inf
        values[down] = others
        marginals = np.empty(self.unaries.size)
        costs = self.unaries if unaries is None else unaries
        distribute(cliques, self.unary_starts, read_only(costs), values, self._tables.size, marginals)
        return marginals

    def log_partition(self, unaries: Array | None = None) -> float:
        """Return the logarithm of the sum of exp(-E) over all labellings."""
        return -(self.constant + self._collect(unaries, soft=True)[2])

    def sample(self, uniforms: Array) -> Array:
        """Return labellings drawn in proportion to exp(-E), by a row of uniform numbers each."""
        totals, _, low = self._collect(None, soft=True)
        if low == np.inf:
            raise InvalidInputError("There is nothing to draw from: no labelling has finite energy.")
        return self._draw(totals, uniforms)

    def _collect(self, unaries: Array | None, soft: bool) -> tuple[Array, Array, float]:
        """Return the totals of all cliques, tables and messages, and the least (or soft least) energy."""
        from cutplane.graphical.exact.clique_passes import collect

        if self.is_infeasible:
            return np.empty(0), np.empty(0), np.inf
        cliques = self._cliques
        totals = np.empty(cliques.clique_starts[-1])
        values = np.concatenate([self._tables, np.empty(2 * cliques.message_starts[-1])])
        costs = self.unaries if unaries is None else unaries
        low = collect(cliques, self.unary_starts, read_only(costs), values, self._tables.size, soft, totals)
        return totals, values, low

    def _draw(self, totals: Array, uniforms: Array) -> Array:
        from cutplane.graphical.exact.clique_passes import draw

        found = np.empty((len(uniforms), self._cliques.variables.size), dtype=np.int64)
        draw(self._cliques, totals, uniforms, found)
        return self._states[self.unary_starts[:-1] + found]


def _sliced(model: FactorGraph, counts: Array, states: Array) -> FactorGraph:
    """Return the model on some states of each variable; `states` holds them, one variable after the other."""
    starts = starts_of(counts)
    factors: list[Any] = [
        ((u,), model.unary(u)[states[starts[u] : starts[u + 1]]]) for u in range(counts.size)
    ]
    for a in range(model.n_factors):
        scope, table = model.factor(a)
        factors.append((scope, table[np.ix_(*[states[starts[u] : starts[u + 1]] for u in scope])]))
    return FactorGraph(counts, factors, constant=model.constant)


def _cliques(model: FactorGraph, counts: list[int], deadline: float, max_entries: int) -> CliqueLayout:
    from cutplane.graphical.exact.elimination import (
        elimination_order,
        merged_axes,
        message_scopes,
        neighbourhoods,
        open_scopes,
    )

    scopes = open_scopes(model, counts)
    limit = float(np.log2(max_entries))
    order, width = elimination_order(counts, scopes, limit, deadline)
    if width > limit:
        raise _too_large(model, f"a table of 2^{width:.1f} entries or more")
    position = {u: i for i, u in enumerate(order)}
    messages = message_scopes(order, neighbourhoods(len(counts), scopes))
    axes = [[*sorted(messages[u], key=position.__getitem__), u] for u in order]
    sizes = np.array([prod([float(counts[u]) for u in of]) for of in axes])
    if sizes.sum() > max_entries:
        raise _too_large(model, f"tables of {sizes.sum():.3g} entries together")
    operands: list[list[tuple[int, int, dict[int, int]]]] = [[] for _ in order]
    for a, scope in enumerate(scopes):
        whole = slice(*model.scope_starts[a : a + 2])
        variables, steps = model.scopes[whole].tolist(), model.strides[whole].tolist()
        clique = min(position[u] for u in scope or variables)
        operands[clique].append((-1, int(model.table_starts[a]), dict(zip(variables, steps, strict=True))))
    cards = np.array([counts[u] for u in order], dtype=np.int64)
    message_starts = starts_of(sizes.astype(np.int64) // cards)
    for i, of in enumerate(axes):
        if len(of) > 1:
            of, start = of[:-1], model.tables.size + int(message_starts[i])
            along = dict(zip(of, _c_strides([counts[u] for u in of]), strict=True))
            operands[position[of[0]]].append((i, start, along))
    layouts = [
        merged_axes(of, counts, along)
        for of, here in zip(axes, operands, strict=True)
        for _, _, along in here
    ]
    arrays: dict[str, Any] = {
        "variables": order,
        "counts": cards,
        "clique_starts": starts_of(sizes),
        "message_starts": message_starts,
        "operand_starts": _starts_of(operands),
        "children": [child for here in operands for child, _, _ in here],
        "offsets": [start for here in operands for _, start, _ in here],
        "shape_starts": _starts_of([shape for shape, _ in layouts]),
        "shapes": [k for shape, _ in layouts for k in shape],
        "strides": [step for _, steps in layouts for step in steps],
        "axis_starts": _starts_of(axes),
        "axes": [u for of in axes for u in of],
        "axis_strides": [step for of in axes for step in _c_strides([counts[u] for u in of])],
    }
    flat = {name: read_only(np.array(array, dtype=np.int64)) for name, array in arrays.items()}
    return CliqueLayout(**flat)


def _starts_of(parts: list[list[Any]]) -> Array:
    return starts_of(np.array([len(part) for part in parts], dtype=np.int64))


def _too_large(model: FactorGraph, needs: str) -> InvalidInputError:
    return InvalidInputError(f"The elimination of all variables of {model!r} needs {needs}.")


def _c_strides(shape: list[int]) -> list[int]:
    return [prod(shape[i + 1 :]) for i in range(len(shape))]
