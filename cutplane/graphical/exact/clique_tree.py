"""Elimination of all variables of a model: least energies, sums over all labellings, and samples."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.factors import FactorArrays, entries_of, starts_of, strides_of
from cutplane.graphical.shifting import shifted
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array, as_count
from cutplane.runtime.clock import clock

ENTRIES = 2**23
"""Entries of all cliques together at most, because these are 64 MB and some tenths of a second."""
_BYTES_PER_ENTRY = 64
"""Bytes per entry of the largest table, because several messages and choices are stored at the same time."""
_PART = 2**20
"""Entries of the cliques between two readings of the clock, because they take some milliseconds."""


def eliminate(
    model: FactorGraph, *, max_entries: int = 2**24, deadline: float = np.inf
) -> tuple[Array | None, float]:
    r"""Return a labelling of least energy (None if none is finite), and that energy, by variable elimination.

    Eliminating u replaces the tables that contain u by one table over its neighbours,

    .. math:: m_u(x_N) = \min_{x_u} \sum_{A \ni u} \theta_A(x_A),

    This is exact, and exponential in the size of the neighbourhoods. For example, a grid of h by w binary
    variables, h <= w, needs tables of 2^(h + 1) entries (Dechter 1999, doi:10.1016/S0004-3702(99)00059-4).

    Raises
    ------
    InvalidInputError
        If no order was found with tables of at most `max_entries` entries, or if its tables need more than 64
        times as many bytes.
    TimeoutError
        If the deadline has passed.
    """
    from cutplane.graphical.exact.orders import elimination_order

    limit = float(np.log2(as_count("max_entries", max_entries)))
    alive = np.isfinite(model.unaries)
    counts = state_counts(model, alive)
    if 0 in counts or model.constant == np.inf:
        return None, np.inf
    order, width = elimination_order(model, counts.tolist(), limit, deadline)
    if width > limit:
        raise InvalidInputError(
            f"Every order tried for {model!r} needs a table of 2^{width:.1f} entries or more, beyond "
            f"max_entries = {max_entries}; use map, or raise max_entries."
        )
    tree = CliqueTree(model, alive, order=order)
    if tree.memory > _BYTES_PER_ENTRY * max_entries:
        raise InvalidInputError(
            f"The tables of {model!r}, of up to 2^{width:.1f} entries, need {tree.memory / 2**20:.0f} MiB; "
            f"raise max_entries, now {max_entries}, to {tree.memory // _BYTES_PER_ENTRY + 1}."
        )
    labelling, _ = tree.least(deadline=deadline)
    energy = np.inf if labelling is None else model.energy(labelling)
    return (labelling, energy) if energy < np.inf else (None, np.inf)


class CliqueLayout(NamedTuple):
    """Cliques in the order of elimination, in flat read-only arrays for compiled code.

    A clique is an eliminated variable, the first axis of its table, and its neighbours at that time. The
    message of a clique is a table over the other axes. The operands of a clique are tables of `factors` and
    messages of its `children` (-1 for a table), ordered by their last axes. Operand j has the variables
    ``scopes[link_starts[j]:link_ends[j]]``, clique i has the variables ``scopes[axis_starts[i]:axis_starts[i
    + 1]]``; `strides` are their strides in the tables. The choices of clique i are the bytes from
    ``choice_starts[i]`` on: a bit for each entry of its message and each bit of a state.
    """

    cardinalities: Array
    variables: Array
    unary_starts: Array
    sizes: Array
    axis_starts: Array
    scopes: Array
    strides: Array
    operand_starts: Array
    children: Array
    factors: Array
    table_starts: Array
    lasts: Array
    link_starts: Array
    link_ends: Array
    choice_starts: Array

    @classmethod
    def of(cls, model: FactorGraph, order: Sequence[int]) -> CliqueLayout:
        """Arrange the tables of a model for an elimination in an equivalent order: children, then parents."""
        from cutplane.graphical.exact.orders import message_scopes, neighbourhoods, scopes_of

        n, counts = model.n_variables, model.cardinalities
        messages = message_scopes(order, neighbourhoods(n, scopes_of(model, counts.tolist())))
        variables = np.array(_children_first(order, messages), dtype=np.int64)
        position = np.empty(n, dtype=np.int64)
        position[variables] = np.arange(n)
        place = position.tolist()
        cliques = [[u, *sorted(messages[u], key=place.__getitem__)] for u in variables.tolist()]
        axes = np.array([u for clique in cliques for u in clique], dtype=np.int64)
        starts = starts_of(np.array([len(clique) for clique in cliques], dtype=np.int64))
        strides = strides_of(counts, starts, axes)
        entries, states = strides[starts[:-1]], counts[variables]
        children = np.flatnonzero(np.diff(starts) > 1)
        begins, ends = starts[children] + 1, starts[children + 1]
        is_open, each = counts > 1, model.scope_starts[:-1]
        owners = np.minimum.reduceat(np.where(is_open, position, position + n)[model.scopes], each) % n
        lasts = np.maximum.reduceat(np.where(is_open, position, -1)[model.scopes], each)
        lasts = np.append(np.maximum(lasts, owners), position[axes[ends - 1]])
        owners = np.append(owners, position[axes[begins]])
        sequence = np.lexsort((lasts, owners))
        arrays = {
            "cardinalities": counts,
            "variables": variables,
            "unary_starts": model.unary_starts[variables],
            "sizes": entries * states,
            "axis_starts": model.n_links + starts,
            "scopes": np.append(model.scopes, axes),
            "strides": np.append(model.strides, strides),
            "operand_starts": starts_of(np.bincount(owners, minlength=n)),
            "children": np.append(np.full(model.n_factors, -1), children)[sequence],
            "factors": np.append(np.arange(model.n_factors), np.zeros_like(children))[sequence],
            "table_starts": np.append(model.table_starts, np.zeros_like(children))[sequence],
            "lasts": variables[lasts[sequence]],
            "link_starts": np.append(model.scope_starts[:-1], model.n_links + begins)[sequence],
            "link_ends": np.append(model.scope_starts[1:], model.n_links + ends)[sequence],
            "choice_starts": _choice_starts(entries, states),
        }
        return cls(**{name: read_only(array) for name, array in arrays.items()})

    @property
    def entries(self) -> Array:
        """Number of entries of each message."""
        return self.sizes // self.cardinalities[self.variables]

    @property
    def roots(self) -> Array:
        """The cliques whose messages are numbers."""
        return np.flatnonzero(np.diff(self.axis_starts) == 1)

    def stacked(self) -> Array:
        """Return where each message begins on a stack, if it replaces the messages of its children there."""
        children = self.children[self.children >= 0]
        parents = np.repeat(np.arange(self.variables.size), np.diff(self.operand_starts))[self.children >= 0]
        removed = np.bincount(parents, self.entries[children], minlength=self.variables.size)
        heights = np.cumsum(self.entries - removed.astype(np.int64))
        return np.append(heights - self.entries, heights.max(initial=0))


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
    order : sequence of int, optional
        An order of elimination, without a limit of the cliques.
    deadline : float, default inf
        Of the search for an order.
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
    error : float
        A bound of the relative rounding error of an answer of `least` or `min_marginals`, see `shifted`.

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
        order: Sequence[int] | None = None,
        deadline: float = np.inf,
        max_entries: int = ENTRIES,
    ) -> None:
        from cutplane.graphical.exact.orders import elimination_order

        alive = np.isfinite(model.unaries) if alive is None else alive
        self.kept = np.flatnonzero(alive)
        counts = state_counts(model, alive)
        self.error = float(np.finfo(np.float64).eps) * (model.n_variables + model.n_factors + 8)
        self.unaries, self.constant = np.zeros(self.kept.size), model.constant
        self.is_infeasible = 0 in counts or model.constant == np.inf
        if self.is_infeasible:
            return
        needs, limit = f"The elimination of all variables of {model!r} needs", float(np.log2(max_entries))
        if is_limited := order is None:
            order, width = elimination_order(model, counts.tolist(), limit, deadline)
            if width > limit:
                raise InvalidInputError(f"{needs} a table of 2^{width:.1f} entries or more.")
        self._states = self.kept - np.repeat(model.unary_starts[:-1], counts)
        self._work = work = shifted(model if alive.all() else restricted_model(model, counts, self._states))
        self.unaries, self.constant, self._cliques = work.unaries, work.constant, CliqueLayout.of(work, order)
        if is_limited and self._cliques.sizes.sum() > max_entries:
            raise InvalidInputError(f"{needs} tables of {self._cliques.sizes.sum():.3g} entries together.")

    def restricted(self, alive: Array) -> CliqueTree:
        """Return a tree of the same cliques with fewer states; `alive` is as in the constructor."""
        from cutplane.graphical.exact.clique_passes import set_strides

        tree, mine = copy(self), alive[self.kept]
        tree.kept, tree.unaries = self.kept[mine], self.unaries[mine]
        if self.is_infeasible:
            return tree
        cliques, counts = self._cliques, state_counts(self._work, mine)
        if 0 in counts:
            tree.is_infeasible = True
            return tree
        states = np.flatnonzero(mine) - np.repeat(self._work.unary_starts[:-1], counts)
        tree._states, tree._work = self._states[mine], restricted_model(self._work, counts, states)
        starts = np.append(self._work.scope_starts, cliques.axis_starts[1:])
        strides, sizes = np.empty_like(cliques.strides), np.empty(starts.size - 1, dtype=np.int64)
        set_strides(starts, cliques.scopes, read_only(counts), strides, sizes)
        sizes, own = sizes[self._work.n_factors :], counts[cliques.variables]
        tree._cliques = cliques._replace(
            cardinalities=read_only(counts),
            unary_starts=read_only(tree._work.unary_starts[cliques.variables]),
            sizes=read_only(sizes),
            strides=read_only(strides),
            table_starts=read_only(
                np.where(cliques.children < 0, tree._work.table_starts[cliques.factors], 0)
            ),
            choice_starts=read_only(_choice_starts(sizes // own, own)),
        )
        return tree

    @property
    def memory(self) -> int:
        """The number of bytes that `least` needs."""
        cliques = self._cliques
        return int(8 * (cliques.stacked()[-1] + cliques.sizes.max(initial=0)) + cliques.choice_starts[-1])

    def least(self, unaries: Array | None = None, *, deadline: float = np.inf) -> tuple[Array | None, float]:
        """Return a labelling of least energy, with these unary costs, and that energy less the constant.

        None if no energy is finite.
        """
        from cutplane.graphical.exact.clique_passes import choose, collect

        if self.is_infeasible:
            return None, np.inf
        cliques = self._cliques
        places, size = cliques.stacked(), cliques.variables.size
        messages, total = np.empty(places[-1]), np.empty(cliques.sizes.max(initial=0))
        choices = np.empty(cliques.choice_starts[-1], dtype=np.uint8)
        costs, first, done = self._costs(unaries), 0, np.cumsum(cliques.sizes)
        starts = np.zeros(size, dtype=np.int64)
        while first < size:
            end = max(first + 1, int(np.searchsorted(done, done[first] + _PART)))
            collect(cliques, first, end, *costs, messages, places, total, starts, choices, False)
            first = end
            if clock() > deadline:
                raise TimeoutError("The elimination was stopped at its deadline.")
        low = float(messages[places[cliques.roots]].sum())
        if low == np.inf:
            return None, low
        labelling = np.empty(size, dtype=np.int64)
        choose(cliques, choices, labelling)
        return self._states[self._work.unary_starts[:-1] + labelling], low

    def min_marginals(self, unaries: Array | None = None) -> Array:
        """Return the least energy with each state, less the constant; additions and comparisons only."""
        from cutplane.graphical.exact.clique_passes import distribute

        if self.is_infeasible or not self.kept.size:
            return np.full(self.kept.size, np.inf)
        messages, places, *_ = self._collect(unaries, soft=False)
        roots = places[self._cliques.roots]
        least = messages[roots]
        back, marginals = np.full(messages.size, np.inf), np.empty(self.unaries.size)
        back[roots] = np.cumsum(np.append(0.0, least))[:-1] + np.cumsum(np.append(0.0, least[::-1]))[-2::-1]
        distribute(self._cliques, *self._costs(unaries), messages, back, places, marginals)
        return marginals

    def lower_bounds(self, above: Any) -> Array:
        """Return lower bounds of the energies whose computed answers are `above`."""
        lower = np.nextafter(self.constant + above * (1.0 - self.error), -np.inf)
        return np.where(above < np.inf, lower, np.inf)

    def log_partition(self, unaries: Array | None = None) -> float:
        """Return the logarithm of the sum of exp(-E) over all labellings."""
        return -(self.constant + self._collect(unaries, soft=True)[-1])

    def sample(self, uniforms: Array) -> Array:
        """Return labellings drawn in proportion to exp(-E), by a row of uniform numbers each."""
        from cutplane.graphical.exact.clique_passes import draw

        _, _, totals, starts, low = self._collect(None, soft=True)
        if low == np.inf:
            raise InvalidInputError("There is nothing to draw from: no labelling has finite energy.")
        found = np.empty((len(uniforms), self._cliques.variables.size), dtype=np.int64)
        draw(self._cliques, totals, starts, uniforms, found)
        return self._states[self._work.unary_starts[:-1] + found]

    def _collect(self, unaries: Array | None, soft: bool) -> tuple[Array, Array, Array, Array, float]:
        """Return messages, totals, the starts of each, and the least (or soft least) energy."""
        from cutplane.graphical.exact.clique_passes import collect

        none = np.empty(0, dtype=np.uint8)
        if self.is_infeasible:
            return none, none, none, none, np.inf
        cliques = self._cliques
        places, starts = starts_of(cliques.entries), starts_of(cliques.sizes)
        messages, totals = np.empty(places[-1]), np.empty(starts[-1])
        given = *self._costs(unaries), messages, places, totals, starts, none
        collect(cliques, 0, cliques.variables.size, *given, soft)
        return messages, places, totals, starts, float(messages[places[cliques.roots]].sum())

    def _costs(self, unaries: Array | None) -> tuple[Array, Array]:
        return read_only(self.unaries if unaries is None else unaries), self._work.tables


def _choice_starts(entries: Array, states: Array) -> Array:
    """Return where the choices of each clique begin."""
    return starts_of(np.frexp(states - 1.0)[1] * ((entries + 7) // 8))


def state_counts(model: FactorGraph, alive: Array) -> Array:
    """Return the number of states of each variable that are alive."""
    owners = np.repeat(np.arange(model.n_variables), model.cardinalities)
    return np.bincount(owners[alive], minlength=model.n_variables)


def restricted_model(model: FactorGraph, counts: Array, states: Array) -> FactorGraph:
    """Return the model on some states of each variable; `states` has them one variable after the other."""
    from cutplane.graphical.exact.clique_passes import restrict

    starts = starts_of(entries_of(counts, model.arities, model.scopes).astype(np.int64))
    unary_starts, tables = starts_of(counts), np.empty(starts[-1])
    scopes = model.scope_starts, model.scopes
    restrict(*scopes, model.strides, model.table_starts, model.tables, unary_starts, states, starts, tables)
    unaries = model.unaries[states + np.repeat(model.unary_starts[:-1], counts)]
    return FactorGraph.from_arrays(
        counts, FactorArrays(unaries, *scopes, starts[:-1], tables, model.constant)
    )


def _children_first(order: Sequence[int], messages: Sequence[set[int]]) -> list[int]:
    """Return the order in which the children of a clique, and theirs, are directly before it.

    The parent of a clique is the first clique of another of its variables.
    """
    n, position = len(order), {u: i for i, u in enumerate(order)}
    parents = [min((position[v] for v in messages[u]), default=n) for u in order]
    sizes, ends, sequence = [1] * (n + 1), [n] * (n + 1), [0] * n
    for i, parent in enumerate(parents):
        sizes[parent] += sizes[i]
    for i in range(n - 1, -1, -1):
        ends[i] = ends[parents[i]] - 1
        sequence[ends[i]] = order[i]
        ends[parents[i]] -= sizes[i]
    return sequence
