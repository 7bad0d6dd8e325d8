"""The results of multiple kernel learning for one or several values of C, and their verification."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from cutplane.engine.path import Results
from cutplane.pieces.validation import Array
from cutplane.proof.certificate import Certificate, Verification
from cutplane.report.plotting import as_axes
from cutplane.result import BaseResult
from cutplane.runtime.extras import require_extra
from cutplane.status import Status

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from cutplane.mkl.problem import MKL

_SHOWN = 3
"""Kernels that `repr` names, because more do not fit on a line."""
_AGREEMENT = 1e-9
"""Relative difference up to which objectives are equal, because each sums thousands of rounded terms."""
_EPS = float(np.finfo(np.float64).eps)
"""Relative rounding error of the predictions K a, because their errors change the losses."""
_FEASIBLE = 1e-7
"""Violation of a set by weights of norm 1 that is accepted, because projections and solvers are inexact."""


@dataclass(frozen=True, eq=False, repr=False)
class MKLResult(BaseResult):
    """Weights of the kernels, their predictor, and bounds of the optimum.

    Attributes
    ----------
    weights : ndarray of shape (n_kernels,)
        The weights beta.
    coefficients : ndarray of shape (m,)
        The a of the predictor ``sum_k beta_k / rho_k^2 sum_i a_i K_k(x_i, .) + intercept``.
    intercept : float
    objective : float
        The objective of weights and predictor, an upper bound of the optimum.
    lower_bound : float
        A certified lower bound of the optimum.
    gap, gap_abs : float
    status : Status
        OPTIMAL only if the gap is within the tolerance.
    reason : str
    history : History
    certificate : Certificate
        The certificate of the problem over the weights; each cut has its coefficients. Its upper bound may
        differ slightly from `objective`, because the predictor was trained once more at the end.
    method : str
    mkl : MKL
        The problem.
    """

    weights: Array
    coefficients: Array
    intercept: float
    objective: float
    lower_bound: float
    certificate: Certificate
    mkl: MKL = field(repr=False)

    @property
    def x(self) -> Array:
        """The weights."""
        return self.weights

    @property
    def selected(self) -> Array:
        """The indices of the kernels with nonzero weight, in decreasing order of weight."""
        order = np.argsort(-self.weights, kind="stable")
        return order[self.weights[order] > 0.0]

    def verify(self, mkl: MKL | None = None) -> Verification:
        """Recompute both bounds from the kernels alone.

        The upper bound is the objective of the weights and the predictor, computed with a new sum of the
        kernels. The lower bound is the larger of two bounds: the dual objective of `coefficients`, and the
        bound of the certificate, whose cuts are computed again from their coefficients. The weights and the
        coefficients are checked to be feasible. The kernels are not tested again for negative eigenvalues.

        Parameters
        ----------
        mkl : MKL, optional
            The problem; by default the solved problem.

        Returns
        -------
        Verification
            ``n_checked`` counts the cuts that were computed again.
        """
        mkl = self.mkl if mkl is None else mkl
        problems: list[str] = []
        machine, weights, a = mkl.machine, self.weights, self.coefficients
        if weights.shape != (mkl.bank.n_kernels,) or a.shape != (mkl.bank.n_samples,):
            return Verification(False, -math.inf, math.inf, 0, (f"the result is not one of {mkl!r}",))
        violation = mkl.problem.simple_set.violation(weights)
        if violation > _FEASIBLE or (weights < 0.0).any():
            problems.append(f"the weights violate {mkl.problem.simple_set!r} by {violation:.3g}")
        kernel = mkl.bank.weighted_sum(weights)
        predictions = kernel @ a
        half_norm = 0.5 * float(a @ predictions)
        losses = machine.form.losses(machine.y - predictions - self.intercept)
        entropy = mkl.problem.regularizer.value(weights)
        upper = half_norm + losses + entropy
        size = abs(half_norm) + abs(losses) + abs(entropy) + float(np.abs(machine.y) @ np.abs(a))
        box = np.maximum(-machine.form.lower, machine.form.upper)
        steepness = np.where(np.isfinite(box), box, np.abs(a))
        slack = _AGREEMENT * size + _EPS * machine.form.losses(machine.y)  # the losses of the predictor 0
        slack += _EPS * (a.size + 16) * float(steepness @ (np.abs(kernel) @ np.abs(a)))
        if abs(upper - self.objective) > slack:
            problems.append(f"the objective is {upper:.10g}, not {self.objective:.10g}")
        if not machine.feasible(a):
            problems.append("the coefficients are not feasible in the dual")
        lower, checked = _dual_value(mkl, a, upper), 1
        if lower < self.lower_bound - slack:
            bound, count, found = self._certified(mkl, upper)
            lower, checked = max(lower, bound), checked + count
            problems += found
        if self.lower_bound - lower > slack:
            problems.append(f"only the lower bound {lower:.10g} could be proven, not {self.lower_bound:.10g}")
        if self.lower_bound > self.objective:
            problems.append("the lower bound is above the objective")
        if self.status is Status.OPTIMAL and not math.isfinite(lower):
            problems.append("OPTIMAL is claimed without a lower bound")
        return Verification(not problems, lower, upper, checked, tuple(problems))

    def _certified(self, mkl: MKL, upper: float) -> tuple[float, int, tuple[str, ...]]:
        """Return the bound of the certificate, the number of recomputed cuts, and the problems found."""
        certificate = self.certificate
        if certificate.problem is not None and isinstance(certificate.problem.risk, DualRisk):
            return _dual_value(mkl, certificate.problem.risk.coefficients(certificate.x), upper), 1, ()
        machine_is_another = replace(certificate, x=None, upper_bound=math.inf)
        found = machine_is_another.verify(mkl.problem)
        return found.lower_bound, found.n_checked, found.problems

    def predict(self, Z: Any) -> Array:
        """Return the predictions for new points, shape (n,); kernels with weight zero are not evaluated.

        Parameters
        ----------
        Z : array_like of shape (n, n_features)
            The argument of the bank's `predict`. For `PrecomputedKernels` these are the kernel values between
            new points and training points, shape (n_kernels, n, m).
        """
        return self.mkl.bank.predict(Z, self.weights, self.coefficients) + self.intercept

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame of the kernels with nonzero weight (needs the extra ``tables``)."""
        pd = require_extra("pandas", "tables")
        chosen = self.selected
        names = [self.mkl.bank.names[k] for k in chosen]
        return pd.DataFrame({"kernel": names, "weight": self.weights[chosen]}, index=chosen)

    def plot_weights(self, ax: Axes | None = None, most: int = 20) -> Axes:
        """Plot the largest weights as bars and return the axes (needs the extra ``plot``).

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw into; by default new axes.
        most : int, default 20
            Largest number of kernels shown.
        """
        chosen, drawn = self.selected[:most], as_axes(ax)
        places = np.arange(chosen.size)
        drawn.barh(places, self.weights[chosen])
        drawn.set_yticks(places, [self.mkl.bank.names[k] for k in chosen])
        drawn.invert_yaxis()
        drawn.set_xlabel("weight")
        return drawn

    def _facts(self) -> dict[str, Any]:
        chosen = self.selected
        largest = ", ".join(f"{self.mkl.bank.names[k]}: {self.weights[k]:.3g}" for k in chosen[:_SHOWN])
        return {
            "objective": f"{self.objective:.10g}",
            "lower bound": f"{self.lower_bound:.10g}",
            "gap": f"{self.gap:.3g}",
            "kernels": f"{chosen.size} of {self.weights.size} have weight ({largest})",
            "iterations": f"{self.n_iter} ({self.oracle_calls} kernel machines)",
            "method": self.method,
            **self._seconds("kernel machines"),
        }


