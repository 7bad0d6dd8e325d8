"""One random trial of each of the special problems: boosting, kernels, their combination, graphical models.

Each function draws a small problem with the generator that it is given, solves it, and compares what the
result promises with an answer that shares no code with the library. No tolerance stands for more than the
rounding errors of the terms that are compared.
"""

from __future__ import annotations

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog, minimize

from cutplane import boosting as boost
from cutplane import methods
from cutplane.graphical import GraphicalModel
from cutplane.kernels import KernelMachine
from cutplane.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    ModifiedHuber,
    Quantile,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from cutplane.mkl import MKL, ClosedFormWeights, SmoothMKL
from cutplane.status import Status
from fuzz.outcome import Outcome

EPS = float(np.finfo(np.float64).eps)
ULPS = 4
"""An energy that is rounded once, and a bound that equals it: a few units in the last place."""


def map_inference(rng: np.random.Generator) -> Outcome:
    """Solve a model of all labellings of which the exact energy is known."""
    model = _model(rng)
    method = str(rng.choice(["auto", "primal", "dual", "elimination", "search"]))
    tighten = bool(rng.random() < 0.8)
    family = f"map_inference/{method}" + ("" if tighten else "/local")
    optimum = _least_energy(model)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = model.map(method, tighten=tighten, max_iter=300)
    except Exception as error:
        return Outcome(family, "error", [f"{type(error).__name__}: {error}"])
    failures = []
    if optimum is None:
        if result.labelling is not None or result.energy < math.inf:
            failures.append(f"energy {result.energy} of a model without a labelling")
    else:
        ulp = Fraction(ULPS * math.ulp(float(optimum)))
        if result.bound == math.inf or (result.bound > -math.inf and Fraction(result.bound) > optimum + ulp):
            failures.append(f"bound {result.bound!r} above the least energy {float(optimum)!r}")
        if result.labelling is not None:
            energy = _energy(model, result.labelling)
            if energy is None or abs(Fraction(result.energy) - energy) > Fraction(
                ULPS * math.ulp(float(energy))
            ):
                failures.append(
                    f"energy {result.energy!r} of a labelling of energy {energy and float(energy)!r}"
                )
            elif result.status is Status.OPTIMAL:
                allowed = Fraction(1e-6) * abs(energy) + Fraction(model.rounding(result.labelling)) + ulp
                if energy - optimum > allowed:
                    failures.append(f"OPTIMAL at {float(energy)!r}, the least is {float(optimum)!r}")
        if result.status is Status.INFEASIBLE:
            failures.append("INFEASIBLE, but there is a labelling")
    if result.status is Status.OPTIMAL and optimum is None:
        failures.append("OPTIMAL without a labelling")
    return Outcome(family, str(result.status), failures)


def _model(rng: np.random.Generator) -> GraphicalModel:
    binary = rng.random() < 0.5
    n = int(rng.integers(1, 8 if binary else 6))
    cardinalities = np.full(n, 2) if binary else rng.integers(1, 4, n)
    kind = rng.choice(["normal", "normal", "integers", "tiny", "huge"])
    penalty = 10.0 ** rng.integers(-8, 13) if rng.random() < 0.6 else 0.0
    share, hard = rng.choice([0.1, 0.3, 0.6]), rng.choice([0.0, 0.0, 0.15])

    def table(shape: tuple[int, ...]) -> np.ndarray:
        values = rng.integers(-5, 6, shape).astype(float) if kind == "integers" else rng.normal(size=shape)
        values = values * {"tiny": 1e-8, "huge": 1e8}.get(str(kind), 1.0)
        if penalty:
            sign = rng.choice([1.0, 1.0, 1.0, -1.0])
            values = np.where(
                rng.random(shape) < share, values + sign * penalty * rng.choice([1.0, 0.7]), values
            )
        return np.where(rng.random(shape) < hard, np.inf, values)

    factors = [((u,), table((cardinalities[u],))) for u in range(n) if rng.random() < 0.7]
    for _ in range(int(rng.integers(0, rng.choice([2, 4]) * n + 1)) if n > 1 else 0):
        arity = 2 if rng.random() < 0.8 else min(n, 3)
        scope = tuple(rng.permutation(n)[:arity].tolist())
        factors.append((scope, table(tuple(cardinalities[list(scope)]))))
    return GraphicalModel(cardinalities, factors, constant=float(rng.choice([0.0, rng.normal(), 1e6])))


