"""The equations by which the marginals of factors agree with those of their variables and pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array


class ConsistencyRows:
    """Collects sparse rows, the factors of one shape at once; their columns begin at `table_starts`."""

    def __init__(self, model: FactorGraph, table_starts: Array):
        self._model = model
        self._table_starts = table_starts
        self._widths: list[Array] = []
        self._columns: list[Array] = []
        self._values: list[Array] = []

    def normalise(self) -> None:
        """Let the marginals of each variable sum to 1."""
        model = self._model
        self._add(model.cardinalities, np.arange(model.unaries.size), np.ones(model.unaries.size))

    def with_variables(self, factors: Array) -> None:
        """Let the factors agree with their variables.

        The marginals of a factor sum to 1 by the agreement with its first variable; so the last state of
        every other one follows from the rest.
        """
        model = self._model
        for arity in np.unique(model.arities[factors]).tolist():
            mine = factors[model.arities[factors] == arity]
            scopes = model.scopes[model.scope_starts[mine][:, None] + np.arange(arity)]
            shapes, group = np.unique(model.cardinalities[scopes], axis=0, return_inverse=True)
            for number, shape in enumerate(shapes):
                chosen = group.ravel() == number
                parents = self._table_starts[mine[chosen]]
                for axis, children in enumerate(model.unary_starts[scopes[chosen].T]):
                    self._link(parents, children, shape, [axis], dropped=[axis] if axis else [])

    def with_pairs(self, cluster: int, pairs: Sequence[int], apart: bool) -> None:
        """Let a factor agree with its pairs: factors in lexicographic order of their variables.

        `apart` says that it does not agree with its variables yet. Once it does with one of a pair, the last
        state of the other follows from the rest.
        """
        scope, table = self._model.factor(cluster)
        settled = set() if apart else set(scope)
        for pair in pairs:
            members = self._model.factor(pair).variables
            axes = [scope.index(u) for u in members]
            dropped = [axis for axis, u in zip(axes, reversed(members), strict=True) if u in settled]
            self._link(self._table_starts[[cluster]], self._table_starts[[pair]], table.shape, axes, dropped)
            settled |= set(members)

    def rows(self, dim: int) -> tuple[sparse.csr_array, Array]:
        """Return the rows and their right sides."""
        widths = np.concatenate(self._widths)
        starts = np.concatenate([[0], np.cumsum(widths)])
        entries = np.concatenate(self._values), np.concatenate(self._columns).astype(np.int32), starts
        right = np.zeros(widths.size)
        right[: self._model.n_variables] = 1.0
        return sparse.csr_array(entries, shape=(widths.size, dim)), right

    def _link(
        self, parents: Array, children: Array, shape: Sequence[int], axes: list[int], dropped: list[int]
    ) -> None:
        """Let tables of one shape, at the columns `parents`, agree with those on their `axes` at `children`.

        The last state of the axes in `dropped` is left out.
        """
        inner = [shape[axis] for axis in axes]
        kept = np.ix_(*(np.arange(shape[axis] - (axis in dropped)) for axis in axes))
        states = np.arange(np.prod(inner)).reshape(inner)[kept].ravel()
        agreeing = np.moveaxis(np.arange(np.prod(shape)).reshape(shape), axes, range(len(axes)))
        agreeing = agreeing.reshape(*inner, -1)[kept].reshape(states.size, np.prod(shape) // np.prod(inner))
        columns = np.empty((parents.size, states.size, agreeing.shape[1] + 1), dtype=np.int64)
        columns[..., :-1] = parents[:, None, None] + agreeing
        columns[..., -1] = children[:, None] + states
        values = np.ones(columns.shape)
        values[..., -1] = -1.0
        self._add(np.full(parents.size * states.size, columns.shape[2]), columns.ravel(), values.ravel())

    def _add(self, widths: Array, columns: Array, values: Array) -> None:
        self._widths.append(widths)
        self._columns.append(columns)
        self._values.append(values)
