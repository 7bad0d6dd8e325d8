"""Tables that are sums of smaller ones."""

import itertools

import numpy as np
import pytest

from cutplane.graphical import GraphicalModel
from cutplane.graphical.exact.search import search
from cutplane.graphical.exact.separable import separated
from cutplane.graphical.factors import GivenFactors, starts_of


def given(factors):
    scopes = [np.array(scope) for scope, _ in factors]
    return GivenFactors(
        starts_of(np.array([len(scope) for scope in scopes])),
        np.concatenate(scopes),
        starts_of(np.array([table.size for _, table in factors]))[:-1],
        np.concatenate([table.ravel() for _, table in factors]),
    )


def energy(cardinalities, factors, labelling):
    total = 0.0
    for a, start in enumerate(factors.table_starts):
        scope = factors.scopes[factors.scope_starts[a] : factors.scope_starts[a + 1]]
        shape = cardinalities[scope]
        total += factors.tables[start : start + shape.prod()].reshape(shape)[tuple(labelling[scope])]
    return total


def draw(rng, shape):
    return np.where(rng.random(shape) < 0.2, np.inf, rng.integers(0, 9, shape))


@pytest.mark.parametrize("seed", range(30))
def test_the_parts_have_the_sum_of_the_tables(seed):
    rng, cardinalities = np.random.default_rng(seed), np.array([2, 3, 2, 1, 4])
    factors = []
    for _ in range(6):
        scope = rng.choice(5, int(rng.integers(1, 5)), replace=False)
        table, shape = np.zeros(cardinalities[scope]), cardinalities[scope]
        for _ in range(int(rng.integers(1, 3))):
            axes = [axis for axis in range(scope.size) if rng.random() < 0.5]
            table = table + draw(rng, [k if axis in axes else 1 for axis, k in enumerate(shape)])
        factors.append((scope, table))
    before = given(factors)
    after = separated(cardinalities, before, 0.0)
    for labelling in itertools.product(*map(range, cardinalities)):
        labelling = np.array(labelling)
        assert energy(cardinalities, after, labelling) == energy(cardinalities, before, labelling)
    assert after.tables.min() >= 0.0


@pytest.mark.parametrize(
    ("table", "arities"),
    [
        (np.add.outer([0.0, 1.0], [0.0, 3.0]), [1, 1]),
        (np.eye(2), [2]),
        (np.stack([np.eye(2)] * 3), [1, 2]),  # one of three variables does not matter
        (np.add.outer(np.add.outer([0.0, 1.0], [2.0, 0.0]), [0.0, 5.0]), [1, 1, 1]),
        (np.add.outer([0.0, np.inf], np.eye(2)), [1, 2]),
        (np.where(np.eye(2) > 0.0, np.inf, 0.0), [2]),  # a hard constraint is no sum
        (np.full((2, 2), np.inf), [2]),
    ],
)
def test_variables_leave_tables_to_which_they_add_a_term(table, arities):
    found = separated(np.array(table.shape), given([(range(table.ndim), table)]), 0.0)
    assert sorted(np.diff(found.scope_starts).tolist()) == arities


def test_rounding_errors_within_the_tolerance_count_as_none():
    table = np.array([[0.0, 3.0], [1.0, 4.0 + 1e-12]])
    for tolerance, arities in (1e-11, [1, 1]), (1e-13, [2]):
        found = separated(np.array([2, 2]), given([((0, 1), table)]), tolerance)
        assert np.diff(found.scope_starts).tolist() == arities


def test_children_of_one_parent_that_matters_need_no_search():
    """A chain of children, each given the one before it and a variable that does not matter."""
    rng, n = np.random.default_rng(0), 12
    factors = [((u, u + 1, n + u), np.repeat(rng.random((2, 2, 1)), 2, axis=2)) for u in range(n - 1)] + [
        ((n + u, n + (u + 5) % (n - 1)), np.zeros((2, 2))) for u in range(n - 1)
    ]
    model = GraphicalModel([2] * (2 * n), factors)
    *_, last = search(model)
    assert last.finished and last.nodes == 0
    assert last.energy == pytest.approx(model.map("elimination").energy)
