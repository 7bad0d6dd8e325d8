"""A search on several threads finds and proves the same least energy as on one thread."""

import itertools
import signal
import sys
import threading

import numpy as np
import pytest
from graphical_models import SMALL, random_binary, random_model

from cutplane.graphical import GraphicalModel
from cutplane.graphical.exact import branching
from cutplane.graphical.exact.branching import Branching
from cutplane.graphical.exact.clique_tree import eliminate
from cutplane.graphical.exact.search import search
from cutplane.graphical.factor_graph import BestLabelling
from cutplane.runtime.clock import clock
from cutplane.runtime.threads import get_threads, set_threads
from cutplane.status import Status


@pytest.fixture(params=[1, 2, 3], autouse=True)
def n_threads(request):
    """A number of threads that take turns at nearly every line of Python."""
    before, interval = get_threads(), sys.getswitchinterval()
    set_threads(request.param)
    sys.setswitchinterval(1e-6)
    yield request.param
    set_threads(before)
    sys.setswitchinterval(interval)


def hard(n=60, seed=0):
    """No search of some seconds ends."""
    rng = np.random.default_rng(seed)
    pairs = itertools.combinations(range(n), 2)
    return GraphicalModel([3] * n, [(pair, rng.normal(size=(3, 3))) for pair in pairs])


class Incumbent(BestLabelling):
    """The best labelling, and the limit below which one is sought."""

    @property
    def limit(self):
        return self.energy - 1e-9


@pytest.mark.every
@pytest.mark.parametrize("narrow", [-1.0, 4.0, 18.0])
def test_the_optimum_of_each_small_model_is_proven(narrow, monkeypatch):
    """Without elimination of nodes, with eliminations by small tables, and with all of them."""
    monkeypatch.setattr(branching, "_NARROW", narrow)
    for name, model in SMALL.items():
        least, result = model.brute_force()[1], model.map("search")
        wanted = Status.OPTIMAL if least < np.inf else Status.INFEASIBLE
        assert (result.status, result.energy) == (wanted, pytest.approx(least, abs=1e-8)), name


@pytest.mark.every
@pytest.mark.parametrize("narrow", [-1.0, 4.0])
@pytest.mark.parametrize("seed", range(6))
def test_bound_and_energy_enclose_the_optimum_at_any_time(seed, narrow, monkeypatch):
    monkeypatch.setattr(branching, "_NARROW", narrow)
    rng = np.random.default_rng(seed)
    model = random_binary(rng, n=16, density=0.7) if seed % 2 else random_model(rng, 12, 3, 3, n_factors=24)
    model = GraphicalModel(
        model.cardinalities,
        [(f.variables, f.table - f.table.min()) for f in map(model.factor, range(model.n_factors))],
    )
    best, tree, optimum = Incumbent(model), Branching(model), eliminate(model)[1]
    bounds, shares = [tree.lower_bound()], [tree.open_share]
    while not tree.finished:
        tree.run(best, max_nodes=tree.nodes + 1)
        bounds.append(min(tree.lower_bound(), best.energy))
        shares.append(tree.open_share)
        assert bounds[-1] <= optimum + 1e-9 <= best.energy + 2e-9
    assert best.energy == pytest.approx(optimum) and tree.lower_bound() == np.inf and shares[-1] == 0.0
    assert np.all(np.diff(bounds) >= -1e-9) and np.all(np.diff(shares) <= 1e-12)


def test_dives_share_no_array_that_changes(n_threads):
    tree = Branching(hard(10))
    assert len(tree._dives) == n_threads
    for one, other in itertools.combinations(tree._dives, 2):
        for a, b in itertools.product([*one.node, *one.tree], [*other.node, *other.tree]):
            assert not np.shares_memory(a, b)


def test_a_labelling_of_another_stage_limits_all_dives():
    model = random_binary(np.random.default_rng(5), n=20, density=1.0)
    others = BestLabelling(model, eliminate(model)[0])
    *_, result = search(model, others=others)
    assert result.finished and result.energy == others.energy


def test_the_time_limit_holds_for_all_dives():
    began = clock()
    result = hard().map("search", time_limit=0.5)
    assert clock() - began < 2.5 and result.status is Status.TIME_LIMIT
    assert result.bound < result.energy == result.model.energy(result.labelling)


def test_an_interruption_ends_all_dives():
    model, timer = hard(), threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    result = model.map("search", time_limit=20.0)
    assert result.status is Status.INTERRUPTED and result.energy == model.energy(result.labelling)


def test_the_best_labellings_are_the_best():
    model = random_model(np.random.default_rng(1), 6, 3, 3)
    energies = sorted(model.energy(x) for x in np.ndindex(*model.cardinalities))
    assert model.k_best(4).energies == pytest.approx(energies[:4])
