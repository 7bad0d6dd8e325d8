"""cutplane.testing: clean pieces pass, every planted mistake is found by the check meant to find it."""

from dataclasses import dataclass, replace

import cvxpy as cp
import doors
import numpy as np
import pytest
import scipy.sparse as sp
from formulations import FORMULATIONS, LOSSES, data, formulation
from hypothesis import given, settings
from hypothesis import strategies as st
from nonsmooth import PROBLEMS
from regularizer_cases import REGULARIZERS
from set_cases import SETS

import cutplane as cut
from cutplane.pieces.forms import DiagonalQuadratic, bounds_only
from cutplane.pieces.lines import Line
from cutplane.regularizers import Minimum, Regularizer
from cutplane.risks import ImagedRisk, Risk
from cutplane.sets import FeasibleSet
from cutplane.testing import check_regularizer, check_risk, check_separation, check_set

DIM = 5
RNG = np.random.default_rng(3)
A, B = RNG.normal(size=(40, DIM)), RNG.normal(size=40)


def failed(report):
    assert not report
    return " | ".join(check.name for check in report.failures)


# ---------------------------------------------------------------- risks


def absolute(x):
    r = A @ x - B
    return np.abs(r).mean(), A.T @ np.sign(r) / len(B)


def blocks(x):
    r = A @ x - B
    return np.array([np.abs(r[:10]).sum(), np.abs(r[10:]).sum()]), np.array(
        [A[:10].T @ np.sign(r[:10]), A[10:].T @ np.sign(r[10:])]
    )


def entropy(x):
    return (float(x @ np.log(x)), 1.0 + np.log(x)) if (x > 0).all() else (np.inf, np.zeros_like(x))


X, Y = data()
x_cvxpy = cp.Variable(DIM, name="x")


def of_data(name, kind):
    loss, target = LOSSES[name]
    inputs, y = data(kind=target)
    inputs = {"sparse": sp.csr_array(inputs), "float32": inputs.astype(np.float32)}.get(kind, inputs)
    return cut.LinearRisk(inputs, y, loss, blocks=3 if kind == "3 blocks" else 1)


KINDS = ("dense", "sparse", "float32", "3 blocks")
CLEAN_RISKS = {
    **{f"{name}, {kind}": of_data(name, kind) for name in ("hinge", "squared", "logistic") for kind in KINDS},
    "one row": cut.LinearRisk(X[:1], Y[:1], cut.losses.Hinge()),
    "one column": cut.LinearRisk(X[:, :1], Y, cut.losses.Hinge()),
    "zero data": cut.LinearRisk(np.zeros((4, 2)), [1.0, -1.0, 1.0, 1.0], cut.losses.Hinge()),
    "duplicate rows": cut.LinearRisk(
        np.repeat(X[:3], 5, axis=0), np.repeat(Y[:3], 5), cut.losses.SquaredHinge()
    ),
    "weights with zeros": cut.LinearRisk(X, Y, cut.losses.Hinge(), sample_weight=np.arange(len(Y)) % 3),
    "linear": cut.LinearObjective(np.array([1.0, -2.0, 0.0])),
    "zero": cut.LinearObjective(np.zeros(3)),
    "sum": 0.5 * cut.LinearRisk(X, Y, cut.losses.Hinge()) + cut.LinearRisk(X, Y, cut.losses.Logistic()),
    "disaggregated sum": (
        0.5 * cut.LinearRisk(X, Y, cut.losses.Hinge()) + cut.LinearRisk(X, Y, cut.losses.Hinge(), blocks=2)
    ).disaggregated(),
    "sum without image": cut.risk(dim=DIM)(absolute) + cut.LinearObjective(np.ones(DIM)),
    "oracle": cut.risk(dim=DIM, infimum=0.0)(absolute),
    "blocks": cut.risk(dim=DIM, blocks=2, infimum=0.0)(blocks),
    "cvxpy": cut.CvxpyRisk(cp.norm1(A @ x_cvxpy - B) + cp.sum_squares(x_cvxpy), x_cvxpy),
    "inf outside its domain": cut.risk(dim=1)(entropy),
    **{f"classical: {problem}": problem.risk() for problem in PROBLEMS},
}


