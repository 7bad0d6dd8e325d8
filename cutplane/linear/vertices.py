"""Piecewise linear losses with an l1 norm along a path: the simplex method, from vertex to vertex."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.linear.predictor import predictor_of
from cutplane.linear.terms import terms_of
from cutplane.linear.vertex_passes import MOVED, OPTIMAL, step
from cutplane.losses.base import pieces_of
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import check_time

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration

_MOST_ENTRIES = 300_000
"""Entries of the data, because a step reads them all and a path takes about as many steps as it has examples:
at this size a path takes 0.2 to 0.9 of as many cold solves, at twice as many entries up to 1.5."""
_REFRESHED = 50
"""Steps after which everything is computed from the basis, because each leaves a rounding error."""
_APART = 1e-10
"""Random shifts of knots and costs, relative to them, because without these it may go in circles at ties."""
_STEPS = 20
"""Steps for each example and coordinate at one weight, many times what was ever seen, before it is left."""


class VertexFollower:
    """The simplex method on ``sum_i c_i l(<x_i, w> + b, y_i) + sum_j costs_j |w_j|``, for falling weights.

    The solution is a vertex: some examples lie at knots of their losses, and as many coordinates are not
    zero. Multipliers of these examples outside of the slopes at their knots, or slopes of the risk above the
    cost of a coordinate that is zero, say along which edge the objective falls; a step goes past all knots on
    it up to the minimum, as in the method of Barrodale and Roberts [1]_. The next weight begins at the vertex
    of the last.

    Parameters
    ----------
    problem : Declaration
        One that `can_walk` accepts.

    References
    ----------
    .. [1] I. Barrodale, F. D. K. Roberts, "An improved algorithm for discrete l1 linear approximation",
       SIAM Journal on Numerical Analysis 10, 1973, doi:10.1137/0710069.
    """

    def __init__(self, problem: Declaration):
        risk: Any = predictor_of(problem)
        rng = np.random.default_rng(0)
        self._risk, self._present = risk, np.flatnonzero(risk.weights > 0.0)
        X = risk.X.toarray() if sparse.issparse(risk.X) else risk.X
        X = np.asarray(X[self._present], dtype=np.float64)
        X = np.column_stack([X, np.ones(len(X))]) if risk.intercept else X
        m, n = X.shape
        pieces = risk.loss.pieces(risk.y)
        places = np.array(pieces.knots, dtype=np.float64)[:, self._present]
        apart = _APART * max(float(np.abs(places).max()), np.finfo(float).tiny) * rng.random(m)
        self._X, self._places = np.ascontiguousarray(X), np.ascontiguousarray(places + apart)
        self._weights = risk.weights[self._present]
        self._unweighted = np.array(pieces.slopes, dtype=np.float64)[:, self._present]
        self._slopes = np.ascontiguousarray(self._unweighted * self._weights)
        self._raised = 1.0 + _APART * rng.random(n)
        self._x, self._z = np.zeros(n), np.zeros(m)
        self._piece = (self._places <= 0.0).sum(axis=0)
        self._u = self._slopes[self._piece, np.arange(m)]
        self._base = self._u @ self._X
        integers = (np.zeros(n, np.int64) for _ in range(3))
        rows, knots, columns = integers
        self._basis = rows, knots, columns, np.zeros(n), np.full(n, -1), np.zeros(1, np.int64)
        self._inverse = np.zeros((n, n))
        count = places.size + n
        sizes = n, n, n, n, m, m, count, count
        self._work = tuple(np.empty(size) for size in sizes)

    @property
    def x(self) -> Array:
        """The point it has reached."""
        return self._x

    def solve(self, problem: Declaration, tolerance: Callable[[float], float]) -> tuple[Array, Array] | None:
        """Return the vertex and multipliers of the examples; None where rounding errors or ties lose it."""
        terms = terms_of(problem)
        if terms is None or not terms.costs.all():
            return None
        costs = terms.costs * self._raised
        state = self._x, self._z, self._piece, self._u, self._base, self._basis, self._inverse, self._work
        for count in range(_STEPS * sum(self._X.shape)):
            if count % _REFRESHED == 0:
                check_time()
                if not self._refresh():
                    return None
            outcome = step(self._X, self._places, self._slopes, costs, *state)
            if outcome != MOVED:
                return self._proposal(terms.costs) if outcome == OPTIMAL and self._refresh() else None
        return None

    def _refresh(self) -> bool:
        """Compute everything from the basis; tell whether that is possible."""
        rows, knots, columns, _, _, size = self._basis
        p = size[0]
        E, N = rows[:p], columns[:p]
        there = self._places[knots[:p], E]
        try:
            self._inverse[:p, :p] = np.linalg.inv(self._X[np.ix_(E, N)])
        except np.linalg.LinAlgError:
            return False
        self._x[:] = 0.0
        self._x[N] = self._inverse[:p, :p] @ there
        self._z[:] = self._X @ self._x
        self._z[E] = there
        self._base[:] = self._u @ self._X
        return bool(np.isfinite(self._x).all())

    def _proposal(self, costs: Array) -> tuple[Array, Array]:
        """Return the vertex, and multipliers scaled into the domain of the conjugate of the norm."""
        rows, knots, columns, signs, _, size = self._basis
        p = size[0]
        E, N, k = rows[:p], columns[:p], knots[:p]
        own = -(self._base[N] + costs[N] * signs[:p]) @ self._inverse[:p, :p]
        u = self._unweighted[self._piece, np.arange(self._piece.size)]
        u[E] = np.clip(own / self._weights[E], self._unweighted[k, E], self._unweighted[k + 1, E])
        excess = float((np.abs((self._weights * u) @ self._X) / costs).max())
        every = np.array(self._risk.loss.derivative(np.zeros(self._risk.y.size), self._risk.y), dtype=float)
        every[self._present] = u
        return self._x.copy(), every / max(1.0, excess * (1.0 + _APART))


def can_walk(problem: Declaration) -> bool:
    """Tell whether a path leads along vertices: a piecewise linear loss, costs everywhere, and few data."""
    risk, terms = predictor_of(problem), terms_of(problem)
    phi = None if risk is None else pieces_of(risk.loss)
    if risk is None or terms is None or phi is None or phi.curvatures.any() or risk.n_blocks > 1:
        return False
    bounded = np.isfinite(terms.low).any() or np.isfinite(terms.high).any()
    few = risk.X.shape[0] * risk.X.shape[1] <= _MOST_ENTRIES and np.isfinite(phi.slopes).all()
    linear = terms.costs.all() and not terms.weights.any() and not bounded
    return bool(few and linear and offers(problem.risk, Capability.DUAL_CUT))
