"""Cuts are reused where they hold, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import cutplane as cut
from cutplane.engine.run import Run
from cutplane.engine.warm_start import confirm_origin, resume
from cutplane.masters.base import HALF_SPACE
from cutplane.masters.select import Backend
from cutplane.proof.certificate import Certificate
from cutplane.proof.evidence import TRIVIAL

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


def test_a_risk_of_zero_may_come_back_with_the_last_bits_of_its_terms():
    risk = cut.LinearRisk([[2.0], [-2.0]], [1.0, -1.0], cut.losses.Hinge())
    result = cut.Problem(risk, feasible_set=cut.Box(-1, 1)).solve(cut.Kelley(), tol_abs=1e-9)
    assert result.certificate.risk_value == 0.0
    recorded = replace(result, certificate=replace(result.certificate, risk_value=-2e-16))
    again = cut.Problem(risk, feasible_set=cut.Box(-2, 2)).solve(cut.Kelley(), warm_start=recorded)
    assert again.status == "OPTIMAL" and again.objective == 0.0


NORMALS, SIDES = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([5.0, 6.0])


def separate(x):
    return [
        cut.HalfSpace(normal, side) for normal, side in zip(NORMALS, SIDES, strict=True) if normal @ x > side
    ]


def oracle(x):
    return np.array([2.0 * x[0] + 1.0, -3.0 * x[1] + 4.0]), np.array([[2.0, 0.0], [0.0, -3.0]])


def problem_of_rows(feasible=None, infima=None):
    risk = cut.OracleRisk(oracle, dim=2, blocks=2, **({} if infima is None else {"infimum": infima}))
    return cut.Problem(risk, cut.L2(2.0), feasible)


def earlier(rows, points=None, **changes):
    """Each row is (slope, offset, block, query, multiplier)."""
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    proof = {
        "x": None,
        "lower_bound": -np.inf,
        "upper_bound": np.inf,
        "risk_value": np.inf,
        "problem": None,
    }
    return Certificate(*columns, points={} if points is None else points, **proof | changes)


CUTS = [
    ([2.0, 0.0], 1.0, 0, 3, 1.0),
    ([0.0, -3.0], 4.0, 1, 3, 1.0),
    ([0.0, -1.0], 7.0, 1, 5, 0.0),
]
"""Two cuts of the risk, in use, and an idle one that is wrong, and lies above."""
AT = {3: np.array([1.0, 2.0]), 5: np.array([3.0, 4.0]), 4: np.full(2, 9.0)}
FOUND = [([1.0, 0.0], -5.0, HALF_SPACE, 4, 2.0), ([0.0, 1.0], -6.0, HALF_SPACE, 4, 0.0)]
GONE = ([7.0, 7.0], -7.0, HALF_SPACE, 4, 3.0)


def begun(before, own=None, max_cuts=None):
    """A run that has resumed, and its unconfirmed rows; the certificate is of another risk, or of `own`."""
    run = Run(own or problem_of_rows(), cut.ProximalBundle(), Backend(), max_cuts=max_cuts)
    return run, resume(run, before)


def of(own, before):
    return replace(before, problem=own)


def test_rows_keep_their_multipliers_points_and_blocks():
    own = problem_of_rows()
    run, unconfirmed = begun(of(own, earlier([*CUTS[2:], *CUTS[:2]], AT)), own)
    assert unconfirmed == {}
    assert run.bundle.offsets[:3] == pytest.approx([7.0, 1.0, 4.0])
    assert run.bundle.blocks[:3].tolist() == [1, 0, 1]
    assert run.bundle.weights[:3].tolist() == [0.0, 1.0, 1.0]
    origins = [run.bundle.origin(row).tolist() for row in range(3)]
    assert origins == [[3.0, 4.0], [1.0, 2.0], [1.0, 2.0]]
    assert run.lower > -np.inf


@pytest.mark.parametrize("same_set", [True, False])
def test_half_spaces_of_the_same_set_are_taken_and_of_another_set_found_again(same_set):
    """The oracle returns two of the three again; the third is kept where the set is the same."""
    own = problem_of_rows(cut.separation_oracle(separate))
    before = earlier([*CUTS[:2], *FOUND, GONE], AT)
    run, _ = begun(of(own if same_set else problem_of_rows(), before), own)
    half = run.bundle.blocks == HALF_SPACE
    assert sorted(run.bundle.offsets[half].tolist()) == ([-7.0] if same_set else []) + [-6.0, -5.0]
    assert run.bundle.weights[run.bundle.offsets.tolist().index(-5.0)] == 2.0


def test_half_spaces_without_a_point_or_an_oracle_are_left_out():
    before = earlier([*CUTS[:2], *FOUND], {3: AT[3]})
    for own in (problem_of_rows(), problem_of_rows(cut.separation_oracle(separate))):
        run, _ = begun(of(problem_of_rows(), before), own)
        assert not run.bundle.has_half_spaces


def test_multipliers_of_examples_are_kept():
    own = problem_of_rows()
    before = of(own, earlier(CUTS, {3: AT[3]}, duals={5: np.arange(3.0)}))
    run, _ = begun(before, own)
    assert [dual.tolist() for dual in run.bundle.duals.values()] == [[0.0, 1.0, 2.0]]
    assert run.known_multipliers().tolist() == [0.0, 1.0, 2.0]


def test_another_dimension_or_more_blocks_do_not_fit():
    with pytest.raises(cut.InvalidInputError, match="has dimension 3, the problem has 2"):
        begun(earlier([([1.0, 0.0, 0.0], 0.0, 0, 0, 1.0)]))
    with pytest.raises(cut.InvalidInputError, match="has 3 blocks, the risk has 2; use the same number"):
        begun(earlier([([1.0, 0.0], 0.0, 2, 0, 1.0)]))


def test_the_start_is_the_best_point_with_a_cut_of_each_block():
    """At (1, 2) the objective is 1 + 5, at (-1, 0) it is 3 + 1, at (0, 0) 5."""
    more = [([2.0, 0.0], 1.0, 0, 6, 0.0), ([0.0, -3.0], 4.0, 1, 6, 0.0)]
    half = ([1.0, 0.0], 100.0, HALF_SPACE, 6, 0.0)
    points = AT | {6: np.array([-1.0, 0.0])}
    for rows, start in (
        ([*CUTS, *more], [-1.0, 0.0]),
        (CUTS, [1.0, 2.0]),
        ([*CUTS[:2], more[0], half], [1.0, 2.0]),
        (CUTS[:1], [0.0, 0.0]),
    ):
        own = problem_of_rows()
        assert begun(of(own, earlier(rows, points)), own)[0].first.x.tolist() == start
    inside = problem_of_rows(cut.Box(0.0, 9.0))
    assert begun(of(inside, earlier([*CUTS, *more], points)), inside)[0].first.x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("share, same", [(0.9e-6, True), (1.1e-6, False)])
def test_the_recorded_risk_is_compared(sign, share, same):
    """At (-1, 0) the blocks are -1 and 4; its objective is the least."""
    own, recorded = problem_of_rows(), 3.0 * (1.0 + sign * share)
    before = of(own, earlier(CUTS, AT, x=np.array([-1.0, 0.0]), risk_value=recorded))
    if same:
        assert begun(before, own)[0].first.x.tolist() == [-1.0, 0.0]
    else:
        with pytest.raises(cut.InvalidInputError, match=f"it recorded {recorded:.8g}, this risk is 3. Cuts"):
            begun(before, own)


KNOWN = ([0.0, 0.0], -1.0, 0, TRIVIAL, 0.0)


@pytest.mark.parametrize(
    "order, accepted", [([0, 2, 1], True), ([0, 1, 2], False), ([2, 0, 1], False)], ids=str
)
def test_of_another_risk_cuts_in_use_and_the_first_and_last_are_confirmed(order, accepted):
    before = earlier([KNOWN, FOUND[1], *(CUTS[k] for k in order), FOUND[1], KNOWN], AT)
    if accepted:
        run, unconfirmed = begun(before)
        assert list(unconfirmed.values()) == [2 + order.index(2)]
        confirm_origin(run, before, unconfirmed)
        (base,) = unconfirmed
        run.proof = run.proof._replace(ids=np.array([base]), multipliers=np.array([1e-9]))
        with pytest.raises(cut.InvalidInputError, match="comes from another risk"):
            confirm_origin(run, before, unconfirmed)
    else:
        with pytest.raises(cut.InvalidInputError, match="comes from another risk: the oracle gives another"):
            begun(before)
    own = problem_of_rows()
    assert begun(of(own, before), own)[1] == {}


def test_the_oracle_may_refuse_to_answer_for_another_risk():
    own = problem_of_rows()
    own.risk.function = lambda x: 1 // 0
    with pytest.raises(cut.InvalidInputError, match=r"another risk: .* raised ZeroDivisionError: .*zero\. "):
        begun(earlier(CUTS[:2], AT), own)


@pytest.mark.parametrize("max_cuts", [7, 8, 40])
def test_the_limit_of_rows_holds_after_all_are_added(max_cuts):
    own = problem_of_rows()
    rows = [*CUTS[:2], *(([float(k), 0.5], -90.0, 0, 5, 0.0) for k in range(8))]
    run, _ = begun(of(own, earlier(rows, {3: AT[3]})), own, max_cuts)
    assert len(run.bundle) <= max_cuts
    assert run.bundle.max_cuts == max_cuts
    assert sorted(run.bundle.weights)[-2:] == [1.0, 1.0]
