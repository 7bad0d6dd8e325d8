"""Small graphical models for the tests."""

import itertools

import numpy as np
from scipy.optimize import linprog

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


def small_models():
    """Models of every kind that are compared with all labellings."""
    rng = np.random.default_rng(7)
    yield from SPECIAL.items()
    for seed in range(40):
        hard = [0.0, 0.1, 0.3, 0.6][seed % 4]
        yield f"random {seed}", random_model(rng, n=5 + seed % 2, hard=hard, integers=seed % 3 == 0)
    for seed in range(12):
        yield f"binary {seed}", random_binary(rng, n=6 + seed % 2)
    wide = rng.normal(size=(1, 2, *[1] * 8, 3))
    yield (
        "many variables of one state",
        GraphicalModel(wide.shape, [(range(wide.ndim), wide), ((1, 10), wide.squeeze())]),
    )
    yield "no state", GraphicalModel([2, 3], [((0,), [np.inf, np.inf])])
    yield "infinite constant", GraphicalModel([2, 3], constant=np.inf)
    yield "penalties", GraphicalModel([2, 2, 2], [((0, 1), [[0, 1e9], [1e9, 0]]), ((1, 2), [[3, 1], [1, 2]])])
    yield "star", GraphicalModel([2, *[3] * 6], [((0, u), rng.normal(size=(2, 3))) for u in range(1, 7)])
    cycles = [(pair, np.eye(2)) for u in (0, 3) for pair in [(u, u + 1), (u + 1, u + 2), (u, u + 2)]]
    yield "two frustrated triangles", GraphicalModel([2] * 6, cycles)
    yield "many tables of a set", GraphicalModel([2, 2], [((0, 1), [[0.1, 0.2], [0.3, 0.4]])] * 3)


SMALL = dict(small_models())


def all_labellings(model):
    """All labellings and their energies."""
    labellings = np.array(list(itertools.product(*map(range, model.cardinalities))), dtype=np.int64)
    return labellings, np.array([model.energy(x) for x in labellings])


def least_energies(model):
    """The least energy with each state."""
    least, (labellings, energies) = np.full(model.unaries.size, np.inf), all_labellings(model)
    for u in range(model.n_variables):
        np.minimum.at(least, model.unary_starts[u] + labellings[:, u], energies)
    return least


def states(model, scope):
    return itertools.product(*(range(model.cardinalities[u]) for u in scope))


def reference_bound(model):
    """The least value of the linear programme over marginals, row by row; inf if it is infeasible."""
    if not model.n_variables:
        return model.constant
    tables = {(u,): model.unary(u) for u in range(model.n_variables)}
    links = []
    for a in range(model.n_factors):
        scope, table = model.factor(a)
        tables[scope] = table
        links += [(scope, (u,)) for u in scope]
    columns = {(scope, x): None for scope in tables for x in states(model, scope)}
    columns = {key: number for number, key in enumerate(columns)}
    costs = np.array([tables[scope][x] for scope, x in columns])
    rows, right = [], []
    for scope in tables:
        rows.append([float(s == scope) for s, _ in columns])
        right.append(1.0)
    for scope, part in links:
        axes = [scope.index(u) for u in part]
        for y in states(model, part):
            row = [
                float(s == scope and all(x[a] == i for a, i in zip(axes, y, strict=True))) for s, x in columns
            ]
            row[columns[part, y]] -= 1.0
            rows.append(row)
            right.append(0.0)
    allowed = np.isfinite(costs)
    answer = linprog(
        np.where(allowed, costs, 0.0), A_eq=rows, b_eq=right, bounds=[(0, float(free)) for free in allowed]
    )
    assert answer.status in (0, 2)
    return answer.fun + model.constant if answer.status == 0 else np.inf
