"""`certificate.verify(exact=True)`: bounds in rational arithmetic hold always, and are tight."""

from dataclasses import replace
from fractions import Fraction
from math import nextafter

import numpy as np
import pytest
from exact_problems import draw
from numpy.testing import assert_allclose

import cutplane as cut
from cutplane.exceptions import MissingCapabilityError
from cutplane.proof.exact import declared, lower_bound

DRAWN = [drawn for drawn in map(draw, range(360)) if " maximum " not in drawn.name][:300]
"""Problems of declared pieces; a maximum of risks has no exact check."""


def at_most(bound: float, number: Fraction) -> bool:
    return bound == -np.inf or Fraction(bound) <= number


def at_least(bound: float, number: Fraction) -> bool:
    return bound == np.inf or Fraction(bound) >= number


@pytest.mark.parametrize("start", range(0, 300, 50))
def test_bounds_enclose_the_optimum(start):
    for drawn in DRAWN[start : start + 50]:
        result = drawn.problem.solve(tol=1e-6)
        proof = result.certificate.verify(exact=True)
        optimum = drawn.exact.objective(drawn.exact.minimiser())
        assert at_most(proof.lower_bound, optimum), drawn.name
        assert at_least(proof.upper_bound, optimum), drawn.name
        stored_as_slopes = " sum " in drawn.name  # multipliers of a sum are not stored for each example
        if drawn.sized and result.status == "OPTIMAL" and not stored_as_slopes:
            assert proof.valid, (drawn.name, proof.problems)
            assert proof.upper_bound - proof.lower_bound <= 1.1e-6 * max(1e-6, abs(result.objective)) + 1e-12


@pytest.mark.parametrize("seed", range(60))
def test_forged_certificates_are_not_confirmed(seed):
    """What is confirmed is true: a forged claim is refused, or happens to hold."""
    rng, drawn = np.random.default_rng(seed), DRAWN[4 * seed]
    certificate = drawn.problem.solve(tol=1e-6).certificate
    optimum = drawn.exact.objective(drawn.exact.minimiser())
    x, size = certificate.x, 1.0 + abs(float(optimum))
    shuffled = rng.random(certificate.multipliers.size) * (certificate.blocks >= 0)
    forged = [
        replace(certificate, x=x + rng.standard_normal(x.size)),
        replace(certificate, multipliers=shuffled, standard=None),
        replace(certificate, lower_bound=certificate.upper_bound + 1e-3 * size),
        replace(certificate, upper_bound=certificate.lower_bound - 1e-3 * size),
    ]
    for one in forged:
        proof = one.verify(exact=True)
        assert at_most(proof.lower_bound, optimum), drawn.name
        assert at_least(proof.upper_bound, optimum), drawn.name
        if proof.valid:
            assert one.lower_bound <= float(optimum) + 1e-8 * size
            noise = float(drawn.exact.noise(one.x))
            assert proof.upper_bound <= one.upper_bound + 1e-8 * size + noise
    assert not any(one.verify(exact=True).valid for one in forged[2:]), drawn.name


POINT = cut.LinearRisk(np.eye(2), [3.0, -1.0], cut.losses.Squared(), normalize=False)
"""|x - (3, -1)|^2 / 2."""
DISTANCE = cut.LinearRisk(np.eye(2), [3.0, -1.0], cut.losses.Absolute(), normalize=False)
COST = cut.LinearObjective([1.0, -2.0])
HALF = cut.Polyhedron([[1.0, 1.0]], [1.0])
LINE = cut.Polyhedron(A_eq=[[1.0, 3.0]], b_eq=[1.0])
ROUNDED = cut.Polyhedron(A_eq=[[0.1, 0.3]], b_eq=[0.7])

