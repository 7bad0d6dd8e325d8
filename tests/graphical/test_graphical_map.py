"""MAP inference from the front: every method, on models whose optimum is known."""

import itertools
import os
import signal
import threading
from fractions import Fraction
from itertools import count

import numpy as np
import pytest
from graphical_models import SPECIAL, random_binary, random_model

import cutplane as cut
import cutplane.graphical.map as map_module
from cutplane.graphical import GraphicalModel, chain, potts, spin_glass
from cutplane.graphical.map import (
    METHODS,
    MapState,
    Progress,
    _brief_local_search,
    _first_sweeps,
    _in_turns,
    _sweep,
    _Turns,
)

inf = np.inf
EXACT = ("auto", "elimination", "search")


def check(model, result, optimum, tol=1e-6):
    """Everything that holds of a result, whatever the method and however it ended."""
    size = 1.0 + abs(optimum) if np.isfinite(optimum) else 1.0
    assert result.bound <= optimum + 1e-7 * size and result.energy >= optimum - 1e-9 * size
    if result.labelling is None:
        assert result.energy == inf
    else:
        assert model.energy(result.labelling) == result.energy < inf
    lower, upper = result.history.column("lower_bound"), result.history.column("upper_bound")
    assert (lower[1:] >= lower[:-1]).all() and (upper[1:] <= upper[:-1]).all()
    assert lower[-1] == result.bound and upper[-1] == result.energy
    if result.status is cut.Status.OPTIMAL:
        assert result.energy - result.bound <= max(tol * abs(result.energy), 1e-7)
    assert (result.status is cut.Status.INFEASIBLE) == (result.bound == inf)
    if result.bound == inf:
        assert optimum == inf and result.gap == result.gap_abs == 0.0


@pytest.mark.every
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("block", range(3))
def test_bounds_enclose_the_optimum_of_random_models(method, block):
    for seed in range(12 * block, 12 * block + 12):
        rng = np.random.default_rng(seed)
        model = random_model(rng, n=5, max_arity=4, hard=(0.0, 0.1, 0.3)[seed % 3], integers=seed % 2 == 0)
        optimum = model.brute_force()[1]
        result = model.map(method=method, max_iter=200)
        check(model, result, optimum)
        if method in EXACT:
            assert result.status is (cut.Status.INFEASIBLE if optimum == inf else cut.Status.OPTIMAL)


@pytest.mark.every
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("tighten", [True, False])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_models(method, tighten, name):
    model = SPECIAL[name]
    result = model.map(method=method, tighten=tighten)
    check(model, result, model.brute_force()[1])
    if tighten or method in ("elimination", "search"):
        assert result.status in (cut.Status.OPTIMAL, cut.Status.INFEASIBLE)


@pytest.mark.parametrize("method", ["primal", "auto"])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5)])
@pytest.mark.parametrize("seed", range(3))
def test_planar_glasses_without_field_are_solved_by_cycle_cuts(method, shape, seed):
    model = spin_glass(*shape, seed=seed)
    result = model.map(method=method)
    assert result.status is cut.Status.OPTIMAL
    assert result.energy == pytest.approx(model.brute_force()[1], rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_both_ways_meet_at_the_local_polytope_of_binary_pairs(seed):
    model = random_binary(np.random.default_rng(seed))
    primal = model.map(method="primal", tighten=False)
    dual = model.map(method="dual", tighten=False)
    assert dual.bound == pytest.approx(primal.bound, abs=1e-5 * (1 + abs(primal.bound)))


@pytest.mark.parametrize("seed", range(3))
def test_chains_are_exact_and_fast(seed):
    rng = np.random.default_rng(seed)
    model = chain(rng.normal(size=(8, 4)), rng.normal(size=(7, 4, 4)))
    result = model.map()
    assert result.method == "dynamic programming" and result.gap <= 1e-12
    assert result.energy == pytest.approx(model.brute_force()[1])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-9, 1.0, 0.1, 1e12])
