"""C and gamma chosen by cross-validation, where solutions seed one another."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv

from cutplane.estimators.base import ascending
from cutplane.estimators.kernel_formulation import WITH_GAMMA, number_of
from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.estimators.kernel import Part
    from cutplane.kernels.risk import KernelRisk


class Choice(NamedTuple):
    """A weight and a kernel."""

    C: float
    gamma: float | None
    make: Callable[[Any], Kernel]


@dataclass(frozen=True, eq=False)
class Known:
    """A function that is known at the examples of a fold."""

    values: Array

    def decision_function(self, Z: Any) -> Array:
        """Return the values."""
        return self.values


def chosen(model: Any, X: Any, C: float, gamma: Any) -> Choice:
    """Return a weight and the kernel with this gamma."""
    if not (isinstance(model.kernel, str) and model.kernel in WITH_GAMMA):
        return Choice(C, None, lambda X: model._make_kernel(X, gamma))
    number = number_of(gamma, X)
    return Choice(C, number, lambda X: model._make_kernel(X, number))


def choose(model: Any, X: Any, y: Array, weights: Array | None) -> Choice:
    """Return C and gamma, those with the best mean score if there are several; set ``scores_`` then."""
    several = np.ndim(model.gamma) > 0
    if not several and np.ndim(model.C) == 0:
        return chosen(model, X, model.C, model.gamma)
    if several and not (isinstance(model.kernel, str) and model.kernel in WITH_GAMMA):
        raise InvalidInputError(f"The kernel {model.kernel!r} has no gamma to choose; give a single one.")
    gammas = ascending("gamma", model.gamma, np.ones(1)) if several else [model.gamma]
    choices = [chosen(model, X, 1.0, gamma) for gamma in gammas]
    Cs = ascending("C", np.atleast_1d(model.C), np.ones(1))
    folds: Any = check_cv(model.cv, y, classifier=is_classifier(model))
    splits = list(folds.split(X, y))
    scores = np.zeros((len(Cs), len(choices), len(splits)))
    starts: list[Any] = [None] * len(splits)
    first, whole = (model._whole(choices[0].make(X), X) if model.n_basis is None else None), None
    for j, choice in enumerate(choices):
        kernel, whole = choice.make(X), None  # the last matrix goes before the next one comes
        if first is not None:
            whole = first.with_kernel(kernel) if several else first
        for k, (train, test) in enumerate(splits):
            fold = _Fold(model, X, y, weights, train, test, kernel, whole)
            seeds = starts[k] if starts[k] is not None else fold.from_neighbour(starts, splits, k)
            for i, C in enumerate(Cs):
                seeds, scores[i, j, k] = fold.score(float(C), seeds)
                if i == 0 and all(part.back is None for part in fold.parts):
                    starts[k] = seeds  # of the examples; features of low rank are others for another width
    model.scores_, model.Cs_, model.gammas_ = scores, Cs, np.array([choice.gamma for choice in choices])
    i, j = np.unravel_index(int(scores.mean(axis=2).argmax()), scores.shape[:2])
    return choices[j]._replace(C=float(Cs[i]))


class _Fold:
    """The problems on one training part, and the score on its test part."""

    def __init__(
        self,
        model: Any,
        X: Any,
        y: Array,
        weights: Array | None,
        train: Array,
        test: Array,
        kernel: Kernel,
        whole: KernelRisk | None,
    ) -> None:
        self.model: Any = copy.copy(model)
        self.y, self.weights = y[test], None if weights is None else weights[test]
        some = None if weights is None else weights[train]
        risk = None if whole is None else whole.restricted(train)
        self.parts: list[Part] = self.model._parts(kernel, kernel.restrict(X, train), y[train], some, risk)
        if whole is not None:
            self.cross = whole.gram.block(test, train)
        else:
            basis = self.parts[0].examples
            self.cross = kernel.cross(X[test], kernel.select(X[train], basis))
        self.scorer: Any = check_scoring(model, scoring=model.scoring)

    def from_neighbour(self, starts: list[Any], splits: list[Any], k: int) -> Any:
        """Return the coefficients of the fold before, for the examples that both have."""
        whole = self.model.n_basis is None and all(
            part.examples.size == len(splits[k][0]) for part in self.parts
        )
        if k == 0 or starts[k - 1] is None or not whole:
            return [None] * len(self.parts)
        before, now = splits[k - 1][0], splits[k][0]
        seeds = []
        for x in starts[k - 1]:
            every = np.zeros(1 + max(int(before.max()), int(now.max())))
            every[before] = x[: before.size]
            seeds.append(np.append(every[now], x[before.size :]))
        return seeds

    def score(self, C: float, seeds: Any) -> tuple[list[Array], float]:
        """Solve from these vectors; return the solutions and the score."""
        model = self.model
        results = [model._solve(part, C, x0) for part, x0 in zip(self.parts, seeds, strict=True)]
        vectors = [np.asarray(result.x) for result in results]
        coefficients, intercepts = self.model._expansion(self.parts, vectors)
        if model.n_basis is not None:
            coefficients = coefficients[self.parts[0].examples]
        model.function_ = Known(self.cross[:, : len(coefficients)] @ coefficients + intercepts)
        model._examples = lambda X: X
        if model.scoring is None and is_classifier(model):  # the accuracy, without its checks
            return vectors, float(np.average(model.predict(self.cross) == self.y, weights=self.weights))
        known = {} if self.weights is None else {"sample_weight": self.weights}
        return vectors, float(self.scorer(model, self.cross, self.y, **known))


def plot_scores(model: Any, ax: Any) -> Any:
    """Plot the mean scores of a cross-validated model."""
    if not hasattr(model, "scores_"):
        raise InvalidInputError(f"{type(model).__name__} has no scores: give several C or gamma, and fit.")
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots()[1]
    means = model.scores_.mean(axis=2)
    ax.set_xscale("log")
    ax.set_xlabel("C")
    if means.shape[1] == 1:
        ax.plot(model.Cs_, means[:, 0], marker="o")
        ax.set_ylabel("mean score")
        return ax
    ax.set_yscale("log")
    ax.set_ylabel("gamma")
    picture = ax.contourf(model.Cs_, model.gammas_, means.T, levels=12)
    ax.figure.colorbar(picture, ax=ax, label="mean score")
    ax.plot([model.C_], [model.gamma_], "w*", markersize=12)
    return ax