@pytest.mark.parametrize("name", CLEAN_RISKS)
def test_clean_risks_pass(name):
    report = check_risk(CLEAN_RISKS[name], n_points=8)
    assert report and len(report.checks) >= 8


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize("name", ["hinge, dense", "squared, dense", "oracle", "blocks", "cvxpy"])
def test_clean_risks_pass_at_every_scale(name, scale):
    assert check_risk(CLEAN_RISKS[name], scale=scale, n_points=8)


PIECES = [door for door in doors.PIECES if isinstance(door.make(**door.arguments), doors.KINDS[:3])]


@pytest.mark.parametrize("door", PIECES, ids=lambda door: door.name)
def test_every_piece_of_the_table_of_doors_passes(door):
    piece = door.make(**door.arguments)
    if isinstance(piece, Risk):
        assert check_risk(piece, n_points=4)
    elif isinstance(piece, Regularizer):
        assert check_regularizer(piece, 3, n_points=4)
    else:
        assert check_set(piece, 3, n_points=4)


@pytest.mark.parametrize("name", FORMULATIONS)
def test_every_piece_of_every_formulation_passes(name):
    problem, _ = formulation(name)
    assert check_risk(problem.risk, problem.feasible_set, n_points=4)
    assert check_regularizer(
        problem.regularizer, problem.dim, feasible_sets=[problem.feasible_set], n_points=4
    )
    assert check_set(problem.feasible_set, problem.dim, n_points=4)


def flipped(x):
    value, slope = absolute(x)
    slope[3] *= -1.0
    return value, slope


def spoiled(change):
    return lambda x: change(*absolute(x), x)


def nonconvex(x):
    return float(np.minimum(np.abs(x), 1.0).sum()), np.sign(x) * (np.abs(x) < 1.0)


def gently_nonconvex(x):
    return float(0.5 * x @ x + np.cos(2.0 * x).sum()), x - 2.0 * np.sin(2.0 * x)


class Stale:
    """Returns the subgradient of the query before."""

    def __init__(self):
        self.slope = np.zeros(DIM)

    def __call__(self, x):
        value, slope = absolute(x)
        before, self.slope = self.slope, slope
        return value, before


class Reuses:
    """Returns the same array each time."""

    def __init__(self):
        self.slope = np.zeros(DIM)

    def __call__(self, x):
        value, self.slope[:] = absolute(x)
        return value, self.slope


