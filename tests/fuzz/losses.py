"""The twelve losses, computed here: values and both one-sided derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cutplane import losses
from fuzz.draws import Array


class Scalar(NamedTuple):
    """phi and its derivatives from the left and the right; of y t for labels, of t - y else."""

    make: Callable[[], losses.ScalarLoss]
    phi: Callable[[Array], Array]
    left: Callable[[Array], Array]
    right: Callable[[Array], Array]
    margin: bool


def _smooth(make, phi, slope, margin) -> Scalar:
    return Scalar(make, phi, slope, slope, margin)


def _excess(s: Array) -> Array:
    return np.sign(s) * np.maximum(np.abs(s) - 0.25, 0.0)


SCALAR = {
    "hinge": Scalar(
        losses.Hinge,
        lambda s: np.maximum(0.0, 1.0 - s),
        lambda s: np.where(s <= 1.0, -1.0, 0.0),
        lambda s: np.where(s < 1.0, -1.0, 0.0),
        True,
    ),
    "squared hinge": _smooth(
        losses.SquaredHinge,
        lambda s: np.maximum(0.0, 1.0 - s) ** 2,
        lambda s: -2.0 * np.maximum(0.0, 1.0 - s),
        True,
    ),
    "modified huber": _smooth(
        losses.ModifiedHuber,
        lambda s: np.where(s >= -1.0, np.maximum(0.0, 1.0 - s) ** 2, -4.0 * s),
        lambda s: -2.0 * np.clip(1.0 - s, 0.0, 2.0),
        True,
    ),
    "logistic": _smooth(
        losses.Logistic, lambda s: np.logaddexp(0.0, -s), lambda s: -1.0 / (1.0 + np.exp(s)), True
    ),
    "exponential": _smooth(losses.Exponential, lambda s: np.exp(-s), lambda s: -np.exp(-s), True),
    "squared": _smooth(losses.Squared, lambda s: 0.5 * s**2, lambda s: s, False),
    "absolute": Scalar(
        losses.Absolute,
        np.abs,
        lambda s: np.where(s <= 0.0, -1.0, 1.0),
        lambda s: np.where(s < 0.0, -1.0, 1.0),
        False,
    ),
    "quantile": Scalar(
        lambda: losses.Quantile(0.75),
        lambda s: np.maximum(-0.75 * s, 0.25 * s),
        lambda s: np.where(s <= 0.0, -0.75, 0.25),
        lambda s: np.where(s < 0.0, -0.75, 0.25),
        False,
    ),
    "epsilon insensitive": Scalar(
        lambda: losses.EpsilonInsensitive(0.25),
        lambda s: np.maximum(0.0, np.abs(s) - 0.25),
        lambda s: np.where(s <= -0.25, -1.0, np.where(s <= 0.25, 0.0, 1.0)),
        lambda s: np.where(s < -0.25, -1.0, np.where(s < 0.25, 0.0, 1.0)),
        False,
    ),
    "squared epsilon insensitive": _smooth(
        lambda: losses.SquaredEpsilonInsensitive(0.25),
        lambda s: _excess(s) ** 2,
        lambda s: 2.0 * _excess(s),
        False,
    ),
    "huber": _smooth(
        lambda: losses.Huber(0.5),
        lambda s: np.where(np.abs(s) <= 0.5, 0.5 * s**2, 0.5 * (np.abs(s) - 0.25)),
        lambda s: np.clip(s, -0.5, 0.5),
        False,
    ),
}
"""Poisson is neither of a margin nor of a residual: see `value` and `slopes`."""

NAMES = (*SCALAR, "poisson")


def make(name: str) -> losses.ScalarLoss:
    """The loss of cutplane."""
    return losses.Poisson() if name == "poisson" else SCALAR[name].make()


def is_margin(name: str) -> bool:
    """Whether the targets are labels."""
    return name in SCALAR and SCALAR[name].margin


@np.errstate(over="ignore")
def value(name: str, t: Array, y: Array) -> Array:
    """The loss of each example."""
    if name == "poisson":
        return np.exp(t) - y * t
    scalar = SCALAR[name]
    return scalar.phi(y * t if scalar.margin else t - y)


@np.errstate(over="ignore")
def slopes(name: str, t: Array, y: Array) -> tuple[Array, Array]:
    """The least and the largest subgradient in t of each example."""
    if name == "poisson":
        return np.exp(t) - y, np.exp(t) - y
    scalar = SCALAR[name]
    if not scalar.margin:
        return scalar.left(t - y), scalar.right(t - y)
    left, right = scalar.left(y * t), scalar.right(y * t)
    return np.where(y > 0, left, -right), np.where(y > 0, right, -left)
