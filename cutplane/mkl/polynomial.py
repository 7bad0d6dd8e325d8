"""Learning a polynomial kernel: weights of all products of base kernels, by sampling the products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from cutplane.engine.driver import Driver, Standing, Turn
from cutplane.engine.history import History
from cutplane.exceptions import InvalidInputError
from cutplane.mkl.base_kernels import BaseKernels, GramBases, LinearBases, multisets, orders_of
from cutplane.mkl.sampling import MirrorSteps, Sampling, sample_tuple
from cutplane.pieces.validation import Array, as_choice, as_positive, as_scalar, as_vector
from cutplane.proof.certificate import Verification
from cutplane.result import BaseResult, SpecialCertificate
from cutplane.runtime.clock import clock
from cutplane.runtime.deadline import seconds_left
from cutplane.status import Status
from cutplane.stopping import Stop, stopping_rules

if TYPE_CHECKING:
    from cutplane.engine.driver import Callback

__all__ = ["BaseKernels", "GramBases", "LinearBases", "PolynomialMKL", "PolynomialMKLResult", "sample_tuple"]

_GROWTH = 2.0
"""Growth of the number of steps between evaluations, because evaluations then take a bounded fraction of the
time."""
_FLOOR = 1e-14
"""Ridge relative to the largest diagonal entry of a kernel, because rounding errors can make the kernel
indefinite."""
_AGREEMENT = 1e-9
"""Relative difference of equal objectives, because both are sums of rounded terms."""
_LISTING = 100.0
"""Cost of appending a factor to a product in Python, in multiplications, because multiplications are the unit
of work."""


class PolynomialMKL:
    """minimise over theta >= 0, ||theta||_2 <= 1, and f in H_theta: C/2 sum_i (f(x_i) - y_i)^2 + 1/2 ||f||^2.

    H_theta has the kernel ``sum_I theta_I / rho_d^2 prod_{j in I} kappa_j`` over all ordered tuples I of at
    most `degree` base kernels, with d = len(I). The empty tuple has the kernel 1. This is equivalent to an
    l_p norm of the group norms with p = 4/3. Because there are too many tuples to list, single tuples are
    sampled [1]_ with probability proportional to the gradient, at a cost that does not depend on their
    number.

    Parameters
    ----------
    X : array_like of shape (m, r), or BaseKernels
        Dense data, for the base kernels ``x_j z_j`` of the variables, which should be standardised. Or base
        kernels such as `GramBases`.
    y : array_like of shape (m,)
        Real targets, or labels -1 and +1.
    degree : int, default 3
        The largest number of factors of a product, at least 0. Not used if `X` contains base kernels.
    C : float, default 1.0
        Positive: the inverse of the regularization parameter of ridge regression.
    rho : array_like of shape (degree + 1,), optional
        Positive penalties rho_d of the degrees d, by default 1. A larger one penalises products of degree d
        more.
    constant : bool, default False
        Whether a constant variable 1 is added, so that products of fewer variables occur more often.

    Raises
    ------
    InvalidInputError
        If a shape, a range or an entry is wrong, or `X` is sparse.

    References
    ----------
    .. [1] A. Afkanpour, A. György, C. Szepesvári, M. Bowling, "A randomized mirror descent algorithm for
       large scale multiple kernel learning", ICML 2013, http://proceedings.mlr.press/v28/afkanpour13.html.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.mkl import PolynomialMKL
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 5))
    >>> y = X[:, 0] * X[:, 3] - 0.1 * X[:, 1]
    >>> result = PolynomialMKL(X, y, degree=3, C=1e4).solve(max_iter=300)
    >>> result.lower_bound <= result.objective, result.exact_bound
    (True, True)
    >>> max(result.polynomial().items(), key=lambda item: abs(item[1]))[0]
    (0, 3)
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        degree: int = 3,
        *,
        C: float = 1.0,
        rho: Any = None,
        constant: bool = False,
    ):
        self.bases = X if isinstance(X, BaseKernels) else LinearBases(X, degree, constant)
        self.y = as_vector("y", y, self.bases.n_samples)
        self.C = as_positive("C", C)
        ones = np.ones(self.bases.degree + 1)
        self.rho = ones if rho is None else as_vector("rho", rho, ones.size)
        if not (self.rho > 0.0).all():
            raise InvalidInputError(f"rho must be positive, got {self.rho}.")

    def __repr__(self) -> str:
        return f"PolynomialMKL({self.bases!r}, C={self.C:g})"

    def solve(
        self,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        *,
        sampling: Sampling = "importance",
        seed: int = 0,
        tol: float = 1e-2,
        bound_work: float = 1e9,
        callback: Callback | None = None,
        progress: bool = False,
        log: bool = False,
    ) -> PolynomialMKLResult:
        """Do stochastic steps, and evaluate the averaged weights exactly after 1, 2, 4, 8, ... steps.

        Parameters
        ----------
        max_iter : int, default 10000
            Largest number of steps. The gap decreases like 1 / sqrt(steps).
        time_limit : float, optional
            Seconds; tested after each step.
        sampling : {"importance", "uniform"}, default "importance"
            "uniform" gives all tuples the same probability, as a baseline.
        seed : int, default 0
            Runs with the same seed give the same result, unless the time limit ends a run.
        tol : float, default 0.01
            Relative certified gap at which the status is OPTIMAL.
        bound_work : float, default 1e9
            Multiplications allowed for a lower bound. If the exact bound needs more, a looser bound is
            computed.
        callback : callable, optional
            Called after each evaluation with the `State`, whose ``x`` is None; if it returns True, the run
            ends with status INTERRUPTED.
        progress, log : bool, default False
            Show a live display; print a line per evaluation.

        Returns
        -------
        PolynomialMKLResult
            The best averaged weights; on Ctrl-C too, with status INTERRUPTED.
        """
        as_choice("sampling", sampling, get_args(Sampling))
        work = as_scalar("bound_work", bound_work, low=0.0, infinite=True)
        rules = stopping_rules(tol, max_iter=max_iter, time_limit=time_limit)
        return Driver(PolynomialRun(self, sampling, seed, work, max_iter), rules).run(callback, progress, log)

    def factors(self, indices: Sequence[tuple[int, ...]], weights: Any) -> Array:
        """Return the coefficients weight / rho_d^2 of the product kernels."""
        return np.asarray(weights) / self.rho[[len(index) for index in indices]] ** 2

    def objective(self, predictions: Array, a: Array) -> tuple[float, float]:
        """Return the loss and the norm term of the objective of a predictor with coefficients a."""
        return 0.5 * self.C * float(((predictions - self.y) ** 2).sum()), 0.5 * float(a @ predictions)

    def dual_value(self, a: Array, norm: FormNorm) -> float:
        """Return ``max over t of <t a, y> - ||t a||^2 / (2 C) - 1/2 ||q(t a)||_2``, at most the optimum."""
        size = float(a @ a) / self.C + norm(a)
        return 0.5 * float(a @ self.y) ** 2 / size if size > 0.0 else 0.0


