"""Compile every routine for later processes: ``python -m cutplane.warmup``.

It solves tiny problems of every kind. numba stores the compiled code in its cache: next to the source files,
or in `NUMBA_CACHE_DIR`. Arguments select parts, for example ``python -m cutplane.warmup engine linear``.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from itertools import combinations, product

import numpy as np
from scipy import sparse

import cutplane as cut
from cutplane.losses.weighted import FEW
from cutplane.methods.estimates import suits
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import compiled_seconds
from cutplane.runtime.compiling import compiling_at

_KINDS: tuple[Callable[[Array], object], ...] = (
    np.asarray,
    np.asfortranarray,
    sparse.csr_array,
    sparse.csc_array,
)
_TYPES = (np.float64, np.float32)
_MANY = FEW + 1
"""Examples of a problem, because losses of fewer examples run in numpy and not in compiled passes."""


def warm_up(parts: list[str] | None = None) -> None:
    """Compile the routines of the parts, of all by default, and print how long each took."""
    for name in parts or PARTS:
        before = compiled_seconds()
        with compiling_at(0.0):
            for _ in PARTS[name]():
                pass
        print(f"{name:<12} {compiled_seconds() - before:6.1f} s")


def _engine() -> Iterator[object]:
    """Solve a black box by each method, over each kind of set for which the package has masters."""
    X, y = _data(40, 3)

    @cut.risk(dim=3)
    def absolute(w: Array) -> tuple[float, Array]:
        r = X @ w - y
        return float(np.abs(r).mean()), X.T @ np.sign(r) / len(y)

    box = cut.Box(-1.0, 0.1)
    methods = [cut.BMRM(), cut.Portfolio(), cut.ProximalBundle(), cut.LevelBundle()]
    for method, feasible_set in product(methods, (None, box, cut.Polyhedron([[1.0, 1.0, 0.0]], [0.1]))):
        yield cut.Problem(absolute, cut.L2(1e-2), feasible_set).solve(method)
    for regularizer in (cut.NegativeEntropy(1e-2), cut.RelativeEntropy(np.full(3, 1 / 3), 1e-2)):
        yield cut.Problem(absolute, regularizer, cut.Simplex()).solve()


def _linear() -> Iterator[object]:
    """Solve with every loss, on dense and sparse data in float64 and float32, wide and tall."""
    scalar = [piece for piece in vars(cut.losses).values() if _is_loss(piece)]
    for (m, n), kind, dtype in product(((60, 4), (12, 30)), _KINDS, _TYPES):
        X, y = _data(m, n)
        data, labels = kind(X.astype(dtype)), np.digitize(y, [-0.5, 0.5])
        for loss in scalar:
            targets = np.abs(np.round(y)) if loss is cut.losses.Poisson else np.sign(y)
            risk = cut.LinearRisk(data, targets, loss(), intercept=m > n)
            for regularizer in (cut.L2(1e-2), cut.L1(1e-2)):
                yield cut.Problem(risk, regularizer).solve(max_iter=20)
        yield cut.Problem(cut.LinearRisk(data, y, cut.losses.Huber(0.1)), cut.L1(1e-3)).path(exact=True)
        problem = cut.Problem(cut.LinearRisk(data, np.sign(y), cut.losses.Logistic()), cut.L2(1e-2))
        if suits(cut.linear.SemismoothNewton(), problem):
            yield problem.solve(cut.linear.SemismoothNewton(), max_iter=20)
        for loss in (cut.losses.MulticlassHinge(), cut.losses.Softmax()):
            risk = cut.MulticlassRisk(data, labels, loss)
            problem = cut.Problem(risk, cut.L2(1e-2))
            yield problem.solve(max_iter=20), problem.solve(cut.OCAS(), max_iter=20)
            yield risk.line(np.zeros((m, 3)), np.ones((m, 3)))(0.5)
        blocks = cut.LinearRisk(data, np.sign(y), cut.losses.Hinge(), blocks=2)
        yield cut.Problem(blocks, cut.L2(1e-2)).solve(cut.BMRM(), max_iter=20)
        yield cut.Problem(cut.OrdinalRisk(data, labels), cut.L2(1e-2)).solve(max_iter=20)
        yield cut.Problem(cut.NoveltyRisk(data, 0.1), cut.L2(1.0)).solve(max_iter=20)
        yield cut.Problem(cut.RankingRisk(data, labels), cut.L2(1e-2)).solve(max_iter=20)

    X, y = _data(_MANY, 3)
    methods = cut.Portfolio(), cut.OCAS(), cut.linear.SemismoothNewton()
    for loss in scalar:
        targets = np.abs(np.round(y)) if loss is cut.losses.Poisson else np.sign(y)
        risk = cut.LinearRisk(X, targets, loss())
        for regularizer, method in product((cut.L2(1e-2), cut.L1(1e-2)), methods):
            problem = cut.Problem(risk, regularizer)
            if suits(method, problem):
                yield problem.solve(method, max_iter=20)
        yield cut.Problem(risk, cut.L1(1.0)).path([1e-1, 1e-2], max_iter=20)
    yield cut.Problem(cut.OrdinalRisk(X, np.digitize(y, [0.0])), cut.L2(1e-2)).solve(max_iter=20)


def _kernels() -> Iterator[object]:
    """Train kernel machines, and learn kernel weights, with and without an intercept."""
    X, y = _data(60, 4)
    kernels = cut.kernels.single_feature_kernels(4)
    for dtype, targets in product(_TYPES, (np.sign(y), y)):
        bank = cut.kernels.KernelBank(kernels, X, dtype=dtype)
        loss = cut.losses.Hinge() if targets is not y else cut.losses.EpsilonInsensitive(0.1)
        for norm, intercept in product((1.0, 2.0), (True, False)):
            yield cut.mkl.MKL(bank, targets, loss=loss, norm=norm, intercept=intercept).solve()
        yield cut.kernels.ChiSquare(1.0).evaluate(*[np.abs(X).astype(dtype)] * 2)
        share = cut.kernels.NuRisk(X.astype(dtype), y, 0.3, cut.kernels.Gaussian(1.0), "regression")
        yield cut.Problem(share, share.squared_norm(0.1)).solve()


def _boosting() -> Iterator[object]:
    """Boost stumps on dense and sparse data."""
    X, y = _data(60, 4)
    for kind, dtype in product(_KINDS, _TYPES):
        data = kind(X.astype(dtype))
        yield cut.boosting.SoftMargin(data, np.sign(y), 10, cut.boosting.DecisionStumps()).solve()


def _graphical() -> Iterator[object]:
    """Find labellings of grids and of denser models by every method."""
    from cutplane.graphical.exact.clique_tree import CliqueTree
    from cutplane.graphical.map import METHODS

    rng = np.random.default_rng(0)
    triples = [(rng.choice(12, 3, replace=False), rng.normal(size=(3, 3, 3))) for _ in range(30)]
    models = [
        cut.graphical.spin_glass(8, 8, wrap=True),
        cut.graphical.potts(6, 8, 3, mixed=True),
        cut.graphical.GraphicalModel([3] * 12, triples),
        cut.graphical.GraphicalModel.pairwise(
            rng.normal(size=(11, 4)), np.transpose(np.triu_indices(11, 1)), rng.normal(size=(55, 4, 4))
        ),
    ]
    for model in models:
        for method in METHODS:
            yield model.map(method, max_iter=100)
        yield cut.graphical.solve_lagrangian(model, max_iter=10)
    small = models[2]
    yield small.k_best(3), small.min_marginals(), small.min_marginals("sweeps"), small.sample(2)
    yield CliqueTree(small).restricted(np.arange(36) % 3 < 2).least()
    yield _matching(15, 30).map("primal")


def _matching(n_points: int, n_pairs: int) -> cut.graphical.GraphicalModel:
    """Return a model of a heaviest matching of near points, whose bound needs odd sets."""
    points = np.random.default_rng(2).random((n_points, 2))
    lengths = np.linalg.norm(points[:, np.newaxis] - points, axis=2)
    pairs = sorted(combinations(range(n_points), 2), key=lengths.__getitem__)[:n_pairs]
    touching = [(i, j) for i, j in combinations(range(n_pairs), 2) if {*pairs[i]} & {*pairs[j]}]
    weights = [1.5 * lengths[pairs[-1]] - lengths[pair] for pair in pairs]
    tables = [[[0.0, 0.0], [0.0, np.inf]]] * len(touching)
    return cut.graphical.GraphicalModel.pairwise(np.outer(weights, [0.0, -1.0]), touching, tables)


def _structured() -> Iterator[object]:
    """Learn to label sequences, by margin and by likelihood, and trees, and to align sequences."""
    X, y = _data(60, 4)
    labels = np.digitize(y, [-0.5, 0.5])
    for kind, dtype in product(_KINDS[:3], _TYPES):
        data = kind(X.astype(dtype)), labels, [6] * 10
        risks = cut.structured.ChainRisk(*data), cut.structured.ChainLogLikelihood(*data)
        for risk in risks:
            yield cut.Problem(risk, cut.L2(1e-1)).solve(max_iter=20)
        yield cut.Problem(risks[0], cut.L2(1e-1)).solve(cut.BlockFrankWolfe(), max_iter=20)
        yield cut.structured.marginals(np.zeros(risks[1].dim), data[0], data[2])
    yield cut.structured.MultilabelRisk(X, X > 0.0, [[0, 1]])(np.ones(21))
    yield cut.structured.align(np.zeros(11), [[0, 1]], [[2]])


def _is_loss(piece: object) -> bool:
    abstract = cut.losses.ScalarLoss, cut.losses.MarginLoss
    return isinstance(piece, type) and issubclass(piece, abstract[0]) and piece not in abstract


def _data(m: int, n: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, n))
    return X, X[:, 0] + 0.3 * rng.normal(size=m)


PARTS = {part.__name__[1:]: part for part in (_engine, _linear, _kernels, _boosting, _graphical, _structured)}

if __name__ == "__main__":
    parser = ArgumentParser(
        "python -m cutplane.warmup", description="Compile every routine, or those of parts."
    )
    parser.add_argument("parts", nargs="*", metavar="part", help=f"one of {', '.join(PARTS)}; by default all")
    given = parser.parse_args().parts
    if unknown := [name for name in given if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; choose from {', '.join(PARTS)}")
    warm_up(given)
