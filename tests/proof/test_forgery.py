"""A forged certificate does not verify, an honest one does."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import cvxpy as cp
import numpy as np
import pytest

import cutplane as cut
from cutplane.proof.dual import DualFunction

pytestmark = pytest.mark.every

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 5))
y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0.0, 1.0, -1.0)
HINGE = cut.LinearRisk(X, y, cut.losses.Hinge())
A, b = rng.normal(size=(20, 5)), rng.normal(size=20)


@cut.separation_oracle
def ball(x):
    norm = np.linalg.norm(x)
    return [] if norm <= 0.5 * (1.0 + 1e-9) else [cut.HalfSpace(x / norm, 0.5)]


def distance(scale=1.0):
    @cut.risk(dim=5)
    def risk(x):
        r = A @ x - b
        return scale * np.abs(r).mean(), scale * (A.T @ np.sign(r)) / len(b)

    return risk


PROBLEMS = {
    "hinge": cut.Problem(HINGE, cut.L2(0.01)),
    "black box": cut.Problem(distance(), cut.L2(0.1)),
    "box": cut.Problem(HINGE, cut.L2(0.01), cut.Box(-0.3, 0.3)),
    "ball": cut.Problem(HINGE, cut.L2(0.01), cut.Box(-2, 2) & ball),
    "small numbers": cut.Problem(distance(1e-9), cut.L2(1e-10)),
}


@cache
def certificate(name, **options):
    return PROBLEMS[name].solve(cut.LevelBundle(), tol=1e-6, **options).certificate


def in_use(proof):
    return int(np.argmax(np.where(proof.blocks >= 0, proof.multipliers, -1.0)))


def changed(array, row, value):
    array = np.array(array)
    array[row] = value
    return array


def with_row(proof, slope, offset, block, query, multiplier):
    kept = np.where((proof.blocks == block) & (block >= 0), 0.0, proof.multipliers)
    return replace(
        proof,
        slopes=np.vstack([proof.slopes, slope]),
        offsets=np.append(proof.offsets, offset),
        blocks=np.append(proof.blocks, block),
        queries=np.append(proof.queries, query),
        multipliers=np.append(kept, multiplier),
    )


def claiming_what_it_proves(forged):
    """The forged certificate, with the bound that its rows would give."""
    value = DualFunction(forged.problem)(
        forged.slopes, forged.offsets, forged.blocks, forged.multipliers, forged.upper_bound
    ).value
    return replace(forged, lower_bound=value)


def is_refused(forged):
    verification = forged.verify()
    assert not verification.valid
    assert verification.problems


def is_refused_or_harmless(forged, proof):
    """A forged row does no harm where the mean multipliers of the examples prove an honest bound."""
    verification = forged.verify()
    if verification.valid:
        assert isinstance(forged.problem.risk, cut.LinearRisk)
        assert max(forged.lower_bound, verification.lower_bound) <= proof.upper_bound


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_honest_certificate_is_valid(name):
    verification = certificate(name).verify()
    assert verification.valid, verification.problems
    assert verification.n_checked > 0


@pytest.mark.parametrize("query", [-1, -2, -3, 0])
@pytest.mark.parametrize("name", PROBLEMS)
def test_an_invented_row_below_the_risk_at_x(name, query):
    proof = certificate(name)
    risk = proof.problem.risk
    value = float(np.sum(risk.oracle(proof.x)[0]))
    slope = np.full(5, 0.1 * value)
    forged = with_row(proof, slope, value - slope @ proof.x, 0, query, 1.0)
    is_refused_or_harmless(claiming_what_it_proves(forged), proof)


@pytest.mark.parametrize("query", [-1, -2, 0])
@pytest.mark.parametrize("name", ["ball", "box", "hinge"])
def test_an_invented_half_space(name, query):
    proof = certificate(name)
    normal = np.ones(5)
    is_refused(claiming_what_it_proves(with_row(proof, normal, -float(normal @ proof.x), -1, query, 0.05)))


FORGERIES = {
    "unknown query": lambda p: replace(p, queries=changed(p.queries, in_use(p), 10**6)),
    "negative query": lambda p: replace(p, queries=changed(p.queries, in_use(p), -7)),
    "aggregate": lambda p: replace(p, queries=changed(p.queries, in_use(p), -1)),
    "unknown block": lambda p: replace(p, blocks=changed(p.blocks, in_use(p), 99)),
    "negative block": lambda p: replace(p, blocks=changed(p.blocks, in_use(p), -5)),
    "no rows": lambda p: replace(
        p,
        slopes=p.slopes[:0],
        offsets=p.offsets[:0],
        blocks=p.blocks[:0],
        queries=p.queries[:0],
        multipliers=p.multipliers[:0],
    ),
    "no points": lambda p: replace(p, points={}, duals={}),
    "a point moved": lambda p: replace(p, points={query: 1.1 * x for query, x in p.points.items()}),
    "lower bound raised": lambda p: replace(p, lower_bound=p.lower_bound + 1e-7 * abs(p.upper_bound)),
    "upper bound lowered": lambda p: replace(p, upper_bound=p.upper_bound * (1.0 - 1e-7)),
    "upper bound raised": lambda p: replace(p, upper_bound=p.upper_bound * (1.0 + 1e-7)),
    "x moved": lambda p: replace(p, x=p.x * 1.01),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forgery_is_refused(forgery, name):
    is_refused(FORGERIES[forgery](certificate(name)))


@pytest.mark.parametrize("name", PROBLEMS)
def test_turned_slopes_are_refused_or_harmless(name):
    proof = certificate(name)
    is_refused_or_harmless(replace(proof, slopes=-proof.slopes), proof)


@pytest.mark.parametrize("rise", [1e-10, 1e-8])
def test_a_lower_bound_above_the_objective_is_refused_though_the_examples_nearly_prove_it(rise):
    """The optimum is known to 1e-13 here, so that multipliers of the examples prove all but the rise."""
    risk = cut.LinearRisk(X, y, cut.losses.SquaredHinge())
    proof = cut.Problem(risk, cut.L2(0.1)).solve("lbfgs", tol=1e-13).certificate
    assert proof.verify().valid
    is_refused(replace(proof, lower_bound=proof.upper_bound * (1.0 + rise)))
    is_refused(replace(proof, lower_bound=proof.upper_bound * (1.0 + rise), slopes=-proof.slopes))


@pytest.mark.parametrize(("name", "rise"), [("black box", 9e-8), ("hinge", 9e-8), ("small numbers", 1e-10)])
def test_offsets_raised_a_little_and_the_bound_with_them(name, rise):
    proof = certificate(name)
    forged = replace(proof, offsets=proof.offsets + rise, lower_bound=proof.lower_bound + 0.999 * rise)
    is_refused(forged)
    is_refused(replace(forged, upper_bound=max(proof.upper_bound, forged.lower_bound)))


@pytest.mark.parametrize(("name", "step"), [("box", 1e-3), ("box", 1e-6), ("ball", 1e-3), ("ball", 1e-6)])
def test_a_point_outside_the_set(name, step):
    problem = PROBLEMS[name]
    proof = certificate(name)
    boundary = 0.3 * np.sign(proof.x) if name == "box" else 0.5 * proof.x / np.linalg.norm(proof.x)
    x = boundary * (1.0 + step)
    value = float(np.sum(problem.risk.oracle(x)[0]))
    is_refused(replace(proof, x=x, upper_bound=problem.objective(x), risk_value=value))


def test_an_idle_steep_row_lends_no_tolerance():
    """A row that is not in use is not asked for, and must not be what others are compared with."""
    problem = PROBLEMS["black box"]
    proof = problem.solve(cut.BMRM(), max_iter=3).certificate
    highest = int(np.argmax(proof.offsets))
    slopes = proof.slopes.copy()
    slopes[highest] = 0.0
    flat = replace(proof, slopes=slopes, multipliers=np.eye(len(slopes))[highest])
    flat = replace(flat, lower_bound=min(float(proof.offsets[highest]), proof.upper_bound))
    is_refused(flat)
    is_refused(with_row(flat, np.full(5, 1e12), -1e30, -1, 0, 0.0))


def small_bundle(name, n_blocks=1):
    risk = cut.LinearRisk(X, y, cut.losses.Hinge(), blocks=n_blocks)
    regularizer, feasible_set = PROBLEMS[name].regularizer, PROBLEMS[name].feasible_set
    problem = cut.Problem(risk, regularizer, feasible_set)
    result = problem.solve(cut.BMRM(), max_cuts=3 * n_blocks + 2, max_iter=40, tol=1e-9)
    assert n_blocks * result.n_iter > 10
    return result.certificate


@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("name", ["hinge", "box", "ball"])
def test_aggregates_are_proven_by_the_rows_that_they_were_made_of(name, n_blocks):
    proof = small_bundle(name, n_blocks)
    used = proof.multipliers > 0.0
    assert (proof.queries[used] != -1).all()
    verification = proof.verify()
    assert verification.valid, verification.problems
    assert verification.n_checked == used.sum()
    assert verification.lower_bound == pytest.approx(proof.lower_bound, rel=1e-9)


@pytest.mark.parametrize("name", ["hinge", "box", "ball"])
def test_a_tampered_row_of_an_aggregate_is_refused(name):
    proof = small_bundle(name)
    rows = np.flatnonzero((proof.multipliers > 1e-6) & (proof.queries >= 0))
    assert rows.size > 2
    for row in rows.tolist():
        raised = replace(proof, offsets=changed(proof.offsets, row, proof.offsets[row] + 1e-6))
        is_refused_or_harmless(raised, proof)
        is_refused_or_harmless(
            replace(proof, slopes=changed(proof.slopes, row, proof.slopes[row] * 1.001)), proof
        )
        others = {query: x for query, x in proof.points.items() if query != proof.queries[row]}
        is_refused(replace(proof, points=others))


w = cp.Variable(5)
HONEST = {
    "cvxpy regularizer, level": (
        cut.Problem(HINGE, cut.CvxpyRegularizer(cp.norm_inf(w), w, lam=0.05)),
        {"method": cut.LevelBundle()},
    ),
    "cvxpy regularizer, BMRM": (
        cut.Problem(HINGE, cut.CvxpyRegularizer(cp.sum_squares(w) + cp.norm1(w), w, lam=0.02)),
        {"method": cut.BMRM()},
    ),
    "osqp, simplex and polyhedron": (
        cut.Problem(HINGE, cut.L2(0.01), cut.Simplex() & cut.Polyhedron([[1.0, -1.0, 0.0, 0.0, 1.0]], [0.2])),
        {"method": cut.BMRM(), "backend": "osqp"},
    ),
    "entropy, simplex": (cut.Problem(HINGE, cut.NegativeEntropy(0.01), cut.Simplex()), {}),
    "entropy, box": (cut.Problem(HINGE, cut.NegativeEntropy(0.01), cut.Box(0, 2)), {}),
    "entropy, ball": (cut.Problem(HINGE, cut.NegativeEntropy(0.01), cut.L2Ball(1.0)), {}),
    "intercept": (
        cut.Problem(
            cut.LinearRisk(X, y, cut.losses.Hinge(), intercept=True), cut.L2(0.01, weights=[1, 1, 1, 1, 1, 0])
        ),
        {},
    ),
}


@pytest.mark.parametrize("max_iter", [5, 1000])
@pytest.mark.parametrize("tol", [1e-2, 1e-6])
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_certificate_is_valid_however_it_was_found(name, tol, max_iter):
    problem, options = HONEST[name]
    result = problem.solve(tol=tol, max_iter=max_iter, **options)
    verification = result.certificate.verify()
    assert verification.valid, verification.problems
    assert verification.lower_bound <= verification.upper_bound


def test_a_row_that_nobody_asked_for_does_not_balance_a_free_coordinate():
    """One row in use, which rises there, and an idle forged one that falls."""

    @cut.risk(dim=6)
    def risk(x):
        r = A @ x[:5] + x[5] - b - 2.0
        return np.abs(r).mean(), np.append(A.T @ np.sign(r), np.sign(r).sum()) / len(b)

    problem = cut.Problem(risk, cut.L2(0.1, weights=[1.0] * 5 + [0.0]))
    honest = problem.solve(cut.BMRM(), tol=1e-3).certificate
    row = int(honest.slopes[:, 5].argmax())
    assert honest.slopes[row, 5] > 0.0
    multipliers = np.zeros(honest.offsets.size + 1)
    multipliers[row] = 1.0
    forged = replace(
        honest,
        slopes=np.vstack([honest.slopes, -1e3 * honest.slopes[row, 5] * np.eye(6)[5]]),
        offsets=np.append(honest.offsets, 1e5),
        blocks=np.append(honest.blocks, 0),
        queries=np.append(honest.queries, honest.queries[row]),
        multipliers=multipliers,
        lower_bound=honest.upper_bound * (1.0 - 1e-9),
    )
    found = forged.verify()
    assert not found.valid and found.lower_bound == -np.inf
    assert honest.verify().valid


@pytest.mark.parametrize("name", PROBLEMS)
def test_no_size_that_a_certificate_states_makes_a_false_claim_true(name):
    certificate = PROBLEMS[name].solve("proximal", tol=1e-1).certificate
    above = certificate.upper_bound
    assert above - certificate.lower_bound > 1e-6 * abs(above)
    forged = replace(certificate, lower_bound=above, standard=None)
    assert not forged.verify(PROBLEMS[name]).valid
    assert not replace(forged, scale=1e30).verify(PROBLEMS[name]).valid
    idle = np.zeros((1, certificate.slopes.shape[1])) + 1e15
    rows = np.flatnonzero(certificate.queries >= 0)[:1]
    lifted = certificate.offsets + (above - certificate.lower_bound) * (certificate.blocks >= 0)
    steep = replace(
        forged,
        slopes=np.concatenate([getattr(certificate.slopes, "toarray", lambda: certificate.slopes)(), idle]),
        offsets=np.append(lifted, 0.0),
        blocks=np.append(certificate.blocks, certificate.blocks[rows]),
        queries=np.append(certificate.queries, certificate.queries[rows]),
        multipliers=np.append(certificate.multipliers, 0.0),
    )
    assert not steep.verify(PROBLEMS[name]).valid


def test_multipliers_of_examples_prove_nothing_of_an_unbounded_problem():
    x = cp.Variable(3)
    problem = cut.Problem(cut.CvxpyRisk(-2.0 * cp.sum(x), x), cut.L1(1.0))
    held = cut.Problem(problem.risk, problem.regularizer, cut.Box(-1.0, 1.0))
    certificate = held.solve().certificate
    assert certificate.verify().valid
    duals = {query: np.full(3, -2.0) for query in certificate.queries.tolist()}
    forged = replace(certificate, points={}, duals=duals)
    assert forged.verify(held).valid
    assert not replace(forged, lower_bound=-100.0).verify(problem).valid