class FormNorm:
    """||q||_2 for ``q_I = a' K_I a / rho_d^2`` over all ordered tuples I, or an upper bound.

    For tuples of degree d, squares are summed over the first e + 1 <= d factors, with e as large as the
    allowed work permits. Over the other factors, the sum of squares is bounded by the square of the sum,
    which is computed by a power of S. For e = d - 1 the result is exact.
    """

    def __init__(self, bases: BaseKernels, rho: Array, work: float):
        self.bases = bases
        self.rho = rho
        self.exact = True
        self._terms: list[tuple[Array, Array, int]] = []  # prefixes, multiplicities, power of S
        share = work / max(1, rho.size - 1)
        for last in range(rho.size - 1):
            lengths = [e for e in range(last + 1) if self._work(e, last - e) <= share]
            length = max(lengths, default=0)
            self.exact &= length == last
            self._terms.append((*multisets(bases.n_kernels, length), last - length))

    def __call__(self, a: Array) -> float:
        """Return the norm or the bound."""
        squares = [a.sum() ** 4, *(self.bases.square_sum(a, *term) for term in self._terms)]
        return math.sqrt(float((np.array(squares) / self.rho**4).sum()))

    def _work(self, length: int, power: int) -> float:
        count = math.comb(self.bases.n_kernels + length - 1, length)
        return count * (self.bases.split_work(power) + _LISTING * (1 + length))


class Evaluation(NamedTuple):
    """Weights, their dual coefficients, the objective, and a lower bound with its dual coefficients."""

    indices: list[tuple[int, ...]]
    weights: Array
    coefficients: Array
    objective: float
    lower_bound: float
    dual: Array


def evaluate(
    problem: PolynomialMKL, indices: list[tuple[int, ...]], weights: Array, norm: FormNorm
) -> Evaluation:
    """Solve the ridge regression with these weights, and bound the optimum by its dual coefficients.

    Because the objective is evaluated at the computed predictor, it is an upper bound for any rounding
    errors. The lower bound holds for any dual coefficients.
    """
    kernel = problem.bases.weighted_sum(indices, problem.factors(indices, weights))
    ridge = 1.0 / problem.C + _FLOOR * kernel.diagonal().max(initial=0.0)
    system = kernel + ridge * np.eye(problem.y.size)
    a = cho_solve(cho_factor(system, lower=True, overwrite_a=True), problem.y)
    objective = sum(problem.objective(kernel @ a, a))
    return Evaluation(indices, weights, a, objective, problem.dual_value(a, norm), a)


