"""Where a risk is finite: its domain is intersected with the feasible set, and a run starts in it."""

import numpy as np
import pytest

import cutplane as cut


class Barrier(cut.Risk):
    """-sum log x: finite where x > 0; a half-space for each coordinate that is not."""

    dim = 2
    black_box = False
    asked = 0

    def __init__(self):
        self.domain = cut.Box(-1, 5) & cut.SeparationOracle(self.separate, nearby=lambda x: None)

    def separate(self, x):
        rows = np.flatnonzero(x < 0.05)
        return [cut.HalfSpace(-np.eye(2)[j], -0.05) for j in rows]

    def oracle(self, x):
        if x.min() <= 0.0:
            return np.inf, np.zeros(2)
        return -np.log(x).sum(), -1.0 / x


def problem(risk, regularizer=None, feasible_set=None):
    return cut.Problem(risk + cut.LinearObjective([1.0, 0.5]), regularizer, feasible_set)


@pytest.mark.parametrize("method", ["auto", cut.Kelley(), cut.ProximalBundle()])
@pytest.mark.parametrize("x0", [None, [-0.7, 4.0], [1.0, 1.0]])
def test_a_run_starts_where_the_risk_is_finite(method, x0):
    result = problem(Barrier()).solve(method, x0=x0, tol=1e-6)
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    assert result.x == pytest.approx([1.0, 2.0], abs=5e-3)
    assert result.objective == pytest.approx(2.0 - np.log(2.0), rel=1e-6)


def test_the_domain_is_a_part_of_the_set():
    risk = Barrier()
    plain, boxed = problem(risk), problem(risk, feasible_set=cut.Box(0.2, 9, dim=2))
    assert len(plain.separators) == 1 and plain.simple_set.bounds(2)[1].tolist() == [5.0, 5.0]
    assert boxed.simple_set.bounds(2)[0].tolist() == [0.2, 0.2]
    total = 0.5 * risk + 0.5 * risk
    assert len(total.domain.parts[1]) == 2 and cut.LinearObjective([1.0]).domain is None


def test_half_spaces_are_kept_for_the_same_domain_only():
    first, second = Barrier(), Barrier()
    shared = cut.WholeSpace()
    one, same, other = (problem(risk, feasible_set=shared) for risk in (first, first, second))
    assert one.has_set_of(same) and not one.has_set_of(other)
    assert not one.has_set_of(problem(first, feasible_set=cut.WholeSpace()))
    cold = one.solve(tol=1e-6)
    warm = other.solve(tol=1e-6, warm_start=cold)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-6)


def test_a_domain_without_a_point_in_the_set_is_infeasible():
    result = problem(Barrier(), feasible_set=cut.Box(-1, 0.01, dim=2)).solve()
    assert result.status == "INFEASIBLE"


class Rough(cut.OnDemandRisk):
    """max over 0 <= v <= 1 of <v, x - 1>, v off by as much as allowed."""

    dim = 2

    def __init__(self):
        self.accuracies = []

    def estimate(self, x, accuracy, start=None):
        self.accuracies.append(accuracy)
        v = (x > 1.0).astype(float)
        slopes, offsets = self.dual_cut(v)
        spare = min(accuracy, 1e-3)
        return cut.risks.Estimate(slopes @ x + offsets + spare, slopes, offsets, v)

    def dual_cut(self, u):
        return u[np.newaxis], -u.sum(keepdims=True)


@pytest.mark.parametrize("separate", [False, True])
def test_sums_keep_on_demand_accuracy(separate):
    @cut.risk(dim=2)
    def distance(x):
        return np.abs(x - 3.0).sum(), np.sign(x - 3.0)

    rough, other = Rough(), Rough()
    total = 0.5 * rough + 2.0 * distance + cut.LinearObjective([0.1, 0.2]) + 0.25 * other
    total = total.disaggregated() if separate else total
    assert isinstance(total, cut.OnDemandRisk) and not total.black_box
    assert total.n_blocks == (4 if separate else 1)
    result = cut.Problem(total, cut.L2(0.1)).solve(tol=1e-6)
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    assert result.objective == pytest.approx(exact(result.x), rel=1e-6)
    assert max(rough.accuracies) > 0.0 and rough.accuracies[1] == pytest.approx(0.5 * other.accuracies[1])
    value, slope = total.oracle(np.array([2.0, 0.0]))
    assert np.sum(value) == pytest.approx(0.75 * 1.0 + 2.0 * 4.0 + 0.2)
    assert np.reshape(slope, (-1, 2)).sum(axis=0) == pytest.approx([0.75 - 2.0 + 0.1, -2.0 + 0.2])


def exact(x):
    return 0.75 * np.maximum(x - 1.0, 0.0).sum() + 2.0 * np.abs(x - 3.0).sum() + x @ [0.1, 0.2] + 0.05 * x @ x
