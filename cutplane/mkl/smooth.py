"""Smooth multiple kernel learning: its dual problem, and accelerated gradient steps on the dual."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cutplane.engine.history import History, Record, State
from cutplane.exceptions import InvalidInputError
from cutplane.methods.accelerated import AcceleratedGradient
from cutplane.mkl.problem import ENGINE_SHARE, MKL
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array, as_positive, as_signs, as_vector
from cutplane.problem import Problem
from cutplane.risks.base import ImagedRisk
from cutplane.sets.box import Box
from cutplane.sets.simplex import softmax

if TYPE_CHECKING:
    from cutplane.mkl.result import MKLResult
    from cutplane.result import Result


class DualImage(NamedTuple):
    """The dual variables times the labels, a; the products K_k a; and the quadratic forms a'K_k a."""

    a: Array
    products: Any
    forms: Array


@dataclass(frozen=True, eq=False, repr=False)
class SmoothedDual(ImagedRisk):
    """f(alpha) = -sum_i alpha_i + entropy ln(mean over k of exp(alpha'G_k alpha / (2 entropy))).

    With ``G_k = diag(y) K_k diag(y)``, the dual of multiple kernel learning with the hinge loss and no
    intercept minimises ``f_0(alpha) = -sum alpha + 1/2 max_k alpha'G_k alpha`` over alpha in Box(0, C). A
    relative entropy of the kernel weights gives this smooth lower bound f of f_0:

        f(alpha) = max over beta in the simplex of
                   -sum alpha + 1/2 sum_k beta_k alpha'G_k alpha - entropy sum_k beta_k ln(n_kernels beta_k),

    It satisfies ``f <= f_0 <= f + entropy ln(n_kernels)``, and ``-min f`` is the minimum over the kernel
    weights of the kernel machine's optimum plus ``entropy sum beta ln(n_kernels beta)``. The maximising
    weights are a softmax of the quadratic forms. The gap that `AcceleratedGradient` certifies is the duality
    gap between both problems.

    Parameters
    ----------
    bank : object
        The kernels, an object with ``n_kernels``, ``n_samples`` and ``products(a)`` such as
        `cutplane.kernels.KernelBank`.
    y : array_like of shape (m,)
        Labels -1 and +1.
    C : float
        Weight of the losses, positive and finite; the upper bound of alpha.
    entropy : float
        Weight of the entropy, positive and finite, in the unit of f.

    Raises
    ------
    InvalidInputError
        If a label is neither -1 nor +1, the number of labels is wrong, or C or entropy is not positive.

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

    black_box = False
    bank: Any
    y: Array
    C: float
    entropy: float
    dim: int = field(init=False)

    def __post_init__(self) -> None:
        y = as_signs("SmoothedDual", as_vector("SmoothedDual.y", self.y, int(self.bank.n_samples)))
        weights = {
            name: as_positive(f"SmoothedDual.{name}", getattr(self, name)) for name in ("C", "entropy")
        }
        set_fields(self, y=y, dim=y.size, **weights)

    def __repr__(self) -> str:
        sizes = f"{self.bank.n_kernels} kernels, {self.dim} samples"
        return f"SmoothedDual({sizes}, C={self.C:g}, entropy={self.entropy:g})"

    @property
    def feasible_set(self) -> Box:
        """The feasible set Box(0, C) of alpha."""
        return Box(0.0, self.C, self.dim)

    def coefficients(self, x: Array) -> Array:
        """Return the coefficients of the predictor for alpha = x."""
        return self.y * x

    def weights(self, x: Array) -> Array:
        """Return the kernel weights at alpha = x, shape (n_kernels,); they are positive with sum 1."""
        return self._weights(self.image(x).forms)

    def image(self, x: Array) -> DualImage:
        a = self.coefficients(x)
        products = self.bank.products(a)
        return DualImage(a, products, products.quadratic_forms(a))

    def combine(self, z0: DualImage, z1: DualImage, t: float) -> DualImage:
        a = z0.a + t * (z1.a - z0.a)
        products = z0.products.combine(z1.products, t)
        return DualImage(a, products, products.quadratic_forms(a))

    def values(self, z: DualImage) -> float:
        return self._value(float(self.y @ z.a), z.forms)

    def slopes(self, z: DualImage) -> Array:
        return self.y * z.products.weighted(self._weights(z.forms)) - 1.0

    def line(self, z0: DualImage, z1: DualImage) -> Line:
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
        """Return c with f(x + t d) <= f(x) + t <f'(x), d> + c t^2 / 2 for t in [0, 1], by three passes.

        c is the largest d'G_k d plus s^2 / (16 entropy). Here s is the range over k of the derivatives of
        alpha'G_k alpha along d, at the end of the segment where this range is larger.
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

    The dual problem is ``max over alpha in [0, C]^m of sum_i alpha_i - entropy ln(1/n_kernels sum_k
    exp(alpha'G_k alpha / (2 entropy)))`` with ``G_k = diag(y) K_k diag(y)``. It has the same optimum as `MKL`
    with an entropy, the hinge loss and no intercept. The weights are the softmax of ``alpha'G_k alpha / (2
    entropy)``. Because the objective is smooth, it is within O(1 / N^2) of the optimum after N steps. A step
    takes two passes over the kernels. The engine certifies both bounds of the dual, and therefore of the
    weights.

    Parameters
    ----------
    method : AcceleratedGradient, default AcceleratedGradient()
        The method that maximises the dual.

    Raises
    ------
    InvalidInputError
        If the problem has no entropy, has an intercept, or has another loss.

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
        """Maximise the dual, and return the weights and the predictor of its best point."""
        y, C, form, tol = mkl.machine.y, mkl.C, mkl.machine.form, options["tol"]
        box = np.minimum(C * y, 0.0), np.maximum(C * y, 0.0)
        is_hinge = form.tube == 0.0 and not form.ridge.any() and np.array_equal(box, [form.lower, form.upper])
        required = {
            "an entropy > 0": mkl.entropy > 0.0,
            "intercept=False": not mkl.machine.intercept,
            "the hinge loss": is_hinge,
        }
        for need, holds in required.items():
            if not holds:
                raise InvalidInputError(
                    f"SmoothMKL needs {need}; got {mkl!r}. Use BMRM() or 'auto' otherwise."
                )
        risk = SmoothedDual(mkl.bank, y, C, mkl.entropy)
        driver = Problem(risk, feasible_set=risk.feasible_set).iterate(
            self.method,
            x0=None if warm_start is None else np.clip(y * warm_start.coefficients, 0.0, C),
            tol=ENGINE_SHARE * tol,
            max_iter=options["max_iter"],
            time_limit=options["time_limit"],
        )
        shown = [options[name] for name in ("callback", "progress", "log")]
        run = driver.run(*shown, view=lambda state: State(_mirrored(state.record), None))
        assert run.x is not None
        start = mkl.risk.answer(risk.coefficients(run.x))
        found = mkl.finished(_weights(risk, run), -run.objective, -run.lower_bound, start, run, tol)
        return replace(found, history=History([_mirrored(record) for record in run.history]))


def _weights(risk: SmoothedDual, result: Result) -> Array:
    """Return the mean of the weights at the query points, weighted by the multipliers of the lower bound.

    Because the risk is convex, the objective of this mean is at least as good as the bound.
    """
    proof = result.certificate
    used = np.flatnonzero((proof.multipliers > 0.0) & np.isin(proof.queries, list(proof.points)))
    total = np.zeros(risk.bank.n_kernels)
    for row in used.tolist():
        total += proof.multipliers[row] * risk.weights(proof.points[int(proof.queries[row])])
    assert result.x is not None
    return total / total.sum() if total.any() else risk.weights(result.x)


def _mirrored(record: Record) -> Record:
    """Return the record of the maximisation: both bounds are exchanged and change their sign."""
    return record._replace(lower_bound=-record.upper_bound, upper_bound=-record.lower_bound)
