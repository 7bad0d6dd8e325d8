"""Squares of single coordinates beside a separation oracle take few calls, and certificates are true."""

import numpy as np
import pytest

import cutplane as cut


def monotone(dim):
    """Return an oracle of nondecreasing vectors, and the list of the points it was asked about."""
    asked = []

    @cut.separation_oracle
    def separate(x):
        asked.append(x)
        rows = np.diff(np.eye(dim), axis=0)
        return [cut.HalfSpace(-row, 0.0) for row in rows if row @ x < -1e-9]

    return separate, asked


def pooled(y):
    """Return the nondecreasing vector nearest to y: neighbours that decrease are pooled."""
    pools = []
    for value in y:
        pools.append([value])
        while len(pools) > 1 and np.mean(pools[-2]) > np.mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    return np.concatenate([np.full(len(pool), np.mean(pool)) for pool in pools])


def fit(y, dim, **options):
    """Return the mean of the squares of x_j - y_j, of the first coordinates."""
    risk = cut.LinearRisk(np.eye(y.size), y, cut.losses.Squared(), **options)
    return risk.on(slice(0, y.size), dim=dim)


@pytest.fixture
def y():
    return np.linspace(0.0, 1.0, 40) + 0.3 * np.random.default_rng(0).standard_normal(40)


@pytest.mark.parametrize("inside", [cut.WholeSpace(), cut.Box(-3.0, 3.0, dim=40)], ids=["space", "box"])
@pytest.mark.parametrize("method", ["auto", cut.Kelley()], ids=str)
def test_isotonic_regression_takes_few_calls(y, inside, method):
    separate, asked = monotone(40)
    problem = cut.Problem(fit(y, 40), feasible_set=inside & separate)
    result = problem.solve(method, tol=1e-9)
    assert result.status == "OPTIMAL"
    assert len(asked) <= 40
    best = 0.5 * np.mean((pooled(y) - y) ** 2)
    assert result.lower_bound <= best * (1 + 1e-12)
    assert result.objective == pytest.approx(best, rel=1e-8)
    assert result.objective == pytest.approx(problem.objective(result.x), rel=1e-14)
    np.testing.assert_allclose(result.x, pooled(y), atol=1e-6)


def test_certificate_is_one_of_the_users_problem(y, tmp_path):
    problem = cut.Problem(fit(y, 42), cut.L2(1e-3), monotone(42)[0])
    result = problem.solve()
    assert result.certificate.problem is problem
    assert result.certificate.risk_value == problem.risk(result.x)
    assert result.certificate.verify().valid
    result.save(tmp_path / "result.npz")
    loaded = cut.load(tmp_path / "result.npz")
    found = loaded.certificate.verify(problem)
    assert found.valid
    assert found.lower_bound == pytest.approx(result.lower_bound, rel=1e-12)


def test_warm_starts_of_other_statements(y):
    separate, _ = monotone(40)
    risk = fit(y, 40)
    first = cut.Problem(risk, cut.L2(1e-3), separate).solve(tol=1e-8)
    others = [
        cut.Problem(risk, cut.L2(1e-1), separate),
        cut.Problem(risk, cut.L1(1e-2), separate),
        cut.Problem(risk, cut.L2(1e-3)),
        cut.Problem(risk, cut.L2(1e-3), cut.Box(0.0, 0.5)),
    ]
    for problem in others:
        cold, warm = problem.solve(tol=1e-6), problem.solve(tol=1e-6, warm_start=first)
        back = cut.Problem(risk, cut.L2(1e-3), separate).solve(tol=1e-8, warm_start=warm)
        assert warm.status == back.status == "OPTIMAL"
        assert warm.objective == pytest.approx(cold.objective, rel=1e-5)
        assert back.objective == pytest.approx(first.objective, rel=1e-7)
        assert warm.certificate.verify().valid and back.certificate.verify().valid


@pytest.mark.parametrize(
    "risk",
    [
        lambda y: 0.5 * fit(y, 40),
        lambda y: fit(y, 40, sample_weight=np.arange(40.0), normalize=False),
        lambda y: cut.LinearRisk(-4.0 * np.eye(40), y, cut.losses.Squared()),
        lambda y: cut.LinearRisk(3.0 * np.eye(40), y, cut.losses.Squared()),
        lambda y: fit(y, 40).shift(np.ones(40)),
        lambda y: fit(y, 40) + cut.LinearObjective(np.linspace(-0.1, 0.1, 40)),
        lambda y: fit(y, 40) + fit(2.0 * y, 40),
        lambda y: cut.LinearRisk(np.eye(40), y, cut.losses.Huber(0.1)),
        lambda y: cut.LinearRisk(np.eye(40), y, cut.losses.Absolute()),
    ],
    ids=["multiple", "weighted", "exact", "rounded", "shifted", "tilted", "twice", "huber", "absolute"],
)
def test_statements_that_are_held_and_that_are_cut_agree(y, risk):
    separate, _ = monotone(40)
    f = risk(y)
    result = cut.Problem(f, cut.L2(0.1), separate).solve(tol=1e-6)
    rows = cut.Polyhedron(-np.diff(np.eye(40), axis=0), np.zeros(39))
    other = cut.Problem(f, cut.L2(0.1), rows).solve(tol=1e-6)
    assert result.status == other.status == "OPTIMAL"
    assert result.objective == pytest.approx(other.objective, rel=2e-6)
    assert result.lower_bound <= other.objective
    assert result.certificate.verify().valid
