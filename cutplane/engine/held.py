"""Squares of single coordinates in a risk, which masters hold exactly as a regularizer, instead of cuts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.engine.declaration import Declaration
from cutplane.masters.base import HALF_SPACE, ReducedProblem
from cutplane.pieces.capabilities import Capability, ask
from cutplane.pieces.forms import Programme
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import TRIVIAL
from cutplane.regularizers.base import Regularizer
from cutplane.regularizers.l2 import L2
from cutplane.risks.objective import LinearObjective

_NUMBERS = 3
"""Numbers of a programme per coordinate, because a square has a row of it and of two auxiliaries."""


def holding_squares(problem: Declaration) -> Declaration | None:
    """Return a problem with separation oracles with its risk as a regularizer, if that is such squares.

    Cuts approximate squares by a number of rows that grows with the dimension, where a quadratic
    master takes them for nothing. None if the risk is anything else, because cuts of a risk that mixes its
    coordinates, or is piecewise linear, cost less than conic masters; and where that master refuses.
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
    from cutplane.masters.qp.simplex_qp import SimplexQP

    if SimplexQP.refusal(ReducedProblem(dim, 1, held, problem.simple_set), None) is not None:
        return None
    return Declaration(LinearObjective(np.zeros(dim)), held, problem.feasible_set)


def _squares(programme: Programme, dim: int) -> L2 | None:
    """Return a programme as squares if it is nothing else, and numbers are not rounded on the way.

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


class SameVariables:
    """The way back from a problem that holds the risk in its regularizer."""

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
        """Return a certificate of the user's problem, where zero is a cut that does not touch the risk."""
        return replace(
            certificate,
            queries=np.where(certificate.blocks == HALF_SPACE, certificate.queries, TRIVIAL),
            risk_value=math.inf if certificate.x is None else problem.risk(certificate.x),
            problem=problem,
            standard=certificate,
        )

    def certificate_inward(self, certificate: Any) -> Any:
        """Return the proof that a certificate keeps, if it is one of the same rows; else None."""
        known = certificate.standard
        if known is None or known.slopes.shape != certificate.slopes.shape:
            return None
        return known if abs(known.slopes - certificate.slopes).sum() == 0.0 else None


SAME = SameVariables()
