"""Multiple kernel learning: the problem, its solution, and the path over C."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.bank import as_bank
from cutplane.losses.base import ScalarLoss
from cutplane.losses.scalar import Hinge
from cutplane.methods.base import Method
from cutplane.methods.level import LevelBundle
from cutplane.mkl.methods import ClosedFormWeights
from cutplane.mkl.result import MKLPath, MKLResult
from cutplane.mkl.risk import MKLRisk, TrainedMachine
from cutplane.pieces.parameters import as_optional_vector
from cutplane.pieces.validation import Array, as_nonnegative, as_scalar, as_vector
from cutplane.problem import Problem
from cutplane.proof.certificate import Certificate
from cutplane.regularizers.entropy import RelativeEntropy
from cutplane.result import Result
from cutplane.risks.base import Estimate
from cutplane.sets.balls import NonnegativeBall
from cutplane.sets.simplex import Simplex
from cutplane.status import Status, relative_gap
from cutplane.stopping import gap_reason

if TYPE_CHECKING:
    from cutplane.engine.driver import Callback
    from cutplane.kernels.dual import DualForm

ENGINE_SHARE = 0.9
"""Share of the tolerance for finding the weights, because the final machine needs the rest."""
_LEVEL = 0.7
"""Level of `LevelBundle` in "auto", because it trained the fewest machines on 390 kernels for C = 1 and C =
100."""
_NEGLIGIBLE = 1e-3
"""Share of the largest weight below which weights become zero if the objective allows it, because each kernel
costs an evaluation in predictions."""


class MKL:
    """minimise D(beta) + entropy sum_k beta_k ln(n_kernels beta_k) over beta >= 0 with ||beta||_p <= 1.

    ``D(beta) = min over f in H_beta, b of 1/2 ||f||^2 + C sum_i l(f(x_i) + b, y_i)`` is the optimum of a
    kernel machine with the kernel ``sum_k beta_k K_k / rho_k^2``. With p = 1, beta is in the simplex, and few
    kernels have nonzero weights. An equivalent problem is to minimise ``C sum_i l(f(x_i) + b, y_i) + 1/2
    (sum_k (rho_k ||f_k||)^q)^(2/q)`` over ``f = sum_k f_k``, a group norm with q = 2 p / (p + 1).

    Parameters
    ----------
    kernels : KernelBank, PrecomputedKernels, or array_like of shape (n_kernels, m, m)
        Positive semidefinite kernels of the m training examples, for example a sequence of (m, m) arrays.
    y : array_like of shape (m,)
        Labels -1 and +1 for a classification loss, numbers for a regression loss.
    C : float, default 1.0
        Positive: the weight of each example's loss.
    loss : ScalarLoss, default Hinge()
        `Hinge`, `SquaredHinge`, `Squared`, `EpsilonInsensitive` or another loss that `KernelMachine`
        supports.
    norm : float, default 1.0
        p, in [1, inf].
    entropy : float, default 0.0
        At least 0; a positive weight (smooth MKL) needs norm 1. It increases the optimum by at most ``entropy
        ln n_kernels``.
    intercept : bool, default True
        Whether there is an unregularised intercept b.
    rho : array_like of shape (n_kernels,), optional
        Positive; by default ones.

    Raises
    ------
    InvalidInputError
        If a kernel is not m x m, a parameter is out of range, or `KernelMachine` does not support the loss.

    References
    ----------
    .. [1] S. Sonnenburg, G. Rätsch, C. Schäfer, B. Schölkopf, "Large scale multiple kernel learning", JMLR 7,
       2006, https://jmlr.org/papers/v7/sonnenburg06a.html.
    .. [2] M. Kloft, U. Brefeld, S. Sonnenburg, A. Zien, "lp-norm multiple kernel learning", JMLR 12, 2011,
       https://jmlr.org/papers/v12/kloft11a.html.
    .. [3] Z. Xu, R. Jin, S. Zhu, M. R. Lyu, I. King, "Smooth optimization for effective multiple kernel
       learning", AAAI 2010, doi:10.1609/aaai.v24i1.7675.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> y = np.array([1.0, 1.0, -1.0, -1.0])
    >>> kernels = [np.outer(y, y), np.eye(4)]
    >>> result = cut.mkl.MKL(kernels, y, C=1.0).solve(tol=1e-9)
    >>> print(result.status, round(result.objective, 6), result.weights.round(6))
    OPTIMAL 0.5 [1. 0.]
    """

    def __init__(
        self,
        kernels: Any,
        y: Any,
        C: float = 1.0,
        loss: ScalarLoss | None = None,
        norm: float = 1.0,
        *,
        entropy: float = 0.0,
        intercept: bool = True,
        rho: Any = None,
    ):
        from cutplane.kernels.machine import KernelMachine

        self.bank = as_bank(kernels)
        self.norm = as_scalar("norm", norm, low=1.0, infinite=True)
        self.entropy = as_nonnegative("entropy", entropy)
        if self.entropy > 0.0 and self.norm != 1.0:
            raise InvalidInputError(
                f"entropy is for norm=1, where the weights sum to 1; got norm={norm:g}. Set one of the two."
            )
        self.rho = as_optional_vector("rho", rho)
        if self.rho is not None:
            if self.rho.size != self.bank.n_kernels or not (self.rho > 0.0).all():
                raise InvalidInputError(f"rho must hold {self.bank.n_kernels} positive numbers, got {rho!r}.")
            self.bank = self.bank.scaled(self.rho**-2.0)
        self.machine = KernelMachine(Hinge() if loss is None else loss, y, C, intercept)
        if self.machine.y.size != self.bank.n_samples:
            raise InvalidInputError(
                f"y has {self.machine.y.size} entries, the kernels have {self.bank.n_samples} examples."
            )

    def __repr__(self) -> str:
        shown = f"norm={self.norm:g}" + (f", entropy={self.entropy:g}" if self.entropy else "")
        return f"MKL({self.bank!r}, {self.machine!r}, {shown})"

    @property
    def C(self) -> float:
        """The weight of each example's loss."""
        return self.machine.C

    def with_C(self, C: float) -> MKL:
        """Return the problem with another C, which shares the bank."""
        changed = copy(self)
        changed.machine = replace(self.machine, C=C)
        for computed in ("risk", "problem"):
            vars(changed).pop(computed, None)
        return changed

    @cached_property
    def risk(self) -> MKLRisk:
        """The optimum of the kernel machine as a function of the weights."""
        return MKLRisk(self.bank, self.machine)

    @cached_property
    def problem(self) -> Problem:
        """The problem that the engine solves: the risk over the simplex or a ball."""
        n = self.bank.n_kernels
        if self.norm > 1.0:
            return Problem(self.risk, feasible_set=NonnegativeBall(self.norm, dim=n))
        entropy = RelativeEntropy(1.0 / n, self.entropy) if self.entropy else None
        return Problem(self.risk, entropy, Simplex(n))

    @property
    def automatic(self) -> Method:
        """The method for "auto"."""
        return ClosedFormWeights() if self.norm > 1.0 else LevelBundle(_LEVEL)

    def solve(
        self,
        method: Method | DualMethod | Literal["auto"] = "auto",
        *,
        tol: float = 1e-3,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        warm_start: MKLResult | None = None,
        callback: Callback | None = None,
        progress: bool = False,
        log: bool = False,
    ) -> MKLResult:
        """Find weights and a predictor whose objective is within `tol` of the optimum.

        Parameters
        ----------
        method : Method or "auto", default "auto"
            For norm 1: `Kelley` (SILP), `LevelBundle`, `ProximalBundle`, `ReducedGradient` (SimpleMKL),
            `MirrorDescent`, `FrankWolfe` or `UniformWeights`. For any norm: `ClosedFormWeights`. With an
            entropy: `SmoothMKL`, `BMRM` or `LevelBundle`. "auto" is `LevelBundle` for norm 1 and
            `ClosedFormWeights` for larger norms.
        tol : float, default 1e-3
            Relative certified gap at which the status is OPTIMAL.
        max_iter : int, default 10000
        time_limit : float, optional
            Seconds; tested after each iteration.
        warm_start : MKLResult, optional
            A result for the same kernels and targets, possibly with another C. Its cuts are reused.
        callback : callable, optional
            Called with the `State` after each iteration; if it returns True, the run ends with INTERRUPTED.
        progress, log : bool, default False
            Show a live display; print a line per iteration.

        Returns
        -------
        MKLResult
            Also after Ctrl-C, with status INTERRUPTED and the best weights so far.
        """
        options: dict[str, Any] = {"max_iter": max_iter, "time_limit": time_limit}
        options |= {"callback": callback, "progress": progress, "log": log}
        chosen = self.automatic if method == "auto" else method
        if isinstance(chosen, DualMethod):
            return chosen.solve_dual(self, warm_start, options | {"tol": tol})
        if not isinstance(chosen, Method):
            raise InvalidInputError(
                f"method must be LevelBundle(), SmoothMKL(), ... or 'auto', got {method!r}."
            )
        earlier = None if warm_start is None else self._transferred(warm_start)
        n = self.bank.n_kernels
        even = np.full(n, 1.0 if math.isinf(self.norm) else n ** (-1.0 / self.norm))
        result = self.problem.solve(chosen, x0=even, warm_start=earlier, tol=ENGINE_SHARE * tol, **options)
        assert result.x is not None
        duals = result.certificate.duals
        start = self.risk.answer(duals[max(duals)]) if duals else None
        return self.finished(result.x, result.lower_bound, result.objective, start, result, tol)

    def finished(
        self, x: Array, lower_bound: float, objective: float, start: Estimate | None, run: Result, tol: float
    ) -> MKLResult:
        """Train a machine from `start` for the weights x of the engine, and return the result."""
        weights, machine = self._trained(x, objective, tol, start)
        objective = machine.solution.primal_value + self.problem.regularizer.value(weights)
        status, reason, gap = run.status, run.reason, relative_gap(lower_bound, objective)
        if status is Status.OPTIMAL and gap > tol:
            status, reason = Status.STALLED, "the last kernel machine could not be trained to the tolerance"
        elif status is Status.OPTIMAL:
            reason = gap_reason(gap, tol)  # the engine's reason has a share of tol
        return MKLResult(
            weights=weights,
            coefficients=machine.solution.a,
            intercept=machine.solution.intercept,
            objective=objective,
            lower_bound=min(lower_bound, objective),
            status=status,
            reason=reason,
            history=run.history,
            certificate=run.certificate,
            method=run.method,
            mkl=self,
        )

    def _trained(
        self, x: Array, objective: float, tol: float, start: Estimate | None
    ) -> tuple[Array, TrainedMachine]:
        """Return x, without negligible weights if possible, and a machine that reaches the objective."""
        accuracy = (1.0 - ENGINE_SHARE) * tol * max(abs(objective), 1e-12)
        kept = np.where(x > _NEGLIGIBLE * x.max(initial=0.0), x, 0.0)
        scaled = self.norm == 1.0 and self.entropy == 0.0 and kept.any()
        sparse = kept * (x.sum() / kept.sum()) if scaled else x
        best: tuple[float, Array, TrainedMachine] | None = None
        for weights, share in ((sparse, 1.0), (x, 0.5), (x, 0.1)):
            machine = self.risk.fit(weights, share * accuracy, start, share=0.0)
            value = machine.solution.primal_value + self.problem.regularizer.value(weights)
            if best is None or value < best[0]:
                best = value, weights, machine
            if value <= objective + share * accuracy:
                break
            start = self.risk.answer(machine.solution.a)
        assert best is not None
        return best[1], best[2]

    def _transferred(self, earlier: MKLResult) -> Result:
        """Return a result from which the engine can start, with the cuts of a result for another C.

        The coefficients a of each cut are multiplied by the number s that maximises the cut at the last
        weights and keeps s a in the domain of the conjugates; the slopes are multiplied by s^2. A cut without
        such an s is dropped.
        """
        stored, machine = earlier.certificate, self.machine
        if earlier.mkl.bank is not self.bank or not np.array_equal(earlier.mkl.machine.y, machine.y):
            raise InvalidInputError(
                "warm_start must be a result for the same kernels and targets: create the problem with the "
                "same bank (and rho), or by with_C."
            )
        slopes, offsets, duals = [], [], {}
        for slope, query in zip(stored.slopes, stored.queries.tolist(), strict=True):
            if query not in stored.duals:
                continue
            a = stored.duals[query]
            s = _best_scale(machine.form, a, -2.0 * float(slope @ earlier.weights))
            scaled = a if s is None else np.clip(s * a, machine.form.lower, machine.form.upper)
            if s is not None and machine.feasible(scaled):
                duals[len(duals)] = scaled
                slopes.append(s * s * slope)
                offsets.append(-machine.conjugate_sum(scaled))
        multipliers = np.zeros(len(offsets))
        multipliers[-1:] = 1.0
        certificate = Certificate(
            slopes=np.array(slopes).reshape(-1, self.bank.n_kernels),
            offsets=np.array(offsets),
            blocks=np.zeros(len(offsets), dtype=np.int64),
            queries=np.arange(len(offsets)),
            multipliers=multipliers,
            points={},
            duals=duals,
            x=earlier.weights,
            lower_bound=-np.inf,
            upper_bound=np.inf,
            risk_value=earlier.objective,
            problem=self.problem,
        )
        return Result(
            status=earlier.status,
            reason=earlier.reason,
            history=earlier.history,
            method=earlier.method,
            certificate=certificate,
            backend="none",
        )

    def path(self, Cs: Sequence[float] | Any, **options: Any) -> MKLPath:
        """Solve for each C in the given order, and reuse all cuts for the next C.

        The coefficients of a cut are rescaled into the domain of the next C. This gives a cut of the next
        risk without a pass over the kernels.

        Parameters
        ----------
        Cs : sequence of float
            Positive.
        **options
            Passed to `solve`.

        Examples
        --------
        >>> import numpy as np, cutplane as cut
        >>> y = np.array([1.0, 1.0, -1.0, -1.0])
        >>> path = cut.mkl.MKL([np.outer(y, y), np.eye(4)], y).path([0.01, 0.1, 1.0], tol=1e-6)
        >>> print(path.objectives.round(4))
        [0.0392 0.32   0.5   ]
        """
        values = as_vector("Cs", Cs)
        if values.size == 0 or not (values > 0.0).all():
            raise InvalidInputError(f"Cs must hold at least one number, all of them positive, got {Cs!r}.")
        previous: MKLResult | None = options.pop("warm_start", None)
        results: list[MKLResult] = []
        for C in values.tolist():
            previous = self.with_C(C).solve(warm_start=previous, **options)
            results.append(previous)
            if previous.status is Status.INTERRUPTED:
                break
        return MKLPath(values[: len(results)], tuple(results))


@runtime_checkable
class DualMethod(Protocol):
    """A method that solves the dual problem instead of optimising the weights in the engine."""

    def solve_dual(self, mkl: MKL, warm_start: MKLResult | None, options: dict[str, Any]) -> MKLResult:
        """Return the result of `MKL.solve`."""
        ...


def _best_scale(form: DualForm, a: Array, curvature: float) -> float | None:
    """Return the s > 0 that maximises ``-sum_i phi_i(s a_i) - s^2 curvature / 2``; None if there is none."""
    gain = float(form.linear @ a - form.tube * np.abs(a).sum())
    bend = float((form.ridge * a) @ a) + curvature
    ends = np.where(a > 0.0, form.upper, form.lower)
    room = float((ends[a != 0.0] / a[a != 0.0]).min(initial=np.inf))
    s = min(gain / bend, room) if bend > 0.0 else room
    return s if 0.0 < s < np.inf else None
