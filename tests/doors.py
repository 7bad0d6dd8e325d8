"""Doors: public constructors and functions, each with a valid call and the answer that it gives.

A new piece is one line of `PIECES` or `ESTIMATORS`. Its keywords are the arguments that hold numbers:
float64 values that float16 holds exactly, so that other forms give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np
from scipy import sparse

import cutplane as cut
from cutplane import boosting, estimators, kernels, losses, measures, mkl, structured

RNG = np.random.default_rng(5)
X = np.round(RNG.standard_normal((8, 3)) * 8.0) / 8.0
SIGNS = np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0, -1.0])
X += 0.5 * SIGNS[:, np.newaxis]
REALS = X @ [1.0, -2.0, 0.5]
COUNTS = np.array([0.0, 1, 2, 0, 3, 1, 1, 2])
CLASSES = np.array([0.0, 1, 2, 0, 1, 2, 1, 0])
WEIGHTS = np.array([1.0, 0.5, 2.0, 1.0, 1.5, 1.0, 0.25, 1.0])
V = np.array([0.5, -1.0, 0.25])
POSITIVE = np.array([0.5, 1.0, 0.25])
GRAM = X @ X.T + np.eye(8)
Q = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 3.0]])
A, B = np.array([[1.0, 0.0, 0.5], [0.0, 2.0, 1.0]]), np.array([1.0, 2.0])
BITS = (X[:, :2] > 0).astype(float)
DISTANCES = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))


@dataclass(frozen=True)
class Door:
    """A call with arguments that hold numbers, and the numbers of what it returns."""

    name: str
    make: Callable[..., Any]
    answer: Callable[[Any], Any]
    arguments: dict[str, Any]
    extended: frozenset[str] = field(default=frozenset())
    """Arguments in which an infinity has a meaning."""

    def __call__(self, **changes: Any) -> list[np.ndarray]:
        return self.read(self.make(**{**self.arguments, **changes}))

    def read(self, made: Any) -> list[np.ndarray]:
        found = self.answer(made)
        parts = found if isinstance(found, tuple | list) else (found,)
        return [part.toarray() if sparse.issparse(part) else np.asarray(part, dtype=float) for part in parts]


def door(make: Any, answer: Any, *, named: str = "", extended: str = "", **arguments: Any) -> Door:
    name = named or getattr(make, "__name__", str(make))
    return Door(name, make, answer, arguments, frozenset(extended.split()))


def query(risk: Any) -> Any:
    """The value and a subgradient away from kinks."""
    return risk.oracle(np.linspace(0.3, -0.7, risk.dim))


def penalty(g: Any) -> Any:
    return g.value(V), g.minimise_linear(V)[1] if hasattr(g, "minimise_linear") else g.subgradient(V)


def projection(feasible_set: Any) -> Any:
    return feasible_set.project(3.0 * V)


def violations(half_space: Any) -> Any:
    return half_space.normal @ V, half_space.offset


def minimum(feasible_set: Any) -> Any:
    """The point of the set nearest to V."""
    return np.round(cut.Problem(cut.LinearObjective(-V), cut.L2(1.0), feasible_set).solve(tol=1e-9).x, 4)


def kernel_values(kernel: Any) -> Any:
    return kernel(X)


def _linear(loss: Any) -> Callable[..., Any]:
    return lambda X, y, sample_weight: cut.LinearRisk(X, y, loss, sample_weight=sample_weight)


def _parameter(name: str, make: Any, answer: Any, value: float, extended: bool = False) -> Door:
    """A door with one number, which is called as its message calls it."""
    argument = name.rpartition(".")[2]
    return Door(name, lambda **given: make(given[argument]), answer, {argument: value},
                frozenset({argument} if extended else ()))  # fmt: skip


def _loss(loss: Any) -> Any:
    risk = cut.LinearRisk(X, REALS, loss)
    return query(risk)


def _of_cvxpy(build: Callable[..., Any]) -> Callable[..., Any]:
    """A function of constants -> the solved model, with constants that cvxpy has not looked at."""

    def make(**constants: Any) -> Any:
        x = cp.Variable(3)
        return cut.from_cvxpy(build(x, **{name: cp.Constant(value) for name, value in constants.items()}))

    return make


KINDS = cut.Risk, cut.Regularizer, cut.FeasibleSet, losses.ScalarLoss, cut.methods.Method
_SHAPES = {"X": X, "sample_weight": WEIGHTS}
PIECES = [
    # risks
    *(
        door(_linear(loss), query, named=f"LinearRisk, {type(loss).__name__}", y=y, **_SHAPES)
        for loss, y in [
            (losses.Hinge(), SIGNS), (losses.SquaredHinge(), SIGNS), (losses.Logistic(), SIGNS),
            (losses.ModifiedHuber(), SIGNS), (losses.Exponential(), SIGNS), (losses.Squared(), REALS),
            (losses.Absolute(), REALS), (losses.Quantile(0.25), REALS), (losses.Huber(), REALS),
            (losses.EpsilonInsensitive(), REALS), (losses.SquaredEpsilonInsensitive(), REALS),
            (losses.Poisson(), COUNTS),
        ]
    ),
    door(lambda X, y, sample_weight: cut.MulticlassRisk(X, y, sample_weight=sample_weight), query,
         named="MulticlassRisk", y=CLASSES, **_SHAPES),
    door(lambda cost: cut.MulticlassRisk(X, CLASSES, losses.MulticlassHinge(cost)), query,
         named="MulticlassHinge", cost=DISTANCES),
    door(lambda X, y, sample_weight: cut.OrdinalRisk(X, y, sample_weight=sample_weight), query,
         named="OrdinalRisk", y=CLASSES, **_SHAPES),
    door(lambda X, sample_weight: cut.NoveltyRisk(X, 0.5, sample_weight), query, named="NoveltyRisk",
         **_SHAPES),
    door(lambda X, relevance, cost: cut.RankingRisk(X, relevance, cost=cost), query, named="RankingRisk",
         X=X, relevance=CLASSES, cost=DISTANCES),
    door(lambda X, y: cut.MeasureRisk(X, y, measures.FBeta(1.0)), query, named="MeasureRisk", X=X, y=SIGNS),
    door(cut.LinearObjective, query, c=V),
    door(lambda matrix: cut.LinearRisk(np.eye(2), B, losses.Squared()) @ matrix, query, named="risk @ matrix",
         matrix=A),
    door(lambda factor: factor * cut.LinearObjective(V), query, named="factor * risk", factor=0.5),
    door(lambda infimum: cut.OracleRisk(lambda x: (float(x @ x), 2.0 * x), 3, infimum=infimum),
         lambda risk: risk.infima, named="OracleRisk", extended="infimum", infimum=0.0),
    door(structured.ChainRisk, query, X=X, y=CLASSES, lengths=np.array([3, 5]), sample_weight=np.ones(2)),
    door(structured.ChainLogLikelihood, query, X=X, y=CLASSES, lengths=np.array([3, 5]),
         sample_weight=np.ones(2)),
    door(structured.MultilabelRisk, query, X=X, Y=BITS, sample_weight=WEIGHTS),
    door(lambda X, y: structured.GraphRisk([X], [y], [np.array([[0, 1], [1, 2]])]), query, named="GraphRisk",
         X=X, y=CLASSES),
    door(lambda w, X: structured.decode(w, X), lambda found: found, named="decode", X=X,
         w=np.linspace(-1.0, 1.0, 18)),
    door(lambda X, y, sample_weight: kernels.KernelRisk(X, y, losses.Hinge(), kernels.Linear(),
         sample_weight=sample_weight), query, named="KernelRisk", y=SIGNS, **_SHAPES),
    door(lambda X: kernels.KernelRisk(X, SIGNS, losses.Hinge(), "precomputed"), query,
         named="KernelRisk, precomputed", X=GRAM),
    door(lambda X, y, sample_weight: kernels.NuRisk(X, y, 0.25, kernels.Linear(),
         sample_weight=sample_weight), query, named="NuRisk", y=SIGNS, **_SHAPES),
    door(lambda factor: factor * cut.L2(1.0), penalty, named="factor * regularizer", factor=0.5),
    # losses, measures
    _parameter("Quantile.tau", losses.Quantile, _loss, 0.25),
    _parameter("EpsilonInsensitive.epsilon", losses.EpsilonInsensitive, _loss, 0.25),
    _parameter("SquaredEpsilonInsensitive.epsilon", losses.SquaredEpsilonInsensitive, _loss, 0.25),
    _parameter("Huber.delta", losses.Huber, _loss, 0.25),
    _parameter("FBeta.beta", measures.FBeta, lambda m: query(cut.MeasureRisk(X, SIGNS, m)), 2.0),
    door(losses.Pieces, lambda p: p(V), knots=np.array([-1.0, 1.0]), slopes=np.array([-1.0, 0.0, 2.0]),
         curvatures=np.array([0.5, 0.0, 0.0]), value=0.25),
    # regularizers
    door(cut.L1, penalty, lam=0.5, weights=POSITIVE),
    door(cut.L2, penalty, lam=0.5, weights=POSITIVE, centre=V),
    door(cut.ElasticNet, penalty, lam=0.5, l1_ratio=0.25),
    door(cut.LInf, lambda g: g.value(V), lam=0.5),
    door(cut.NegativeEntropy, lambda g: g.value(POSITIVE), lam=0.5),
    door(cut.RelativeEntropy, lambda g: g.value(POSITIVE), reference=POSITIVE, lam=0.5),
    door(lambda lam, weights: cut.GroupLasso([[0], [1, 2]], lam, weights), lambda g: g.value(V),
         named="GroupLasso", lam=0.5, weights=B),
    door(lambda lam, rho, p: cut.SquaredGroupNorm([[0], [1, 2]], lam, p, rho), lambda g: g.value(V),
         named="SquaredGroupNorm", lam=0.5, rho=B, p=2.0),
    door(cut.QuadraticForm, penalty, Q=Q, c=V, lam=0.5),
    door(lambda matrix: cut.L1(1.0) @ matrix, lambda g: g.value(V), named="regularizer @ matrix", matrix=A),
    door(lambda lam: cut.NuclearNorm((3, 1), lam), lambda g: g.value(V), named="NuclearNorm", lam=0.5),
    door(lambda lam: cut.SpectralNorm((3, 1), lam), lambda g: g.value(V), named="SpectralNorm", lam=0.5),
    door(lambda lam: cut.total_variation(3, lam), lambda g: g.value(V), named="total_variation", lam=0.5),
    door(lambda lam: cut.trend_filter(3, lam), lambda g: g.value(V), named="trend_filter", lam=0.5),
    # sets
    door(cut.Box, projection, extended="lower upper", lower=-POSITIVE, upper=POSITIVE),
    door(cut.CappedSimplex, projection, cap=POSITIVE),
    door(lambda radius: cut.Simplex(3, radius), projection, named="Simplex", radius=0.5),
    door(cut.L1Ball, projection, radius=0.5, centre=V),
    door(cut.L2Ball, projection, radius=0.5, centre=V),
    door(cut.LinfBall, projection, radius=0.5, centre=V),
    door(cut.NonnegativeBall, projection, extended="p", p=2.0, radius=0.5),
    door(cut.Polyhedron, minimum, A=A, b=B, A_eq=np.array([[1.0, 1.0, 1.0]]), b_eq=np.array([1.0])),
    door(cut.HalfSpace, violations, normal=V, offset=0.5),
    door(cut.HalfSpaces, lambda h: h.violations(V), normals=A, offsets=B),
    # problems and their options
    door(lambda x0: cut.Problem(cut.LinearRisk(X, SIGNS, losses.Hinge()), cut.L2(0.5)).solve(x0=x0, tol=1e-6),
         lambda r: np.round(r.objective, 4), named="solve, x0", x0=V),
    *(
        door(lambda **option: cut.Problem(cut.LinearObjective(V), cut.L2(1.0)).solve(**option),
             lambda r: np.round(r.objective, 4), named=f"solve, {name}", extended="time_limit",
             **{name: value})
        for name, value in {"tol": 1e-6, "tol_abs": 0.25, "time_limit": 8.0}.items()
    ),
    door(lambda x: cut.Problem(cut.LinearObjective(V), cut.L2(1.0)).objective(x), lambda v: v,
         named="Problem.objective", x=V),
    door(lambda lams: cut.Problem(cut.LinearObjective(V), cut.L2(1.0)).path(lams), lambda p: p.objectives,
         named="Problem.path", lams=B),
    *(
        _parameter(name, make, lambda rule: 0.0, 0.25, extended)
        for name, make, extended in [
            ("tol", cut.stopping.RelativeGap, False), ("tol_abs", cut.stopping.AbsoluteGap, False),
            ("time_limit", cut.stopping.TimeLimit, True), ("target", cut.stopping.TargetReached, True),
            ("OCAS.theta", cut.OCAS, False), ("LevelBundle.kappa", cut.LevelBundle, False),
            ("ProximalBundle.weight", cut.ProximalBundle, False),
            ("ProximalBundle.decrease", lambda m: cut.ProximalBundle(decrease=m), False),
        ]
    ),
    # kernels
    _parameter("width", kernels.Gaussian, kernel_values, 0.5),
    _parameter("width", kernels.Laplacian, kernel_values, 0.5),
    _parameter("gamma", kernels.ChiSquare, lambda kernel: kernel(np.abs(X)), 0.5),
    _parameter("coef0", lambda c: kernels.Polynomial(2, c), kernel_values, 0.5),
    *(
        door(lambda X, Z, kernel=kernel: kernel(X, Z), lambda K: K, named=f"{type(kernel).__name__}, call",
             X=np.abs(X), Z=np.abs(X[:4]))
        for kernel in [kernels.Gaussian(1.0), kernels.Linear(), kernels.Cosine(), kernels.ChiSquare()]
    ),
    door(lambda X: kernels.KernelBank([kernels.Gaussian(1.0), kernels.Linear()], X),
         lambda bank: bank.weighted_sum([1.0, 0.5]), named="KernelBank", X=X),
    door(lambda matrices: kernels.PrecomputedKernels([matrices]), lambda bank: bank.weighted_sum([1.0]),
         named="PrecomputedKernels", matrices=GRAM),
    door(lambda y, C: kernels.KernelMachine(losses.Hinge(), y, C), lambda machine: machine.y,
         named="KernelMachine", y=SIGNS, C=0.5),
    door(lambda weights: kernels.laplacian(weights), lambda L: L, named="laplacian",
         weights=np.abs(GRAM)),
    door(lambda K, weight: kernels.deformed(K, np.eye(8), weight, np.arange(4))[0], lambda K: K,
         named="deformed", K=GRAM, weight=0.5),
    # several kernels
    door(lambda y, C: mkl.MKL([GRAM], y, C).solve(), lambda r: np.round(r.objective, 2), named="MKL",
         y=SIGNS, C=0.5),
    door(lambda matrices, rho: mkl.MKL([matrices, np.eye(8)], SIGNS, rho=rho).solve(),
         lambda r: np.round(r.objective, 2), named="MKL, kernels", matrices=GRAM, rho=B),
    *(
        _parameter(name, lambda v, name=name: mkl.MKL([GRAM], SIGNS, **{name: v}), lambda m: 0.0, 1.5, more)
        for name, more in [("norm", True), ("entropy", False)]
    ),
    door(lambda X, y, C: mkl.PolynomialMKL(X, y, 2, C=C), lambda p: p.y, named="PolynomialMKL",
         X=X, y=REALS, C=0.5),
    door(lambda y, C, entropy: mkl.SmoothedDual(kernels.PrecomputedKernels([GRAM]), y, C, entropy),
         lambda dual: dual.oracle(np.full(8, 0.25)), named="SmoothedDual", y=SIGNS, C=0.5, entropy=0.25),
    # boosting
    *(
        door(lambda X, y, nu, learner=learner: boosting.SoftMargin(X, y, nu, learner).solve(tol=1e-6),
             lambda r: np.round(r.soft_margin, 4), named=f"SoftMargin, {type(learner).__name__}",
             X=np.clip(X, -1, 1), y=SIGNS, nu=2.0)
        for learner in [boosting.DecisionStumps(), boosting.HypothesisMatrix()]
    ),
    door(lambda y: boosting.EarlyStopping(X, y), lambda s: s.y, named="EarlyStopping", y=SIGNS),
    _parameter("ERLPBoost.eta", boosting.ERLPBoost, lambda m: 0.0, 0.5),
    _parameter("MLPBoost.eta", lambda eta: boosting.MLPBoost(eta=eta), lambda m: 0.0, 0.5),
    # decomposition
    door(lambda c, A, row_upper, lower, upper: cut.decomposition.LinearSubproblem(
         c, A, row_upper=row_upper, lower=lower, upper=upper), lambda s: s(V)[0], named="LinearSubproblem",
         extended="row_upper lower upper", c=V, A=A, row_upper=B, lower=-POSITIVE, upper=POSITIVE),
    door(lambda coupling, rhs: cut.LagrangianDual(
         cut.decomposition.LinearSubproblem(V, upper=1.0), coupling, rhs), query, named="LagrangianDual",
         coupling=A, rhs=B),
    door(lambda weights: _recourse(weights), query, named="ValueFunction", weights=np.array([0.25, 0.75])),
    door(lambda height: _recourse(np.ones(1), [height]), query, named="ValueFunction, scenario", height=0.5),
]  # fmt: skip

MODELS = [
    *(
        door(_of_cvxpy(build), lambda model: np.round((model.solve(tol=1e-7), model.value)[1], 3),
             named=f"from_cvxpy, {name}", extended=extended, **constants)
        for name, build, constants, extended in [
            ("bound", lambda x, low: cp.Problem(cp.Minimize(cp.sum_squares(x - 1)), [x >= low]),
             {"low": 3.0 + POSITIVE}, "low"),
            ("bound of an entry", lambda x, low: cp.Problem(cp.Minimize(cp.sum_squares(x)), [x[0] >= low]),
             {"low": 1.5}, "low"),
            ("rows", lambda x, A, b: cp.Problem(cp.Minimize(cp.sum_squares(x - 1)), [A @ x <= b]),
             {"A": A, "b": B}, "b"),
            ("equations", lambda x, A, b: cp.Problem(cp.Minimize(cp.sum_squares(x - 1)), [A @ x == b]),
             {"A": A, "b": B}, ""),
            ("norm", lambda x, radius: cp.Problem(cp.Minimize(cp.sum_squares(x - 1)), [cp.norm(x) <= radius]),
             {"radius": 0.5}, "radius"),
            ("constant", lambda x, c: cp.Problem(cp.Minimize(cp.sum_squares(x - 1) + c)), {"c": 0.5}, ""),
            ("data", lambda x, A, b: cp.Problem(cp.Minimize(cp.norm1(A @ x - b) + cp.sum_squares(x))),
             {"A": A, "b": B}, ""),
            ("costs", lambda x, c: cp.Problem(cp.Minimize(c @ x + cp.sum_squares(x))), {"c": V}, ""),
            ("weight", lambda x, w: cp.Problem(cp.Minimize(w * cp.norm1(x - 1) + cp.sum_squares(x))),
             {"w": 0.5}, ""),
            ("form", lambda x, P: cp.Problem(cp.Minimize(cp.quad_form(x - 1, cp.psd_wrap(P)) + cp.sum(x))),
             {"P": Q}, ""),
            ("rest", lambda x, b: cp.Problem(cp.Minimize(cp.log_sum_exp(x - b) + cp.sum_squares(x))),
             {"b": V}, ""),
        ]
    ),
]  # fmt: skip


def _recourse(weights: Any, heights: Any = (0.5, 1.0)) -> Any:
    x, y, h = cp.Variable(3), cp.Variable(), cp.Parameter(name="height")
    problem = cp.Problem(cp.Minimize(2.0 * y), [y >= h - cp.sum(x), y >= 0])
    return cut.ValueFunction(problem, x, [{h: height} for height in heights], weights)


def _fitted(estimator: Any) -> Callable[..., Any]:
    def make(X: Any, y: Any = None, Z: Any = None, **options: Any) -> Any:
        from sklearn.base import clone

        fitted = clone(estimator)
        fitted.fit(X, *(() if y is None else (y,)), **options)
        return fitted.predict(Z)

    return make


def _estimated(estimator: Any, y: Any = SIGNS, Z: Any = X[:4], **more: Any) -> Door:
    given = {"X": X, "Z": Z, **more} if y is None else {"X": X, "y": y, "Z": Z, **more}
    return door(_fitted(estimator), lambda found: found, named=type(estimator).__name__, **given)


_E = estimators
W = {"sample_weight": WEIGHTS}
ESTIMATORS = [
    _estimated(_E.LinearSVC(), **W), _estimated(_E.LinearSVR(), REALS, **W),
    *(
        door(_fitted(_E.LinearClassifier(loss, penalty, alpha=0.125)), lambda found: found,
             named=f"LinearClassifier, {loss}, {penalty}", X=X, y=SIGNS, Z=X[:4], **W)
        for loss, penalty in [("hinge", "l1"), ("logistic", "l2"), ("squared_hinge", "elasticnet")]
    ),
    _estimated(_E.LinearRegressor(alpha=0.125), REALS, **W),
    _estimated(_E.LinearRegressor("huber", "l1", alpha=0.125), REALS, **W),
    _estimated(_E.LinearClassifierCV(alphas=[1.0, 0.5], cv=2), **W),
    _estimated(_E.LinearRegressorCV(alphas=[1.0, 0.5], cv=2), REALS, **W),
    _estimated(_E.MeasureClassifier(alpha=0.125)),
    _estimated(_E.KernelSVC(), **W), _estimated(_E.KernelSVR(), REALS, **W),
    _estimated(_E.KernelLogisticRegression(), **W), _estimated(_E.KernelNuSVC(0.25), **W),
    _estimated(_E.KernelNuSVR(), REALS, **W), _estimated(_E.KernelOneClass(), None, **W),
    _estimated(_E.KernelOrdinalClassifier(), CLASSES), _estimated(_E.GraphSVC(n_neighbors=3), BITS[:, 0]),
    _estimated(_E.SparseKernelClassifier(n_basis=3)), _estimated(_E.SparseKernelRegressor(n_basis=3), REALS),
    _estimated(_E.MKLClassifier()), _estimated(_E.MKLRegressor(), REALS),
    _estimated(_E.PolynomialMKLRegressor(2, tol=0.1, random_state=0), REALS),
    _estimated(_E.LPBoostClassifier(nu=0.5)),
    _estimated(_E.ERLPBoostClassifier(nu=0.5)), _estimated(_E.MLPBoostClassifier(nu=0.5)),
    _estimated(_E.LinearRanker(), CLASSES), _estimated(_E.MultilabelSVM(), BITS),
]  # fmt: skip
