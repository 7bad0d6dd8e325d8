"""Losses l(t, y) of a prediction t, or of a vector of scores, and a target y; convex in the prediction."""

from cutplane.losses.base import ExamplePieces, MarginLoss, ScalarLoss
from cutplane.losses.pieces import Pieces
from cutplane.losses.scalar import (
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    Logistic,
    ModifiedHuber,
    Poisson,
    Quantile,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from cutplane.losses.vector import MulticlassHinge, Softmax, VectorLoss

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
