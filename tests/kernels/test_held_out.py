"""Leave-one-out predictions and bounds, beside fits without each example."""

import numpy as np
import pytest

import cutplane as cut
from cutplane import losses
from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.kernels import Gaussian, KernelRisk, leave_one_out, xi_alpha
from cutplane.kernels.decomposition import form_of

RNG = np.random.default_rng(3)
M = 30
X = RNG.standard_normal((M, 2))
LABELS = np.sign(X[:, 0] - X[:, 1] + 0.8 * RNG.standard_normal(M))
NUMBERS = X[:, 0] * X[:, 1] + 0.2 * RNG.standard_normal(M)


def fitted(loss, intercept, lam, weights=None):
    y = LABELS if loss.variable == "margin" else NUMBERS
    risk = KernelRisk(X, y, loss, Gaussian(1.0), intercept, weights)
    return cut.Problem(risk, risk.squared_norm(lam)).solve(tol=1e-11)


def refits(loss, intercept, lam, weights):
    """Yield the result without example i; the others keep their weights beside lam."""
    for i in range(M):
        rest = np.where(np.arange(M) == i, 0.0, weights)
        yield fitted(loss, intercept, lam * weights.sum() / rest.sum(), rest)


def groups(result):
    """Return where each coefficient is: at a bound, at a kink, or on which side of that."""
    _, form, _ = form_of(result.certificate.problem, "the test")
    a = result.x[:M]
    ends = (a <= form.lower * (1.0 - 1e-9)).astype(int) + 2 * (a >= form.upper * (1.0 - 1e-9))
    return 4 * ends + 1 + np.sign(a)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    ("loss", "least"),
    [
        (losses.Squared(), 30),
        (losses.SquaredHinge(), 10),
        (losses.Hinge(), 5),
        (losses.EpsilonInsensitive(0.3), 10),
    ],
    ids=repr,
)
def test_predictions_are_those_of_refits_that_change_no_group(loss, least, intercept):
    weights, lam = RNG.random(M) + 0.5, 0.02
    result = fitted(loss, intercept, lam, weights)
    found, others, checked = leave_one_out(result), groups(result), 0
    for i, refit in enumerate(refits(loss, intercept, lam, weights)):
        rest = np.arange(M) != i
        if result.x[i] == 0.0 or loss.curvature or (groups(refit)[rest] == others[rest]).all():
            known = refit.certificate.problem.risk.image(refit.x)[i]
            assert found[i] == pytest.approx(known, abs=2e-4)
            checked += 1
    assert checked >= least


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("lam", [0.3, 0.01])
def test_no_refit_errs_where_none_may(intercept, lam):
    loss, weights = losses.Hinge(), np.ones(M)
    mistakes = xi_alpha(fitted(loss, intercept, lam))
    for i, refit in enumerate(refits(loss, intercept, lam, weights)):
        margin = LABELS[i] * refit.certificate.problem.risk.image(refit.x)[i]
        assert margin > 0.0 or mistakes[i]
    assert (lam == 0.3 and intercept) == mistakes.all()  # no coefficient between its bounds: nothing is known


def test_degenerate_and_refused():
    """Twins may take the load of each other; one free coefficient holds the intercept; other problems."""
    A, y = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    risk = KernelRisk(A, y, losses.Hinge(), cut.kernels.Linear())
    result = cut.Problem(risk, risk.squared_norm(1e-3)).solve(tol=1e-10)
    found = leave_one_out(result)
    assert not np.isnan(found).any()
    with pytest.raises(InvalidInputError, match="needs the loss Hinge"):
        xi_alpha(fitted(losses.Squared(), True, 0.1))
    logistic = KernelRisk(A, y, losses.Logistic(), Gaussian(1.0))
    with pytest.raises(MissingCapabilityError, match="leave_one_out"):
        leave_one_out(cut.Problem(logistic, logistic.squared_norm(0.1)).solve())
    with pytest.raises(cut.InvalidInputError, match="leave_one_out needs the Result of a solve"):
        leave_one_out(3)
