"""Structured risks of a few ragged examples, of all kinds, each of which can be split."""

from typing import Any

import numpy as np
from scipy import sparse

import cutplane as cut
from cutplane.structured import (
    AlignmentRisk,
    ChainLogLikelihood,
    ChainRisk,
    GraphRisk,
    Hierarchy,
    MultilabelRisk,
)

M, S = 23, 3
WEIGHTS = 0.5 + np.arange(M) % 3


def graphs(cycles=False, features=2, kind=np.asarray, **options):
    """Ragged graphs; the first has about as many nodes as all others."""
    rng = np.random.default_rng(0)
    sizes = np.append(3 * M, rng.integers(1, 6, M - 1))
    edges = [np.stack([rng.integers(0, np.arange(1, n)), np.arange(1, n)], axis=1) for n in sizes]
    if cycles:
        edges[-1], sizes[-1] = np.array([[0, 1], [2, 1], [2, 0]]), 3
    Z = [rng.standard_normal((len(part), features)) for part in edges] if features else None
    X, y = [kind(rng.standard_normal((n, 2))) for n in sizes], [rng.integers(S, size=n) for n in sizes]
    return GraphRisk(X, y, edges, Z, n_states=S, sample_weight=WEIGHTS, **options)


def chains(kind):
    rng, lengths = np.random.default_rng(0), np.append(3 * M, np.arange(M - 1) % 5 + 1)
    X, y = rng.standard_normal((lengths.sum(), 2)), rng.integers(S, size=lengths.sum())
    return kind(X, y, lengths, n_states=S + 1, sample_weight=WEIGHTS)


def sets(pairs, **options):
    rng = np.random.default_rng(0)
    return MultilabelRisk(
        rng.standard_normal((M, 2)), rng.integers(2, size=(M, 3)), pairs, sample_weight=WEIGHTS, **options
    )


def alignments():
    rng = np.random.default_rng(0)
    A, B = ([rng.integers(S, size=n) for n in rng.integers(1, 6, M)] for _ in range(2))
    return AlignmentRisk(A, B, [np.append(0, np.full(a.size - 1, -1)) for a in A], sample_weight=WEIGHTS)


def of_classes():
    """Multiclass examples by their joint feature, loss and decoder."""
    rng = np.random.default_rng(1)
    return cut.StructuredRisk(
        list(rng.standard_normal((M, 2))),
        rng.integers(S, size=M).tolist(),
        lambda x, y: (2 * y + np.arange(2), x),
        lambda truth, y: float(truth != y),
        lambda x, truth, w: int(np.argmax(w.reshape(S, 2) @ x + (np.arange(S) != truth))),
        sample_weight=WEIGHTS,
        dim=2 * S,
    )


def hierarchy():
    tree, rng = Hierarchy([-1, 0, 0, 1, 1, 2]), np.random.default_rng(0)
    loss = cut.losses.MulticlassHinge(tree.distances)
    X, y = rng.standard_normal((M, 2)), rng.integers(3, size=M)
    return cut.MulticlassRisk(X, y, loss, sample_weight=WEIGHTS) @ tree.spread(2)


RISKS: dict[str, Any] = {
    "chains": lambda: chains(ChainRisk),
    "likelihood": lambda: chains(ChainLogLikelihood),
    "trees": graphs,
    "trees, sparse, without features of edges": lambda: graphs(features=0, kind=sparse.csr_array),
    "graphs": lambda: graphs(cycles=True),
    "graphs, outer": lambda: graphs(cycles=True, decoder="outer"),
    "graphs, inner": lambda: graphs(cycles=True, decoder="inner"),
    "labels": lambda: sets(()),
    "labels, compared": lambda: sets("all"),
    "alignments": alignments,
    "structured": of_classes,
    "hierarchy": hierarchy,
    "shifted": lambda: chains(ChainRisk).shift(np.arange(24.0)),
    "sum": lambda: 0.5 * sets("all") + sets([(0, 1), (1, 2), (0, 2)], loss="share"),
    "sum with what has no shares": lambda: alignments() + 2.0 * cut.LinearObjective(np.arange(11.0)),
}