def test_the_scale_of_the_costs_does_not_matter(method, scale):
    cycle = GraphicalModel([2] * 7, [((i, (i + 1) % 7), scale * np.eye(2)) for i in range(7)])
    result = cycle.map(method=method)
    assert result.status is cut.Status.OPTIMAL and result.energy == scale
    even = GraphicalModel([2] * 6, [((i, (i + 1) % 6), scale * np.eye(2)) for i in range(6)])
    assert even.map(method=method).status is cut.Status.OPTIMAL


@pytest.mark.parametrize("method", METHODS)
def test_a_large_penalty_does_not_make_gaps_look_small(method):
    rng = np.random.default_rng(3)
    factors = [((i, j), rng.normal(size=(3, 3))) for i in range(5) for j in range(i)]
    factors.append(((0, 1), 1e8 * np.eye(3)))
    model = GraphicalModel([3] * 5, factors)
    result, optimum = model.map(method=method), model.brute_force()[1]
    check(model, result, optimum)
    if result.status is cut.Status.OPTIMAL:
        assert result.energy == pytest.approx(optimum, abs=1e-6) and result.gap_abs <= 1e-5


def test_a_gap_that_remains_is_reported():
    model = SPECIAL["frustrated triangle"]
    result = model.map(method="dual", tighten=False)
    assert result.status is cut.Status.STALLED and result.gap == pytest.approx(1.0)
    assert "tighten" in repr(result) and "tighten" in result._repr_html_()


def test_limits_end_a_run_with_valid_bounds():
    model = potts(8, 8, 5, mixed=True, seed=0)
    optimum = model.map().energy
    for options, status in (
        ({"max_iter": 1}, cut.Status.MAX_ITER),
        ({"time_limit": 0.0}, cut.Status.TIME_LIMIT),
        ({"callback": lambda state: True}, cut.Status.INTERRUPTED),
    ):
        result = model.map(method="dual", **options)
        assert result.status is status and len(result.history) <= 2
        check(model, result, optimum)


def test_a_labelling_at_hand_is_used():
    model = potts(6, 6, 3, mixed=True, seed=2)
    best = model.map()
    again = model.map(method="dual", labelling=best.labelling, max_iter=1)
    assert again.energy == best.energy


def test_results_repeat_exactly():
    for model in (spin_glass(8, 8, field=0.5), potts(8, 8, 4, mixed=True)):
        assert np.array_equal(model.map().labelling, model.map().labelling)  # whoever finds it first
        first, second = model.map("dual"), model.map("dual")
        assert np.array_equal(first.labelling, second.labelling)
        assert first.history.column("lower_bound").tolist() == second.history.column("lower_bound").tolist()


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_returns_the_best_so_far():
    model = potts(20, 20, 8, mixed=True, seed=0)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    seen = []

    def slowly(state):
        seen.append(state)
        if len(seen) == 2:
            timer.start()
        while len(seen) >= 2 and timer.is_alive():
            pass

    result = model.map(method="dual", callback=slowly, tol=0.0)
    assert result.status is cut.Status.INTERRUPTED and "keyboard" in result.reason
    assert model.energy(result.labelling) == result.energy >= result.bound


