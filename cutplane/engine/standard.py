"""A problem in other variables, in which the columns of its data are centred and of one size."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from cutplane.engine.declaration import Declaration, remembered
from cutplane.engine.slopes import Points
from cutplane.pieces.capabilities import Capability, ask, offers
from cutplane.pieces.forms import GroupedForm
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import Regularizer, separable_form_of, unregularized_by
from cutplane.regularizers.group_lasso import GroupLasso
from cutplane.regularizers.l1 import L1
from cutplane.regularizers.l2 import L2
from cutplane.regularizers.none import NoRegularizer
from cutplane.risks.base import Risk
from cutplane.sets.box import Box

_SPLIT = 2.0**27 + 1.0
"""Splits a float64 into two halves of 26 bits, because products of such halves are exact (Dekker 1971)."""


@dataclass(frozen=True, eq=False)
class Change:
    """x = (u / size, c - <centre, u / size>), between the user's x and the variables (u, c) of a solve.

    Predictions are the same: X w + b = ((X - 1 centre') / size) u + c.

    Parameters
    ----------
    centre, size : ndarray of shape (n,)
        The sizes are powers of two.
    intercept : bool
        Whether there are b and c.
    """

    centre: Array
    size: Array
    intercept: bool

    def outward(self, u: Array) -> Array:
        """Return x; its intercept is rounded once."""
        x = u.copy()
        x[: self.size.size] /= self.size
        return self._shifted(x, x, -self.centre)

    def inward(self, x: Array) -> Array:
        """Return (u, c); c is rounded once, however large the terms are that cancel in it."""
        u = x.copy()
        u[: self.size.size] *= self.size
        return self._shifted(u, x, self.centre)

    def _shifted(self, to: Array, x: Array, factors: Array) -> Array:
        """Add <factors, w> to the intercept in `to`; w and the intercept are those of x."""
        far = np.flatnonzero(factors)
        if self.intercept and far.size:
            to[-1] = math.fsum([to[-1], *_exact_products(factors[far], x[far])])
        return to

    @cached_property
    def _of_slopes(self) -> sparse.csr_array:
        """The matrix M for which the rows of S M are slopes in x, if those of S are slopes in (u, c)."""
        if not self.intercept:
            return sparse.csr_array(sparse.diags_array(self.size))
        last = sparse.csr_array(self.centre.reshape(1, -1))
        blocks = [[sparse.diags_array(self.size), None], [last, sparse.csr_array([[1.0]])]]
        return sparse.csr_array(sparse.block_array(blocks))

    def certificate_outward(self, certificate: Any, problem: Declaration) -> Any:
        """Return a certificate of the standard problem as one of the user's, which keeps it as its proof."""
        return replace(
            certificate,
            slopes=certificate.slopes @ self._of_slopes,
            points=Points({query: self.outward(u) for query, u in certificate.points.items()}),
            x=None if certificate.x is None else self.outward(certificate.x),
            problem=problem,
            standard=certificate,
        )

    def certificate_inward(self, certificate: Any) -> Any:
        """Return the proof that a certificate keeps, if it is one in these variables; else None."""
        known = certificate.standard
        if known is None or known.slopes.shape[1] != self.size.size + self.intercept:
            return None
        apart = abs(known.slopes @ self._of_slopes - certificate.slopes)
        return known if apart.sum() == 0.0 else None


class Standard(NamedTuple):
    """A problem whose columns are centred and of one size, and the way back."""

    problem: Declaration
    change: Change


_known: WeakKeyDictionary[Risk, dict[tuple[bool, bool], tuple[Risk, Change] | None]] = WeakKeyDictionary()
"""Risks of standard columns, by risk: problems with the same risk, as along a path, share them."""


@remembered
def standardized(problem: Declaration) -> Standard | None:
    """Return the problem in standard variables; None if its columns are fine, or nothing can be changed.

    Columns can be centred where the intercept is free, because only the intercept changes then. They can be
    scaled where regularizer and set are sums over the coordinates, since these are so in any unit, and norms
    of groups become norms of their images.
    """
    risk: Any = problem.risk
    bounds = problem.simple_set.bounds(problem.dim)
    if problem.as_given or bounds is None or problem.separators or not offers(risk, Capability.UNITS):
        return None
    form = separable_form_of(problem.active_regularizer, problem.dim)
    if form is None and np.isinf(bounds).all():
        form = ask(problem.active_regularizer, Capability.GROUPED, problem.dim)
    scaled = form is not None and (isinstance(form, GroupedForm) or form.quadratic.constant == 0.0)
    unregularized = unregularized_by(problem.active_regularizer, problem.dim)
    centred = bool(
        risk.intercept and unregularized is not None and unregularized[-1] and np.isinf(bounds)[:, -1].all()
    )
    found = _in_units(risk, centred, scaled) if centred or scaled else None
    if found is None:
        return None
    inner, change = found
    if (change.size == 1.0).all():
        return Standard(Declaration(inner, problem.regularizer, problem.feasible_set), change)
    units = np.append(change.size, 1.0) if risk.intercept else change.size
    lower, upper = bounds * units
    inside = Box(lower, upper) if np.isfinite(bounds).any() else None
    return Standard(Declaration(inner, _in_unit(form, units), inside), change)


def _in_units(risk: Any, centred: bool, scaled: bool) -> tuple[Risk, Change] | None:
    """Return the risk of standard columns, and the change of variables; None if the columns are fine."""
    known = _known.setdefault(risk, {})
    if (centred, scaled) not in known:
        found = risk.in_usual_units(centred, scaled)
        known[centred, scaled] = found and (found[0], Change(found[1], found[2], bool(risk.intercept)))
    return known[centred, scaled]


def _in_unit(form: Any, units: Array) -> Regularizer:
    """Return u -> g(u / units) of a separable or grouped form g."""
    if isinstance(form, GroupedForm):
        used = (form.labels >= 0) & (form.costs[form.labels] > 0.0)
        labels, inverse = np.unique(form.labels[used], return_inverse=True)
        groups: Any = inverse
        back = sparse.csr_array(sparse.diags_array(1.0 / units[used]))
        return (GroupLasso(groups, 1.0, form.costs[labels]) @ back).on(np.flatnonzero(used))
    quadratic, costs = form.quadratic, form.costs / units
    terms: list[Regularizer] = []
    if costs.any():
        terms.append(L1(1.0, costs))
    if not quadratic.is_flat:
        terms.append(L2(1.0, quadratic.centre * units, quadratic.weights / units**2))
    return sum(terms[1:], terms[0]) if terms else NoRegularizer()


def _exact_products(a: Array, b: Array) -> Array:
    """Return numbers whose exact sum is that of the products a_i b_i."""
    halves = []
    for factor in (a, b):
        high = factor * _SPLIT
        high -= high - factor
        halves.append((high, factor - high))
    (a1, a2), (b1, b2) = halves
    product = a * b
    return np.concatenate([product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)])
