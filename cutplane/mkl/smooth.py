"""Smooth multiple kernel learning: its dual, and accelerated gradient steps on that."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.history import History, Record, State
from cutplane.exceptions import InvalidInputError
from cutplane.methods.accelerated import AcceleratedGradient
from cutplane.mkl.solve import ENGINE_SHARE, as_result, estimate_of, train
from cutplane.pieces.lines import Line
from cutplane.pieces.validation import Array, as_positive, as_vector
from cutplane.problem import Problem
from cutplane.risks.base import ImagedRisk
from cutplane.sets.box import Box
from cutplane.sets.simplex import softmax

if TYPE_CHECKING:
    from cutplane.kernels.machine import KernelMachine
    from cutplane.mkl.problem import MKL
    from cutplane.mkl.result import MKLResult
    from cutplane.result import Result


@dataclass(frozen=True, eq=False)
class DualImage:
    """What every kernel makes of the dual variables.

    Attributes
    ----------
    a : ndarray of shape (m,)
        y alpha, one by one.
    products : object
        The bank's products of every kernel with a.
    forms : ndarray of shape (n_kernels,)
        a'K_k a.
    """

    black_box = False
    a: Array
    products: Any
    forms: Array


@dataclass(frozen=True, eq=False, repr=False)
class SmoothedDual(ImagedRisk):
    """f(alpha) = -sum_i alpha_i + entropy ln(mean over k of exp(alpha'G_k alpha / (2 entropy))).

    With ``G_k = diag(y) K_k diag(y)``, multiple kernel learning with the hinge loss and no intercept is the
    minimum over alpha in Box(0, C) of ``f_0(alpha) = -sum alpha + 1/2 max_k alpha'G_k alpha``. This is the
    smooth minorant of f_0 that comes from a relative entropy of the kernel weights:

        f(alpha) = max over beta in the simplex of
                   -sum alpha + 1/2 sum_k beta_k alpha'G_k alpha - entropy sum_k beta_k ln(n_kernels beta_k),

    so that ``f <= f_0 <= f + entropy ln(n_kernels)``, and ``-min f`` is the minimum over the kernel weights
    of the kernel machine's optimum plus ``entropy sum beta ln(n_kernels beta)``. The maximising weights are a
    softmax of the quadratic forms; the gap that `AcceleratedGradient` certifies is the duality gap of the two
    problems.

    Parameters
    ----------
    bank : object
        The kernels: ``n_kernels``, ``n_samples`` and ``products(a)``, as of `cutplane.kernels.KernelBank`.
    y : array_like of shape (m,)
        Labels -1 and +1.
    C : float
        Weight of the losses, positive and finite: the bound of `feasible_set`.
    entropy : float
        Weight of the entropy, positive and finite, in the unit of f.

    Raises
    ------
    InvalidInputError
        If a label is neither -1 nor +1, there is not one per sample, or a weight is not positive.

    References
    ----------
    .. [1] Z. Xu, R. Jin, S. Zhu, M. R. Lyu, I. King, "Smooth optimization for effective multiple kernel
       learning", AAAI 2010, doi:10.1609/aaai.v24i1.7675.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> from cutplane.kernels import PrecomputedKernels
    >>> from cutplane.methods import AcceleratedGradient
    >>> from cutplane.mkl.smooth import SmoothedDual
    >>> bank = PrecomputedKernels(np.array([np.eye(2), np.ones((2, 2))]))
    >>> risk = SmoothedDual(bank, [1, -1], C=1.0, entropy=1.0)
    >>> result = cut.Problem(risk, feasible_set=risk.feasible_set).solve(AcceleratedGradient(), tol=1e-8)
    >>> print(round(result.objective, 4), risk.weights(result.x).round(3))
    -1.3799 [0.731 0.269]
    """

    bank: Any
    y: Array
    C: float
    entropy: float
    dim: int = field(init=False)

    def __post_init__(self) -> None:
        dim = int(self.bank.n_samples)
        y = as_vector("SmoothedDual.y", self.y, dim)
        wrong = np.flatnonzero(np.abs(y) != 1.0)
        if wrong.size:
            raise InvalidInputError(
                f"SmoothedDual.y[{wrong[0]}] is {y[wrong[0]]:g}; every label must be -1 or +1."
            )
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "dim", dim)
        for name, value in {"C": self.C, "entropy": self.entropy}.items():
            object.__setattr__(self, name, as_positive(f"SmoothedDual.{name}", value))

    def __repr__(self) -> str:
        sizes = f"{self.bank.n_kernels} kernels, {self.dim} samples"
        return f"SmoothedDual({sizes}, C={self.C:g}, entropy={self.entropy:g})"

    @property
    def feasible_set(self) -> Box:
        """Where alpha lies: Box(0, C)."""
        return Box(0.0, self.C, self.dim)

    def coefficients(self, x: Array) -> Array:
        """Return the coefficients of the predictor for alpha = x."""
        return self.y * x

    def weights(self, x: Array) -> Array:
        """Return the kernel weights at alpha = x, shape (n_kernels,): positive, of sum 1."""
        return self._weights(self.image(x).forms)

    def image(self, x: Array) -> DualImage:
        """Return the products of every kernel with y alpha: one pass over the kernels."""
        a = self.coefficients(x)
        products = self.bank.products(a)
        return DualImage(a, products, products.quadratic_forms(a))

    def combine(self, z0: DualImage, z1: DualImage, t: float) -> DualImage:
        """Return the image of x0 + t (x1 - x0), without a pass over the kernels."""
        a = z0.a + t * (z1.a - z0.a)
        products = z0.products.combine(z1.products, t)
        return DualImage(a, products, products.quadratic_forms(a))

    def values(self, z: DualImage) -> float:
        """Return the risk."""
        return self._value(float(self.y @ z.a), z.forms)

    def slopes(self, z: DualImage) -> Array:
        """Return the gradient: a sum of the products that the image holds."""
        return self.y * z.products.weighted(self._weights(z.forms)) - 1.0

    def line(self, z0: DualImage, z1: DualImage) -> Line:
        """Return t -> f(x0 + t (x1 - x0)), with two derivatives, in time O(n_kernels) for each t."""
        middle = self.combine(z0, z1, 0.5).forms
        bend = 2.0 * (z0.forms - 2.0 * middle + z1.forms)
        rise = z1.forms - z0.forms - bend
        start, total = float(self.y @ z0.a), float(self.y @ (z1.a - z0.a))

        def forms(t: float) -> Array:
            return z0.forms + t * (rise + t * bend)

        def newton(t: float) -> tuple[float, float]:
            weights, slopes = self._weights(forms(t)), rise + 2.0 * t * bend
            mean = float(weights @ slopes)
            variance = float(weights @ np.square(slopes - mean))
            return 0.5 * mean - total, float(weights @ bend) + 0.25 * variance / self.entropy

        def evaluate(t: float) -> tuple[float, float]:
            return self._value(start + t * total, forms(t)), newton(t)[0]

        return Line(evaluate, newton=newton)

    def curvature_bound(self, x: Array, direction: Array) -> float:
        """Return c with f(x + t d) <= f(x) + t <f'(x), d> + c t^2 / 2 for t in [0, 1]: two passes.

        That is the largest d'G_k d, plus the squared range over k of the slopes of alpha'G_k alpha along d,
        at the end of the segment where it is larger, over 16 entropy.
        """
        z0, z1 = self.image(x), self.image(x + direction)
        bend = self.image(direction).forms
        rise = z1.forms - z0.forms - bend
        spread = max(float(np.ptp(rise)), float(np.ptp(rise + 2.0 * bend)))
        return float(bend.max()) + spread**2 / (16.0 * self.entropy)

    def _weights(self, forms: Array) -> Array:
        return softmax(forms / (2.0 * self.entropy))

    def _value(self, total: float, forms: Array) -> float:
        top = float(forms.max())
        spread = float(np.exp((forms - top) / (2.0 * self.entropy)).mean())
        return 0.5 * top + self.entropy * math.log(spread) - total


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

    def solve_dual(self, mkl: MKL, warm_start: MKLResult | None, options: dict[str, Any]) -> MKLResult:
        """Maximise the dual; return the weights and the predictor of its best point."""
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
        answer = estimate_of(mkl.risk, risk.coefficients(result.x))
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
    return form.tube == 0.0 and not form.ridge.any() and np.array_equal(box, [form.lower, form.upper])


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
    return record._replace(lower_bound=-record.upper_bound, upper_bound=-record.lower_bound)
