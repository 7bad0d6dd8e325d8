"""The cycles of a reparametrised model, and by how much each would raise the bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cutplane.graphical.sweeps.reparametrization import Reparametrization
from cutplane.pieces.validation import Array

_WORK = 2e7
"""Products of three numbers of states between two looks at the clock: some hundredths of a second."""


@dataclass(frozen=True, eq=False)
class PairCosts:
    """The unary and the pairwise costs of a reparametrised model, in flat arrays.

    Attributes
    ----------
    cardinalities : ndarray of int64, shape (n,)
    unary_starts : ndarray of int64, shape (n + 1,)
    unaries : ndarray
    pairs : ndarray of int64, shape (m, 2)
        The two variables of each pair, ascending; distinct.
    table_starts : ndarray of int64, shape (m,)
        Where the table of each pair begins in `tables`, in C order.
    tables : ndarray
    """

    cardinalities: Array
    unary_starts: Array
    unaries: Array
    pairs: Array
    table_starts: Array
    tables: Array

    @classmethod
    def of(cls, reparametrization: Reparametrization) -> PairCosts:
        """Take the costs of a reparametrised model as they stand."""
        model, pairs = reparametrization.model, reparametrization.pairs()
        return cls(
            model.cardinalities,
            model.unary_starts,
            reparametrization.unaries,
            pairs.variables,
            pairs.table_starts,
            pairs.tables,
        )

    @cached_property
    def graph(self) -> tuple[Array, Array, Array]:
        """(starts, neighbours, edges): the neighbours of each variable, ascending, and their pairs."""
        n, m = self.cardinalities.size, len(self.pairs)
        tails = np.concatenate([self.pairs[:, 0], self.pairs[:, 1]])
        heads = np.concatenate([self.pairs[:, 1], self.pairs[:, 0]])
        order = np.lexsort((heads, tails))
        starts = np.concatenate([[0], np.cumsum(np.bincount(tails, minlength=n))])
        return starts, heads[order], (np.arange(2 * m) % max(1, m))[order]


@dataclass(frozen=True, eq=False)
class Cycles:
    """Cycles of variables, one after the other: the c-th is ``variables[starts[c]:starts[c + 1]]``."""

    starts: Array
    variables: Array

    @classmethod
    def stacked(cls, rows: Array) -> Cycles:
        """Take the rows of a matrix."""
        return cls(np.arange(len(rows) + 1) * rows.shape[1], np.ravel(rows))

    @classmethod
    def joined(cls, groups: list[Cycles]) -> Cycles:
        """Put groups of cycles one after the other."""
        sizes = np.concatenate([np.diff(group.starts) for group in groups])
        return cls(
            np.concatenate([[0], np.cumsum(sizes)]), np.concatenate([group.variables for group in groups])
        )

    def __len__(self) -> int:
        return self.starts.size - 1


def guaranteed_increases(
    costs: PairCosts, cycles: Cycles, is_late: Callable[[], bool] = lambda: False
) -> Array:
    r"""Return by how much the bound rises at least when a cycle is triangulated into clusters.

    .. math:: \min_{x_C} \Big[\sum_{u \in C} \theta'_u + \sum_{e \in C} \theta'_e\Big]
              - \sum_{u \in C} \min \theta'_u - \sum_{e \in C} \min \theta'_e \;\ge\; 0

    It is computed by min-plus products of the tables around the cycle, in time k^3 per pair.

    Parameters
    ----------
    costs : PairCosts
    cycles : Cycles
        Consecutive variables, and the last and the first, are pairs of `costs`.
    is_late : callable, optional
        Whether to look at no more cycles; the others count as raising it by 0.

    Returns
    -------
    ndarray of shape (len(cycles),)
        inf where a cycle shows that no labelling has finite energy.

    References
    ----------
    Sontag, Meltzer, Globerson, Jaakkola, Weiss (2008). Tightening LP relaxations for MAP using message
    passing. UAI. https://arxiv.org/abs/1206.3288
    """
    from cutplane.graphical.dual.cycle_kernels import score_cycles

    out = np.zeros(len(cycles))
    chunk = max(1, int(_WORK / max(1, costs.cardinalities.max(initial=1)) ** 3))
    for begin in range(0, len(cycles), chunk):
        if is_late():
            break
        out[begin : begin + chunk] = score_cycles(
            cycles.starts[begin : begin + chunk + 1],
            cycles.variables,
            *costs.graph,
            costs.cardinalities,
            costs.unary_starts,
            costs.unaries,
            costs.table_starts,
            costs.tables,
        )
    return out


def set_increases(costs: PairCosts, sets: list[tuple[int, ...]]) -> Array:
    """Return by how much the bound rises at least when a set of variables becomes a cluster.

    It is the least sum of all unaries and pairs inside, less the sum of their minima.

    Parameters
    ----------
    costs : PairCosts
    sets : list of tuple of int
        Ascending.
    """
    from cutplane.graphical.dual.set_kernels import score_sets

    sizes = [len(scope) for scope in sets]
    return score_sets(
        np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
        np.array([u for scope in sets for u in scope], dtype=np.int64),
        *costs.graph,
        costs.cardinalities,
        costs.unary_starts,
        costs.unaries,
        costs.table_starts,
        costs.tables,
    )
