"""An infeasible model has the status INFEASIBLE by every door; sides that rounding crosses are equal."""

import cvxpy as cp
import numpy as np
import pytest

import cutplane as cut

W = cp.Variable(2, name="w")
CONTRADICTION = np.array([[1.0, 0.0], [-1.0, 0.0]]), [0.0, -1.0]
HINGE = cut.LinearRisk(np.eye(2), [1.0, -1.0], cut.losses.Hinge())


@cut.risk(dim=2)
def distance(x):
    return float(np.abs(x - 1.0).sum()), np.sign(x - 1.0)


@cut.separation_oracle
def apart(x):
    walls = cut.HalfSpace([1.0, 0.0], 0.0), cut.HalfSpace([-1.0, 0.0], -1.0)
    return [wall for wall in walls if wall.normal @ x > wall.offset]


class Nowhere(cut.FeasibleSet):
    def violation(self, x):
        return float(max(1.0 - x[0], x[0] + 1.0))

    def cvxpy_form(self, x):
        return [x[0] >= 1.0, x[0] <= -1.0]


def second_stage(*constraints):
    y = cp.Variable()
    return cut.ValueFunction(cp.Problem(cp.Minimize(y), [y >= cp.sum(W), *(c(y) for c in constraints)]), W)


SETS = {
    "polyhedron": cut.Polyhedron(*CONTRADICTION),
    "equations": cut.Polyhedron(A_eq=[[1.0, 1.0], [1.0, 1.0]], b_eq=[1.0, 2.0]),
    "boxes": cut.Box(0, 1) & cut.Box(2, 3),
    "boxes of a dimension": cut.Box(0, 1) & cut.Box(2, [3, 4]),
    "three boxes": cut.Box(0, 1) & cut.Box(2, 3) & cut.Box(0, 3),
    "box and simplex": cut.Simplex(2) & cut.Box(-1, 0.2),
    "ball and box": cut.L2Ball(1.0) & cut.Box(2, 3),
    "ball and plane": cut.L2Ball(1.0) & cut.Polyhedron(A_eq=[[1.0, 1.0]], b_eq=[10.0]),
    "polyhedron and box": cut.Polyhedron([[1.0, 1.0]], [-5.0]) & cut.Box(0, 1),
    "cvxpy": cut.CvxpySet([W >= 1, W <= 0], W),
    "cvxpy cone": cut.CvxpySet([cp.norm(W) <= 1, cp.sum(W) >= 3], W),
    "a user's": Nowhere(),
    "oracle": cut.Box(-5, 5) & apart,
    "oracle alone": apart,
    "beyond rounding": cut.Polyhedron(CONTRADICTION[0], [0.3, -0.3 - 1e-6]),
}


@pytest.mark.parametrize("method", ["auto", "direct", "proximal", "bmrm", "frankwolfe"])
@pytest.mark.parametrize("risk", [distance, HINGE])
@pytest.mark.parametrize("name", SETS)
def test_an_empty_set_is_infeasible(name, risk, method):
    try:
        result = cut.Problem(risk, cut.L2(0.1), SETS[name]).solve(method, time_limit=10)
    except cut.MissingCapabilityError:
        return
    assert result.status == "INFEASIBLE" and result.x is None and result.objective == np.inf


PROBLEMS = {
    "domain of a regularizer": cut.Problem(distance, cut.NegativeEntropy(0.1), cut.Box(-2, -1)),
    "half of a domain": cut.Problem(distance, cut.NegativeEntropy(0.1), cut.Polyhedron([[1.0, 0.0]], [-1.0])),
    "domain of a risk": cut.Problem(
        cut.CvxpyRisk(cp.sum(-cp.log(W)), W), None, cut.CvxpySet([W <= -1, W >= -3], W)
    ),
    "domain of a risk in a box": cut.Problem(cut.CvxpyRisk(-cp.log(W[0]), W), cut.L2(0.1), cut.Box(-3, -1)),
    "second stage in no case": cut.Problem(
        second_stage(lambda y: y >= 0, lambda y: y <= -1), None, cut.Box(0, 1)
    ),
    "second stage here": cut.Problem(second_stage(lambda y: y <= 1), None, cut.Box(2, 3)),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_domains_that_do_not_meet_are_infeasible(name):
    result = PROBLEMS[name].solve(time_limit=10)
    assert result.status == "INFEASIBLE" and result.x is None


MODELS = {
    "bounds": [W >= 1, W <= 0],
    "bounds of one": [W[0] >= 1, W[0] <= 0],
    "norm": [cp.norm(W) <= 1, cp.sum(W) >= 3],
    "negative norm": [cp.norm(W) <= -1],
    "equations": [W == 1, W == 0],
    "capped simplex": [W >= 0, cp.sum(W) == 1, W <= 0.2],
    "constant": [cp.Constant(1) <= 0],
    "negative sum": [W >= 0, cp.sum(W) == -1],
    "bounds and a cone": [W >= 1, W <= 0, cp.norm(W) <= 1],
}


@pytest.mark.parametrize("objective", [cp.norm1(W - 1) + 0.1 * cp.sum_squares(W), cp.sum(W), cp.norm1(W)])
@pytest.mark.parametrize("name", MODELS)
def test_an_infeasible_model_of_cvxpy_is_infeasible(name, objective):
    result = cut.from_cvxpy(cp.Problem(cp.Minimize(objective), MODELS[name])).solve(time_limit=10)
    assert result.status == "INFEASIBLE"


SUM = 0.1 + 0.2  # 0.30000000000000004


@pytest.mark.parametrize(
    "feasible_set",
    [
        cut.Box(SUM, 0.3),
        cut.Box([SUM, 0.0], [0.3, 1.0]),
        cut.Box([-0.3, 0.0], [-SUM, 1.0]),
        cut.Box(SUM, 1.0) & cut.Box(0.0, 0.3),
        cut.Polyhedron(CONTRADICTION[0], [0.3, -SUM]),
        cut.Box(1e9 * SUM, 1e9 * 0.3),
    ],
)
def test_sides_that_rounding_crosses_are_equal(feasible_set):
    result = cut.Problem(distance, cut.L2(0.1), feasible_set).solve()
    assert result.status == "OPTIMAL"
    assert feasible_set.violation(result.x) <= 1e-12 * np.abs(result.x).max()


@pytest.mark.parametrize("lower, upper", [(0.3 + 1e-10, 0.3), (np.inf, np.inf), (1e-300, 0.0)])
def test_an_empty_box_shows_all_digits(lower, upper):
    with pytest.raises(cut.InvalidInputError) as caught:
        cut.Box(lower, upper)
    assert repr(lower) in str(caught.value) and repr(upper) in str(caught.value)
