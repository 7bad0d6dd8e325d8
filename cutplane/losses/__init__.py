"""Losses l(t, y) of a prediction t and a target y, convex in t."""

from cutplane.losses.base import Pieces, ScalarLoss
from cutplane.losses.classification import Exponential, Hinge, Logistic, ModifiedHuber, SquaredHinge
from cutplane.losses.regression import Absolute, EpsilonInsensitive, Huber, Poisson, Quantile, Squared

__all__ = [
    "Absolute",
    "EpsilonInsensitive",
    "Exponential",
    "Hinge",
    "Huber",
    "Logistic",
    "ModifiedHuber",
    "Pieces",
    "Poisson",
    "Quantile",
    "ScalarLoss",
    "Squared",
    "SquaredHinge",
]
