"""The largest of several risks: its cuts, its lines, and the dual weights of its parts."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest

import cutplane as cut
import cutplane.pieces.lines
from cutplane.engine.line_search import minimise_on_line
from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.lines import Line, PiecewiseLinear
from cutplane.risks import ImagedRisk, LinearRisk, Maximum, OracleRisk, Risk
from cutplane.testing import check_risk

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 4))
SCORE = X @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.7 * RNG.standard_normal(90)
Y = np.where(SCORE > 0, 1.0, -1.0)
GROUPS = [np.arange(0, 60), np.arange(60, 80), np.arange(80, 90)]
V = cp.Variable(4)
SHIFT = np.array([1.0, -2.0, 0.0, 3.0])


def box(A, y):
    """A hinge known as a function only, whose answers are in buffers used again."""
    value, slope = np.zeros(()), np.zeros(A.shape[1])

    def function(w):
        value[...] = np.maximum(0, 1 - y * (A @ w)).mean()
        slope[:] = -A.T @ (y * (y * (A @ w) < 1)) / len(y)
        return value, slope

    return OracleRisk(function, A.shape[1], infimum=0.0)


def expression(loss):
    return cp.maximum(*[loss(group) for group in GROUPS])


def hinge(g):
    return cp.sum(cp.pos(1 - cp.multiply(Y[g], X[g] @ V))) / len(g)


def squared(g):
    return 0.5 * cp.sum_squares(X[g] @ V - SCORE[g]) / len(g)


def logistic(g):
    return cp.sum(cp.logistic(-cp.multiply(Y[g], X[g] @ V))) / len(g)


def parts(loss, y=Y, **options):
    return [LinearRisk(X[g], y[g], loss, **options) for g in GROUPS]


MIXED = [*parts(cut.losses.Hinge())[:2], LinearRisk(X[GROUPS[2]], SCORE[GROUPS[2]], cut.losses.Squared())]
CASES = {
    "hinge": (parts(cut.losses.Hinge()), expression(hinge)),
    "squared": (parts(cut.losses.Squared(), SCORE), expression(squared)),
    "logistic": (parts(cut.losses.Logistic()), expression(logistic)),
    "blocks": (parts(cut.losses.Hinge(), blocks=3), expression(hinge)),
    "mixed": (MIXED, cp.maximum(hinge(GROUPS[0]), hinge(GROUPS[1]), squared(GROUPS[2]))),
    "functions": ([box(X[g], Y[g]) for g in GROUPS], expression(hinge)),
    "linear": ([cut.LinearObjective(c).shift(SHIFT) for c in X[:9]], cp.max(X[:9] @ (V + SHIFT))),
    "one": (parts(cut.losses.Hinge())[:1], hinge(GROUPS[0])),
    "sum": ([0.5 * parts(cut.losses.Hinge())[0] + cut.LinearObjective(X[0]), parts(cut.losses.Hinge())[1]],
            cp.maximum(0.5 * hinge(GROUPS[0]) + X[0] @ V, hinge(GROUPS[1]))),
}  # fmt: skip


def minimum(objective, constraints=()):
    problem = cp.Problem(cp.Minimize(objective), list(constraints))
    return problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)


@pytest.mark.parametrize("risks", [risks for risks, _ in CASES.values()], ids=CASES)
def test_a_maximum_keeps_its_word(risks):
    f = cut.maximum(*risks)
    assert check_risk(f, n_points=6)
    assert isinstance(f, ImagedRisk) == all(isinstance(part, ImagedRisk) for part in risks)
    for x in RNG.standard_normal((10, 4)):
        values, slopes, blocks = f.pieces(f.image(x) if isinstance(f, ImagedRisk) else x)
        assert f(x) == pytest.approx(max(part(x) for part in risks), rel=1e-12)
        assert values == pytest.approx([part(x) for part in risks], rel=1e-12)
        assert blocks.tolist() == [0] * len(risks) and slopes.shape == (len(risks), 4)


@cache
def regularized_minimum(name):
    return minimum(CASES[name][1] + 0.05 * cp.sum_squares(V))


@pytest.mark.parametrize("method", ["auto", cut.BMRM(), cut.ProximalBundle(), cut.OCAS(), cut.LevelBundle()])
@pytest.mark.parametrize("name", CASES)
def test_a_problem_with_a_maximum(name, method):
    risks, _ = CASES[name]
    f = cut.maximum(*risks)
    problem = cut.Problem(f, cut.L2(0.1))
    result = problem.solve(method, tol=1e-7)
    expected = regularized_minimum(name)
    assert result.status == "OPTIMAL", result
    assert result.objective == pytest.approx(expected, rel=1e-6, abs=1e-8)
    assert result.certificate.verify().valid
    weights = f.weights(result)
    assert weights.sum() == pytest.approx(1.0) and (weights >= 0.0).all()
    combined = sum(float(w) * part for w, part in zip(weights, risks, strict=True))
    assert cut.Problem(combined, cut.L2(0.1)).solve(tol=1e-7).objective == pytest.approx(
        expected, rel=1e-5, abs=1e-7
    )


def drawn_line(rng):
    """A line with random pieces, linear or quadratic; some kinks coincide with those of others."""
    kinks = np.round(rng.uniform(0.1, 5.0, rng.integers(0, 12)), rng.choice([1, 12]))
    jumps, bends = rng.exponential(size=(2, kinks.size))
    curvature, height = rng.choice([0.0, 1.0]), rng.normal() * rng.choice([0, 1, 5])
    derivative = PiecewiseLinear(
        5 * rng.normal() - 3, curvature, kinks, jumps, bends if rng.random() < 0.4 else None
    )

    def evaluate(t):
        return height + integral(derivative, t), derivative(t)[0]

    return Line(evaluate, derivative=derivative)


def integral(derivative, t):
    """What the function has risen from the start of its derivative to t."""
    rest, past = t - derivative.start, np.maximum(t - derivative.kinks, 0.0)
    bends = 0.0 if derivative.curvature_jumps is None else derivative.curvature_jumps @ past**2
    return (
        derivative.slope * rest
        + 0.5 * (derivative.curvature * rest**2 + bends)
        + derivative.slope_jumps @ past
    )


@pytest.mark.parametrize("entries", [4, 30, 2**18])
@pytest.mark.parametrize("seed", range(15))
def test_the_largest_of_lines_is_exact(seed, entries, monkeypatch):
    monkeypatch.setattr(cutplane.pieces.lines, "_ENTRIES", entries)
    rng = np.random.default_rng(seed)
    lines = [drawn_line(rng) for _ in range(rng.integers(1, 6))]
    largest = cutplane.pieces.lines.maximum_line(lines)
    low, high = rng.choice([0.0, 1.3]), rng.choice([4.0, np.inf])
    part = largest.derivative.between(low, high)
    assert (part.kinks > low).all() and (part.kinks < high).all() and (part.slope_jumps >= 0.0).all()
    for t in rng.uniform(low, min(high, 7.0), 20):
        values = [line(t)[0] for line in lines]
        assert largest(t)[0] == max(values)
        scale = 1.0 + max(map(abs, values))
        assert abs(largest(low)[0] + integral(part, t) - max(values)) <= 1e-12 * scale
    copy, deviation = largest.derivative.estimate()
    assert deviation == 0.0 and copy(2.0)[0] == pytest.approx(largest(2.0)[1], abs=1e-9)
    t = minimise_on_line(largest, 9.0)
    assert largest(t)[0] <= min(largest(s)[0] for s in np.linspace(0, 9, 500)) + 1e-10


def test_lines_of_a_maximum_of_losses_are_exact():
    f = cut.maximum(*MIXED)
    for start, end in RNG.standard_normal((5, 2, 4)):
        line = f.line(f.image(start), f.image(end))
        assert line.derivative is not None
        t = minimise_on_line(line + cut.L2(0.1).line(start, end), np.inf)
        g = [
            f(start + s * (end - start)) + cut.L2(0.1).value(start + s * (end - start))
            for s in (t, t - 1e-4, t + 1e-4)
        ]
        assert t == 0.0 or g[0] <= min(g)
    smooth = cut.maximum(*parts(cut.losses.Logistic()))
    assert smooth.line(smooth.image(start), smooth.image(end)).derivative is None


def test_every_part_gives_a_cut_at_every_query():
    risks, _ = CASES["hinge"]
    start = cut.Problem(cut.maximum(*risks), cut.L2(0.1)).solve(cut.BMRM(), max_iter=1)
    assert start.certificate.offsets.size == 2 * 3 + 1  # and the known infimum
    few = cut.Problem(cut.maximum(*risks), cut.L2(0.1)).solve(cut.BMRM(), max_cuts=8, tol=1e-6)
    assert few.status == "OPTIMAL" and few.certificate.verify().valid
    one_each = cut.Problem(cut.maximum(*risks), cut.L2(0.1)).solve(cut.BMRM(), max_cuts=500, tol=1e-6)
    every = cut.Problem(cut.maximum(*risks), cut.L2(0.1)).solve(cut.BMRM(), tol=1e-6)
    assert every.n_iter < one_each.n_iter


def test_a_forged_cut_of_a_part_is_found():
    from dataclasses import replace

    result = cut.Problem(cut.maximum(*CASES["hinge"][0]), cut.L2(0.1)).solve(tol=1e-6)
    proof = result.certificate
    assert proof.verify().valid
    used = int(np.flatnonzero(proof.multipliers > 0.1)[0])
    offsets = proof.offsets.copy()
    offsets[used] += 1e-3
    assert not replace(proof, offsets=offsets).verify().valid
    with pytest.raises(InvalidInputError, match="not of a problem"):
        cut.maximum(*parts(cut.losses.Logistic())).weights(result)


@pytest.mark.parametrize("name", ["hinge", "functions"])
def test_cuts_are_kept_by_files_paths_and_warm_starts(name, tmp_path):
    risks, objective = CASES[name]
    f = cut.maximum(*risks)
    problem = cut.Problem(f, cut.L2(1.0))
    path = problem.path([1.0, 0.1, 0.01], tol=1e-6)
    for lam, result in zip(path.lams, path, strict=True):
        assert result.objective == pytest.approx(minimum(objective + 0.5 * lam * cp.sum_squares(V)), rel=1e-5)
        assert result.certificate.verify().valid
    loaded = cut.load(path[2].save(tmp_path / "worst"), cut.Problem(f, cut.L2(0.01)))
    assert loaded.certificate.verify().valid
    again = cut.Problem(cut.maximum(*risks), cut.L2(0.01)).solve(warm_start=loaded, tol=1e-6)
    assert again.status == "OPTIMAL" and again.oracle_calls <= path[2].oracle_calls + 5


def test_a_maximum_is_a_piece_of_the_algebra():
    risks, _ = CASES["hinge"]
    B, shift = RNG.standard_normal((4, 6)), RNG.standard_normal(4)
    w = cp.Variable(6)
    image = [cp.sum(cp.pos(1 - cp.multiply(Y[g], X[g] @ (B @ w + shift)))) / len(g) for g in GROUPS]
    f = 2.0 * cut.maximum(*risks).shift(shift) @ B
    assert offers(cut.maximum(*risks).shift(shift) @ B, Capability.PIECES)
    assert isinstance(2.0 * cut.maximum(*risks), Maximum)
    result = cut.Problem(f + 0.1 * cut.LinearObjective(B[0]), cut.L2(0.1)).solve(tol=1e-7)
    expected = minimum(2 * cp.maximum(*image) + 0.1 * B[0] @ w + 0.05 * cp.sum_squares(w))
    assert result.objective == pytest.approx(expected, rel=1e-6) and result.certificate.verify().valid
    open_parts = cut.maximum(*[risk.on(slice(1, 5)) for risk in risks])
    assert (
        open_parts.open
        and open_parts.dim == 5
        and cut.Problem(open_parts, cut.L2(1.0), cut.Box(-1, 1, dim=7)).dim == 7
    )
    assert cut.maximum(*open_parts.parts, cut.LinearObjective(np.zeros(8))).dim == 8
    assert repr(cut.maximum(cut.LinearObjective([1.0]), cut.LinearObjective([2.0]))) == (
        "maximum(LinearObjective(dim=1), LinearObjective(dim=1))"
    )


def test_sums_pass_the_pieces_of_a_maximum_on():
    worst, other = cut.maximum(*CASES["hinge"][0]), LinearRisk(X, SCORE, cut.losses.Absolute(), blocks=2)
    objective = 0.5 * expression(hinge) + cp.sum(cp.abs(X @ V - SCORE)) / 90 + 0.05 * cp.sum_squares(V)
    for f, rows in (
        (0.5 * worst + other, 3),
        (worst.shift(SHIFT) + 0.5 * worst + other, None),
        ((0.5 * worst + other).disaggregated(), 5),
        ((0.5 * worst + other + 0.3 * worst @ np.eye(4)).disaggregated(), 8),
    ):
        assert offers(f, Capability.PIECES) == (rows is not None) and check_risk(f, n_points=6)
        if rows is not None:
            assert f.pieces(f.image(SHIFT))[1].shape == (rows, 4)
        result = cut.Problem(f, cut.L2(0.1)).solve(tol=1e-6)
        assert result.status == "OPTIMAL" and result.certificate.verify().valid
        if rows in (3, 5):
            assert result.objective == pytest.approx(minimum(objective), rel=2e-6)
    black = 0.5 * cut.maximum(*CASES["functions"][0]) + other
    assert not offers(black, Capability.PIECES)


class Pieces(Risk):
    """|x_1| + max(x_2, -2 x_2, 0.5 x_2 + 1): two blocks of a user's own, each with its pieces."""

    dim = n_blocks = 2
    rows = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -2.0], [0.0, 0.5]])
    constants = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    blocks = np.array([0, 0, 1, 1, 1])

    def oracle(self, x):
        values = self.rows @ x + self.constants
        best = [int(np.argmax(values[:2])), 2 + int(np.argmax(values[2:]))]
        return values[best], self.rows[best]

    def pieces(self, x):
        return self.rows @ x + self.constants, self.rows, self.blocks


