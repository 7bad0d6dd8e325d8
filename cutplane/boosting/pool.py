"""The hypotheses found so far: every answer of the weak learner, checked, kept once."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.boosting.weak_learner import EdgeOracle, check_values
from cutplane.pieces.validation import Array


class Pool:
    """Asks a weak learner and remembers what it said.

    Attributes
    ----------
    hypotheses : list
    edge : float
        The least edge of the best known hypothesis over all distributions asked about: an upper bound of the
        soft margin, if the learner is exact; else relative to what it can find.
    distribution : ndarray of shape (m,)
        The one of that edge.
    """

    def __init__(self, learner: EdgeOracle, m: int):
        self.learner = learner
        self.hypotheses: list[Any] = []
        self.edge = np.inf
        self.distribution = np.full(m, 1.0 / m)
        self._columns = np.empty((16, m))
        self._places: dict[bytes, int] = {}

    @property
    def columns(self) -> Array:
        """The margins y_i h_k(x_i), one hypothesis per row, shape (K, m)."""
        return self._columns[: len(self.hypotheses)]

    def index(self, column: Array) -> int:
        """Return the number of the hypothesis with these margins."""
        return self._places[column.tobytes()]

    def ask(self, d: Array) -> tuple[float, int]:
        """Return the edge at the distribution d, and the number of the hypothesis that has it.

        A learner that is not exact may return a worse hypothesis than one that it found before; then that
        one is the answer, and the new one is forgotten.
        """
        hypothesis, margins = self.learner.best(d)
        margins = self._checked(margins, hypothesis, d.size)
        edge, k = float(margins @ d), self._places.get(margins.tobytes())
        if not self.learner.exact and self.hypotheses:
            known = self.columns @ d
            best = int(known.argmax())
            if known[best] >= edge:
                edge, k = float(known[best]), best
        if k is None:
            k = self._add(hypothesis, margins)
        if edge < self.edge:
            self.edge, self.distribution = edge, d.copy()
        return edge, k

    def _add(self, hypothesis: Any, margins: Array) -> int:
        k = len(self.hypotheses)
        if k == len(self._columns):
            self._columns = np.concatenate([self._columns, np.empty_like(self._columns)])
        self._columns[k] = margins
        self._places[margins.tobytes()] = k
        self.hypotheses.append(hypothesis)
        self.edge = max(self.edge, float(margins @ self.distribution)) if self.edge < np.inf else self.edge
        return k

    def _checked(self, margins: Any, hypothesis: Any, m: int) -> Array:
        margins = check_values(hypothesis, margins, m)
        return margins + 0.0  # -0.0 becomes 0.0: equal margins have equal bytes
