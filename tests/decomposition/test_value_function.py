"""Value functions: their values and cuts, their domain, and first stages against the extensive form."""

import pickle
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.decomposition import canonical
from cutplane.decomposition.conic import ConicStage
from cutplane.decomposition.recourse import KnownBases, LinearRecourse
from cutplane.decomposition.stage import LinearStage, SolvedStage
from cutplane.pieces.forms import LinearForm

DIM, ROWS, COLUMNS = 3, 4, 5
COSTS = np.array([0.3, 0.4, 0.5])


def programme(kind, rng):
    """Return a second stage, its variable, its parameters and what they may be."""
    x, y = cp.Variable(DIM, name="x"), cp.Variable(COLUMNS, name="y")
    h, T = cp.Parameter(ROWS, name="h"), cp.Parameter((ROWS, DIM), name="T")
    q = cp.Parameter(COLUMNS, nonneg=True, name="q")
    W, base = rng.uniform(0.2, 1.0, (ROWS, COLUMNS)), rng.uniform(1.0, 2.0, COLUMNS)
    rows = [W @ y >= h - T @ x, y >= 0]
    if kind == "recourse":
        problem = cp.Problem(cp.Minimize(q @ y + 0.1 * cp.sum(x) + 1.0), rows)
    elif kind == "bounded":
        problem = cp.Problem(cp.Minimize(base @ y), [*rows, y <= 0.8])
    elif kind == "equations":
        problem = cp.Problem(cp.Minimize(base @ y), [W @ y == h - T @ x, y >= 0])
    elif kind == "absolute":
        problem = cp.Problem(cp.Minimize(cp.norm1(y) + cp.max(y)), [rows[0], cp.sum(y) + x[0] >= 1.0])
    elif kind == "quadratic":
        problem = cp.Problem(cp.Minimize(base @ y + cp.sum_squares(y - x[0])), [*rows, y <= 0.8])
    elif kind == "cones":
        problem = cp.Problem(cp.Minimize(cp.norm(y) + cp.sum(cp.exp(y - x[1]))), [*rows, cp.norm(y) <= 1.8])
    else:
        M = cp.Variable((2, 2), symmetric=True)
        problem = cp.Problem(
            cp.Minimize(base @ y + cp.trace(M)), [*rows, M >> cp.diag(y[:2]), M[0, 1] == 0.1]
        )
    draws = {
        h: lambda: rng.uniform(1.0, 4.0, ROWS),
        T: lambda: rng.uniform(0.2, 1.0, (ROWS, DIM)),
        q: lambda: rng.uniform(1.0, 2.0, COLUMNS),
    }
    draws[T]()
    fixed = draws[T]()
    names = [parameter.name() for parameter in problem.parameters()]
    used = [parameter for parameter in draws if parameter.name() in names]
    scenarios = [{parameter: draws[parameter]() for parameter in used} for _ in range(7)]
    if kind == "equations":  # one matrix, and sides that can be reached
        shares = rng.uniform(0.1, 1.0, (7, COLUMNS))
        scenarios = [{h: W @ share + fixed @ np.ones(DIM), T: fixed} for share in shares]
    return problem, x, scenarios


KINDS = ["recourse", "bounded", "equations", "absolute", "quadratic", "cones", "semidefinite"]
LINEAR = KINDS[:4]