def test_a_user_may_give_the_pieces_of_each_block():
    result = cut.Problem(Pieces(), cut.L2(0.1)).solve(cut.BMRM(), tol=1e-9)
    x = cp.Variable(2)
    pieces = cp.maximum(x[1], -2 * x[1], 0.5 * x[1] + 1)
    assert result.objective == pytest.approx(
        minimum(cp.abs(x[0]) + pieces + 0.05 * cp.sum_squares(x)), rel=1e-7
    )
    assert result.n_iter == 1 and result.certificate.verify().valid
    result = cut.Problem(Pieces() @ np.eye(2), cut.L2(0.1)).solve(cut.BMRM(), tol=1e-9)
    assert result.n_iter == 1 and result.certificate.verify().valid


def test_the_check_finds_wrong_pieces():
    assert check_risk(Pieces())

    class TooHigh(Pieces):
        def pieces(self, x):
            return self.rows @ x + self.constants, 2.0 * self.rows, self.blocks

    class TooLow(Pieces):
        def pieces(self, x):
            return self.rows @ x - 1.0, self.rows, self.blocks

    for wrong, message in ((TooHigh(), "has a cut of the height"), (TooLow(), "the largest piece of f")):
        with pytest.raises(OracleError, match=message):
            check_risk(wrong)


def test_pieces_of_a_wrong_shape_are_named():
    class Wrong(Pieces):
        def pieces(self, x):
            return self.rows @ x, self.rows[:, :1], self.blocks

    with pytest.raises(OracleError, match="pieces must return"):
        cut.Problem(Wrong(), cut.L2(0.1)).solve(cut.BMRM())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cut.maximum(), "at least one risk"),
        (lambda: cut.maximum(CASES["one"][0]), "nothing else"),
        (lambda: cut.maximum(cut.LinearObjective([1.0]), cut.LinearObjective([1.0, 2.0])), "same dimension"),
        (lambda: cut.maximum(cut.LinearObjective([1.0])) @ np.eye(2), "shape"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()
