"""Rankings, measures and structured outputs: maxima over alternatives that can be enumerated."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

import cutplane as cut
from cutplane import measures, structured
from fuzz.data import Data, layout, matrix, scaled
from fuzz.draws import Array, Rng, chance, dyadic, pick, positive

KINDS = {"ranking": 1.0, "measure": 1.0, "structured": 1.0, "chains": 1.0, "likelihood": 0.6}


class Alternatives(NamedTuple):
    """The maximum, or the logarithm of a sum of exponentials, of loss + <feature, w> over the rows."""

    features: Array
    losses: Array

    def value(self, z: Array, soft: bool) -> float:
        scores = self.losses + self.features @ z
        return float(logsumexp(scores) if soft else scores.max())

    def terms(self, z: Array) -> float:
        return float((np.abs(self.losses) + np.abs(self.features) @ np.abs(z)).max()) + np.log(
            len(self.losses)
        )

    def subgradient(self, z: Array, soft: bool) -> Array:
        scores = self.losses + self.features @ z
        return (softmax(scores) if soft else np.eye(len(scores))[scores.argmax()]) @ self.features


def draw(rng: Rng, kind: str, x: Array, sx: float, sf: float) -> Data:
    """A risk of this kind; `x` has one coordinate per feature, and for chains one per transition too."""
    risk, parts, weights = {
        "ranking": _ranking,
        "measure": _measure,
        "structured": _structured,
        "chains": _chains,
        "likelihood": _likelihood,
    }[kind](rng, x, sx, sf)
    soft = kind == "likelihood"
    return Data(
        risk,
        sum(
            (c * part.subgradient(x, soft) for part, c in zip(parts, weights, strict=True)), np.zeros(len(x))
        ),
        lambda z: sum(c * part.value(z, soft) for part, c in zip(parts, weights, strict=True)),
        lambda z: sum(c * part.terms(z) for part, c in zip(parts, weights, strict=True)),
        False,
        type(risk).__name__,
    )


Drawn = tuple[cut.Risk, list[Alternatives], Array]


def _ranking(rng: Rng, x: Array, sx: float, sf: float) -> Drawn:
    m = int(rng.integers(2, 13))
    X, queries = matrix(rng, m, len(x), x), rng.integers(0, 3, size=m)
    relevance = rng.integers(0, 4, size=m).astype(float)
    queries[:2], relevance[:2] = 0, [0.0, 1.0]
    gain = chance(rng, 0.3)
    pairs = [
        (i, j) for i in range(m) for j in range(m) if queries[i] == queries[j] and relevance[i] < relevance[j]
    ]
    costs = np.array([2.0 ** relevance[j] - 2.0 ** relevance[i] if gain else 1.0 for i, j in pairs])
    risk = cut.RankingRisk(layout(rng, X / sx, True), relevance, queries, cost="gain" if gain else None)
    parts = [Alternatives(np.array([X[i] - X[j], 0.0 * x]), np.array([1.0, 0.0])) for i, j in pairs]
    return (risk if sf == 1.0 else sf * risk), parts, costs / costs.sum()


def _measure(rng: Rng, x: Array, sx: float, sf: float) -> Drawn:
    m = int(rng.integers(2, 8))
    X, y = matrix(rng, m, len(x), x), np.where(rng.random(m) < 0.5, 1.0, -1.0)
    y[:2] = [1.0, -1.0]
    P = int((y > 0).sum())
    beta = float(pick(rng, {0.5: 1, 1.0: 2, 2.0: 1}))

    def f_beta(hits: float, found: float) -> float:
        return 1.0 - (1.0 + beta**2) * hits / (found + beta**2 * P)

    def precision(hits: float, found: float) -> float:
        return 1.0 - hits / P if found == P else -np.inf

    chosen: tuple[measures.Measure, Callable[[float, float], float]] = pick(
        rng,
        {
            (measures.FBeta(beta), f_beta): 2,
            (measures.PrecisionAt(P), precision): 1,
            (measures.RecallAt(P), precision): 1,
            (measures.PrecisionRecallBreakEven(), precision): 1,
            (measures.RocArea(), precision): 2,
        },
    )  # type: ignore[assignment]
    measure, loss = chosen
    risk = cut.MeasureRisk(layout(rng, X / sx, True), y, measure)
    whole = risk if sf == 1.0 else sf * risk
    if isinstance(measure, measures.RocArea):
        pairs = [X[i] - X[j] for i in np.flatnonzero(y < 0) for j in np.flatnonzero(y > 0)]
        parts = [Alternatives(np.array([row, 0.0 * x]), np.array([1.0, 0.0])) for row in pairs]
        return whole, parts, np.full(len(pairs), 1.0 / len(pairs))
    labellings = np.array(list(product([-1.0, 1.0], repeat=m)))
    deltas = np.array([loss(float((v[y > 0] > 0).sum()), float((v > 0).sum())) for v in labellings])
    kept = np.isfinite(deltas)
    return whole, [Alternatives((labellings[kept] - y) @ X / m, deltas[kept])], np.ones(1)


def _structured(rng: Rng, x: Array, sx: float, sf: float) -> Drawn:
    """Joint features are any table, losses any other."""
    m, K, n = int(rng.integers(1, 7)), int(rng.integers(2, 5)), len(x)
    table = matrix(rng, m * K, n, x).reshape(m, K, n)
    losses, truth = np.abs(dyadic(rng, K, K)) * (1.0 - np.eye(K)), rng.integers(0, K, size=m)
    slack = chance(rng, 0.3)
    parts = []
    for i, y in enumerate(truth):
        scale = losses[y][:, np.newaxis] if slack else 1.0
        parts.append(Alternatives(scale * (table[i] - table[i, y]), losses[y]))

    def make(**weights: object) -> cut.Risk:
        return structured.StructuredRisk(
            list(range(m)),
            list(truth),
            lambda i, y: table[i, y] / sx,
            lambda y_true, y: float(losses[y_true, y]),
            lambda i, y_true, w: int((parts[i].losses + parts[i].features @ w / sx).argmax()),
            rescaling="slack" if slack else "margin",
            **weights,  # type: ignore[arg-type]
        )

    risk, counts = scaled(rng, make, None if chance(rng, 0.5) else positive(rng, m), m, sf)
    return risk, parts, counts


def _sequences(rng: Rng, x: Array, hamming: Callable[[int], float]) -> tuple[list[Array], list[Array], list]:
    S = 2
    n = (len(x) - S * S) // S
    X, y, parts = [], [], []
    for _ in range(int(rng.integers(1, 5))):
        size = int(rng.integers(1, 5))
        rows, labels = matrix(rng, size, n, x), rng.integers(0, S, size=size)
        found = []
        for s in product(range(S), repeat=size):
            feature = np.zeros((S, n)), np.zeros((S, S))
            for t in range(size):
                for labelling, sign in ((s, 1.0), (labels, -1.0)):
                    feature[0][labelling[t]] += sign * rows[t]
                    if t:
                        feature[1][labelling[t - 1], labelling[t]] += sign
            found.append(
                (np.concatenate([part.ravel() for part in feature]), hamming(size) * np.sum(s != labels))
            )
        X, y = [*X, rows], [*y, labels]
        parts.append(Alternatives(np.array([f for f, _ in found]), np.array([d for _, d in found])))
    return X, y, parts


def _chains(rng: Rng, x: Array, sx: float, sf: float) -> Drawn:
    share = chance(rng, 0.4)
    X, y, parts = _sequences(rng, x, lambda size: 1.0 / size if share else 1.0)

    def make(**weights: object) -> cut.Risk:
        loss = "share" if share else "hamming"
        return structured.ChainRisk(X, y, loss=loss, n_states=2, **weights)  # type: ignore[arg-type]

    risk, counts = scaled(rng, make, None if chance(rng, 0.5) else positive(rng, len(X)), len(X), sf)
    return risk, parts, counts


def _likelihood(rng: Rng, x: Array, sx: float, sf: float) -> Drawn:
    X, y, parts = _sequences(rng, x, lambda size: 0.0)

    def make(**weights: object) -> cut.Risk:
        return structured.ChainLogLikelihood(X, y, n_states=2, **weights)  # type: ignore[arg-type]

    risk, counts = scaled(rng, make, None if chance(rng, 0.5) else positive(rng, len(X)), len(X), sf)
    return risk, parts, counts
