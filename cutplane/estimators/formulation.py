"""Conversion of the names that estimators accept to the pieces of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.losses import scalar
from cutplane.losses.base import ScalarLoss
from cutplane.losses.vector import MulticlassHinge, Softmax, VectorLoss
from cutplane.pieces.validation import Array
from cutplane.regularizers.algebra import Partial
from cutplane.regularizers.base import Regularizer
from cutplane.regularizers.separable import L1, L2, ElasticNet
from cutplane.risks.linear import LinearRisk
from cutplane.risks.multiclass import MulticlassRisk

Loss = ScalarLoss | VectorLoss

CLASSIFICATION: dict[str, Loss] = {
    "hinge": scalar.Hinge(),
    "squared_hinge": scalar.SquaredHinge(),
    "modified_huber": scalar.ModifiedHuber(),
    "logistic": scalar.Logistic(),
    "exponential": scalar.Exponential(),
    "softmax": Softmax(),
    "multiclass_hinge": MulticlassHinge(),
}
REGRESSION: dict[str, Loss] = {
    "squared": scalar.Squared(),
    "absolute": scalar.Absolute(),
    "huber": scalar.Huber(),
    "quantile": scalar.Quantile(),
    "epsilon_insensitive": scalar.EpsilonInsensitive(),
    "squared_epsilon_insensitive": scalar.SquaredEpsilonInsensitive(),
    "poisson": scalar.Poisson(),
}
TUBES = {
    "epsilon_insensitive": scalar.EpsilonInsensitive,
    "squared_epsilon_insensitive": scalar.SquaredEpsilonInsensitive,
}
PENALTIES = ("l2", "l1", "elasticnet")


def as_choice(name: str, value: Any, choices: Any) -> Any:
    """Return `value` if it is among `choices`, or raise `InvalidInputError`."""
    if value not in choices:
        raise InvalidInputError(f"{name} must be one of {sorted(choices)}, got {value!r}.")
    return value


def as_piece(name: str, value: Any, named: Mapping[str, Any], kinds: Any, example: str) -> Any:
    """Return the object with a name, or the value itself if it is one of `kinds`."""
    if isinstance(value, kinds):
        return value
    if isinstance(value, str) and value in named:
        return named[value]
    hint = f"; did you mean {value.__name__}()?" if isinstance(value, type) else ""
    raise InvalidInputError(
        f"{name} must be one of {sorted(named)} or a {name} such as cutplane.{example}, got {value!r}{hint}."
    )


def as_loss(value: Any, named: Mapping[str, Loss], kinds: Any = ScalarLoss) -> Any:
    """Return the loss with a name, or the value itself if it is a loss."""
    return as_piece("loss", value, named, kinds, "losses.Huber(2.0)")


def as_residual_loss(value: Any, epsilon: float) -> ScalarLoss:
    """Return a loss of residuals; `epsilon` is the parameter of epsilon-insensitive losses and of Huber's."""
    kinds = {**TUBES, "huber": scalar.Huber}
    if isinstance(value, str) and value in kinds:
        return kinds[value](epsilon)
    return as_loss(value, REGRESSION)


def make_risk(X: Any, y: Array, loss: Loss, weights: Array | None, intercept: bool) -> Any:
    """Return the mean loss of a linear predictor with one score, or with the scores of all classes."""
    kind: Any = MulticlassRisk if is_joint(loss) else LinearRisk
    return kind(X, y, loss, sample_weight=weights, intercept=intercept)


def is_joint(loss: Loss) -> bool:
    """Return whether the loss is a function of the scores of all classes."""
    return isinstance(loss, VectorLoss)


def shape_of(risk: Any) -> tuple[int, int]:
    """Return the number of scores and the number of coefficients of each score."""
    width = risk.X.shape[1] + bool(risk.intercept)
    return risk.dim // width, width


def starting_point(risk: Any) -> Array:
    """Return zero weights, with biases (if any) that are far from the optimal ones.

    At the optimal bias, for example zero for balanced classes or centred targets, the first cut is almost
    flat in the bias, so that the minimiser of the model is far away.
    """
    shape = shape_of(risk)
    if shape[0] > 1 or not risk.intercept or (np.abs(risk.y) == 1.0).all():
        return first_point(shape, bool(risk.intercept))
    mean = np.average(risk.y, weights=risk.weights)
    spread = np.sqrt(np.average((risk.y - mean) ** 2, weights=risk.weights))
    return first_point(shape, True, first_bias(risk.loss, mean + spread))


def first_point(shape: tuple[int, int], intercept: bool, bias: float = 1.0) -> Array:
    """Return zero weights with the given bias, or with different biases for several scores."""
    x = np.zeros(shape)
    if intercept:
        x[:, -1] = np.linspace(1.0, -1.0, len(x)) if len(x) > 1 else bias
    return x.ravel()


def first_bias(loss: Any, high: float) -> float:
    """Return the prediction that corresponds to a target; 0 if it is not finite."""
    with np.errstate(divide="ignore"):
        start = loss.link(high)
    return float(start) if np.isfinite(start) else 0.0


def unit_weight(penalty: Any) -> float:
    """Return the factor of `alpha`, which is `lam` for a penalty object and 1 for a name."""
    return penalty.lam if isinstance(penalty, Regularizer) else 1.0


def make_regularizer(penalty: Any, lam: float, l1_ratio: float, regularized: Array) -> Regularizer:
    """Return the regularizer with weight `lam` on the coordinates where `regularized` is true."""
    weights = None if regularized.all() else regularized.astype(np.float64)
    if isinstance(penalty, Regularizer):
        whole = penalty.with_lam(lam)
    elif penalty == "l2":
        return L2(lam, weights=weights)
    elif penalty == "l1":
        return L1(lam, weights=weights)
    elif penalty == "elasticnet":
        whole = ElasticNet(lam, l1_ratio)
    else:
        raise InvalidInputError(
            f"penalty must be one of {sorted(PENALTIES)} or a regularizer such as cutplane.L1(), "
            f"got {penalty!r}."
        )
    whole.check_dim(int(np.count_nonzero(regularized)))
    return whole if weights is None else Partial(whole, regularized)