def test_log_progress_and_plot(capsys):
    result = potts(6, 6, 4, mixed=True, seed=1).map(method="dual", log=True)
    assert len(capsys.readouterr().out.splitlines()) > len(result.history)
    assert result.plot().get_ylabel() == "energy"
    assert "OPTIMAL" in repr(result) and "OPTIMAL" in result._repr_html_()
    assert list(result.history.to_frame()["upper_bound"])[-1] == result.energy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "method must be one of"),
        ({"tol": -1.0}, "tol must be in"),
        ({"max_iter": -1}, "max_iter must be at least 0"),
        ({"time_limit": -1.0}, "time_limit must be in"),
        ({"labelling": [0]}, "has shape"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(cut.InvalidInputError, match=message):
        GraphicalModel([2, 2], [((0, 1), np.eye(2))]).map(**options)


def test_an_elimination_that_does_not_fit_is_refused():
    with pytest.raises(cut.InvalidInputError, match="max_entries"):
        potts(12, 12, 10).map(method="elimination")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("tol", [0.0, 1e-6, 0.3])
def test_optimal_means_a_gap_of_at_most_tol(method, tol):
    """Of models whose median cost is a penalty, and of which the optimum is zero through cancellation."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        factors = [((u,), rng.normal(size=2)) for u in range(4)]
        factors += [(pair, rng.normal(size=(2, 2))) for pair in itertools.combinations(range(4), 2)]
        factors += [(pair, 1e12 * (1.0 - np.eye(2))[rng.permutation(2)]) for pair in ((0, 1), (2, 3))]
        factors += [((0, 1), 0.1 * rng.normal(size=(2, 2)))]
        constant = -GraphicalModel([2] * 4, factors).brute_force()[1] if seed % 2 else 0.0
        model = GraphicalModel([2] * 4, factors, constant=constant)
        result = model.map(method, tol=tol)
        assert (result.status == "OPTIMAL") == (result.gap <= tol)
        exact = [sum(map(Fraction, model.terms(x).tolist())) for x in itertools.product((0, 1), repeat=4)]
        assert result.bound <= min(exact)
        assert result.energy == float(sum(map(Fraction, model.terms(result.labelling).tolist())))
        if result.status == "OPTIMAL":
            assert result.energy - result.bound <= max(
                tol * abs(result.energy), model.rounding(result.labelling)
            )
        if method == "auto":
            assert result.status == "OPTIMAL"


@pytest.mark.parametrize("method", METHODS)
def test_bounds_from_the_messages_of_other_costs_are_valid(method):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        model = random_model(rng, n=5, max_arity=3, hard=0.2 * (seed % 2), integers=seed % 3 == 0)
        start = model.map(method=method, max_iter=30)
        for t in range(5):
            noise = rng.normal(size=model.tables.size) * (1.0, 1e3)[t == 3]
            model = model.with_costs(rng.normal(size=model.unaries.size), model.tables + noise)
            result = model.map(method=method, max_iter=100, start=start)
            check(model, result, model.brute_force()[1])
            start = result


def test_a_start_keeps_clusters_and_skips_work():
    model = spin_glass(6, 6, seed=0)
    first = model.map("dual")
    assert first.proof.n_clusters > 0
    again = model.map("dual", start=first)
    assert again.status == "OPTIMAL" and again.proof.n_clusters == first.proof.n_clusters
    assert again.history[-1].oracle_calls < 0.5 * first.history[-1].oracle_calls


def test_a_start_must_have_the_same_factors():
    start = spin_glass(3, 3).map()
    for model in (spin_glass(3, 4), GraphicalModel([2] * 9), potts(3, 3, 3)):
        with pytest.raises(cut.InvalidInputError, match="with_costs"):
            model.map(start=start)
    with pytest.raises(cut.InvalidInputError, match="MAPResult"):
        spin_glass(3, 3).map(start=[0, 1])


def test_an_absolute_gap_ends_a_run():
    model = spin_glass(12, 12, seed=3)
    result, exact = model.map("dual", tol_abs=3.0), model.map()
    assert result.status == "OPTIMAL" and 0.5 < result.gap_abs <= 3.0 and "tol_abs" in result.reason
    assert result.bound <= exact.energy <= result.energy
    rough = model.map("dual", tol_abs=inf)
    assert rough.status == "OPTIMAL" and rough.bound > -inf and len(rough.history) == 1


def test_first_sweeps_end_where_clusters_raise_the_bound_faster():
    """Slow sweeps are left to the turns, where branch and bound may be faster."""
    model = potts(12, 12, 5, mixed=True, seed=0)
    first, all_sweeps = (list(sweep(MapState(model, True))) for sweep in (_first_sweeps, _sweep))
    assert 0 < first[-1].sweeps < all_sweeps[-1].sweeps / 2
    assert first[-1].bound > all_sweeps[-1].bound - 0.05 * abs(all_sweeps[-1].bound)


@pytest.mark.parametrize(
    ("gap", "bound", "open_share", "seconds"),
    [
        (inf, 0.0, 1.0, 6.0),  # 8 units are 3 halvings of 2 seconds each
        (8.0, 0.0, 1.0, 6.0),  # a gap that has not shrunk is assumed to halve
        (8.0, 6.0, 1.0, 1.0),  # from 8 to 2 in 2 seconds, and half of that to 1
        (inf, 0.0, 0.75, 4.0),  # the square root of a quarter of a tree takes half of the time
        (inf, -inf, 1.0, inf),  # without a bound a stage is never expected to end
    ],
)
def test_the_expected_time_of_a_stage(gap, bound, open_share, seconds):
    state = MapState(GraphicalModel([9], [((0,), np.arange(9.0))]), True)
    state.offer(np.array([8]))
    stage = _Turns(iter(()), state)
    assert stage.remaining == inf  # as long as the model has no bound
    stage._gap, stage._since, stage.spent, stage.bound = gap, 2.0, 4.0, bound
    stage._estimate(state, Progress("step", bound, open_share=open_share))
    assert stage.remaining == pytest.approx(seconds)


def test_the_expected_time_of_a_stage_before_its_first_turn():
    state = MapState(GraphicalModel([9], [((0,), np.arange(9.0))]), True)
    state.offer(np.array([8]))
    state.raise_bound(0.0)
    assert _Turns(iter(()), state).remaining == pytest.approx(3 * 0.02)  # a first turn for each halving of 8


@pytest.mark.parametrize(("steps", "at_once"), [(60, 60), (200, 75)])
def test_a_stage_that_is_expected_to_end_soon_has_another_turn(monkeypatch, steps, at_once):
    """The first turns are 30 and 45 ms of steps of 1 ms; a tree that is half done after 30 needs 13 more."""
    ticks, log = count(), []
    monkeypatch.setattr(map_module, "clock", lambda: 1e-3 * next(ticks))

    def stage(name, n, bound):
        for i in range(n):
            log.append(name)
            yield Progress(name, bound, open_share=1.0 - i / n if bound > -inf else 1.0)

    state = MapState(GraphicalModel([9], [((0,), np.arange(9.0))]), True)
    state.offer(np.array([8]))
    stages = {
        "search": lambda _: stage("search", steps, 0.0),
        "dual cutting planes": lambda _: stage("dual", 300, -inf),
    }
    for _ in _in_turns(state, stages):
        pass
    assert log.index("dual") == pytest.approx(at_once, abs=3)
    assert log.count("search") == steps and log.count("dual") == 300


@pytest.mark.parametrize(("open_share", "starts"), [(1.0, 2), (0.5, 1)])
def test_the_search_begins_again_if_it_takes_longer_than_all_turns(monkeypatch, open_share, starts):
    """The dual has a gap of 2 where the search began with 8; a search that is half done goes on."""
    ticks, log = count(), []
    monkeypatch.setattr(map_module, "clock", lambda: 1e-3 * next(ticks))

    def search(state):
        log.append("search")
        for _ in range(300):
            yield Progress("search", 0.0, open_share=open_share)

    def dual(state):
        for _ in range(300):
            yield Progress("dual", 6.0)

    monkeypatch.setattr(map_module, "_branch_and_bound", search)
    state = MapState(GraphicalModel([3], [((0,), [0.0, np.pi, 8.0])]), True, tol=1e-6)
    state.offer(np.array([2]))
    state.raise_bound(0.0)
    for _ in _in_turns(state, {"search": search, "dual cutting planes": dual}):
        pass
    assert log == ["search"] * starts


def test_the_first_local_search_ends_when_it_no_longer_improves():
    easy, hard = (GraphicalModel([2] * 8, [((0, 1), table)]) for table in (np.eye(2), np.full((2, 2), inf)))
    calls = [len(list(_brief_local_search(MapState(model, True)))) for model in (easy, hard)]
    assert calls[0] < calls[1] == 25  # a search for a labelling that satisfies all constraints goes on