CASES = {
    "whole space": (POINT, None, cut.WholeSpace(2), 0.0),
    "L2": (POINT, cut.L2(1.0), None, 2.5),
    "L2 weights and centre": (POINT, cut.L2(1.0, weights=[1.0, 0.0], centre=[1.0, 0.0]), None, 1.0),
    "L1": (POINT, cut.L1(1.0), None, 3.0),
    "L1 weights": (POINT, cut.L1(2.0, weights=[1.0, 0.0]), None, 4.0),
    "L1 bounds the slope": (DISTANCE, cut.L1(0.5), None, 2.0),
    "elastic net": (POINT, cut.ElasticNet(1.0, 0.5), None, 5.0 - (2.5**2 + 0.5**2) / 3),
    "sum": (POINT, cut.L2(1.0) + cut.L1(1.0), None, 4.0),
    "box": (POINT, None, cut.Box(-0.5, 1.0, dim=2), 2.125),
    "orthant": (POINT, None, cut.NonnegativeOrthant(2), 0.5),
    "simplex": (POINT, None, cut.Simplex(2), 2.5),
    "simplex of radius 2, linear": (COST, None, cut.Simplex(2, radius=2.0), -4.0),
    "capped simplex": (POINT, None, cut.CappedSimplex(0.75, dim=2), (2.25**2 + 1.25**2) / 2),
    "capped simplex, linear": (COST, None, cut.CappedSimplex(0.75, dim=2), -1.25),
    "half-space": (POINT, None, HALF, 0.25),
    "equation": (POINT, None, LINE, 1 / 20),
    "equation with rounded data": (POINT, None, ROUNDED, 0.49 / 0.2),
    "equation, absolute losses": (DISTANCE, None, LINE, 1 / 3),
    "box and half-space": (POINT, None, cut.Box(0.0, 1.0, dim=2) & HALF, 2.5),
    "box and half-space, linear": (COST, None, cut.Box(-1.0, 0.75, dim=2) & HALF, -2.5),
    "L2 and half-space": (COST, cut.L2(1.0), HALF, -2.5),
    "L1 and equation": (COST, cut.L1(2.0), LINE, 0.0),
    "L1 and equation, of the other sign": (
        COST,
        cut.L1(2.0),
        cut.Polyhedron(A_eq=[[1.0, 3.0]], b_eq=[-1.0]),
        1.0,
    ),
    "sum of risks": (0.5 * POINT + 2.0 * COST, cut.L2(1.0), None, None),
}


@pytest.mark.parametrize("name", CASES)
def test_known_optima(name):
    risk, regularizer, feasible_set, optimum = CASES[name]
    pieces = {"regularizer": regularizer, "feasible_set": feasible_set}
    problem = cut.Problem(risk, **{key: piece for key, piece in pieces.items() if piece is not None})
    if optimum is None:  # each coordinate of 0.5 (x - p)^2 / 2 + 2 c x + x^2 / 2 by its formula
        optimum = sum(p * p / 4 - (0.5 * p - 2 * c) ** 2 / 3 for p, c in ((3.0, 1.0), (-1.0, -2.0)))
    result = problem.solve(tol=1e-7)
    proof = result.certificate.verify(exact=True)
    assert proof.valid, proof.problems
    assert proof.lower_bound <= optimum + 1e-14 and optimum <= proof.upper_bound + 1e-14
    assert_allclose([proof.lower_bound, proof.upper_bound], optimum, rtol=1e-6, atol=1e-6)


def test_centred_columns_are_checked_with_the_data_as_given():
    years = np.array([[2001.0], [2002.0], [2003.0], [2004.0]])
    risk = cut.LinearRisk(years, [1.0, 2.0, 3.0, 4.0], cut.losses.Absolute(), intercept=True)
    result = cut.Problem(risk, regularizer=cut.L2(1e-3, weights=[1.0, 0.0])).solve(tol=1e-6)
    proof = result.certificate.verify(exact=True)
    assert proof.valid, proof.problems
    assert_allclose(proof.lower_bound, 5e-4, rtol=1e-5)


