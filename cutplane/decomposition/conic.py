"""Second stages that are cone programmes, solved by Clarabel, with cuts from dual points of the cone."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import clarabel
import numpy as np
from scipy import sparse

from cutplane.decomposition.stage import FEASIBLE, REACH, Answer, SolvedStage
from cutplane.exceptions import OracleError
from cutplane.masters.cone_programme import into_dual_cone
from cutplane.masters.units import unit_of
from cutplane.pieces.validation import Array
from cutplane.sets.base import HalfSpace

_solver: Any = clarabel  # type checkers do not find clarabel's names
_TOLERANCES = 1e-10, 1e-8, 1e-6
"""Tolerances of Clarabel, in the order of attempts, for costs scaled to about 1; each one gives valid cuts,
because any multipliers do."""


@dataclass(frozen=True, eq=False)
class ConicStage:
    """Q(x) = min over y of 1/2 u'P u + c'u + constant with A u + s = b, s in K, where u holds x and y.

    Attributes
    ----------
    A, P : csc_array
        P is symmetric, with both triangles stored.
    b, c : ndarray
    dims : cvxpy ConeDims
        The cone K.
    mine, others : ndarray of int
        The columns of x, and the columns of y.
    constant : float
    """

    A: Any
    b: Array
    c: Array
    P: Any
    dims: Any
    mine: Array
    others: Array
    constant: float

    @property
    def n_multipliers(self) -> int:
        """The number of entries of multipliers (z, u): the rows for z, and the columns for u."""
        return self.b.size + self.c.size

    @cached_property
    def size(self) -> float:
        """The largest absolute right-hand side, at least 1."""
        return max(1.0, float(np.abs(self.b).max(initial=0.0)))

    def cut(self, multipliers: Array) -> tuple[Array, float]:
        """Return the slope and the offset of a cut, which is valid for any multipliers (z, u).

        z is first projected onto the dual cone. With r = c + P u + A'z, the slope is r_x, and the offset is
        ``constant - 1/2 u'P u - b'z`` minus the residual |r_y| times a bound of y, ten times the largest
        entry of u and b.
        """
        z, u = np.split(multipliers, [self.b.size])
        z = into_dual_cone(z, self.dims, upper=True)
        Pu = self.P @ u
        residual = self.c + Pu + self.A.T @ z
        reach = REACH * max(self.size, float(np.abs(u).max()))
        charge = reach * float(np.abs(residual[self.others]).sum())
        return residual[self.mine], self.constant - 0.5 * float(u @ Pu) - float(self.b @ z) - charge

    def elastic(self) -> ConicStage:
        """Return the stage that minimises the shifts of b which make the constraints feasible."""
        zero, head, columns = self.dims.zero, self.dims.zero + self.dims.nonneg, self.c.size
        moves = 2 * zero + 1
        unit = sparse.eye_array(self.b.size, zero)
        aside = sparse.csc_array(sparse.hstack([unit, -unit, -_interior(self.dims)[:, np.newaxis]]))
        rows = sparse.csr_array(sparse.hstack([self.A, aside]))
        signs = -sparse.eye_array(moves, columns + moves, k=columns)
        dims = copy(self.dims)
        dims.nonneg += moves
        return replace(
            self,
            A=sparse.csc_array(sparse.vstack([rows[:head], signs, rows[head:]])),
            b=np.concatenate([self.b[:head], np.zeros(moves), self.b[head:]]),
            c=np.concatenate([np.zeros(columns), np.ones(moves)]),
            P=sparse.csc_array((columns + moves,) * 2),
            dims=dims,
            others=np.concatenate([self.others, columns + np.arange(moves)]),
            constant=0.0,
        )

    def relaxed(self, moves: Array) -> ConicStage:
        """Return the stage with b shifted by slightly more than twice the elastic stage's `moves`."""
        more, less, into = moves[: self.dims.zero], moves[self.dims.zero : -1], moves[-1]
        b = self.b + (2.0 * max(into, 0.0) + self.size * FEASIBLE) * _interior(self.dims)
        b[: self.dims.zero] += less - more
        return replace(self, b=b)

    def solver(self) -> Callable[[Any, Array], Answer]:
        """Return a function that solves a stage at x."""
        return solve


def solve(stage: ConicStage, x: Array) -> Answer:
    """Return the solution at x, or a half-space if the elastic stage proves that there is none."""
    found = _optimum(stage, x)
    if found is None:
        elastic = stage.elastic()
        answer = _optimum(elastic, x)
        if answer is not None:
            shifted, _ = answer
            slope, offset = elastic.cut(shifted)
            if slope @ x + offset > FEASIBLE * stage.size:
                return HalfSpace(slope, -offset)
            found = _optimum(stage.relaxed(shifted[elastic.b.size + stage.c.size :]), x)
    if found is None:
        raise OracleError("Clarabel could not solve the second stage; check that it is bounded below.")
    multipliers, charge = found
    u = multipliers[stage.b.size :]
    value = stage.constant + float(stage.c @ u) + 0.5 * float(u @ (stage.P @ u))
    return SolvedStage(value + charge, multipliers)


def _optimum(stage: ConicStage, x: Array) -> tuple[Array, float] | None:
    """Return the multipliers (z, u) at x, and the violation of the rows weighted by the multipliers.

    Return None if Clarabel finds no solution.
    """
    from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import dims_to_solver_cones

    mine, others = stage.mine, stage.others
    P = sparse.csc_matrix(sparse.triu(stage.P[others][:, others]))
    unit = unit_of(max(float(np.abs(stage.c).max(initial=0.0)), float(np.abs(stage.P.data).max(initial=0.0))))
    cost, sides = stage.c[others] + stage.P[others][:, mine] @ x, stage.b - stage.A[:, mine] @ x
    W, cones = sparse.csc_matrix(stage.A[:, others]), dims_to_solver_cones(stage.dims)
    for tolerance in _TOLERANCES:
        settings = _solver.DefaultSettings()
        settings.verbose, settings.max_threads = False, 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        answer = _solver.DefaultSolver(P / unit, cost / unit, W, sides, cones, settings).solve()
        if answer.status in (_solver.SolverStatus.Solved, _solver.SolverStatus.AlmostSolved):
            u = np.empty(stage.c.size)
            u[mine], u[others] = x, answer.x
            z = unit * np.array(answer.z)
            return np.concatenate([z, u]), float(np.abs(z) @ np.abs(sides - W @ u[others] - answer.s))
        if answer.status == _solver.SolverStatus.PrimalInfeasible:
            break
    return None


def _interior(dims: Any) -> Array:
    """Return an interior point of K, with 0 for equations."""
    parts = [np.zeros(dims.zero), np.ones(dims.nonneg)]
    parts += [np.eye(1, size)[0] for size in dims.soc]
    for size in dims.psd:
        columns, rows = np.tril_indices(size)
        parts.append((rows == columns).astype(np.float64))
    parts += [np.array([-1.0, 1.0, 1.0])] * dims.exp
    parts += [np.array([1.0, 1.0, 0.0])] * len(dims.p3d)
    parts += [np.append(np.ones(len(alphas)), 0.0) for alphas in dims.pnd]
    return np.concatenate(parts)
