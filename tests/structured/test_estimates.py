"""Graphs with cycles that are decoded as accurately as the gap requires, against enumeration."""

import numpy as np
import pytest
from test_margins import CYCLE, TREES, draw, graphs, n_slack, value_of

import cutplane as cut
from cutplane.graphical import GraphicalModel
from cutplane.pieces.capabilities import Capability, offers
from cutplane.structured import GraphRisk, MultilabelRisk, pairwise

COMPLETE = np.array([[0, 1], [0, 2], [0, 3], [2, 1], [1, 3], [3, 2]])
EDGES = [CYCLE, TREES[0], COMPLETE, CYCLE]


@pytest.fixture(params=["programmes", "map"])
def decoder(request, monkeypatch):
    if request.param == "map":
        monkeypatch.setattr(pairwise, "_SMALL", 0)


@pytest.mark.parametrize("integer", [False, True])
def test_values_and_cuts_enclose_the_best_of_all(decoder, integer):
    for seed in range(4):
        risk, known = graphs(EDGES, seed, integer, loss=("hamming", "share")[seed % 2])
        rng = np.random.default_rng(seed)
        w, others = np.zeros(risk.dim), draw(rng, 5, risk.dim)
        for accuracy in (np.inf, 1.0, 0.1, 0.0, np.inf):
            w = w + draw(rng, risk.dim, integer=integer)
            answer, exact = risk.estimate(w, accuracy), value_of(risk, known, w)
            height = float(answer.slopes[0] @ w + answer.offsets[0])
            assert height - 1e-9 <= exact <= answer.values[0] + 1e-9
            assert answer.values[0] - height <= accuracy + 1e-7
            for other in others:
                there = float(answer.slopes[0] @ other + answer.offsets[0])
                assert there <= value_of(risk, known, other) + 1e-9
            for mine, again in zip(risk.dual_cut(answer.multipliers), answer[1:3], strict=True):
                np.testing.assert_array_equal(mine, again)


def test_a_single_table_may_be_shared_in_both_directions(decoder):
    rng = np.random.default_rng(0)
    X, y = [draw(rng, 4, 2) for _ in range(3)], [rng.integers(3, size=4) for _ in range(3)]
    shared = GraphRisk(X, y, COMPLETE, n_states=3)
    apart = GraphRisk(X, y, COMPLETE, [np.ones((6, 1))] * 3, n_states=3)
    for _ in range(4):
        w = draw(rng, shared.dim)
        values = [risk.estimate(w, 0.0).values[0] for risk in (shared, apart)]
        assert values == pytest.approx([shared.oracle(w)[0]] * 2, abs=1e-8)


def test_the_optimum_is_that_of_the_n_slack_problem(decoder):
    for method in (cut.ProximalBundle(), cut.BlockFrankWolfe(), "auto"):
        risk, known = graphs(EDGES)
        result = cut.Problem(risk, cut.L2(0.1)).solve(method, tol=1e-6)
        assert result.status == "OPTIMAL"
        assert result.objective == pytest.approx(n_slack(risk, known, 0.1), rel=1e-5)
        assert result.certificate.verify().valid


def test_bounds_hold_if_labellings_are_not_proven(monkeypatch):
    """A decoder whose bound is the bound of the local polytope."""
    monkeypatch.setattr(pairwise, "_SMALL", 0)
    whole = GraphicalModel.map

    def loose(model, **options):
        return whole(model, **options | {"method": "dual", "tighten": False, "max_iter": 3})

    risk, known = graphs([COMPLETE] * 4, seed=1)
    optimum = n_slack(risk, known, 0.1)
    monkeypatch.setattr(GraphicalModel, "map", loose)
    result = cut.Problem(risk, cut.L2(0.1)).solve(tol=1e-6, max_iter=200)
    assert result.status != "OPTIMAL" and result.lower_bound > 0.0
    for found in (result, result.certificate.verify()):
        upper = result.objective if found is result else found.upper_bound
        assert found.lower_bound <= optimum * (1 + 1e-6) and optimum <= upper * (1 + 1e-6)
    with pytest.raises(cut.OracleError, match="was not found"):
        risk.oracle(np.random.default_rng(0).normal(size=risk.dim))


def test_results_are_kept_within_a_limit(monkeypatch):
    monkeypatch.setattr(pairwise, "_SMALL", 0)
    risk, _ = graphs(EDGES)
    risk.estimate(np.ones(risk.dim), 0.0)
    assert risk._results.keys() == {0, 2, 3} and len(risk._models) == 2
    room, size = risk._room, pairwise._KEPT - risk._room
    risk.estimate(np.zeros(risk.dim), 0.0)
    assert risk._room == room
    monkeypatch.setattr(pairwise, "_KEPT", size - 1)
    risk, _ = graphs(EDGES)
    risk.estimate(np.ones(risk.dim), 0.0)
    assert risk._results.keys() == {0, 2}


def test_a_time_limit_holds_inside_the_decoder():
    rng = np.random.default_rng(0)
    n = 60
    edges = np.array([(u, v) for u in range(n) for v in range(u) if rng.random() < 0.3])
    X, y = [rng.normal(size=(n, 4)) for _ in range(3)], [rng.integers(4, size=n) for _ in range(3)]
    Z = [rng.normal(size=(len(edges), 3)) for _ in range(3)]
    problem = cut.Problem(GraphRisk(X, y, edges, Z), cut.L2(1e-3))
    problem.solve(time_limit=0.5)  # compile
    result = problem.solve(tol=1e-6, time_limit=1.0)
    assert result.status == "TIME_LIMIT" and result.history[-1].elapsed < 2.0
    assert np.isfinite(result.objective)


def test_estimates_are_for_exact_decoders_of_cycles():
    for edges, options in (
        ([CYCLE], {"decoder": "inner"}),
        ([CYCLE], {"decoder": "outer"}),
        ([TREES[0]], {}),
    ):
        assert not offers(graphs(edges, **options)[0], Capability.ON_DEMAND)
    assert offers(graphs([CYCLE])[0], Capability.ON_DEMAND)
    few = MultilabelRisk(np.eye(3), np.eye(3, dtype=int), "all")
    assert not offers(few, Capability.ON_DEMAND)  # all sets are compared


def test_the_accuracy_is_reached_on_large_grids():
    rng = np.random.default_rng(0)
    pixels = np.arange(15 * 15).reshape(15, 15)
    sides = [np.stack([pixels[:, :-1], pixels[:, 1:]], 2), np.stack([pixels[:-1], pixels[1:]], 2)]
    edges = np.concatenate([part.reshape(-1, 2) for part in sides])
    X, y = [rng.normal(size=(225, 4)) for _ in range(2)], [rng.integers(4, size=225) for _ in range(2)]
    w, gaps = 0.7 * rng.normal(size=32), []
    for accuracy in 2.0 ** np.arange(6.0, -4.0, -0.5):
        answer = GraphRisk(X, y, edges).estimate(w, accuracy)
        gaps.append(float(answer.values[0] - answer.slopes[0] @ w - answer.offsets[0]))
        assert gaps[-1] <= accuracy
    assert max(gaps) > 0.1  # no more than required is done
