"""Tabu search against brute force, and the costs that it updates against those of the model."""

import numpy as np
import pytest
from graphical_models import random_model

from cutplane.graphical.sweeps.tabu import TabuSearch


@pytest.mark.parametrize("seed", range(12))
def test_small_models_are_solved(seed):
    """Models of 6 variables of up to 3 states have at most 729 labellings; a thousand moves meet the best."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, 6, 3, 3, hard=0.2 * (seed % 2))
    search = TabuSearch(model, np.zeros(6, dtype=np.int64), seed)
    search.run(1000)
    least = model.brute_force()[1]
    assert model.energy(search.labelling) == pytest.approx(least, abs=1e-9)


@pytest.mark.parametrize("hard", [0.0, 0.3])
def test_costs_are_those_of_changing_one_variable(hard):
    rng = np.random.default_rng(5)
    model = random_model(rng, 8, 4, 3, hard=hard)
    search = TabuSearch(model, np.zeros(8, dtype=np.int64))
    search.run(137)
    broken, finite = search._costs
    for u in range(8):
        near = [a for a in range(model.n_factors) if u in model.factor(a).variables]
        for x in range(model.cardinalities[u]):
            labelling = search._current.copy()
            labelling[u] = x
            tables = [model.factor(a) for a in near]
            costs = [table[tuple(labelling[list(scope)])] for scope, table in tables] + [model.unary(u)[x]]
            place = model.unary_starts[u] + x
            assert broken[place] == np.isinf(costs).sum()
            assert finite[place] == pytest.approx(np.sum(costs, where=np.isfinite(costs)), abs=1e-9)


def test_the_best_labelling_never_becomes_worse():
    rng = np.random.default_rng(1)
    model = random_model(rng, 30, 4, 2, n_factors=60)
    search = TabuSearch(model, np.zeros(30, dtype=np.int64))
    energies = [model.energy(search.labelling)]
    for _ in range(40):
        improved = search.run(20)
        energies.append(model.energy(search.labelling))
        assert improved == (energies[-1] < energies[-2])
    assert energies[-1] < energies[0]