class Samples:
    """A random half of the data each time."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __call__(self, x):
        rows = self.rng.permutation(len(B))[:20]
        r = A[rows] @ x - B[rows]
        return np.abs(r).mean(), A[rows].T @ np.sign(r) / 20


BROKEN_ORACLES = {
    "flipped": (flipped, "nearby"),
    "factor 1/m missing": (spoiled(lambda value, slope, x: (value, len(B) * slope)), "nearby"),
    "factor 1/m twice": (spoiled(lambda value, slope, x: (value, slope / len(B))), "nearby"),
    "missing term": (spoiled(lambda value, slope, x: (value + 0.05 * x @ x, slope)), "nearby"),
    "nonconvex": (nonconvex, "convex on segments"),
    "gently nonconvex": (gently_nonconvex, "convex on segments"),
    "stale": (Stale(), "same answer"),
    "stale, by its slopes": (Stale(), "nearby"),
    "reuses its array": (Reuses(), "survives"),
    "random": (Samples(), "same answer"),
    "nan somewhere": (
        spoiled(lambda value, slope, x: (np.nan if x[0] > 1.0 else value, slope)),
        "right shape and are finite",
    ),
    "crashes": (lambda x: (absolute(x)[0], A.T @ x[:-1]), "right shape and are finite"),
    "no subgradient": (lambda x: float(x @ x), "right shape and are finite"),
    "wrong shape": (lambda x: (float(x @ x), np.zeros(DIM + 1)), "right shape and are finite"),
    "inf everywhere": (lambda x: (np.inf, np.zeros(DIM)), "right shape and are finite"),
}


@pytest.mark.parametrize("name", BROKEN_ORACLES)
def test_mistakes_in_an_oracle_are_found(name):
    oracle, check = BROKEN_ORACLES[name]
    risk = cut.risk(dim=DIM)(oracle)
    assert check in failed(check_risk(risk, raise_on_failure=False))
    with pytest.raises(cut.OracleError, match="OracleRisk"):
        check_risk(risk)


def test_a_wrong_coordinate_is_named_with_the_numbers():
    report = check_risk(cut.risk(dim=DIM)(flipped), raise_on_failure=False)
    near = next(check for check in report.failures if "nearby" in check.name)
    assert "along coordinate 3" in near.detail
    x, z, s = (near.points[name] for name in "xzs")
    assert flipped(z)[0] < flipped(x)[0] + s @ (z - x) - 1e-9
    np.testing.assert_array_equal(s, flipped(x)[1])
    assert "sign" in near.remedy


def test_a_flipped_coordinate_among_many_is_found():
    rows = np.random.default_rng(0).normal(size=(50, 2000))
    signs = np.where(np.arange(2000) == 1234, -1.0, 1.0)

    @cut.risk(dim=2000)
    def norm(x):
        r = rows @ x - 1.0
        return np.abs(r).mean(), signs * (rows.T @ np.sign(r)) / 50

    assert "nearby" in failed(check_risk(norm, raise_on_failure=False))


def test_mistakes_in_blocks_are_found():
    risk = cut.risk(dim=DIM, blocks=2)(lambda x: (blocks(x)[0], blocks(x)[1][::-1]))
    report = check_risk(risk, raise_on_failure=False)
    assert "nearby" in failed(report)
    assert any("f_0" in check.detail or "f_1" in check.detail for check in report.failures)


def test_a_wrong_infimum_is_found():
    assert "infimum" in failed(check_risk(cut.risk(dim=DIM, infimum=1.5)(absolute), raise_on_failure=False))
    assert check_risk(cut.risk(dim=DIM, blocks=2, infimum=[0.0, -np.inf])(blocks))


class Distance(cut.risks.Risk):
    """sum_j (x_j - 1)^2, whose minimiser with a quadratic it knows."""

    dim, factor = DIM, 1.0

    def oracle(self, x):
        return float((x - 1.0) @ (x - 1.0)), 2.0 * (x - 1.0)

    def minimise_with(self, quadratic):
        return self.factor * (2.0 + quadratic.weights * quadratic.centre) / (2.0 + quadratic.weights)


@pytest.mark.parametrize("factor", [0.9, -1.0, np.nan])
def test_a_wrong_minimiser_is_found(factor):
    assert check_risk(Distance())
    wrong = Distance()
    wrong.factor = factor
    assert "minimise_with gives the minimiser" in failed(check_risk(wrong, raise_on_failure=False))


def test_the_minimiser_of_a_squared_loss_passes():
    risk = cut.LinearRisk(A, B, cut.losses.Squared(), intercept=True)
    (check,) = (
        check for check in check_risk(risk).checks if check.name == "minimise_with gives the minimiser"
    )
    assert check.detail == "5 quadratics"


def test_a_mistake_far_away_is_found_at_its_scale():
    risk = cut.risk(dim=DIM)(lambda x: (float(x @ x) if np.abs(x).max() < 100.0 else np.nan, 2.0 * x))
    assert check_risk(risk)
    assert "are finite" in failed(check_risk(risk, scale=1e3, raise_on_failure=False))


def test_writing_to_x_is_found():
    class Writes(Risk):
        dim = 2

        def oracle(self, x):
            value, slope = x @ x, 2.0 * x
            x += 1.0
            return value, slope

    assert "x is not changed" in failed(check_risk(Writes(), raise_on_failure=False))


def test_a_risk_is_only_asked_inside_its_set():
    @cut.risk(dim=DIM)
    def log_barrier(x):
        assert (x > 0.0).all()
        return -float(np.log(x).sum()), -1.0 / x

    assert check_risk(log_barrier, cut.Box(0.01, 1.0))
    assert not check_risk(log_barrier, raise_on_failure=False)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 12), st.floats(-3, 3), st.booleans())
def test_a_random_polyhedral_function_passes_and_its_mutant_fails(seed, dim, pieces, magnitude, spoiled):
    rng = np.random.default_rng(seed)
    slopes, offsets = (
        10.0**magnitude * rng.normal(size=(pieces, dim)),
        10.0**magnitude * rng.normal(size=pieces),
    )
    factor = np.where(np.arange(dim) == dim - 1, -1.0, 1.0) if spoiled else np.ones(dim)

    @cut.risk(dim=dim)
    def largest(x):
        k = int(np.argmax(slopes @ x + offsets))
        return slopes[k] @ x + offsets[k], factor * slopes[k]

    assert bool(check_risk(largest, n_points=8, rng=seed, raise_on_failure=False)) is not spoiled


class Hinges(ImagedRisk):
    """Mean hinge loss, with one part replaced."""

    dim = DIM

    def __init__(self, **parts):
        self.parts = parts

    def image(self, x):
        return self.parts.get("image", lambda x: A @ x)(x)

    def values(self, z):
        return float(np.maximum(0.0, 1.0 - z).mean())

    def slopes(self, z):
        return -A.T @ (z < 1.0) / len(B)

    def combine(self, z0, z1, t):
        return self.parts.get("combine", super().combine)(z0, z1, t)

    def oracle(self, x):
        value, slope = super().oracle(x)
        return value + self.parts.get("oracle", 0.0), slope

    def line(self, z0, z1):
        step = z1 - z0
        kinks = (1.0 - z0) / step

        def evaluate(t):
            z = z0 + t * step
            return self.values(z) + self.parts.get("line", 0.0), self.parts.get("slope", 1.0) * -float(
                step @ ((z < 1.0) | ((z == 1.0) & (step < 0.0)))
            ) / len(B)

        return Line(evaluate, self.parts.get("kinks", lambda kinks: kinks)(kinks))


def into(buffer):
    def image(x):
        np.matmul(A, x, out=buffer)
        return buffer

    return image


def in_place(z0, z1, t):
    z0 += t * (z1 - z0)
    return z0


BROKEN_IMAGES = {
    "affine image": ({"image": lambda x: A @ x + np.sum(x) ** 2}, "combine"),
    "image in a buffer": ({"image": into(np.zeros(len(B)))}, "survives its uses"),
    "combine in place": ({"combine": in_place}, "survives its uses"),
    "combine the other way round": ({"combine": lambda z0, z1, t: z1 + t * (z0 - z1)}, "combine"),
    "other oracle": ({"oracle": 0.1}, "oracle agrees"),
    "line of another function": ({"line": 0.1}, "line gives"),
    "slope of the line": ({"slope": 0.5}, "line gives"),
    "missing kinks": ({"kinks": lambda kinks: kinks[::2]}, "kinks"),
    "no kinks": ({"kinks": lambda kinks: np.empty(0)}, "kinks"),
}


@pytest.mark.parametrize("name", BROKEN_IMAGES)
def test_mistakes_in_images_are_found(name):
    parts, check = BROKEN_IMAGES[name]
    assert check_risk(Hinges())
    assert check in failed(check_risk(Hinges(**parts), raise_on_failure=False))


# ---------------------------------------------------------------- regularizers


CLOSED = ["box", "orthant", "wide simplex", "capped, vectors", "l1, origin", "l2, origin", "nonnegative l2"]
"""Sets with a projection and points >= 0, which entropies need."""


@pytest.mark.parametrize("name", REGULARIZERS)
def test_clean_regularizers_pass(name):
    assert check_regularizer(REGULARIZERS[name], DIM, feasible_sets=[SETS[of] for of in CLOSED], n_points=4)


@dataclass(frozen=True)
class Ridge(Regularizer):
    """lam/2 ||x||^2, right in every part."""

    lam: float = 1.0

    def value(self, x):
        return 0.5 * self.lam * float(x @ x)

    def subgradient(self, x):
        return self.lam * x

    def quadratic(self, dim):
        return DiagonalQuadratic(np.full(dim, self.lam), np.zeros(dim))

    def linear_form(self, dim):
        return None

    def cvxpy_form(self, x):
        return 0.5 * self.lam * cp.sum_squares(x)

    def conjugate_minimiser(self, v, feasible_set, budget):
        x = feasible_set.project(-v / self.lam)
        return Minimum(self.value(x) + float(v @ x), x)


def replaced(**parts):
    return type("Broken", (Ridge,), parts)(0.5)


BROKEN_REGULARIZERS = {
    "concave": ({"value": lambda g, x: -g.lam * float(x @ x)}, "convex"),
    "nan": ({"value": lambda g, x: np.nan}, "are finite"),
    "random": ({"value": lambda g, x: float(x @ x) * RNG.uniform(1, 2)}, "same answer"),
    "lam forgotten": ({"value": lambda g, x: 0.5 * float(x @ x)}, "proportional"),
    "lam squared": ({"value": lambda g, x: 0.5 * g.lam**2 * float(x @ x)}, "proportional"),
    "subgradient": ({"subgradient": lambda g, x: 2.0 * g.lam * x}, "nearby"),
    "subgradient without lam": ({"subgradient": lambda g, x: x}, "nearby"),
    "subgradient of one coordinate": (
        {"subgradient": lambda g, x: g.lam * x * np.where(np.arange(DIM) == 2, -1.0, 1.0)},
        "nearby",
    ),
    "line": ({"line": lambda g, x0, x1: Line(lambda t: (0.0, 0.0))}, "line"),
    "line slope": ({"line": lambda g, x0, x1: Line(lambda t: (g.value(x0 + t * (x1 - x0)), 0.3))}, "line"),
    "quadratic": (
        {"quadratic": lambda g, dim: DiagonalQuadratic(np.full(dim, 0.5 * g.lam), np.zeros(dim))},
        "quadratic gives",
    ),
    "linear form": (
        {
            "linear_form": lambda g, dim: bounds_only(
                np.full(dim, -np.inf), np.full(dim, np.inf), np.ones(dim)
            )
        },
        "linear_form",
    ),
    "cvxpy form": ({"cvxpy_form": lambda g, x: g.lam * cp.sum_squares(x)}, "cvxpy_form"),
    "unit": ({"in_unit": lambda g, unit: replace(g, lam=unit * g.lam)}, "in_unit"),
    "cvxpy form not convex": ({"cvxpy_form": lambda g, x: -cp.sum_squares(x)}, "cvxpy_form"),
    "conjugate too large": (
        {"conjugate_minimiser": lambda g, v, s, b: Minimum(-0.49 * float(v @ v) / g.lam, None)},
        "conjugate_minimiser",
    ),
    "conjugate not attained": (
        {"conjugate_minimiser": lambda g, v, s, b: Minimum(-2.0 * float(v @ v) / g.lam, -v / g.lam)},
        "conjugate_minimiser",
    ),
}


@pytest.mark.parametrize("name", BROKEN_REGULARIZERS)
def test_mistakes_in_a_regularizer_are_found(name):
    parts, check = BROKEN_REGULARIZERS[name]
    broken = replaced(**parts)
    assert check in failed(check_regularizer(broken, DIM, raise_on_failure=False))
    with pytest.raises(cut.InvalidInputError, match="Broken"):
        check_regularizer(broken, DIM)


def test_a_conjugate_that_forgets_the_set_is_found():
    forgets = replaced(
        conjugate_minimiser=lambda g, v, s, b: Minimum(-0.5 * float(v @ v) / g.lam, -v / g.lam)
    )
    assert check_regularizer(forgets, DIM)
    report = check_regularizer(forgets, DIM, feasible_sets=[cut.Box(-0.1, 0.1)], raise_on_failure=False)
    assert "Box" in failed(report)
    assert check_regularizer(replaced(), DIM, feasible_sets=[cut.Box(-0.1, 0.1), cut.Simplex()])


# ---------------------------------------------------------------- sets


@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("name", SETS)
def test_clean_sets_pass(name, scale):
    assert check_set(SETS[name], DIM, scale=scale, n_points=10)


class UnitBox(FeasibleSet):
    """0 <= x <= 1, right in every part."""

    bounded = True

    def violation(self, x):
        return float(np.maximum(-x, x - 1.0).max(initial=0.0))

    def project(self, x):
        return np.clip(x, 0.0, 1.0)

    def minimise_linear(self, v):
        return np.where(v < 0.0, 1.0, 0.0)

    def bounds(self, dim):
        return np.zeros(dim), np.ones(dim)

    def linear_form(self, dim):
        return bounds_only(np.zeros(dim), np.ones(dim))

    def cvxpy_form(self, x):
        return [x >= 0, x <= 1]


def broken_set(**parts):
    return type("Broken", (UnitBox,), parts)()


BROKEN_SETS = {
    "projection outside": ({"project": lambda s, x: np.clip(x, 0.0, 1.1)}, "points of the set"),
    "projection not nearest": ({"project": lambda s, x: np.where(x > 0.5, 1.0, 0.0)}, "nearest point"),
    "projection moves inside points": ({"project": lambda s, x: np.clip(x, 0.1, 0.9)}, "nearest point"),
    "projection not idempotent": ({"project": lambda s, x: np.clip(0.5 * x, 0.0, 1.0)}, "idempotent"),
    "negative violation": ({"violation": lambda s, x: float(np.maximum(-x, x - 1.0).max())}, "violation is"),
    "shell": (
        {
            "violation": lambda s, x: abs(float(np.linalg.norm(x)) - 1.0),
            "project": lambda s, x: x / np.linalg.norm(x) if x.any() else np.eye(len(x))[0],
        },
        "convex",
    ),
    "linear minimiser": ({"minimise_linear": lambda s, v: np.where(v > 0.0, 1.0, 0.0)}, "minimise_linear"),
    "linear minimiser outside": ({"minimise_linear": lambda s, v: -np.sign(v)}, "minimise_linear"),
    "bounds": ({"bounds": lambda s, dim: (np.zeros(dim), np.full(dim, 2.0))}, "bounds"),
    "narrow bounds": ({"bounds": lambda s, dim: (np.zeros(dim), np.full(dim, 0.5))}, "bounds"),
    "linear form": (
        {"linear_form": lambda s, dim: bounds_only(np.full(dim, -1.0), np.ones(dim))},
        "linear_form",
    ),
    "narrow linear form": (
        {"linear_form": lambda s, dim: bounds_only(np.zeros(dim), np.full(dim, 0.5))},
        "linear_form",
    ),
    "cvxpy form": ({"cvxpy_form": lambda s, x: [x >= 0]}, "cvxpy_form"),
    "cvxpy form not convex": ({"cvxpy_form": lambda s, x: [x >= 0, x <= 1, cp.norm(x) >= 0.1]}, "cvxpy_form"),
    "unit": ({"in_unit": lambda s, unit: cut.Box(0.0, unit)}, "in_unit"),
    "unit forgotten": ({"in_unit": lambda s, unit: s}, "in_unit"),
    "entropy": ({"minimise_entropy": lambda s, v, log_reference: np.full(len(v), 0.5)}, "minimise_entropy"),
    "not bounded": (
        {
            "violation": lambda s, x: float(np.max(-x, initial=0.0)),
            "project": lambda s, x: np.maximum(x, 0.0),
        },
        "bounded",
    ),
}


@pytest.mark.parametrize("name", BROKEN_SETS)
def test_mistakes_in_a_set_are_found(name):
    parts, check = BROKEN_SETS[name]
    broken = broken_set(**parts)
    assert check_set(broken_set(), DIM)
    assert check in failed(check_set(broken, DIM, raise_on_failure=False))
    with pytest.raises(cut.InvalidInputError, match="Broken"):
        check_set(broken, DIM)


# ---------------------------------------------------------------- separation oracles


def disc(x):
    norm = np.linalg.norm(x)
    return [] if norm <= 1.0 else [cut.HalfSpace(x / norm, 1.0)]


def semidefinite(x):
    matrix = x.reshape(3, 3)
    lam, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return [
        cut.HalfSpace(-np.outer(v, v).ravel(), 0.0) for a, v in zip(lam, vectors.T, strict=True) if a < -1e-9
    ]


def far_away(x):
    step = x - 100.0
    distance = np.linalg.norm(step)
    return [] if distance <= 1e-3 else [cut.HalfSpace(step, float(step @ (100.0 + 1e-3 * step / distance)))]


CLEAN_ORACLES = {
    "disc": (disc, 2),
    "disc in 50 dimensions": (disc, 50),
    "semidefinite": (semidefinite, 9),
    "small and far away": (far_away, 3),
    "everything": (lambda x: None, 3),
    "box": (cut.separation_oracle(lambda x: [h for h in faces(x) if h.normal @ x > h.offset]), 3),
}


def faces(x):
    return [cut.HalfSpace(sign * row, 1.0) for row in np.eye(len(x)) for sign in (1.0, -1.0)]


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("name", CLEAN_ORACLES)
def test_clean_separation_oracles_pass(name, scale):
    oracle, dim = CLEAN_ORACLES[name]
    report = check_separation(oracle, dim, scale=scale, n_points=10)
    assert report
    assert {check.name for check in report.checks if check.outcome == "not tested"} <= {
        "the points known to be inside are called inside"
    }


class Alternates:
    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return [] if self.calls % 2 else [cut.HalfSpace(np.ones(2), float(x.sum()) - 1.0)]


def ring(x):
    norm = np.linalg.norm(x)
    if norm > 1.0:
        return [cut.HalfSpace(x / norm, 1.0)]
    return [cut.HalfSpace(-x / max(norm, 1e-9), -0.5)] if 0.0 < norm < 0.5 else []


BROKEN_SEPARATIONS = {
    "wrong sign": (lambda x: [cut.HalfSpace(-h.normal, h.offset) for h in disc(x)], "cuts off the point"),
    "normal not normalised": (
        lambda x: [] if x @ x <= 1.0 else [cut.HalfSpace(x, 1.0)],
        "holds at the points",
    ),
    "too deep": (lambda x: [cut.HalfSpace(h.normal, 0.99) for h in disc(x)], "holds at the points"),
    "too shallow": (lambda x: [cut.HalfSpace(h.normal, 1.5) for h in disc(x)], "cuts off the point"),
    "lower triangle only": (
        lambda x: (
            []
            if np.linalg.eigh(x.reshape(2, 2))[0][0] >= 0
            else [cut.HalfSpace(-np.outer(v := np.linalg.eigh(x.reshape(2, 2))[1][:, 0], v).ravel(), 0.0)]
        ),
        "cuts off the point",
    ),
    "not convex": (ring, "holds at the points"),
    "alternates": (Alternates(), "same answer"),
    "wrong dimension": (lambda x: [cut.HalfSpace(np.ones(len(x) + 1), -1.0)], "right dimension"),
    "no half-spaces": (lambda x: [1.0], "right dimension"),
    "crashes": (lambda x: x.missing, "right dimension"),
}


@pytest.mark.parametrize("name", BROKEN_SEPARATIONS)
def test_mistakes_in_a_separation_oracle_are_found(name):
    oracle, check = BROKEN_SEPARATIONS[name]
    dim = 4 if name == "lower triangle only" else 2
    assert check in failed(check_separation(oracle, dim, raise_on_failure=False))
    with pytest.raises(cut.OracleError):
        check_separation(oracle, dim)


def test_two_half_planes_are_not_convex():
    def gap(x):
        return [cut.HalfSpace(np.array([1.0, 0.0]), -1.0)] if abs(x[0]) < 1 else []

    assert "convex set" in failed(check_separation(gap, 2, raise_on_failure=False))


def test_points_known_to_be_inside_are_used():
    thin = cut.separation_oracle(
        lambda x: [] if x[0] == 1.0 else [cut.HalfSpace([np.sign(x[0] - 1.0), 0.0], np.sign(x[0] - 1.0))]
    )
    inside = [[1.0, 0.0], [1.0, 5.0]]
    assert check_separation(thin, 2, inside=inside)
    shifted = cut.separation_oracle(lambda x: disc(x - 3.0))
    assert "known to be inside" in failed(
        check_separation(shifted, 2, inside=[0.0, 0.0], raise_on_failure=False)
    )
    with pytest.raises(cut.InvalidInputError, match=r"shape \(n, 2\)"):
        check_separation(disc, 2, inside=[1.0, 2.0, 3.0])


def test_check_set_examines_the_oracles_in_a_set():
    bad = cut.separation_oracle(BROKEN_SEPARATIONS["too deep"][0])
    assert check_set(cut.Box(-2, 2) & cut.separation_oracle(disc), 2)
    assert "holds at the points" in failed(check_set(cut.Box(-2, 2) & bad, 2, raise_on_failure=False))


# ---------------------------------------------------------------- arguments and reports


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: check_risk(absolute), "decorate a function"),
        (lambda: check_regularizer(cut.L2, 2), "subclass Regularizer"),
        (lambda: check_regularizer(cut.L1(1.0, weights=[1.0, 2.0]), 3), "has dimension 2"),
        (lambda: check_set(cut.Box(0, 1)), "pass dim"),
        (lambda: check_set(disc, 2), "subclass FeasibleSet"),
        (lambda: check_separation(disc), "pass dim"),
        (lambda: check_risk(cut.LinearObjective([1.0]), n_points=1), "n_points"),
        (lambda: check_risk(cut.LinearObjective([1.0]), scale=0.0), "scale"),
    ],
)
def test_wrong_arguments_are_refused(call, words):
    with pytest.raises(cut.InvalidInputError, match=words):
        call()


def test_seeds_and_generators_are_reproducible():
    risk = cut.risk(dim=DIM)(flipped)
    first, second, other = (
        check_risk(risk, rng=rng, raise_on_failure=False).failures[-1].points["x"]
        for rng in (7, np.random.default_rng(7), 8)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)