@runtime_checkable
class DualRisk(Protocol):
    """A risk that is a function of the dual variables."""

    def coefficients(self, x: Any) -> Array:
        """Return the coefficients of the predictor for a point, shape (m,)."""
        ...


def _dual_value(mkl: MKL, a: Array, upper: float) -> float:
    """Return the lower bound of coefficients a; -inf if they are not feasible."""
    slopes, offsets = mkl.risk.dual_cut(a)
    if not np.isfinite(offsets).all():
        return -math.inf
    from cutplane.proof.dual import DualFunction

    return DualFunction(mkl.problem)(slopes, offsets, np.zeros(1, np.int64), np.ones(1), upper).value


@dataclass(frozen=True, eq=False, repr=False)
class MKLPath(Results[MKLResult]):
    """The results for a sequence of values of C.

    Attributes
    ----------
    Cs : ndarray of shape (n,)
    results : tuple of MKLResult
    """

    Cs: Array
    results: tuple[MKLResult, ...]

    @property
    def weights(self) -> Array:
        """The weights at each C, shape (n, n_kernels)."""
        return np.array([result.weights for result in self.results])

    def to_frame(self) -> pd.DataFrame:
        pd = require_extra("pandas", "tables")
        return pd.DataFrame(
            {
                "C": self.Cs,
                "objective": self.objectives,
                "lower_bound": [result.lower_bound for result in self.results],
                "gap": [result.gap for result in self.results],
                "status": [str(result.status) for result in self.results],
                "kernels": [result.selected.size for result in self.results],
                "machines": [result.oracle_calls for result in self.results],
            }
        )

    def __repr__(self) -> str:
        return (
            f"MKLPath({len(self)} values of C from {self.Cs[0]:.3g} to {self.Cs[-1]:.3g}, "
            f"{self.oracle_calls} kernel machines, largest gap {max(result.gap for result in self):.2g})"
        )
