"""Kernels from parameters, features of low rank, and C and gamma by cross-validation with warm starts."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg, sparse
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state

from cutplane.estimators.base import ascending
from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel
from cutplane.kernels.chi_square import ChiSquare
from cutplane.kernels.functions import Cosine, Gaussian, Laplacian, Linear, Polynomial
from cutplane.kernels.given import as_kernel
from cutplane.pieces.validation import Array, as_count, as_positive

if TYPE_CHECKING:
    from cutplane.estimators.kernel import Part
    from cutplane.kernels.risk import KernelRisk

WITH_GAMMA = "rbf", "poly", "laplacian", "chi2"
NAMES = *WITH_GAMMA, "linear", "cosine", "precomputed"


def gamma_of(kernel: Any, X: Any, gamma: Any) -> float | None:
    """Return gamma as a number, for d columns 1 / (d var X) or 1 / d if it is "scale" or "auto".

    Returns None for a kernel without a gamma.
    """
    if not (isinstance(kernel, str) and kernel in WITH_GAMMA):
        return None
    if not isinstance(gamma, str):
        return as_positive("gamma", gamma)
    if gamma not in ("scale", "auto"):
        raise InvalidInputError(f'gamma must be "scale", "auto" or a number > 0, got {gamma!r}.')
    if gamma == "auto":
        return 1.0 / X.shape[1]
    variance = float(X.multiply(X).mean() - X.mean() ** 2 if sparse.issparse(X) else X.var())
    return 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0


def make_kernel(kernel: Any, gamma: float | None, degree: Any, coef0: Any) -> Kernel:
    """Return a kernel by its name, or the given one."""
    if not isinstance(kernel, str) or kernel == "precomputed":
        return as_kernel(kernel)
    if kernel not in NAMES:
        raise InvalidInputError(
            f"kernel must be one of {list(NAMES)}, a kernel such as cutplane.kernels.Gaussian(1.0), or a "
            f"function of two matrices, got {kernel!r}."
        )
    if gamma is None:
        return Linear() if kernel == "linear" else Cosine()
    if kernel == "rbf":
        return Gaussian(math.sqrt(0.5 / gamma))
    if kernel == "poly":
        return Polynomial(degree, coef0, gamma)
    return Laplacian(1.0 / gamma) if kernel == "laplacian" else ChiSquare(gamma)


def basis_of(kernel: Kernel, X: Any, n_basis: Any, seed: Any) -> tuple[Array, Array, Array]:
    """Return a random basis, the Nystroem features of all examples, and the map to coefficients.

    With the block K_bb = U S U' of the basis, the features are K_mb U S^-1/2; weights w of these are the
    coefficients U S^-1/2 w of the basis.
    """
    count = min(as_count("n_basis", n_basis), X.shape[0])
    chosen = np.sort(check_random_state(seed).permutation(X.shape[0])[:count])
    columns = kernel.cross(X, kernel.select(X, chosen))
    block = columns[chosen]
    values, vectors = linalg.eigh(0.5 * (block + block.T))
    kept = values > count * np.finfo(np.float64).eps * values[-1]
    if values[-1] <= 0.0 or values[0] < -1e-6 * values[-1]:
        raise InvalidInputError(
            f"The kernel {kernel.name!r} is not positive semidefinite: a matrix of {count} examples has the "
            f"eigenvalue {values[0]:.3g}, and the largest is {values[-1]:.3g}."
        )
    back = vectors[:, kept] / np.sqrt(values[kept])
    return chosen, columns @ back, back


def choose(model: Any, X: Any, y: Array, weights: Array | None) -> tuple[float, float | None]:
    """Return the C and gamma with the best mean score, and set ``scores_``."""
    several = np.ndim(model.gamma) > 0
    if several and not (isinstance(model.kernel, str) and model.kernel in WITH_GAMMA):
        raise InvalidInputError(f"The kernel {model.kernel!r} has no gamma to choose; give a single one.")
    given = ascending("gamma", model.gamma, np.ones(1)) if several else [model.gamma]
    gammas = [gamma_of(model.kernel, X, gamma) for gamma in given]
    Cs = ascending("C", np.atleast_1d(model.C), np.ones(1))
    folds: Any = check_cv(model.cv, y, classifier=is_classifier(model))
    splits = list(folds.split(X, y))
    scores = np.zeros((len(Cs), len(gammas), len(splits)))
    starts: list[Any] = [None] * len(splits)
    first, whole = None, None
    if model.n_basis is None:
        first = model._whole(model._make_kernel(X, gammas[0]), X)
    for j, gamma in enumerate(gammas):
        kernel, whole = (
            model._make_kernel(X, gamma),
            None,
        )  # frees the last matrix before the next one is computed
        if first is not None:
            whole = first.with_kernel(kernel) if several else first
        for k, (train, test) in enumerate(splits):
            parts, score = _fold(model, X, y, weights, train, test, kernel, whole)
            seeds = starts[k]
            if seeds is None and k > 0 and all(part.examples.size == train.size for part in parts):
                seeds = _transferred(starts[k - 1], splits[k - 1][0], train)
            seeds = [None] * len(parts) if seeds is None else seeds
            for i, C in enumerate(Cs):
                seeds, scores[i, j, k] = score(float(C), seeds)
                if i == 0 and all(part.back is None for part in parts):
                    starts[k] = seeds  # not weights of features, because these depend on the width
    model.scores_, model.Cs_, model.gammas_ = scores, Cs, np.array(gammas)
    i, j = np.unravel_index(int(scores.mean(axis=2).argmax()), scores.shape[:2])
    return float(Cs[i]), gammas[j]


def _transferred(seeds: Any, before: Array, now: Array) -> list[Array] | None:
    """Return the coefficients of one fold for the examples of another; those in one fold alone have 0."""
    if seeds is None:
        return None
    found = []
    for x in seeds:
        every = np.zeros(1 + max(int(before.max()), int(now.max())))
        every[before] = x[: before.size]
        found.append(np.append(every[now], x[before.size :]))
    return found


def _fold(
    model: Any,
    X: Any,
    y: Array,
    weights: Array | None,
    train: Array,
    test: Array,
    kernel: Kernel,
    whole: KernelRisk | None,
) -> tuple[Sequence[Part], Callable[[float, Any], tuple[list[Array], float]]]:
    """Return the problems on a training part, and a function that solves them and scores the test part."""
    machine: Any = copy.copy(model)
    some, rest = (None if weights is None else weights[part] for part in (train, test))
    risk = None if whole is None else whole.restricted(train)
    parts = machine._parts(kernel, kernel.restrict(X, train), y[train], some, risk)
    if whole is not None:
        cross = whole.gram.block(test, train)
    else:
        cross = kernel.cross(X[test], kernel.select(X[train], parts[0].examples))
    scorer: Any = check_scoring(model, scoring=model.scoring)

    def score(C: float, seeds: Any) -> tuple[list[Array], float]:
        results = [machine._solve_part(part, C, x0) for part, x0 in zip(parts, seeds, strict=True)]
        vectors = [np.asarray(result.x) for result in results]
        coefficients, intercepts = machine._expansion(parts, vectors)
        if model.n_basis is not None:
            coefficients = coefficients[parts[0].examples]
        values = cross[:, : len(coefficients)] @ coefficients + intercepts
        machine._predictions = lambda X: values
        if model.scoring is None and is_classifier(model):  # the accuracy, without its checks
            return vectors, float(np.average(machine.predict(cross) == y[test], weights=rest))
        known = {} if rest is None else {"sample_weight": rest}
        return vectors, float(scorer(machine, cross, y[test], **known))

    return parts, score