class PolynomialRun:
    """A process of the driver; each turn doubles the number of steps and evaluates the average."""

    def __init__(self, problem: PolynomialMKL, sampling: Sampling, seed: int, work: float, max_iter: int):
        self.problem = problem
        self.bound_work = work
        self.max_iter = max_iter
        self._norm = FormNorm(problem.bases, problem.rho, work)
        self._steps = MirrorSteps(problem.bases, problem.y, problem.C, problem.rho, sampling, seed)
        self._best: Evaluation | None = None
        self._checkpoint = 1
        self._evaluations = 0
        self._stepping = self._evaluating = 0.0

    @property
    def started(self) -> bool:
        """Whether weights have been evaluated."""
        return self._best is not None

    @property
    def standing(self) -> Standing:
        """The bounds of the best average; iterations are steps."""
        best, count = self._best, self._steps.count
        return Standing(
            lower=-np.inf if best is None else best.lower_bound,
            upper=np.inf if best is None else best.objective,
            n_cuts=len(self._steps.weights.indices),
            oracle_calls=count + self._evaluations,
            oracle_seconds=self._evaluating,
            master_seconds=self._stepping,
            iteration=count,
        )

    def step(self) -> Turn:
        """Double the number of steps, and evaluate the average."""
        steps, moving = self._steps, True
        if self._best is None:
            self._evaluate([], np.empty(0))
            return Turn("start")
        began = clock()
        while moving and steps.count < min(self._checkpoint, self.max_iter) and seconds_left() > 0.0:
            moving = steps.step()
        self._checkpoint = int(np.ceil(_GROWTH * self._checkpoint))
        self._stepping += clock() - began
        self._evaluate(steps.weights.indices, steps.weights.average())
        return Turn("average", None if moving else Stop(Status.STALLED, "the gradient is zero"))

    def _evaluate(self, indices: list[tuple[int, ...]], weights: Array) -> None:
        """Evaluate weights, and store the better objective and the better bound."""
        began = clock()
        found = evaluate(self.problem, indices, weights, self._norm)
        best = found if self._best is None else self._best
        proof = max(best, found, key=lambda one: one.lower_bound)
        self._best = (found if found.objective < best.objective else best)._replace(
            lower_bound=proof.lower_bound, dual=proof.dual
        )
        self._evaluations += 1
        self._evaluating += clock() - began

    def confirm(self, stop: Stop) -> Stop:
        """Return the stop unchanged, because both bounds were computed without updates."""
        return stop

    def result(self, stop: Stop, history: History) -> PolynomialMKLResult:
        """Return the best averaged weights."""
        problem, best = self.problem, self._best
        assert best is not None
        return PolynomialMKLResult(
            weights={best.indices[k]: float(best.weights[k]) for k in np.flatnonzero(best.weights).tolist()},
            coefficients=best.coefficients,
            objective=best.objective,
            lower_bound=min(best.lower_bound, best.objective),
            exact_bound=self._norm.exact,
            status=stop.status,
            reason=stop.reason,
            history=history,
            method=f"stochastic mirror descent, {self._steps.sampling} sampling",
            bases=problem.bases,
            rho=problem.rho,
            dual=best.dual,
            bound_work=self.bound_work,
            problem=problem,
        )


