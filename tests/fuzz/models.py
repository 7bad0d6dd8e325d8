"""Random cvxpy models, read as problems and solved, against one conic solve of the same model."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

import cutplane as cut
from cutplane.status import Status
from fuzz import checks
from fuzz.core import Refused, guarded, quiet
from fuzz.draws import Rng, chance, dyadic, pick, power
from fuzz.outcome import Outcome

ACCURACY = 1e-6
"""What a conic solver is trusted with, relative to the sizes of the terms."""


def trial(rng: Rng) -> Outcome:
    """Read a random model, solve it, and write its variables back."""
    method = str(pick(rng, {"auto": 4, "direct": 2, "bmrm": 1, "proximal": 1, "kelley": 1}))
    model, terms, unit, kinds = _model(rng)
    status, failures = "", []
    with quiet():
        try:
            scaled = cp.Problem(model.objective * (1.0 / unit), model.constraints)
            scaled.solve(solver=cp.CLARABEL)
        except (cp.SolverError, UserWarning):
            return Outcome(f"model/{method}/auto", "SKIPPED", [])
    if scaled.status != cp.OPTIMAL:
        return Outcome(f"model/{method}/auto", "SKIPPED", [])
    optimum = unit * scaled.value
    size = unit + float(sum(np.abs(term.value).sum() for term in terms))
    for variable in model.variables():
        variable.value = None
    tol = float(pick(rng, {1e-3: 1, 1e-6: 2, 1e-8: 1}))
    with quiet():
        try:
            read = cut.from_cvxpy(model)
            result = guarded(lambda: read.solve(method=method, tol=tol, max_iter=300, time_limit=5.0), 5.0)
            status = str(result.status)
            failures = _broken(model, read, result, optimum, ACCURACY * size, tol)
        except Refused:
            status = "REFUSED"
        except Exception as error:
            status, failures = type(error).__name__, [checks.of_exception(error)]
    return Outcome(f"model/{method}/auto", status, [f"{failure} [{kinds}]" for failure in failures])


def _broken(model: Any, read: Any, result: Any, optimum: float, slack: float, tol: float) -> list[str]:
    failures, sign = [], read.sign
    bound = sign * (result.lower_bound + read.constant)
    if sign * (bound - optimum) > slack:
        failures.append(f"false bound: {bound!r}, the optimum is {optimum!r}")
    if result.status in (Status.UNBOUNDED, Status.INFEASIBLE, Status.INVALID_ORACLE):
        failures.append(f"false {result.status}: {result.reason}")
    if result.x is None:
        return failures
    if sign * (read.value - optimum) < -slack:
        failures.append(f"false objective: {read.value!r}, the optimum is {optimum!r}")
    if abs(read.value - model.objective.value) > slack + 1e-9 * abs(read.value):
        failures.append(f"objective: {read.value!r}, cvxpy says {model.objective.value!r}")
    sizes = [1.0 + max(float(np.abs(leaf.value).max()) for leaf in c.variables()) for c in model.constraints]
    over = [float(np.max(c.violation())) / size for c, size in zip(model.constraints, sizes, strict=True)]
    if max(over, default=0.0) > ACCURACY:
        failures.append(f"infeasible x: by {max(over):.2g} of the scale")
    if result.status is Status.OPTIMAL:
        if result.gap > tol * (1.0 + 1e-9):
            failures.append(f"false OPTIMAL: gap {result.gap:.3g}, tol {tol:.1g}")
        verification = result.certificate.verify()
        if not verification.valid:
            failures.append(f"verify: {'; '.join(verification.problems)}")
    return failures


def _model(rng: Rng) -> tuple[Any, list[Any], float, str]:
    """A model, the terms of its objective, their unit, and what they are."""
    n, m = int(rng.integers(1, 6)), int(rng.integers(2, 15))
    w, b = cp.Variable(n, name="w"), cp.Variable(name="b")
    X = dyadic(rng, m, n, bits=3)
    y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
    goal = dyadic(rng, m, bits=3)
    scores = X @ w + b if chance(rng, 0.4) else X @ w
    losses = {
        "hinge": lambda: cp.sum(cp.pos(1 - cp.multiply(y, scores))) / m,
        "squared hinge": lambda: cp.sum_squares(cp.pos(1 - cp.multiply(y, scores))),
        "logistic": lambda: cp.sum(cp.logistic(-cp.multiply(y, scores))) / m,
        "absolute": lambda: cp.norm1(scores - goal),
        "squares": lambda: cp.sum_squares(scores - goal) / (2 * m),
        "huber": lambda: cp.sum(cp.huber(scores - goal, 0.5)),
        "quantile": lambda: cp.sum(cp.maximum(0.75 * (goal - scores), 0.25 * (scores - goal))),
        "tube": lambda: cp.sum(cp.pos(cp.abs(scores - goal) - 0.25)),
        "exponential": lambda: cp.sum(cp.exp(-cp.multiply(y, 0.5 * scores))),
        "log sum exp": lambda: cp.log_sum_exp(scores),
        "largest": lambda: cp.max(scores - goal),
        "norm": lambda: cp.norm(scores - goal),
    }
    penalties = {
        "L1": lambda: cp.norm1(w),
        "L2": lambda: 0.5 * cp.sum_squares(w),
        "LInf": lambda: cp.norm_inf(w),
        "norm of w": lambda: cp.norm(w - 0.5),
        "variation": lambda: cp.norm1(cp.diff(w)) if n > 1 else cp.abs(w[0]),
        "form": lambda: cp.quad_form(w, np.eye(n) + np.ones((n, n))),
        "cost": lambda: dyadic(rng, n) @ w,
    }
    rows = np.round(2.0 * rng.normal(size=(2, n)))
    constraints = {
        "nonnegative": lambda: [w >= 0],
        "box": lambda: [w >= -1, w <= 2],
        "simplex": lambda: [w >= 0, cp.sum(w) == 1],
        "ball": lambda: [cp.norm(w - 0.25) <= 1.5],
        "L1 ball": lambda: [cp.norm1(w) <= 1],
        "rows": lambda: [rows @ w <= 1],
        "equation": lambda: [cp.sum(w) == 0.5],
    }
    chosen = [str(rng.choice(list(losses)))]
    chosen += [str(name) for name in rng.choice(list(losses), size=int(chance(rng, 0.3)))]
    extra = [str(name) for name in rng.permutation(list(penalties))[: rng.integers(0, 3)]]
    limits = [str(name) for name in rng.permutation(list(constraints))[: rng.integers(0, 3)]]
    terms = [power(rng, 3) * losses[name]() for name in chosen]
    terms += [power(rng, 3) * penalties[name]() for name in extra]
    sides = [side for name in limits for side in constraints[name]()]
    if chance(rng, 0.8):
        sides += [cp.abs(b) <= 4, cp.norm_inf(w) <= 8]
    constant = float(pick(rng, {0.0: 2, 1.0: 1, -3.0: 1}))
    unit = 10.0 ** int(rng.integers(-4, 5)) if chance(rng, 0.3) else 1.0
    terms = [unit * term for term in terms]
    total = sum(terms) + unit * constant
    objective = cp.Minimize(total) if chance(rng, 0.7) else cp.Maximize(-total)
    kinds = " + ".join(chosen + extra) + "; " + ", ".join(limits)
    return cp.Problem(objective, sides), terms, unit, kinds
