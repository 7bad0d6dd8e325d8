"""The result of polynomial kernel learning, and its verification."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.mkl.polynomial.bases import BaseKernels, orders_of
from cutplane.mkl.polynomial.bound import FormNorm, dual_value
from cutplane.pieces.validation import Array
from cutplane.proof.certificate import Verification
from cutplane.result import BaseResult, SpecialCertificate
from cutplane.status import Status

if TYPE_CHECKING:
    from cutplane.mkl.polynomial.problem import PolynomialMKL


_AGREEMENT = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class PolynomialMKLResult(BaseResult):
    """Weights of product kernels, the predictor that they give, and how far it is from the best.

    Attributes
    ----------
    weights : dict
        Of the averaged iterate: from multi-indices, sorted tuples of base kernels, to the sum of theta over
        the orders of the tuple. Their kernels have the coefficients weight / rho_d^2.
    coefficients : ndarray of shape (m,)
        a: the predictor is ``z -> sum_i a_i kappa(z, x_i)``.
    objective : float
        Of this predictor: at least the optimum.
    lower_bound : float
        Certified: no weights and no predictor do better.
    gap, gap_abs : float
        (objective - lower_bound) / max(1e-12, |objective|), and objective - lower_bound.
    exact_bound : bool
        Whether the norm in the lower bound is exact. If not, the number of products of degree D exceeds the
        work allowed, the bound is valid but loose, and the gap does not tend to 0.
    status : Status
    reason : str
    history : History
        A record of each evaluation of the averaged iterate; ``iteration`` counts the steps.
    bases : BaseKernels
    rho : ndarray of shape (D + 1,)
    dual : ndarray of shape (m,)
        The coefficients that prove `lower_bound`.
    bound_work : float
        Multiplications allowed for that bound.
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

        The upper bound is the objective of the predictor, whose kernel is formed anew from the weights; that
        these have norm 1 at most is checked. The lower bound is the value of `dual` in the dual, with the
        norm over all products computed again, exactly or bounded as `exact_bound` says.

        Parameters
        ----------
        problem : PolynomialMKL, optional
            By default the one that was solved.

        Returns
        -------
        Verification
            ``n_checked`` counts the products with weight.

        Raises
        ------
        InvalidInputError
            If no problem is known.
        """
        return verify(self, problem or self.problem)

    @property
    def x(self) -> Array:
        """The values of `weights`."""
        return np.array(list(self.weights.values()))

    @property
    def certificate(self) -> SpecialCertificate:
        """What `verify` checks: the predictor and `dual`."""
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
            Or of shape (r, n, m), the base kernels between new and known examples, if the base kernels were
            given as Gram matrices.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.bases.predict(Z, list(self.weights), self._factors, self.coefficients)

    def polynomial(self) -> dict[tuple[int, ...], float]:
        """Return the predictor as a polynomial: from multi-indices to the coefficients of the monomials.

        Raises
        ------
        InvalidInputError
            If the base kernels are Gram matrices, which have no variables.
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
        return "Raise max_iter or time_limit; steps of 1 / sqrt(k) are for a modest accuracy."


def verify(result: PolynomialMKLResult, problem: PolynomialMKL | None) -> Verification:
    """Do what `PolynomialMKLResult.verify` says."""
    if problem is None:
        raise InvalidInputError("This result knows no problem: call verify(problem).")
    problems: list[str] = []
    a, y, C = result.coefficients, problem.y, problem.C
    weights = np.array(list(result.weights.values()))
    orders = np.array([orders_of(index) for index in result.weights], dtype=np.float64)
    norm = float(np.sqrt((weights**2 / orders).sum())) if weights.size else 0.0
    if norm > 1.0 + _AGREEMENT or (weights < 0.0).any():
        problems.append(f"the weights have the norm {norm:.10g} or are negative")
    factors = np.array([w / problem.rho[len(index)] ** 2 for index, w in result.weights.items()])
    predictions = problem.bases.weighted_sum(list(result.weights), factors) @ a
    terms = 0.5 * C * float(((predictions - y) ** 2).sum()), 0.5 * float(a @ predictions)
    upper, size = sum(terms), sum(map(abs, terms))
    if abs(upper - result.objective) > _AGREEMENT * size:
        problems.append(f"the objective is {upper:.10g}, not {result.objective:.10g}")
    lower = dual_value(problem, result.dual, FormNorm(problem.bases, problem.rho, result.bound_work))
    if result.lower_bound - lower > _AGREEMENT * size or result.lower_bound > result.objective:
        problems.append(f"only the lower bound {lower:.10g} could be proven, not {result.lower_bound:.10g}")
    return Verification(not problems, lower, upper, weights.size, tuple(problems))