def test_blocks_and_separate_sums():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 3)), rng.choice([-1.0, 1.0], 12)
    blocks = cut.LinearRisk(X, y, cut.losses.Hinge(), blocks=3)
    both = (blocks + cut.LinearRisk(X, y, cut.losses.Absolute())).disaggregated()
    for risk in (blocks, both):
        result = cut.Problem(risk, regularizer=cut.L2(0.1)).solve(method="bmrm", tol=1e-7)
        proof = result.certificate.verify(exact=True)
        assert proof.valid, proof.problems


def test_a_point_beside_the_simplex_is_repaired():
    certificate = cut.Problem(POINT, feasible_set=cut.Simplex(2)).solve(tol=1e-8).certificate
    moved = replace(certificate, x=np.array([nextafter(1.0, 2.0), 0.0]))
    assert moved.verify(exact=True).valid
    assert moved.verify(exact=True).upper_bound == 2.5
    far = replace(certificate, x=np.array([1.5, 0.0])).verify(exact=True)
    assert not far.valid
    assert "away from the feasible set" in far.problems[0]


def test_multipliers_of_rows_are_found_without_a_point():
    """The optimum and its multipliers are chosen first, and then the costs and the right sides."""
    A, weights = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, -1.0]]), np.array([1.0, 8.0, 0.125])
    x, multipliers = np.array([1.0, -1.0, 2.0]), np.array([3.0, 5.0])
    cost = cut.LinearObjective(-weights * x - multipliers @ A)
    problem = cut.Problem(cost, cut.L2(1.0, weights=weights), cut.Polyhedron(A, A @ x))
    optimum = problem.objective(x)
    assert optimum - 1e-9 <= lower_bound(declared(problem), [], None) <= optimum


def test_multipliers_are_corrected_without_leaving_the_boundary_that_another_coordinate_is_at():
    """The slopes u_1 + u_2 = -3/2 and u_1 + u_3 = 5/16 may be at most 3/2 and 1/4: of u_3, 1/16 is too much.

    The first multiplier has more room, but may not take it, because the first slope would leave its interval.
    """
    X, y = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]), np.array([2.0, 3.0, 1.0])
    risk = cut.LinearRisk(X, y, cut.losses.Absolute(), normalize=False)
    found = declared(cut.Problem(risk, cut.L1(1.0, weights=[1.5, 0.25])))
    assert lower_bound(found, [-0.5, -1.0, 0.8125], None) == 0.5 * 2 + 3 - 0.75
    mirrored = declared(
        cut.Problem(
            cut.LinearRisk(X, -y, cut.losses.Absolute(), normalize=False), cut.L1(1.0, weights=[1.5, 0.25])
        )
    )
    assert lower_bound(mirrored, [0.5, 1.0, -0.8125], None) == 0.5 * 2 + 3 - 0.75


@pytest.mark.parametrize("minority", [-1.0, 1.0])
def test_multipliers_at_the_ends_of_their_intervals_are_balanced_where_a_coordinate_is_free(minority):
    """With equal features the best bias is right about two of three examples, and the mean loss is 2/3."""
    y = minority * np.array([1.0, -1.0, -1.0])
    risk = cut.LinearRisk(np.ones((3, 1)), y, cut.losses.Hinge(), intercept=True)
    found = declared(cut.Problem(risk, cut.L2(1.0, weights=[1.0, 0.0])))
    assert lower_bound(found, -y, None) == Fraction(2, 3)


def test_other_pieces_are_named():
    problem = cut.Problem(POINT, feasible_set=cut.L2Ball(1.0, dim=2))
    with pytest.raises(MissingCapabilityError, match="L2Ball"):
        problem.solve().certificate.verify(exact=True)
    logistic = cut.LinearRisk(np.eye(2), [1.0, -1.0], cut.losses.Logistic())
    with pytest.raises(MissingCapabilityError, match="Logistic"):
        cut.Problem(logistic, regularizer=cut.L2(1.0)).solve().certificate.verify(exact=True)


def test_a_loaded_certificate(tmp_path):
    problem = cut.Problem(POINT, regularizer=cut.L2(1.0))
    path = problem.solve(tol=1e-8).save(tmp_path / "run.npz")
    assert cut.load(path).certificate.verify(problem, exact=True).valid
