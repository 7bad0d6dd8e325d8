"""Smooth multiple kernel learning by accelerated gradient steps on its dual."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.history import History, Record
from cutplane.engine.state import State
from cutplane.exceptions import InvalidInputError
from cutplane.methods.accelerated import AcceleratedGradient
from cutplane.mkl.smooth import SmoothedDual
from cutplane.pieces.validation import Array
from cutplane.problem import Problem

if TYPE_CHECKING:
    from cutplane.kernels.machine import KernelMachine
    from cutplane.mkl.problem import MKL
    from cutplane.mkl.result import MKLResult
    from cutplane.result import Result


@dataclass(frozen=True)
class SmoothMKL:
    """Nesterov's method on the dual of multiple kernel learning with an entropy.

    ``max over alpha in [0, C]^m of sum_i alpha_i - entropy ln(1/n_kernels sum_k exp(alpha'G_k alpha / (2
    entropy)))`` with ``G_k = diag(y) K_k diag(y)`` has the optimum of `MKL` with an entropy, the hinge loss
    and no intercept; the weights are the softmax of ``alpha'G_k alpha / (2 entropy)``. The objective is
    smooth, so that it is within O(1 / N^2) of the optimum after N steps, each of which takes two passes over
    the kernels. Certifies both bounds: those of the engine for the dual.

    Parameters
    ----------
    method : AcceleratedGradient, default AcceleratedGradient()
        How the dual is maximised.

    Raises
    ------
    InvalidInputError
        If the problem has no entropy, an intercept, or another loss.

    References
    ----------
    .. [1] Z. Xu, R. Jin, S. Zhu, M. R. Lyu, I. King, "Smooth optimization for effective multiple kernel
       learning", AAAI 2010, doi:10.1609/aaai.v24i1.7675.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> y = np.array([1.0, 1.0, -1.0, -1.0])
    >>> problem = cut.mkl.MKL([np.outer(y, y), np.eye(4)], y, entropy=0.1, intercept=False)
    >>> result = problem.solve(cut.mkl.SmoothMKL(), tol=1e-6)
    >>> print(result.status, round(result.objective, 4), result.weights.round(3))
    OPTIMAL 0.5671 [0.98 0.02]
    """

    method: AcceleratedGradient = field(default_factory=AcceleratedGradient)

    def solve(self, mkl: MKL, warm_start: MKLResult | None, options: dict[str, Any]) -> MKLResult:
        """Maximise the dual; return the weights and the predictor of its best point."""
        from cutplane.mkl.solve import ENGINE_SHARE, as_result, estimate_of, risk_of, train

        self._check(mkl)
        y, tol = mkl.machine.y, options["tol"]
        shown = [options[name] for name in ("callback", "progress", "log")]
        limits = {name: options[name] for name in ("max_iter", "time_limit")}
        risk = SmoothedDual(mkl.bank, y, mkl.C, mkl.entropy)
        start = None if warm_start is None else np.clip(y * warm_start.coefficients, 0.0, mkl.C)
        driver = Problem(risk, feasible_set=risk.feasible_set).iterate(
            self.method, x0=start, tol=ENGINE_SHARE * tol, **limits
        )
        result = driver.run(*shown, view=lambda state: State(_mirrored(state.record), None))
        assert result.x is not None
        answer = estimate_of(risk_of(mkl), y * result.x)
        weights, machine = train(mkl, _weights(risk, result), -result.lower_bound, tol, answer)
        found = as_result(mkl, weights, machine, -result.objective, result, tol)
        return replace(found, history=History([_mirrored(record) for record in result.history]))

    def _check(self, mkl: MKL) -> None:
        wrong = (
            "an entropy > 0"
            if mkl.entropy == 0.0
            else "intercept=False"
            if mkl.machine.intercept
            else "the hinge loss"
            if not _is_hinge(mkl.machine)
            else None
        )
        if wrong is not None:
            raise InvalidInputError(f"SmoothMKL needs {wrong}; got {mkl!r}. Use BMRM() or 'auto' otherwise.")


def _is_hinge(machine: KernelMachine) -> bool:
    """Tell whether the dual is that of the hinge: linear, on [0, C] for the label 1, on [-C, 0] for -1."""
    form, far = machine.form, machine.C * machine.y
    box = np.array([np.minimum(far, 0.0), np.maximum(far, 0.0)])
    return form.tube == form.ridge == 0.0 and np.array_equal(box, [form.lower, form.upper])


def _weights(risk: SmoothedDual, result: Result) -> Array:
    """Return the mean of the weights at the query points, by the multipliers that give the lower bound.

    By convexity they are at least as good as that bound says.
    """
    proof = result.certificate
    used = np.flatnonzero((proof.multipliers > 0.0) & np.isin(proof.queries, list(proof.points)))
    total = np.zeros(risk.bank.n_kernels)
    for row in used.tolist():
        total += proof.multipliers[row] * risk.weights(proof.points[int(proof.queries[row])])
    assert result.x is not None
    return total / total.sum() if total.any() else risk.weights(result.x)


def _mirrored(record: Record) -> Record:
    """Return the record of a maximisation: bounds with the other sign, exchanged."""
    return replace(record, lower_bound=-record.upper_bound, upper_bound=-record.lower_bound)
