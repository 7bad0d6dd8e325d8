"""Standard variables, in which the columns of the data are centred and have similar sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from cutplane.engine.bundle import Points
from cutplane.engine.declaration import Declaration, remembered
from cutplane.masters.base import HALF_SPACE, ReducedProblem
from cutplane.pieces.capabilities import Capability, ask, offers
from cutplane.pieces.forms import GroupedForm, Programme
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import TRIVIAL
from cutplane.regularizers.base import Regularizer, separable_form_of, unregularized_by
from cutplane.regularizers.norms import GroupLasso
from cutplane.regularizers.separable import L1, L2, NoRegularizer
from cutplane.risks.base import Risk
from cutplane.risks.columns import Columns, unusual_units
from cutplane.risks.sums import LinearObjective
from cutplane.sets.box import Box

_SPLIT = 2.0**27 + 1.0
"""Factor that splits a float64 into two halves of 26 bits, because products of such halves are exact (Dekker
1971)."""
_NUMBERS = 3
"""Largest size of a programme of squares per coordinate, because a square has one row and two auxiliary
variables."""


@dataclass(frozen=True, eq=False)
class Change:
    """x = (u / size, c - <centre, u / size>), between the user's x and the variables (u, c) of a solve.

    Predictions are the same: X w + b = ((X - 1 centre') / size) u + c. If x is a matrix, for example with a
    row of weights for each class, each row is changed in this way. Sizes are powers of two.
    """

    centre: Array
    size: Array
    intercept: bool
    rows: int = 1

    @property
    def dim(self) -> int:
        """The dimension of x."""
        return self.rows * (self.size.size + self.intercept)

    @cached_property
    def units(self) -> Array:
        """The unit of each coordinate of x, shape (dim,): 1 for intercepts."""
        return np.tile(np.append(self.size, 1.0) if self.intercept else self.size, self.rows)

    def outward(self, u: Array) -> Array:
        """Return x; only its intercepts are rounded, and only once."""
        x = u / self.units
        return self._shifted(x, x, -self.centre)

    def inward(self, x: Array) -> Array:
        """Return (u, c); c is rounded once, however large its terms are."""
        return self._shifted(x * self.units, x, self.centre)

    def farthest(self, x: Array) -> float:
        """Return the largest absolute intercept."""
        return float(np.abs(x.reshape(self.rows, -1)[:, -1]).max()) if self.intercept else 0.0

    def _shifted(self, to: Array, x: Array, factors: Array) -> Array:
        """Add <factors, w> to the intercepts in `to`, where w are the weights in x."""
        far = np.flatnonzero(factors)
        if self.intercept and far.size:
            for new, old in zip(to.reshape(self.rows, -1), x.reshape(self.rows, -1), strict=True):
                new[-1] = math.fsum([new[-1], *_exact_products(factors[far], old[far])])
        return to

    @cached_property
    def _of_slopes(self) -> sparse.csr_array:
        """The matrix M for which (slopes in (u, c)) M are slopes in x."""
        sizes = sparse.csr_array(sparse.diags_array(self.size))
        if self.intercept:
            last = sparse.csr_array(self.centre.reshape(1, -1))
            blocks = [[sizes, None], [last, sparse.csr_array([[1.0]])]]
            sizes = sparse.csr_array(sparse.block_array(blocks))
        return sparse.csr_array(sparse.kron(sparse.eye_array(self.rows), sizes))

    def certificate_outward(self, certificate: Any, problem: Declaration) -> Any:
        """Return the certificate of the standard problem as a certificate of the user's problem."""
        return replace(
            certificate,
            slopes=certificate.slopes @ self._of_slopes,
            points=Points({query: self.outward(u) for query, u in certificate.points.items()}),
            x=None if certificate.x is None else self.outward(certificate.x),
            problem=problem,
            standard=certificate,
        )

    def certificate_inward(self, certificate: Any) -> Any:
        """Return the standard proof in a certificate if it is in these variables; otherwise None."""
        known = certificate.standard
        if known is None or known.slopes.shape[1] != self.dim:
            return None
        apart = abs(known.slopes @ self._of_slopes - certificate.slopes)
        return known if apart.sum() == 0.0 else None


class SameVariables:
    """No change of variables, for a problem whose risk became its regularizer; see `holding_squares`."""

    def outward(self, x: Array) -> Array:
        """Return x."""
        return x

    def inward(self, x: Array) -> Array:
        """Return x."""
        return x

    def farthest(self, x: Array) -> float:
        """Return the largest intercept: 0, because there is none."""
        return 0.0

    def certificate_outward(self, certificate: Any, problem: Declaration) -> Any:
        """Return a certificate of the user's problem, whose cuts are the infimum 0 of the risk."""
        return replace(
            certificate,
            queries=np.where(certificate.blocks == HALF_SPACE, certificate.queries, TRIVIAL),
            risk_value=math.inf if certificate.x is None else problem.risk(certificate.x),
            problem=problem,
            standard=certificate,
        )

    def certificate_inward(self, certificate: Any) -> Any:
        """Return the standard proof in a certificate if it has the same rows; otherwise None."""
        known = certificate.standard
        if known is None or known.slopes.shape != certificate.slopes.shape:
            return None
        return known if abs(known.slopes - certificate.slopes).sum() == 0.0 else None


SAME = SameVariables()


class Restated(NamedTuple):
    """A problem in standard variables, or one whose risk became its regularizer, and the change."""

    problem: Declaration
    change: Change | SameVariables


_columns: WeakKeyDictionary[Risk, Columns | None] = WeakKeyDictionary()
_changed: WeakKeyDictionary[Risk, dict[tuple[bool, bool], tuple[Risk, Change] | None]] = WeakKeyDictionary()
"""Risks in standard variables, by risk, because problems with the same risk, for example along a path, share
them."""


@remembered
def standardized(problem: Declaration) -> Restated | None:
    """Return the problem in standard variables; None if its columns need no change, or cannot be changed.

    Columns can be centred if the intercepts are free, because only the intercepts change then. They can be
    scaled if regularizer and set are sums over the coordinates, because they are sums in any unit; norms of
    groups become norms of linear images. If the problem has separation oracles, its risk may become its
    regularizer instead; see `holding_squares`.
    """
    if problem.separators:
        holding = holding_squares(problem)
        return holding and Restated(holding, SAME)
    risk: Any = problem.risk
    bounds = problem.simple_set.bounds(problem.dim)
    if problem.as_given or bounds is None or not offers(risk, Capability.UNITS):
        return None
    if risk not in _columns:
        _columns[risk] = risk.data_columns()
    if (columns := _columns[risk]) is None:
        return None
    form = separable_form_of(problem.active_regularizer, problem.dim)
    if form is None and np.isinf(bounds).all():
        form = ask(problem.active_regularizer, Capability.GROUPED, problem.dim)
    scaled = form is not None and (isinstance(form, GroupedForm) or form.quadratic.constant == 0.0)
    unregularized = unregularized_by(problem.active_regularizer, problem.dim)
    places = columns.intercepts
    centred = places.size > 0 and unregularized is not None and bool(unregularized[places].all())
    centred = centred and bool(np.isinf(bounds)[:, places].all())
    found = _in_units(risk, columns, centred, scaled) if centred or scaled else None
    if found is None:
        return None
    inner, change = found
    if (change.size == 1.0).all():
        return Restated(Declaration(inner, problem.regularizer, problem.feasible_set), change)
    lower, upper = bounds * change.units
    inside = Box(lower, upper) if np.isfinite(bounds).any() else None
    return Restated(Declaration(inner, _in_unit(form, change.units), inside), change)


def _in_units(risk: Any, columns: Columns, centred: bool, scaled: bool) -> tuple[Risk, Change] | None:
    """Return the risk of standard columns, and the change of variables; None if the columns are fine."""
    known = _changed.setdefault(risk, {})
    if (centred, scaled) not in known:
        units = unusual_units(columns, centred, scaled)
        change = units and Change(*units, columns.intercept, columns.rows)
        known[centred, scaled] = change and (risk.in_units(change.centre, change.size), change)
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
    """Return numbers whose exact sum is sum_i a_i b_i."""
    halves = []
    for factor in (a, b):
        high = factor * _SPLIT
        high -= high - factor
        halves.append((high, factor - high))
    (a1, a2), (b1, b2) = halves
    product = a * b
    return np.concatenate([product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)])


def holding_squares(problem: Declaration) -> Declaration | None:
    """Return a problem with separation oracles with its separable quadratic risk as regularizer, or None.

    Cuts that approximate squares grow in number with the dimension, whereas a quadratic master treats squares
    exactly at no cost. Return None for any other risk, because cuts then cost less than conic masters, and
    None if the quadratic master refuses the problem.
    """
    risk, dim = problem.risk, problem.dim
    if not problem.separators or problem.as_given or risk.linear:
        return None
    stated = ask(risk, Capability.PROGRAMME)
    if stated is None or stated.kinked or stated.size > _NUMBERS * dim:
        return None
    held: Regularizer | None = _squares(stated.build(), dim)
    if held is None:
        return None
    if problem.active_regularizer.lam > 0.0:
        held = held + problem.active_regularizer
    from cutplane.masters.simplex_qp import SimplexQP

    if SimplexQP.refusal(ReducedProblem(dim, 1, held, problem.simple_set), None) is not None:
        return None
    return Declaration(LinearObjective(np.zeros(dim)), held, problem.feasible_set)


def _squares(programme: Programme, dim: int) -> L2 | None:
    """Return a programme as a sum of squares if it is one and no number must be rounded; otherwise None.

    Each row is factor x_j - a + b = side, where a and b have the same curvature and no cost.
    """
    form, curvatures = programme.linear, programme.curvatures[dim:]
    rows: Any = sparse.csr_array(form.rows[:, :dim])
    auxiliaries, places, factors = form.rows[:, dim:], rows.indices, rows.data
    alone = (np.diff(rows.indptr) == 1).all() and np.unique(places).size == places.size
    exact = not programme.constant and (np.frexp(np.abs(factors))[0] == 0.5).all()  # powers of two
    square = (form.row_lower == form.row_upper).all() and not (auxiliaries @ curvatures).any()
    if form.cost.any() or not (alone and exact and square):
        return None
    weights, centre = np.zeros((2, dim))
    weights[places] = 0.5 * (abs(auxiliaries) @ curvatures) * factors**2
    centre[places] = form.row_upper / factors
    return L2(1.0, centre, weights)
