"""The k best labellings against a list of all of them."""

import itertools
import time

import numpy as np
import pytest
from graphical_models import SMALL, all_labellings, random_binary, random_model

import cutplane.graphical.k_best as module
from cutplane.exceptions import InvalidInputError
from cutplane.graphical import GraphicalModel, chain, potts, spin_glass
from cutplane.status import Status


def all_energies(model):
    """The finite energies of all labellings, ascending, and the labellings."""
    labellings, energies = all_labellings(model)
    order = np.argsort(energies, kind="stable")
    order = order[np.isfinite(energies[order])]
    return energies[order], labellings[order]


@pytest.fixture(params=["elimination", "restricted", "inference"])
def way(request, monkeypatch):
    """Whether elimination is affordable, affordable on the states that are left, or not."""
    if request.param != "elimination":
        tree = module.CliqueTree

        def refuse(model, alive=None, **options):
            if alive is None or request.param == "inference":
                raise InvalidInputError("too large")
            return tree(model, alive, **options)

        monkeypatch.setattr(module, "CliqueTree", refuse)
    return request.param


def check(model, result, energies, k, tol):
    """The energies are those of the k best, the labellings differ, and the bounds hold."""
    assert len(result) == min(k, energies.size)
    close = {"rel": tol, "abs": 1e-9}
    assert result.energies.tolist() == pytest.approx(energies[:k].tolist(), **close)
    assert len({tuple(x) for x in result.labellings.tolist()}) == len(result)
    assert [model.energy(x) for x in result.labellings] == result.energies.tolist()
    assert (result.bounds <= energies[: len(result)]).all()
    assert result.bounds.tolist() == pytest.approx(energies[:k].tolist(), **close)
    assert all(status is Status.OPTIMAL for status in result.statuses)
    assert result.status is (Status.OPTIMAL if energies.size else Status.INFEASIBLE)


@pytest.mark.parametrize("name", SMALL)
def test_against_all_labellings(name, way):
    model = SMALL[name]
    energies, _ = all_energies(model)
    for k in (1, 3, 12) if way == "elimination" else (1, 6):
        check(model, model.k_best(k), energies, k, tol=1e-6)


@pytest.mark.parametrize("way", ["inference"], indirect=True)
@pytest.mark.parametrize("seed", range(12))
def test_bounds_hold_at_a_large_tolerance(seed, way):
    model = random_binary(np.random.default_rng(seed), n=6)
    energies, _ = all_energies(model)
    result = model.k_best(5, tol=0.5)
    assert (result.bounds <= energies[: len(result)]).all()
    assert (result.bounds <= result.energies).all()
    assert (np.diff(result.energies) >= 0.0).all() and (result.energies >= energies[: len(result)]).all()


@pytest.mark.parametrize("name", ["frustrated triangle", "implied states", "nothing", "infeasible"])
def test_more_than_there_are(name, way):
    model = SMALL[name]
    energies, _ = all_energies(model)
    result = model.k_best(50)
    check(model, result, energies, 50, tol=1e-6)
    assert ("satisfies" if not energies.size else f"there are {energies.size} labellings") in result.reason


def test_all_labellings_of_equal_energy():
    result = GraphicalModel([2, 3]).k_best(6)
    assert result.energies.tolist() == [0.0] * 6
    assert len({tuple(x) for x in result.labellings.tolist()}) == 6


def test_chain_by_another_algorithm():
    """The energies on a chain are those of the k best paths by dynamic programming with k costs a state."""
    rng = np.random.default_rng(3)
    unaries, tables = rng.normal(size=(200, 4)), rng.normal(size=(199, 4, 4))
    best = [[cost] for cost in unaries[0]]
    for cost, table in zip(unaries[1:], tables, strict=True):
        best = [
            sorted(old + table[x, y] + cost[y] for x in range(4) for old in best[x])[:20] for y in range(4)
        ]
    wanted = sorted(itertools.chain.from_iterable(best))[:20]
    result = chain(unaries, tables).k_best(20)
    assert result.energies.tolist() == pytest.approx(wanted, rel=1e-12)
    assert result.status is Status.OPTIMAL


