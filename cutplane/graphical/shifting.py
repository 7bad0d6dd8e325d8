"""Models with the same least energy whose tables have the minimum 0 and no needlessly large penalties."""

from __future__ import annotations

import math

import numpy as np

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.factors import FactorArrays, finite_sizes, places_of, sum_rounded_down
from cutplane.pieces.validation import Array

_EPS = float(np.finfo(np.float64).eps)
_PENALTY = 1e4
"""Size of penalties relative to energy differences that matter, because larger penalties cost more than four
of sixteen digits."""


def shifted(model: FactorGraph, cap: float = math.inf) -> FactorGraph:
    """Return a model whose tables have the minimum 0 and no finite entry above `cap`.

    Its energies are at most those of `model`, in exact arithmetic: differences and the constant are rounded
    down. The rounding errors of its sums are relative to the energy minus the sum of all minima, and not to
    the size of the costs.
    """
    unaries, low = _from_zero(model.unaries, model.unary_starts[:-1], cap)
    starts, first, which = np.unique(model.table_starts, return_index=True, return_inverse=True)
    sizes = model.table_sizes[first]
    ends = np.cumsum(sizes)
    tables, minima = _from_zero(model.tables[places_of(starts, sizes)], ends - sizes, cap)
    factors = FactorArrays(
        unaries=unaries,
        scope_starts=model.scope_starts,
        scopes=model.scopes,
        table_starts=(ends - sizes)[which],
        tables=tables,
        constant=sum_rounded_down([model.constant, *low.tolist(), *minima[which].tolist()]),
    )
    return model.alike(factors)


def without_penalties(model: FactorGraph, energy: float) -> FactorGraph:
    """Return a model of the same least energy without needlessly large penalties.

    Let `energy` be the energy of some labelling, and d its difference to the sum of the minima of all tables.
    A labelling has a larger energy if it uses an entry that exceeds the minimum of its table by more than d.
    Such entries are reduced, because large ones would cost the other terms their digits. If `energy` is inf,
    or no entry is that large, `model` itself is returned.
    """
    if not math.isfinite(energy) or not math.isfinite(model.constant):
        return model
    low = shifted(model)
    room = max(0.0, math.nextafter(energy, math.inf) - low.constant) * (1.0 + 2.0 * _EPS)
    if finite_sizes(low.unaries, low.tables).max(initial=0.0) <= _PENALTY * room:
        return model
    return shifted(model, math.ldexp(1.0, math.frexp(room)[1]))


def bound_of_minimum(model: FactorGraph, labelling: Array) -> float:
    """Return a lower bound of all energies, from a labelling that minimises them in floating point.

    The algorithm may only add and compare, in any order, the costs of a `shifted` model. Because all terms
    are nonnegative, and each is in fewer additions than there are terms, the relative error of a sum is at
    most the number of terms times the rounding unit. This is true for the minimum and for the energy of the
    labelling that attains it.
    """
    above = math.fsum(model.terms(labelling)[1:])
    error = _EPS * (model.n_variables + model.n_factors + 8)
    return sum_rounded_down([model.constant, above * (1.0 - error)])


def _from_zero(costs: Array, starts: Array, cap: float) -> tuple[Array, Array]:
    """Return costs minus the minima of their segments, rounded down and capped, and the minima."""
    if not costs.size:
        return costs.copy(), np.zeros(starts.size)
    low = np.minimum.reduceat(costs, starts)
    low = np.where(np.isfinite(low), low, 0.0)
    each = np.repeat(low, np.diff(np.append(starts, costs.size)))
    finite = np.isfinite(costs)
    above = np.where(finite, costs, each)
    out = above - each
    back = out - above
    error = (above - (out - back)) - (each + back)  # the exact error of the difference (Knuth's two-sum)
    out = np.where(error < 0.0, np.nextafter(out, -np.inf), out)
    return np.where(finite, np.minimum(np.maximum(out, 0.0), cap), np.inf), low
