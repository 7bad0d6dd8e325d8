"""Risks through torch and jax: values, subgradients, precision, and what is said where they are missing."""

import sys

import numpy as np
import pytest
from scipy.special import logsumexp

import cutplane as cut

M = np.random.default_rng(0).standard_normal((7, 4))
POINT = np.array([0.3, -1.0, 2.0, 0.5])


def smooth_maximum(framework):
    """Return w -> log sum exp(M w), and w -> the values |m_i w| for each row."""
    if framework == "torch":
        torch = pytest.importorskip("torch")
        data = torch.tensor(M)
        return lambda w: torch.logsumexp(data @ w, 0), lambda w: torch.abs(data @ w)
    jax = pytest.importorskip("jax")
    return lambda w: jax.nn.logsumexp(M @ w), lambda w: jax.numpy.abs(M @ w)


FRAMEWORKS = ["torch", "jax"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_values_and_gradients_have_all_digits(framework):
    smooth, _ = smooth_maximum(framework)
    risk = cut.autodiff_risk(smooth, dim=4)
    value, slope = risk.oracle(POINT)
    assert value.dtype == slope.dtype == np.float64
    assert float(value) == pytest.approx(logsumexp(M @ POINT), rel=1e-15)
    weights = np.exp(M @ POINT - logsumexp(M @ POINT))
    assert slope == pytest.approx(weights @ M, rel=1e-13)
    assert cut.testing.check_risk(risk)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_problems_are_solved_and_certified(framework):
    smooth, absolute = smooth_maximum(framework)
    result = cut.Problem(cut.autodiff_risk(smooth, dim=4), cut.L2(0.1)).solve(tol=1e-6)
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    blocks = cut.autodiff_risk(absolute, dim=4, blocks=7, infimum=0.0)
    values, slopes = blocks.oracle(POINT)
    assert values == pytest.approx(np.abs(M @ POINT))
    assert slopes == pytest.approx(np.sign(M @ POINT)[:, np.newaxis] * M)
    assert cut.Problem(blocks, cut.L2(0.1)).solve().objective < 1e-6


def test_data_in_single_precision_is_explained():
    torch = pytest.importorskip("torch")
    data = torch.tensor(M, dtype=torch.float32)
    with pytest.raises(cut.OracleError, match=r"double precision.*data\.double\(\)"):
        cut.autodiff_risk(lambda w: (data @ w).sum(), dim=4).oracle(POINT)
    with pytest.raises(cut.OracleError, match=r"returns torch\.float32"):
        cut.autodiff_risk(lambda w: (data @ w.float()).sum(), dim=4).oracle(POINT)


def test_jax_keeps_its_own_precision_outside():
    jax = pytest.importorskip("jax")
    risk = cut.autodiff_risk(lambda w: jax.numpy.sum(w**2), dim=4)
    assert float(risk.oracle(POINT)[0]) == pytest.approx(POINT @ POINT, rel=1e-15)
    assert jax.numpy.ones(2).dtype == np.float32
    with pytest.raises(cut.OracleError, match="returns float32"):
        cut.autodiff_risk(lambda w: jax.numpy.sum(w.astype("float32")), dim=4).oracle(POINT)


def test_a_branch_on_a_value_is_not_compiled():
    jax = pytest.importorskip("jax")

    def either(w):
        return jax.numpy.sum(w) if w[0] > 0 else 0.0 * w[0]

    risk = cut.autodiff_risk(either, dim=4, framework="jax")
    assert risk.oracle(POINT)[1].tolist() == [1.0] * 4
    assert risk.oracle(-POINT)[1].tolist() == [0.0] * 4


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_does_not_depend_on_the_argument_is_refused(framework):
    pytest.importorskip(framework)
    risk = cut.autodiff_risk(lambda w: 3.0, dim=2, framework=framework)
    with pytest.raises(cut.OracleError, match="computed from its argument"):
        risk.oracle(np.ones(2))


def test_a_missing_framework_is_named_with_its_extra(monkeypatch):
    for name in FRAMEWORKS:
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(cut.MissingExtraError, match=rf'pip install "cutplane\[{name}\]"'):
            cut.autodiff_risk(lambda w: w, dim=2, framework=name)


def test_an_unknown_framework_is_asked_for(monkeypatch):
    for name in FRAMEWORKS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(cut.InvalidInputError, match="pass framework='torch' or framework='jax'"):
        cut.autodiff_risk(lambda w: w.sum(), dim=2)
    with pytest.raises(cut.InvalidInputError, match="framework must be"):
        cut.autodiff_risk(lambda w: w.sum(), dim=2, framework="theano")
    with pytest.raises(cut.InvalidInputError, match="must be a function"):
        cut.autodiff_risk(3.0, dim=2)
