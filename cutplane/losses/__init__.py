"""Losses l(t, y) of a prediction t, or of a vector of scores, and a target y; convex in the first."""

from cutplane.losses.base import ExamplePieces, MarginLoss, ScalarLoss
from cutplane.losses.classification import Exponential, Hinge, Logistic, ModifiedHuber, SquaredHinge
from cutplane.losses.multiclass import MulticlassHinge, Softmax
from cutplane.losses.pieces import Pieces
from cutplane.losses.regression import (
    Absolute,
    EpsilonInsensitive,
    Huber,
    Poisson,
    Quantile,
    Squared,
    SquaredEpsilonInsensitive,
)
from cutplane.losses.vector import VectorLoss

__all__ = [
    "Absolute",
    "EpsilonInsensitive",
    "ExamplePieces",
    "Exponential",
    "Hinge",
    "Huber",
    "Logistic",
    "MarginLoss",
    "ModifiedHuber",
    "MulticlassHinge",
    "Pieces",
    "Poisson",
    "Quantile",
    "ScalarLoss",
    "Softmax",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "VectorLoss",
]