def _energy(model: GraphicalModel, labelling: np.ndarray) -> Fraction | None:
    """Return the exact energy; None if it is infinite."""
    terms = model.terms(labelling)
    return None if np.isinf(terms).any() else sum(map(Fraction, terms.tolist()), Fraction(0))


def _least_energy(model: GraphicalModel) -> Fraction | None:
    found = [_energy(model, x) for x in itertools.product(*map(range, model.cardinalities.tolist()))]
    return min((energy for energy in found if energy is not None), default=None)


def boosting(rng: np.random.Generator) -> Outcome:
    """Boost on a few examples, and solve the linear programme over all hypotheses."""
    X, y, nu = _examples(rng)
    method = rng.choice([boost.LPBoost, boost.ERLPBoost, boost.CorrectiveERLPBoost, boost.MLPBoost])()
    tol = float(10.0 ** rng.integers(-6 if isinstance(method, boost.LPBoost) else -2, 0))
    stumps = rng.random() < 0.7
    symmetric = bool(rng.random() < 0.5)
    learner = boost.DecisionStumps() if stumps else boost.HypothesisMatrix(symmetric)
    if not stumps:
        X = X / max(1.0, float(np.abs(X).max()))
    family = f"boosting/{type(method).__name__}"
    A = _all_margins(X, y, stumps, symmetric)
    optimum = _soft_margin(A, nu)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = boost.SoftMargin(X, y, nu, learner).solve(method, tol=tol, max_iter=500)
            verification = result.verify()
    except Exception as error:
        return Outcome(family, "error", [f"{type(error).__name__}: {error}"])
    failures = []
    rounding = 1e-8  # of HiGHS, which gives the optimum; margins are in [-1, 1]
    if result.soft_margin > optimum + rounding:
        failures.append(f"soft margin {result.soft_margin!r} above the largest {optimum!r}")
    if result.edge < optimum - rounding:
        failures.append(f"edge {result.edge!r} below the largest soft margin {optimum!r}")
    if result.status is Status.OPTIMAL and result.gap_abs > tol + rounding:
        failures.append(f"OPTIMAL with the gap {result.gap_abs!r}, tol = {tol}")
    if result.status not in (Status.OPTIMAL, Status.MAX_ITER):
        failures.append(f"{result.status}: {result.reason}")
    if not verification.valid:
        failures.append(f"not verified: {verification.problems}")
    margins = np.sort(y * result.ensemble.decision_function(X))
    whole = int(nu)
    value = (margins[:whole].sum() + (nu - whole) * (margins[whole] if whole < y.size else 0.0)) / nu
    if abs(value - result.soft_margin) > 1e-12:
        failures.append(f"soft margin {result.soft_margin!r} of an ensemble of soft margin {value!r}")
    return Outcome(family, str(result.status), failures)


