"""The check of a learned polynomial kernel from the base kernels and the targets alone."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.certificate import Verification
from cutplane.exceptions import InvalidInputError
from cutplane.mkl.polynomial.bound import FormNorm
from cutplane.mkl.polynomial.run import dual_value

if TYPE_CHECKING:
    from cutplane.mkl.polynomial.problem import PolynomialMKL
    from cutplane.mkl.polynomial.result import PolynomialMKLResult

_AGREEMENT = 1e-9


def verify(result: PolynomialMKLResult, problem: PolynomialMKL | None) -> Verification:
    """Do what `PolynomialMKLResult.verify` says."""
    if problem is None:
        raise InvalidInputError("This result knows no problem: call verify(problem).")
    problems: list[str] = []
    a, y, C = result.coefficients, problem.y, problem.C
    weights = np.array(list(result.weights.values()))
    orders = np.array([_orders(index) for index in result.weights], dtype=np.float64)
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


def _orders(index: tuple[int, ...]) -> int:
    """Return in how many orders the entries of a multi-index can be written."""
    count = math.factorial(len(index))
    for multiplicity in Counter(index).values():
        count //= math.factorial(multiplicity)
    return count
