"""The independent proof of bounds by cases: against brute force, and of results of the search."""

import math
from dataclasses import replace

import numpy as np
import pytest
from graphical_models import SMALL, random_binary

from cutplane.exceptions import InvalidInputError
from cutplane.graphical import GraphicalModel, spin_glass
from cutplane.graphical import checker as module
from cutplane.graphical.checker import Checker
from cutplane.runtime.clock import clock


@pytest.fixture(params=["messages", "eliminations"])
def means(request, monkeypatch):
    monkeypatch.setattr(module, "_ENTRIES", 0 if request.param == "messages" else 2**18)


@pytest.mark.parametrize("name", SMALL)
def test_proven_bounds_are_valid_and_reached_if_true(means, name):
    model, rng = SMALL[name], np.random.default_rng(0)
    start = model.with_costs(rng.normal(size=model.unaries.size)).map("dual").proof if len(name) % 4 else None
    optimum = model.brute_force()[1]
    size = 1e-9 * (1.0 + abs(optimum)) if optimum < math.inf else 1.0
    assert Checker(model, min(optimum, 1e3) - size, start).run() == min(optimum, 1e3) - size
    for excess in (2.0 * size, 0.3, 10.0):
        assert Checker(model, optimum + excess, start).run() <= optimum + size
    if optimum == math.inf:
        assert Checker(model, math.inf, start).run() == math.inf


def complete(seed, n=10, k=4):
    rng = np.random.default_rng(seed)
    edges = np.array([(u, v) for u in range(n) for v in range(u + 1, n)])
    tables = rng.integers(0, 100, (len(edges), k, k)).astype(float)
    return GraphicalModel.pairwise(rng.integers(0, 100, (n, k)).astype(float), edges, tables)


def test_results_of_the_search_are_verified_without_the_search(monkeypatch):
    results = [complete(seed).map("search") for seed in range(3)]
    results += [random_binary(np.random.default_rng(seed), 16).map("search") for seed in range(3)]
    results += [spin_glass(5, 5, seed=0).map("primal"), SMALL["infeasible cycle"].map()]

    def fail(*_, **__):
        raise AssertionError("the code of the search was called")

    monkeypatch.setattr("cutplane.graphical.exact.search.search", fail)
    monkeypatch.setattr("cutplane.graphical.exact.branching.Branching", fail)
    monkeypatch.setattr(GraphicalModel, "map", fail)
    for result in results:
        assert result.certificate.verify(independent=True).valid
        if math.isfinite(result.bound):
            false = replace(result, bound=result.bound + 0.01 * abs(result.bound))
            found = false.verify(independent=True)
            assert not found.valid and found.lower_bound <= result.energy
    with pytest.raises(AssertionError):
        replace(results[0], proof=None).verify()
    for limit in (-1.0, math.nan, "1"):
        with pytest.raises(InvalidInputError, match="time_limit"):
            results[0].certificate.verify(independent=True, time_limit=limit)


def test_a_time_limit_gives_the_bound_so_far():
    model = complete(0, 30, 6)
    labelling = np.zeros(30, dtype=int)
    for limit in (0.0, 0.5):
        checker, began = Checker(model, model.energy(labelling)), clock()
        bound = checker.run(began + limit)
        assert clock() - began < limit + 1.0
        assert bound <= model.map(time_limit=1.0, labelling=labelling).energy
        assert bound > -math.inf or limit == 0.0