def _examples(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    m, n = int(rng.integers(1, 16)), int(rng.integers(1, 4))
    kind = rng.choice(["normal", "ties", "ones", "tiny", "huge"])
    X = rng.normal(size=(m, n))
    if kind == "ties":
        X = np.round(X)
    elif kind == "ones":
        X = np.ones((m, n))
    else:
        X *= {"tiny": 1e-12, "huge": 1e12}.get(str(kind), 1.0)
    if n > 1 and rng.random() < 0.3:
        X[:, -1] = X[:, 0]
    if rng.random() < 0.2:
        X[:, 0] = rng.normal()
    labels = rng.choice(["random", "alternating", "one class", "separable"])
    y = {
        "random": lambda: rng.choice([-1.0, 1.0], m),
        "alternating": lambda: np.resize([1.0, -1.0], m),
        "one class": lambda: np.full(m, rng.choice([-1.0, 1.0])),
        "separable": lambda: np.where(X[:, 0] > np.median(X[:, 0]), 1.0, -1.0),
    }[str(labels)]()
    nu = float(rng.choice([1.0, float(m), rng.uniform(1.0, m), float(rng.integers(1, m + 1))]))
    return X, y, nu


def _all_margins(X: np.ndarray, y: np.ndarray, stumps: bool, symmetric: bool) -> np.ndarray:
    """Return the margins of all hypotheses, one per column."""
    if not stumps:
        return y[:, None] * (np.hstack([X, -X]) if symmetric else X)
    columns = [np.ones(y.size)]
    for x in X.T:
        values = np.unique(x)
        columns += [np.where(x > low, 1.0, -1.0) for low in values[:-1]]
    H = np.array(columns).T
    return y[:, None] * np.hstack([H, -H])


def _soft_margin(A: np.ndarray, nu: float) -> float:
    """Return the value of max rho - sum xi / nu over weights w of sum 1, A w >= rho - xi, xi >= 0."""
    m, n = A.shape
    cost = np.concatenate([np.zeros(n), [-1.0], np.full(m, 1.0 / nu)])
    rows = np.hstack([-A, np.ones((m, 1)), -np.eye(m)])
    total = np.concatenate([np.ones(n), np.zeros(m + 1)])[None]
    bounds = [(0, None)] * n + [(None, None)] + [(0, None)] * m
    return -float(linprog(cost, rows, np.zeros(m), total, [1.0], bounds=bounds).fun)


LOSSES = [
    Hinge(),
    SquaredHinge(),
    ModifiedHuber(),
    Squared(),
    Absolute(),
    Quantile(0.3),
    EpsilonInsensitive(0.2),
    SquaredEpsilonInsensitive(0.2),
    Huber(0.5),
]


def kernel_machine(rng: np.random.Generator) -> Outcome:
    """Train a kernel machine, and compare its bounds with points of both problems found otherwise."""
    loss, y, K = _machine(rng)
    C, intercept = float(10.0 ** rng.integers(-4, 5)), bool(rng.random() < 0.5)
    family = f"kernel_machine/{type(loss).__name__}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            machine = KernelMachine(loss, y, C, intercept)
            solution = machine.solve(K)
    except Exception as error:
        return Outcome(family, "error", [f"{type(error).__name__}: {error}"])
    failures = []
    a = solution.a
    norm2 = float(a @ K @ a)
    primal = 0.5 * norm2 + C * sum(_losses(loss, K @ a + solution.intercept, y))
    size = 0.5 * abs(norm2) + abs(primal) + C * y.size * (1.0 + np.abs(y).max())
    size += 1e9 * EPS * y.size * float((np.abs(a) + 4.0 * C) @ np.abs(K) @ np.abs(a))
    if abs(primal - solution.primal_value) > 1e-9 * size:
        failures.append(f"primal value {solution.primal_value!r} of a predictor of value {primal!r}")
    dual = _dual_value(loss, y, C, a) - 0.5 * norm2
    if intercept and abs(a.sum()) > 1e-9 * (C * y.size + np.abs(a).sum()):
        failures.append(f"the coefficients sum to {a.sum()!r}")
    if solution.dual_value > dual + 1e-9 * size:
        failures.append(f"dual value {solution.dual_value!r} of coefficients of value {dual!r}")
    if solution.gap > 1e-6 * size:
        failures.append(f"gap {solution.gap!r} at the value {primal!r}")
    better = _descended(loss, y, C, K, a, solution.intercept, intercept)
    if better < solution.dual_value - 1e-8 * size:
        failures.append(f"a predictor of value {better!r} below the dual value {solution.dual_value!r}")
    return Outcome(family, "solved", failures)


def _machine(rng: np.random.Generator):
    m = int(rng.integers(1, 12))
    loss = LOSSES[rng.integers(len(LOSSES))]
    labels = isinstance(loss, (Hinge, SquaredHinge, ModifiedHuber))
    y = rng.choice([-1.0, 1.0], m) if labels else rng.normal(size=m) * 10.0 ** rng.integers(-2, 3)
    if rng.random() < 0.15:
        y = np.full(m, y[0])
    return loss, y, _kernel(rng, m)


def _kernel(rng: np.random.Generator, m: int) -> np.ndarray:
    kind = rng.choice(["zero", "identity", "low rank", "full", "duplicates", "constant", "nearly singular"])
    F = rng.normal(size=(m, m if kind in ("full", "nearly singular") else max(1, m // 3)))
    if kind == "duplicates":
        F = F[rng.integers(m, size=m)]
    if kind == "nearly singular":
        F *= np.logspace(0, -9, m)
    K = {
        "zero": lambda: np.zeros((m, m)),
        "identity": lambda: np.eye(m),
        "constant": lambda: np.ones((m, m)),
    }.get(str(kind), lambda: F @ F.T)()
    return K * 10.0 ** rng.integers(-3, 4)


def _losses(loss, t: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the losses by their definitions."""
    r = y - t
    return {
        Hinge: lambda: np.maximum(0.0, 1.0 - y * t),
        SquaredHinge: lambda: np.maximum(0.0, 1.0 - y * t) ** 2,
        ModifiedHuber: lambda: np.where(y * t >= -1.0, np.maximum(0.0, 1.0 - y * t) ** 2, -4.0 * y * t),
        Squared: lambda: 0.5 * r**2,
        Absolute: lambda: np.abs(r),
        Quantile: lambda: np.maximum(getattr(loss, "tau", 0) * r, (getattr(loss, "tau", 0) - 1.0) * r),
        EpsilonInsensitive: lambda: np.maximum(0.0, np.abs(r) - getattr(loss, "epsilon", 0)),
        SquaredEpsilonInsensitive: lambda: np.maximum(0.0, np.abs(r) - getattr(loss, "epsilon", 0)) ** 2,
        Huber: lambda: np.where(
            np.abs(r) <= getattr(loss, "delta", 0),
            0.5 * r**2,
            getattr(loss, "delta", 0) * (np.abs(r) - 0.5 * getattr(loss, "delta", 0)),
        ),
    }[type(loss)]()


def _dual_value(loss, y: np.ndarray, C: float, a: np.ndarray) -> float:
    """Return the sum of the least C l(t, y_i) + a_i t over t, by trying the kinks and the ends."""
    epsilon, delta = getattr(loss, "epsilon", 0.0), getattr(loss, "delta", 0.0)
    r = -a / C  # the slope of the loss where the minimum is attained
    candidates = [y, 1.0 / y if isinstance(loss, (Hinge, SquaredHinge, ModifiedHuber)) else y]
    candidates += [y + epsilon, y - epsilon, y + delta, y - delta, -1.0 * y]
    candidates += [y + r, y + 0.5 * r + epsilon * np.sign(r), y * (1.0 + 0.5 * y * r)]
    values = [C * _losses(loss, t, y) + a * t for t in candidates]
    return float(np.min(values, axis=0).sum())


def _descended(loss, y, C, K, a, b, intercept) -> float:
    """Return the value of a predictor that a few general steps from random points and from (a, b) find."""

    def value(u: np.ndarray) -> float:
        f = K @ u[:-1]
        return 0.5 * float(u[:-1] @ f) + C * float(_losses(loss, f + (u[-1] if intercept else 0.0), y).sum())

    start = np.append(a, b)
    found = minimize(value, start, method="Powell", options={"maxiter": 3})
    return min(value(start), value(np.zeros_like(start)), float(found.fun))


def mkl(rng: np.random.Generator) -> Outcome:
    """Learn the weights of a few kernels, and compare with weights and coefficients found otherwise."""
    loss, y, K = _machine(rng)
    C, intercept = float(10.0 ** rng.integers(-4, 5)), bool(rng.random() < 0.5)
    kernels = [K] + [_kernel(rng, y.size) for _ in range(rng.integers(0, 4))]
    if rng.random() < 0.2:
        kernels.append(kernels[0])
    norm = float(rng.choice([1.0, 1.0, 1.0, 4 / 3, 2.0, np.inf]))
    entropy = float(10.0 ** rng.integers(-3, 2)) if norm == 1.0 and rng.random() < 0.3 else 0.0
    choices = [None, methods.LevelBundle()] if norm == 1.0 else [None, ClosedFormWeights()]
    if norm == 1.0 and not entropy:
        choices += [
            methods.Kelley(),
            methods.ProximalBundle(),
            methods.ReducedGradient(),
            ClosedFormWeights(),
        ]
    if entropy and not intercept and isinstance(loss, Hinge):
        choices += [SmoothMKL(), SmoothMKL()]
    chosen = choices[rng.integers(len(choices))]
    tol = float(10.0 ** rng.integers(-5, -1))
    family = f"mkl/{'auto' if chosen is None else type(chosen).__name__}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            problem = MKL(kernels, y, C, loss, norm, entropy=entropy, intercept=intercept)
            result = problem.solve("auto" if chosen is None else chosen, tol=tol, max_iter=300)
            verification = result.verify()
    except Exception as error:
        return Outcome(family, "error", [f"{type(error).__name__}: {error}"])
    failures = [] if verification.valid else [f"not verified: {verification.problems}"]
    beta, a = result.weights, result.coefficients
    if (beta < 0.0).any() or np.linalg.norm(beta, norm) > 1.0 + 1e-9:
        failures.append(f"weights {beta!r} of norm {np.linalg.norm(beta, norm)!r}")
    total = sum(w * k for w, k in zip(beta, kernels, strict=True))
    f = total @ a
    cost = entropy * sum(w * math.log(w * beta.size) for w in beta if w > 0.0)
    losses = C * float(_losses(loss, f + result.intercept, y).sum())
    value = 0.5 * float(a @ f) + losses + cost
    size = 0.5 * abs(float(a @ f)) + losses + abs(cost) + C * y.size * 1e-3
    size += 1e9 * EPS * y.size * float((np.abs(a) + 4.0 * C) @ np.abs(total) @ np.abs(a))
    if abs(value - result.objective) > 1e-8 * size:
        failures.append(f"objective {result.objective!r} of a predictor of value {value!r}")
    if result.lower_bound > result.objective:
        failures.append("the lower bound is above the objective")
    if result.status is Status.OPTIMAL and result.gap > tol * (1.0 + 1e-9):
        failures.append(f"OPTIMAL with the gap {result.gap!r}, tol = {tol}")
    best = _best_weights(rng, kernels, loss, y, C, norm, entropy, intercept, beta)
    if best < result.lower_bound - 1e-7 * size:
        failures.append(f"weights of the value {best!r} below the lower bound {result.lower_bound!r}")
    return Outcome(family, str(result.status), failures)


def _best_weights(rng, kernels, loss, y, C, norm, entropy, intercept, beta) -> float:
    """Return the least objective over some weights, each with a machine that is checked by its own value."""
    n = len(kernels)
    trials = [*np.eye(n), np.full(n, 1.0 / n), *rng.dirichlet(np.full(n, 0.5), 5)]
    trials += [0.9 * beta + 0.1 * w for w in trials[: n + 1]]
    best = math.inf
    for weights in trials:
        weights = weights / max(np.linalg.norm(weights, norm), 1e-300)
        K = sum(w * k for w, k in zip(weights, kernels, strict=True))
        solution = KernelMachine(loss, y, C, intercept).solve(K)
        f = K @ solution.a
        cost = entropy * sum(w * math.log(w * n) for w in weights if w > 0.0)
        losses = C * float(_losses(loss, f + solution.intercept, y).sum())
        best = min(best, 0.5 * float(solution.a @ f) + losses + cost)
    return best