def greedy(energies, labellings, k, distance):
    """The energies by the definition of diverse labellings, for energies without ties."""
    chosen = []
    for energy, x in zip(energies, labellings, strict=True):
        if len(chosen) < k and all((x != y).sum() >= distance for _, y in chosen):
            chosen.append((energy, x))
    return chosen


@pytest.mark.parametrize("distance", [2, 3, 5, 7])
@pytest.mark.parametrize("seed", range(4))
def test_diverse(seed, distance):
    rng = np.random.default_rng(seed)
    model = random_model(rng, n=6, hard=0.2 * (seed % 2), max_states=3)
    wanted = greedy(*all_energies(model), 4, distance)
    result = model.k_best(4, min_distance=distance)
    assert len(result) == len(wanted)
    assert result.energies.tolist() == pytest.approx([energy for energy, _ in wanted], rel=1e-6)
    for m, x in enumerate(result.labellings):
        assert all((x != y).sum() >= distance for y in result.labellings[:m])
        assert result.bounds[m] <= wanted[m][0]
    assert result.status is (Status.OPTIMAL if wanted else Status.INFEASIBLE)
    assert len(result) in (0, 4) or f"differ in {distance} variables" in result.reason


def test_diverse_without_counters(monkeypatch):
    """The prices alone give a valid bound, and the status says if it leaves a gap."""
    monkeypatch.setattr(module, "_COUNTERS", 0)
    statuses = []
    for seed in range(6):
        model = random_binary(np.random.default_rng(seed), n=7)
        result = model.k_best(2, min_distance=3)
        if len(result) == 2:
            energies, labellings = all_energies(model)
            allowed = energies[(labellings != result.labellings[0]).sum(axis=1) >= 3]
            assert result.bounds[1] <= allowed[0] <= result.energies[1]
            statuses += result.statuses[1:]
    assert Status.OPTIMAL in statuses and len(statuses) > 2


def test_large_grid_is_solved_on_the_states_left():
    model = potts(25, 25, 3, seed=1)
    result = model.k_best(4)
    assert result.status is Status.OPTIMAL and len(result) == 4
    assert (np.diff(result.energies) >= 0).all()
    assert result.energies[0] == pytest.approx(model.map().energy, rel=1e-6)


def test_time_limit_returns_what_was_found():
    began = time.perf_counter()
    result = spin_glass(40, 40, field=0.3, wrap=True).k_best(50, time_limit=0.5)
    assert time.perf_counter() - began < 5.0
    assert result.status is Status.TIME_LIMIT and "time_limit" in result.reason
    assert (result.bounds <= result.energies).all()


def test_interrupt_returns_what_was_found(monkeypatch):
    least, calls = module._Spaces.least, []

    def stop_at_the_fifth(self, *args):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return least(self, *args)

    monkeypatch.setattr(module._Spaces, "least", stop_at_the_fifth)
    model = random_binary(np.random.default_rng(1))
    result = model.k_best(10)
    energies, _ = all_energies(model)
    assert result.status is Status.INTERRUPTED and 1 <= len(result) <= 4
    assert result.energies[0] == energies[0]
    assert (result.bounds <= energies[: len(result)]).all()
    assert "interrupted" in repr(result) and "INTERRUPTED" in result._repr_html_()


@pytest.mark.parametrize(
    "options", [{"k": 0}, {"k": 2, "min_distance": 0}, {"k": 2, "tol": -1.0}, {"k": 2, "time_limit": 0.0}]
)
def test_parameters_out_of_range(options):
    with pytest.raises(InvalidInputError, match=list(options)[-1]):
        GraphicalModel([2]).k_best(**options)
