"""Cuts are reused where they hold, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import cutplane as cut
from cutplane.masters.base import HALF_SPACE

LOSSES = [
    cut.losses.Hinge(),
    cut.losses.SquaredHinge(),
    cut.losses.ModifiedHuber(),
    cut.losses.Logistic(),
    cut.losses.Exponential(),
]


def data(seed, m=60, n=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=m) > 0.0, 1.0, -1.0)


def problem(seed, loss=None, lam=0.01, feasible_set=None, **options):
    risk = cut.LinearRisk(*data(seed, **options), loss or cut.losses.Hinge())
    return cut.Problem(risk, cut.L2(lam), feasible_set)


def at_zero(result):
    """The same result, with the best point at zero."""
    x = np.zeros(4)
    value = result.certificate.problem.objective(x)
    return replace(result, certificate=replace(result.certificate, x=x, risk_value=value, upper_bound=value))


def from_file(result, path):
    return cut.load(result.save(path / "run"))


@pytest.mark.parametrize("max_iter", [0, 1, 100])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_other_data_are_refused_where_all_margin_losses_agree(loss, max_iter):
    earlier = problem(0, loss, lam=1e3).solve(cut.BMRM(), max_iter=max_iter, tol=0.9)
    for result in (earlier, at_zero(earlier)):
        with pytest.raises(cut.InvalidInputError, match="another risk"):
            problem(1, loss).solve(warm_start=result)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_same_data_in_a_new_object_are_accepted(loss, tmp_path):
    earlier = problem(0, loss).solve(tol=1e-6)
    for result in (earlier, from_file(earlier, tmp_path)):
        again = problem(0, loss).solve(warm_start=result, tol=1e-6)
        assert again.status == "OPTIMAL" and again.n_iter == 0
        assert again.lower_bound >= earlier.lower_bound * (1.0 - 1e-12)
        assert again.objective <= earlier.objective * (1.0 + 1e-12)
        assert again.certificate.verify().valid


@pytest.mark.parametrize(
    ("lam", "feasible_set"),
    [(1e-3, None), (1.0, None), (0.01, cut.Box(-0.1, 0.1)), (0.0, cut.L2Ball(1.0))],
    ids=repr,
)
def test_cuts_are_reused_for_other_weights_and_sets(lam, feasible_set, tmp_path):
    earlier = from_file(problem(0).solve(tol=1e-8), tmp_path)
    other = problem(0, lam=lam, feasible_set=feasible_set)
    cold, warm = other.solve(tol=1e-6), other.solve(warm_start=earlier, tol=1e-6)
    assert warm.status == "OPTIMAL"
    assert warm.objective == pytest.approx(cold.objective, rel=2e-6)
    assert warm.lower_bound <= cold.objective * (1.0 + 1e-12)
    assert warm.certificate.verify().valid


def disc(radius, tolerance=1e-9):
    @cut.separation_oracle
    def oracle(x):
        norm = float(np.linalg.norm(x))
        return [] if norm <= radius * (1.0 + tolerance) else [cut.HalfSpace(x / norm, radius)]

    return oracle


@pytest.mark.parametrize("growth", [1.0, 1.000004, 1.01, 3.0, 0.999996, 0.9, 0.1])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("method", [cut.LevelBundle(), cut.Kelley()], ids=str)
def test_a_separated_set_of_another_size(growth, stored, method, tmp_path):
    c, tol = np.array([-1.0, -2.0]), 1e-7

    def over(radius):
        box = cut.Box(-5, 5, dim=2)
        return cut.Problem(cut.LinearObjective(c), feasible_set=box & disc(radius))

    earlier = over(1.0).solve(method, tol=tol)
    warm = over(growth).solve(method, tol=tol, warm_start=from_file(earlier, tmp_path) if stored else earlier)
    optimum = -growth * np.sqrt(5.0)
    assert warm.status == "OPTIMAL"
    assert warm.objective == pytest.approx(optimum, rel=2e-7)
    assert warm.lower_bound <= optimum * (1.0 - 1e-9)
    assert np.linalg.norm(warm.x) <= growth * (1.0 + 2e-9)
    assert warm.certificate.verify().valid


def test_a_risk_over_a_slightly_larger_set():
    risk = cut.LinearRisk(*data(0), cut.losses.Hinge())
    box = cut.Box(-2, 2)
    earlier = cut.Problem(risk, cut.L2(1e-3), box & disc(0.3)).solve(tol=1e-8)
    larger = cut.Problem(risk, cut.L2(1e-3), box & disc(0.3 * 1.000004)).solve(tol=1e-8, warm_start=earlier)
    w = cp.Variable(4)
    X, y = data(0)
    hinge = cp.sum(cp.pos(1 - cp.multiply(y, X @ w))) / len(y)
    ball = [cp.norm(w) <= 0.3 * 1.000004]
    optimum = cp.Problem(cp.Minimize(hinge + 5e-4 * cp.sum_squares(w)), ball).solve(solver=cp.CLARABEL)
    assert larger.status == "OPTIMAL"
    assert larger.objective == pytest.approx(optimum, rel=5e-8)
    assert larger.lower_bound <= optimum * (1.0 + 1e-8)


def test_more_blocks_are_more_cuts_than_there_were():
    X, y = data(0)
    one = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(0.01)).solve(cut.BMRM())
    five = cut.LinearRisk(X, y, cut.losses.Hinge(), blocks=5)
    with pytest.raises(cut.InvalidInputError, match=r"blocks|another risk"):
        cut.Problem(five, cut.L2(0.01)).solve(cut.BMRM(), warm_start=one)


def test_a_path_of_other_weights_asks_for_no_cut_again():
    calls = []
    X, y = data(0)

    @cut.risk(dim=4)
    def hinge(w):
        calls.append(w)
        margins = y * (X @ w)
        return np.maximum(0.0, 1.0 - margins).mean(), -X.T @ np.where(margins < 1.0, y, 0.0) / len(y)

    path = cut.Problem(hinge, cut.L2(1.0)).path([1.0, 0.1, 0.01], probes=False)
    assert len(calls) == sum(result.oracle_calls for result in path)


def test_cuts_between_half_spaces_are_asked_for_though_none_is_in_use():
    """Without a regularizer, on an unbounded set, no cut is in use; half-spaces come first and last."""

    @cut.separation_oracle
    def disc(x):
        norm = np.linalg.norm(x)
        return [] if norm <= 1.0 + 1e-12 else [cut.HalfSpace(x / norm, 1.0)]

    def risk(scale):
        @cut.risk(dim=2)
        def distance(x):
            return scale * np.abs(x - 2.0).sum(), scale * np.sign(x - 2.0)

        return distance

    problem = cut.Problem(risk(1.0), feasible_set=disc)
    earlier = problem.solve(cut.ProximalBundle(), x0=np.full(2, 3.0), max_iter=6)
    rows = earlier.certificate
    half_spaces, cuts = (np.flatnonzero((rows.blocks == HALF_SPACE) == kind) for kind in (True, False))
    order = np.concatenate([half_spaces[:1], cuts, half_spaces[:1]])
    certificate = replace(
        rows,
        slopes=rows.slopes[order],
        offsets=rows.offsets[order],
        blocks=rows.blocks[order],
        queries=rows.queries[order],
        multipliers=np.zeros(len(order)),
    )
    with pytest.raises(cut.InvalidInputError, match="comes from another risk"):
        other = cut.Problem(risk(1e12), cut.L2(1.0), cut.Box(5.0, 6.0))
        other.solve(warm_start=replace(earlier, certificate=certificate))


def test_a_risk_of_zero_may_come_back_with_the_last_bits_of_its_terms():
    risk = cut.LinearRisk([[2.0], [-2.0]], [1.0, -1.0], cut.losses.Hinge())
    result = cut.Problem(risk, feasible_set=cut.Box(-1, 1)).solve(cut.Kelley(), tol_abs=1e-9)
    assert result.certificate.risk_value == 0.0
    recorded = replace(result, certificate=replace(result.certificate, risk_value=-2e-16))
    again = cut.Problem(risk, feasible_set=cut.Box(-2, 2)).solve(cut.Kelley(), warm_start=recorded)
    assert again.status == "OPTIMAL" and again.objective == 0.0
