"""Small graphical models for the tests."""

import itertools

import numpy as np

from cutplane.graphical import GraphicalModel


def random_model(rng, n=6, max_states=4, max_arity=4, hard=0.0, n_factors=None, integers=False):
    """A model with random factors; a share `hard` of the entries is +inf."""
    cardinalities = rng.integers(1 if max_states > 2 else 2, max_states + 1, n)
    cardinalities[rng.integers(n)] = max_states

    def table(shape):
        values = rng.integers(-5, 6, shape).astype(float) if integers else rng.normal(size=shape)
        return np.where(rng.random(shape) < hard, np.inf, values)

    factors = [((u,), table(cardinalities[u])) for u in range(n) if rng.random() < 0.8]
    for _ in range(n + 2 if n_factors is None else n_factors):
        scope = rng.permutation(n)[: rng.integers(2, min(max_arity, n) + 1)]
        factors.append((scope, table(cardinalities[scope])))
    return GraphicalModel(cardinalities, factors, constant=float(rng.normal()))


def random_binary(rng, n=7, density=0.6):
    """Binary variables with random pairs."""
    edges = [pair for pair in itertools.combinations(range(n), 2) if rng.random() < density]
    return GraphicalModel.pairwise(
        rng.normal(size=(n, 2)), np.array(edges).reshape(-1, 2), rng.normal(size=(len(edges), 2, 2))
    )


def frustrated_cycle(n=3, k=2):
    """A cycle of variables that want to differ from their neighbours, but one pair that wants to agree."""
    differ = np.eye(k)
    tables = [((u, u + 1), differ) for u in range(n - 1)]
    closing = 1.0 - differ if n % 2 == 0 else differ
    return GraphicalModel([k] * n, [*tables, ((0, n - 1), closing)])


SPECIAL = {
    "nothing": GraphicalModel([]),
    "one variable": GraphicalModel([3], [((0,), [2.0, 1.0, 3.0])], constant=0.5),
    "no factors": GraphicalModel([2, 3]),
    "one state each": GraphicalModel([1, 1], [((0, 1), [[4.0]])]),
    "zero table": GraphicalModel([2, 2], [((0, 1), np.zeros((2, 2)))]),
    "two components": GraphicalModel([2, 2, 2, 2], [((0, 1), [[0, 1], [2, 0]]), ((2, 3), [[1, 0], [0, 3]])]),
    "implied states": GraphicalModel(
        [2, 2, 2],
        [((0, 1), [[np.inf, 0], [0, np.inf]]), ((1, 2), [[0, np.inf], [np.inf, 1]]), ((0,), [0, 3])],
    ),
    "infeasible": GraphicalModel([2, 2], [((0, 1), np.full((2, 2), np.inf))]),
    "infeasible cycle": GraphicalModel(
        [2, 2, 2], [(pair, [[np.inf, 0], [0, np.inf]]) for pair in [(0, 1), (1, 2), (0, 2)]]
    ),
    "frustrated triangle": frustrated_cycle(3),
    "frustrated square": frustrated_cycle(4),
    "three labels": frustrated_cycle(4, 3),
}