@dataclass(frozen=True, eq=False, repr=False)
class PolynomialMKLResult(BaseResult):
    """Weights of product kernels, their predictor, and bounds of the optimum.

    Attributes
    ----------
    weights : dict
        The averaged iterate: a mapping from multi-indices (sorted tuples of base kernels) to the sum of theta
        over the orders of the tuple. The kernels have the coefficients weight / rho_d^2.
    coefficients : ndarray of shape (m,)
        The a of the predictor ``z -> sum_i a_i kappa(z, x_i)``.
    objective : float
        The objective of this predictor, an upper bound of the optimum.
    lower_bound : float
        A certified lower bound of the optimum over all weights and predictors.
    gap, gap_abs : float
        (objective - lower_bound) / max(1e-12, |objective|), and objective - lower_bound.
    exact_bound : bool
        Whether the norm in the lower bound is exact. If False, there were too many products of degree D for
        the allowed work; the bound is then valid but loose, and the gap does not tend to 0.
    status : Status
    reason : str
    history : History
        One record for each evaluation of the averaged iterate; ``iteration`` counts the steps.
    bases : BaseKernels
    rho : ndarray of shape (D + 1,)
    dual : ndarray of shape (m,)
        The coefficients that prove `lower_bound`.
    bound_work : float
        Multiplications allowed for the lower bound.
    problem : PolynomialMKL or None
    """

    weights: dict[tuple[int, ...], float]
    coefficients: Array
    objective: float
    lower_bound: float
    exact_bound: bool
    bases: BaseKernels
    rho: Array
    dual: Array
    bound_work: float
    problem: PolynomialMKL | None = field(default=None, repr=False)

    def verify(self, problem: PolynomialMKL | None = None) -> Verification:
        """Recompute both bounds from the base kernels and the targets alone.

        The upper bound is the objective of the predictor with a recomputed kernel; the norm of the weights
        must be at most 1. The lower bound is the dual objective of `dual`, with the norm over all products
        computed again, exactly or as a bound according to `exact_bound`.

        Parameters
        ----------
        problem : PolynomialMKL, optional
            By default the solved problem.

        Returns
        -------
        Verification
            ``n_checked`` counts the products with nonzero weight.

        Raises
        ------
        InvalidInputError
            If there is no problem.
        """
        problem = problem or self.problem
        if problem is None:
            raise InvalidInputError("This result has no problem: call verify(problem).")
        problems: list[str] = []
        indices, weights = list(self.weights), self.x
        orders = np.array([orders_of(index) for index in indices], dtype=np.float64)
        norm = float(np.sqrt((weights**2 / orders).sum()))
        if norm > 1.0 + _AGREEMENT or (weights < 0.0).any():
            problems.append(f"the weights have the norm {norm:.10g} or are negative")
        kernel = problem.bases.weighted_sum(indices, problem.factors(indices, weights))
        terms = problem.objective(kernel @ self.coefficients, self.coefficients)
        upper, size = sum(terms), sum(map(abs, terms))
        if abs(upper - self.objective) > _AGREEMENT * size:
            problems.append(f"the objective is {upper:.10g}, not {self.objective:.10g}")
        lower = problem.dual_value(self.dual, FormNorm(problem.bases, problem.rho, self.bound_work))
        if self.lower_bound - lower > _AGREEMENT * size or self.lower_bound > self.objective:
            problems.append(f"only the lower bound {lower:.10g} could be proven, not {self.lower_bound:.10g}")
        return Verification(not problems, lower, upper, weights.size, tuple(problems))

    @property
    def x(self) -> Array:
        """The values of `weights`."""
        return np.array(list(self.weights.values()), dtype=np.float64)

    @property
    def certificate(self) -> SpecialCertificate:
        """The proof that `verify` checks: the predictor and `dual`."""
        return SpecialCertificate(self)

    @property
    def n_iter(self) -> int:
        """Number of steps."""
        return self.history[-1].iteration

    def predict(self, Z: Any) -> Array:
        """Return the predictions for new examples.

        Parameters
        ----------
        Z : array_like of shape (n, r)
            Or of shape (r, n, m), the base kernels between new and training examples, if the base kernels
            were given as Gram matrices.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.bases.predict(Z, list(self.weights), self._factors, self.coefficients)

    def polynomial(self) -> dict[tuple[int, ...], float]:
        """Return the predictor as a polynomial, a mapping from multi-indices to coefficients.

        Raises
        ------
        InvalidInputError
            If the base kernels are Gram matrices, because these have no variables.
        """
        indices = list(self.weights)
        values = self._factors * (self.coefficients @ self.bases.monomials(indices))
        return dict(zip(indices, values.tolist(), strict=True))

    @property
    def _factors(self) -> Array:
        return np.array([weight / self.rho[len(index)] ** 2 for index, weight in self.weights.items()])

    def _facts(self) -> dict[str, Any]:
        loose = "" if self.exact_bound else " (loose: raise bound_work for the exact norm)"
        largest = sorted(self.weights.items(), key=lambda item: -item[1])[:5]
        return {
            "objective": f"{self.objective:.10g}",
            "lower bound": f"{self.lower_bound:.10g}{loose}",
            "gap": f"{self.gap:.3g}",
            "kernels": f"{len(self.weights)} products of {self.bases!r}",
            "largest": ", ".join(f"{index}: {weight:.3g}" for index, weight in largest),
            "steps": str(self.n_iter),
            **self._seconds("evaluations"),
        }

    @property
    def _remedy(self) -> str:
        if self.status is Status.OPTIMAL:
            return ""
        return "Raise max_iter or time_limit; the steps of 1 / sqrt(k) reach modest accuracy only."