def whole(Q, x, upper=6.0):
    """Return the optimal value of both stages as one problem."""
    written_out = Q.extensive()
    first = [x >= 0, x <= upper]
    objective = cp.Minimize(written_out.objective.expr + COSTS @ x)
    return cp.Problem(objective, [*written_out.constraints, *first]).solve(solver="CLARABEL")


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_stage_agrees_with_the_extensive_form(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    problem, x, scenarios = programme(kind, rng)
    weights = rng.dirichlet(np.ones(len(scenarios)))
    Q = cut.ValueFunction(problem, x, scenarios, weights)
    assert all(type(stage) is (LinearStage if kind in LINEAR else ConicStage) for stage in Q.stages)
    first_stage = cut.Problem(Q + cut.LinearObjective(COSTS), feasible_set=cut.Box(0, 6))
    result = first_stage.solve(tol=1e-6)
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(whole(Q, x), rel=1e-5)
    assert result.certificate.verify().valid
    assert not first_stage.separators[0].separate(result.x)


@pytest.mark.parametrize("kind", ["recourse", "absolute", "quadratic", "semidefinite"])
def test_cuts_hold_everywhere(kind):
    problem, x, scenarios = programme(kind, np.random.default_rng(5))
    Q = cut.ValueFunction(problem, x, scenarios, n_groups=3)
    assert cut.testing.check_risk(Q, cut.Box(2, 6), n_points=6)
    rng = np.random.default_rng(6)
    points = rng.uniform(2.0, 6.0, (8, DIM))
    values = [Q.estimate(point, 0.0) for point in points]
    for answer in values:
        forged = answer.multipliers * rng.choice([0.9, 1.0, 1.1], answer.multipliers.size)
        slopes, offsets = Q.dual_cut(forged)
        for point, there in zip(points, values, strict=True):
            assert (slopes @ point + offsets <= there.values + 1e-7).all()


@pytest.mark.parametrize("kind", ["bounded", "equations", "quadratic", "cones"])
def test_half_spaces_hold_on_the_domain_and_cut_off_what_is_outside(kind):
    rng = np.random.default_rng(3)
    problem, x, scenarios = programme(kind, rng)
    Q = cut.ValueFunction(problem, x, scenarios)
    alone = cp.Problem(cp.Minimize(0), problem.constraints)
    inside, outside = [], []
    for point in rng.uniform(0.0, 1.3, (8, DIM)):
        feasible = True
        for scenario in scenarios:
            for parameter, value in scenario.items():
                parameter.value = value
            x.value = point
            fixed = cp.Problem(alone.objective, [*alone.constraints, x == point])
            feasible &= fixed.solve(solver="CLARABEL") < np.inf
        (inside if feasible else outside).append(point)
    assert outside and all(Q.separate(point) for point in outside)
    for far in outside:
        assert np.isinf(Q.oracle(far)[0]).all()
        for half_space in Q.separate(far):
            assert half_space.normal @ far > half_space.offset
            assert all(half_space.normal @ point <= half_space.offset + 1e-9 for point in inside)
    for point in inside:
        assert not Q.separate(point) and np.isfinite(Q.oracle(point)[0]).all()
    assert inside or kind == "equations"


def test_groups_and_threads_change_nothing():
    problem, x, scenarios = programme("recourse", np.random.default_rng(1))
    plain = cut.ValueFunction(problem, x, scenarios, n_groups=1)
    point = np.array([1.0, 2.0, 0.5])
    value, slope = plain.oracle(point)
    for Q in (
        cut.ValueFunction(problem, x, scenarios, n_groups=3, n_jobs=2),
        cut.ValueFunction(problem, x, scenarios, np.full(7, 1 / 7), n_jobs=3),
        pickle.loads(pickle.dumps(cut.ValueFunction.of_stages(plain.stages, DIM, n_groups=2))),
    ):
        values, slopes = Q.oracle(point)
        assert values.shape == (Q.n_blocks,) and slopes.shape == (Q.n_blocks, DIM)
        assert values.sum() == pytest.approx(float(value[0]))
        assert slopes.sum(axis=0) == pytest.approx(slope[0])
    assert repr(plain) == "ValueFunction(7 scenarios, dim=3, n_groups=1)"
    assert (plain.splits_sums, Q.splits_sums) == (False, True)


def test_a_point_that_is_changed_in_place_is_another_point():
    problem, x, scenarios = programme("recourse", np.random.default_rng(1))
    Q, point = cut.ValueFunction(problem, x, scenarios), np.full(DIM, 2.0)
    before = Q.estimate(point, 0.0).values.sum()
    point += 1.0
    assert Q.estimate(point, 0.0).values.sum() < before


def test_scenarios_share_what_they_agree_in():
    problem, x, scenarios = programme("recourse", np.random.default_rng(1))
    first, second, *_ = cut.ValueFunction(problem, x, scenarios).stages
    assert first.W is second.W and first.lower is second.lower
    assert first.T is not second.T and first.cost is not second.cost
    assert (first.lower == 0.0).all() and first.W.shape == (ROWS, COLUMNS)  # bounds are no rows
    assert scenarios[0].keys() <= set(problem.parameters())
    assert all(parameter.value is None for parameter in problem.parameters())


def test_a_problem_without_a_solution_is_infeasible():
    x, y, h = cp.Variable(2), cp.Variable(2), cp.Parameter(2)
    tight = cp.Problem(cp.Minimize(cp.sum(y)), [y >= h - x, y <= 1, y >= 0])
    Q = cut.ValueFunction(tight, x, [{h: [1.0, 5.0]}, {h: [3.0, 2.0]}])
    result = cut.Problem(Q, feasible_set=cut.Box(0, 3)).solve()
    assert result.status == "INFEASIBLE" and result.x is None
    assert cut.Problem(Q, feasible_set=cut.Box(0, 6)).solve(tol=1e-8).objective == pytest.approx(0.0)
    start = cut.Problem(Q, feasible_set=cut.Box(0, 6)).solve(x0=[0.0, 3.5], tol=1e-8)
    assert start.status == "OPTIMAL"


def test_cuts_and_half_spaces_serve_another_first_stage():
    problem, x, scenarios = programme("bounded", np.random.default_rng(2))
    Q = cut.ValueFunction(problem, x, scenarios)
    cold = cut.Problem(Q + cut.LinearObjective(COSTS), feasible_set=cut.Box(0, 6)).solve("proximal", tol=1e-8)
    total = Q + cut.LinearObjective(COSTS)
    smaller = cut.Problem(total, feasible_set=cut.Box(0, 5.5))
    warm = smaller.solve("proximal", tol=1e-8, warm_start=cold)
    assert warm.status == "OPTIMAL"
    assert warm.objective == pytest.approx(smaller.solve(tol=1e-8).objective, rel=1e-7)
    assert warm.oracle_calls < cold.oracle_calls
    again = cut.Problem(total, feasible_set=cut.Box(0, 5.5)).solve(tol=1e-8, warm_start=warm)
    assert again.objective == pytest.approx(warm.objective, rel=1e-7)


def test_an_unbounded_second_stage_is_named():
    x, y = cp.Variable(1), cp.Variable(1)
    with pytest.raises(cut.OracleError, match="unbounded below"):
        cut.ValueFunction(cp.Problem(cp.Minimize(-cp.sum(y)), [y >= x]), x).oracle(np.ones(1))
    with pytest.raises(cut.OracleError, match="bounded below"):
        problem = cp.Problem(cp.Minimize(cp.exp(x[0]) - cp.sum(y)), [y >= x])
        cut.ValueFunction(problem, x).oracle(np.ones(1))


def test_what_does_not_fit_is_refused():
    x, y, h = cp.Variable(2, name="x"), cp.Variable(2), cp.Parameter(2, name="h")
    problem = cp.Problem(cp.Minimize(cp.sum(y)), [y >= h - x])

    def refused(match, *arguments, error=cut.InvalidInputError, **options):
        with pytest.raises(error, match=match):
            cut.ValueFunction(*arguments, **options)

    refused("needs a cvxpy.Problem", cp.sum(y), x)
    refused("needs a minimisation", cp.Problem(cp.Maximize(-cp.sum(y)), problem.constraints), x)
    concave = cp.Problem(cp.Minimize(cp.sqrt(y[0])), [y >= x])
    refused("convex by cvxpy's rules", concave, x, error=cut.NotConvexError)
    refused("does not occur", cp.Problem(cp.Minimize(cp.sum(y)), [y >= 0]), x)
    refused("continuous", cp.Problem(cp.Minimize(cp.Variable(integer=True) + x[0])), x)
    refused("at least one scenario", problem, x, [])
    refused(r"\['h'\] have no value in scenario 0", problem, x)
    refused("must map cvxpy parameters", problem, x, [{"h": [1.0, 2.0]}])
    refused("parameter h: Invalid dimensions", problem, x, [{h: [1.0, 2.0, 3.0]}])
    refused("weights must be >= 0", problem, x, [{h: [1.0, 2.0]}], [-1.0])
    refused("weights", problem, x, [{h: [1.0, 2.0]}], [0.5, 0.5])
    curved = cp.Problem(cp.Minimize(cp.sum_squares(y)), problem.constraints)
    stages = cut.ValueFunction(curved, x, [{h: [1.0, 2.0]}]).stages
    with pytest.raises(cut.InvalidInputError, match="needs linear stages"):
        cut.ValueFunction.of_stages(stages, 2).extensive()


def test_a_coefficient_that_vanishes_in_a_scenario_is_no_bound():
    x, y, a, h = cp.Variable(1), cp.Variable(1), cp.Parameter(), cp.Parameter()
    problem = cp.Problem(cp.Minimize(cp.sum(y)), [a * y >= h, y >= x])
    Q = cut.ValueFunction(problem, x, [{a: 2.0, h: 3.0}, {a: 0.0, h: -1.0}, {a: -1.0, h: -9.0}])
    assert Q.oracle(np.ones(1))[0] * 3 == pytest.approx([1.5, 1.0, 1.0])
    assert len(Q.separate(np.array([10.0]))) == 1
    never = cut.ValueFunction(problem, x, [{a: 0.0, h: 1.0}])
    result = cut.Problem(never, feasible_set=cut.Box(0, 1)).solve()
    assert result.status == "INFEASIBLE"
    assert "Scenario 0 has no feasible second stage for any x" in result.reason


def test_linear_stages_are_written_out_too():
    problem, x, scenarios = programme("recourse", np.random.default_rng(8))
    Q = cut.ValueFunction(problem, x, scenarios)
    again = cut.ValueFunction.of_stages(Q.stages, DIM)
    z = cp.Variable(DIM)
    written_out = again.extensive(z)
    objective = cp.Minimize(written_out.objective.expr + COSTS @ z)
    value = cp.Problem(objective, [*written_out.constraints, z >= 0, z <= 6]).solve(solver="CLARABEL")
    assert value == pytest.approx(whole(Q, x), rel=1e-6)


def test_a_half_space_does_not_depend_on_what_was_asked_before():
    rng = np.random.default_rng(3)
    x, y = cp.Variable(2), cp.Variable(3)
    W, T = rng.integers(-2, 3, (6, 3)), rng.integers(-2, 3, (6, 2))
    h = cp.Parameter(6)
    second = cp.Problem(cp.Minimize(cp.sum(y)), [W @ y >= h - T @ x, y >= 0])
    Q = cut.ValueFunction(second, x, scenarios=[{h: rng.integers(-2, 3, 6)} for _ in range(3)])
    points = rng.integers(-3, 4, (40, 2)).astype(float)
    first = [Q.separate(point) for point in points]
    for point, known in reversed(list(zip(points, first, strict=True))):
        again = Q.separate(point)
        assert [(*h.normal, h.offset) for h in again] == [(*h.normal, h.offset) for h in known]


@pytest.mark.parametrize("kind", ["bounded", "quadratic"])
def test_answers_are_as_exact_whatever_the_unit_of_the_costs(kind):
    unit = 1e-9
    problem, x, scenarios = programme(kind, np.random.default_rng(5))
    Q = cut.ValueFunction(problem, x, scenarios)
    small = cut.ValueFunction(cp.Problem(unit * problem.objective, problem.constraints), x, scenarios)
    point = np.full(DIM, 3.0)
    (values, *_), (tiny, slopes, offsets, _) = Q.estimate(point, 0.0), small.estimate(point, 0.0)
    np.testing.assert_allclose(tiny / unit, values, rtol=1e-7)
    np.testing.assert_allclose((slopes @ point + offsets) / unit, values, rtol=1e-7)


class Rough:
    """A second stage whose solution, or whose dual point, is off by 1; its value is 0."""

    n_multipliers = 1

    def __init__(self, value, height):
        self.value, self.height = value, height

    def cut(self, multipliers):
        return np.zeros(1), self.height

    def solver(self):
        return lambda stage, x: SolvedStage(stage.value, np.zeros(1))


def test_each_scenario_is_worth_the_better_of_its_solution_and_its_dual_point():
    Q = cut.ValueFunction.of_stages([Rough(0.0, -1.0), Rough(-1.0, 0.0)], 1, n_groups=1)
    answer = Q.estimate(np.zeros(1), 0.0)
    assert answer.values == [0.0] and answer.offsets == [-0.5]


@pytest.mark.parametrize("kind", KINDS)
def test_a_problem_is_compiled_once_for_all_scenarios(kind, monkeypatch):
    problem, x, scenarios = programme(kind, np.random.default_rng(2))
    compiled = []
    plain = cp.Problem.get_problem_data
    monkeypatch.setattr(
        cp.Problem, "get_problem_data", lambda *args, **kw: compiled.append(0) or plain(*args, **kw)
    )
    shared = cut.ValueFunction(problem, x, scenarios)
    assert len(compiled) == 1
    monkeypatch.setattr(canonical._Affine, "of", lambda *args: None)
    anew = cut.ValueFunction(problem, x, scenarios)
    assert len(compiled) == 1 + len(scenarios)
    u = np.random.default_rng(0).standard_normal(sum(stage.n_multipliers for stage in anew.stages))
    for mine, other in zip(shared.dual_cut(u), anew.dual_cut(u), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_parameters_that_cvxpy_has_to_evaluate_first_are_taken_too():
    x, y, a = cp.Variable(1), cp.Variable(1), cp.Parameter(pos=True)
    problem = cp.Problem(cp.Minimize(y[0]), [y >= cp.square(a) * a - x])
    assert not problem.is_dcp(dpp=True)
    Q = cut.ValueFunction(problem, x, [{a: 1.0}, {a: 2.0}])
    assert Q.oracle(np.zeros(1))[0] == pytest.approx([0.5, 4.0])


@pytest.mark.parametrize("kind", LINEAR)
def test_a_known_basis_gives_what_a_linear_programme_gives(kind, monkeypatch):
    problem, x, scenarios = programme(kind, np.random.default_rng(4))
    Q = cut.ValueFunction(problem, x, scenarios)
    points = np.random.default_rng(0).uniform(1.5, 5.0, (12, DIM))
    mine = [Q.estimate(point, 0.0) for point in points if not Q.separate(point)]
    monkeypatch.setattr(KnownBases, "_worthwhile", False)
    Q = cut.ValueFunction(problem, x, scenarios)
    others = [Q.estimate(point, 0.0) for point in points if not Q.separate(point)]
    assert len(mine) == len(others)
    for one, other in zip(mine, others, strict=True):
        np.testing.assert_allclose(one.values, other.values, rtol=1e-9, atol=1e-9)


def test_scenarios_with_one_basis_take_one_linear_programme(monkeypatch):
    x, y, d = cp.Variable(1), cp.Variable(2), cp.Parameter(1)
    problem = cp.Problem(cp.Minimize(y[0] + 3 * y[1]), [y[:1] + y[1:] >= d - x, y >= 0, y[0] <= 5])
    Q = cut.ValueFunction(problem, x, [{d: [value]} for value in (2.0, 3.0, 4.0, 7.0, 8.0)])
    solved = []
    plain = LinearRecourse._solve
    monkeypatch.setattr(LinearRecourse, "_solve", lambda *args: solved.append(0) or plain(*args))
    for point, values in ((0.0, [2.0, 3.0, 4.0, 11.0, 14.0]), (-1.0, [3.0, 4.0, 5.0, 14.0, 17.0])):
        np.testing.assert_allclose(5 * Q.estimate(np.array([point]), 0.0).values, values)
    assert len(solved) == 2


def test_what_a_solution_violates_is_charged_to_its_value():
    """The least of 2 y over y >= 0 and y >= -1 + x is 0 at x = 0, also with a y slightly below."""
    one = sparse.csr_array([[1.0]])
    numbers = np.array([-1.0]), np.array([np.inf]), np.array([2.0]), np.array([0.0]), np.array([np.inf])
    stage = LinearStage(-one, one, *numbers, np.zeros(1))
    form = LinearForm(stage.cost, stage.lower, stage.upper, stage.W, stage.row_lower, stage.row_upper)
    solved = stage.solved(form, np.zeros(1), np.array([-5e-10]), np.zeros(1))
    assert solved.value == 0.0
    slope, offset = replace(stage, lower=np.array([-np.inf])).cut(np.array([1.9]))
    assert slope[0] == 1.9 and offset <= -2.0  # the value at x = 0, where y is -1
