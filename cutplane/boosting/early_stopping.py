"""Stopping when the error on other data no longer falls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.losses.classification import Hinge
from cutplane.pieces.validation import Array, as_count, refuse_masked


@dataclass(frozen=True, eq=False)
class EarlyStopping:
    """Stop after `patience` rounds without a lower error on other data, and return the ensemble of the least.

    Parameters
    ----------
    X : array_like or sparse matrix of shape (n, n_features)
    y : array_like of shape (n,)
        Labels -1 and +1.
    patience : int, default 20
    """

    X: Any
    y: Any
    patience: int = 20

    def __post_init__(self) -> None:
        refuse_masked("X", self.X)
        object.__setattr__(self, "y", Hinge().check_targets(self.y))
        as_count("EarlyStopping.patience", self.patience)

    def start(self) -> Monitor:
        """Return a monitor of one run."""
        return Monitor(self)


class Monitor:
    """The errors of one run.

    Attributes
    ----------
    errors : list of float
        The share of wrong predictions after each round.
    """

    def __init__(self, rule: EarlyStopping):
        self.rule = rule
        self.errors: list[float] = []
        self._predictions: list[Array] = []

    @property
    def best(self) -> int:
        """The first round of the least error."""
        return int(np.argmin(self.errors))

    @property
    def reason(self) -> str:
        """Why the run was stopped."""
        return (
            f"early stopping: the error {self.errors[self.best]:.4g} on the validation data was not improved "
            f"for {self.rule.patience} rounds"
        )

    def is_enough(self, hypotheses: Sequence[Any], weights: Array) -> bool:
        """Take the ensemble of a round into account; tell whether to stop."""
        for hypothesis in hypotheses[len(self._predictions) :]:
            self._predictions.append(np.asarray(hypothesis.predict(self.rule.X)))
        used = np.flatnonzero(weights)
        votes = sum(weights[k] * self._predictions[k] for k in used)
        self.errors.append(float(np.mean(np.where(votes >= 0.0, 1.0, -1.0) != self.rule.y)))
        return len(self.errors) - 1 - self.best >= self.rule.patience
