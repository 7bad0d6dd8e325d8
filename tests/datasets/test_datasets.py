"""The generators: what their formulas promise, reproducibility, and refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog
from scipy.stats import multivariate_normal, norm

from cutplane.datasets import (
    newsgroups_like,
    planted_dense,
    planted_text,
    ringnorm,
    twonorm,
    waveform,
)
from cutplane.exceptions import InvalidInputError

GENERATORS = {
    "dense": lambda m=60, **options: planted_dense(m, 20, **options),
    "text": lambda m=60, **options: planted_text(m, 200, 0.03, **options),
    "newsgroups": lambda m=60, **options: newsgroups_like(m, 200, 3, **options),
    "twonorm": lambda m=60, **options: twonorm(m, **options),
    "ringnorm": lambda m=60, **options: ringnorm(m, **options),
    "waveform": lambda m=60, **options: waveform(m, **options),
}
every_generator = pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)


def generators(*names):
    return pytest.mark.parametrize("make", [GENERATORS[name] for name in names], ids=names)


def toarray(X):
    return X.toarray() if sparse.issparse(X) else X


@every_generator
def test_same_seed_same_data(make):
    X, y = make(seed=3)
    again, labels = make(seed=3)
    generated, generated_labels = make(seed=np.random.default_rng(3))
    other, _ = make(seed=4)
    assert (toarray(X) == toarray(again)).all() and (y == labels).all()
    assert (toarray(X) == toarray(generated)).all() and (y == generated_labels).all()
    assert (toarray(X) != toarray(other)).any() and make(1)[0].shape == (1, X.shape[1])


@every_generator
def test_float32_is_the_float64_data_rounded(make):
    X, y = make(seed=1)
    single, labels = make(seed=1, dtype=np.float32)
    assert X.dtype == np.float64 and single.dtype == np.float32 and y.dtype == labels.dtype
    assert (toarray(single) == toarray(X).astype(np.float32)).all() and (labels == y).all()


@generators("dense", "text", "newsgroups")
@pytest.mark.parametrize("noise", [0.1, 0.4])
def test_noise_changes_labels_at_its_rate_and_nothing_else(make, noise):
    clean, y = make(4000, noise=0.0)
    noisy, labels = make(4000, noise=noise)
    rate = noise * (2 / 3 if set(y.tolist()) == {0, 1, 2} else 1.0)
    assert (toarray(clean) == toarray(noisy)).all()
    assert abs((y != labels).mean() - rate) < 4 * np.sqrt(rate / 4000)


@generators("dense", "text")
def test_a_hyperplane_through_the_origin_separates_the_clean_data(make):
    def separable(noise):
        X, y = make(700, noise=noise)
        rows = -y[:, None] * toarray(X)
        return linprog(np.zeros(X.shape[1]), rows, -np.ones(700), bounds=(None, None)).success

    assert separable(0.0) and not separable(0.3)


@generators("text", "newsgroups")
@given(m=st.integers(1, 40), seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_documents_are_unit_vectors_of_positive_weights(make, m, seed):
    X, y = make(m, seed=seed)
    assert isinstance(X, sparse.csr_array) and X.has_canonical_format and X.indices.dtype == np.int32
    assert X.shape[0] == len(y) == m and (X.data > 0).all()
    np.testing.assert_allclose(np.sqrt((X**2).sum(axis=1)), 1.0, rtol=1e-12)


@pytest.mark.parametrize(("n", "density"), [(50, 0.5), (2000, 0.002), (5000, 0.02)])
def test_density_and_word_frequencies_of_planted_text(n, density):
    X, y = planted_text(3000, n, density)
    assert abs(X.nnz / (3000 * n) / density - 1.0) < 0.05
    held_by = np.bincount(X.indices, minlength=n) / 3000
    p = 1.0 / (np.arange(1, n + 1) + 2.7)
    words = -np.log1p(-held_by[0]) / (p[0] / p.sum())  # Poisson: held_by = 1 - exp(-words p)
    np.testing.assert_allclose(held_by[:40], -np.expm1(-words * p[:40] / p.sum()), atol=0.05)
    assert 0.3 < (y > 0).mean() < 0.7


def test_tf_idf_weights_of_planted_text():
    """Undoing the weights gives back whole numbers: each document holds some word once."""
    X, _ = planted_text(500, 300, 0.02)
    m_j = np.bincount(X.indices, minlength=300)
    idf = 1.0 + np.log(501.0 / (1.0 + m_j))
    tf = X.data / idf[X.indices]
    counts = np.exp(tf / np.repeat(np.minimum.reduceat(tf, X.indptr[:-1]), np.diff(X.indptr)) - 1.0)
    assert (counts > 1.5).mean() > 0.02
    np.testing.assert_allclose(counts, np.rint(counts), atol=1e-9)


def test_topics_mix_as_declared():
    """The words of a class, averaged over its documents, are the declared mixture of the topics."""
    X, y, topics = newsgroups_like(6000, 60, 3, overlap=0.4, return_topics=True)
    assert topics.shape == (4, 60)
    np.testing.assert_allclose(topics.sum(axis=1), 1.0)
    np.testing.assert_allclose(topics[3] * (np.arange(60) + 3.7), topics[3, 0] * 3.7)
    assert np.bincount(y, minlength=3).min() > 1800
    for c in range(3):
        mean = X[y == c].mean(axis=0)
        own = [np.corrcoef(mean, topic)[0, 1] for topic in topics[:3]]
        assert np.argmax(own) == c
    X2, _ = newsgroups_like(6000, 60, 3, overlap=0.9)

    def spread(X, y):
        means = np.array([X[y == c].mean(axis=0) for c in range(3)])
        return np.linalg.norm(means - means.mean(axis=0))

    assert spread(X2, y) < 0.6 * spread(X, y)


def test_document_lengths_are_log_normal():
    """With so many words that none repeats often, the different words of a document are its length."""
    X, _ = newsgroups_like(3000, 300_000, 2, length=30.0)
    log_lengths = np.log(np.diff(X.indptr))
    assert abs(np.median(log_lengths) - np.log(30.0)) < 0.25
    assert 0.5 < log_lengths.std() < 0.8


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: planted_dense(3, 2.5), "n_features must be an integer"),
        (lambda: planted_dense(3, 2, noise=0.6), "noise must be in"),
        (lambda: planted_text(3, 2000, 0.6), "density must be in"),
        (lambda: planted_text(3, 100, 0.001), "one word per document, got 0.1; raise one"),
        (lambda: planted_text(3, 100, 0.1, informative=0.0), "informative must be in"),
        (lambda: newsgroups_like(3, 10, 1), "n_classes must be at least 2"),
        (lambda: newsgroups_like(3, 10, 2, overlap=1.0), "overlap must be in"),
        (lambda: newsgroups_like(3, 10, 2, length=0.5), "length must be in"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(InvalidInputError, match=words):
        call()


@every_generator
def test_common_refusals(make):
    for options, words in [
        ({"m": 0}, "n_samples must be at least 1"),
        ({"seed": "today"}, "seed must be an integer >= 0"),
        ({"seed": -1}, "seed must be an integer >= 0"),
        ({"dtype": np.int64}, "dtype must be numpy.float64 or numpy.float32"),
    ]:
        with pytest.raises(InvalidInputError, match=words):
            make(**options)


@pytest.mark.parametrize(
    "make", [lambda: planted_dense(1, 1), lambda: planted_text(1, 2, 0.5), lambda: newsgroups_like(1, 1, 2)]
)
def test_smallest_sizes(make):
    X, y = make()
    assert X.shape[0] == len(y) == 1 and np.isfinite(toarray(X)).all()


def test_moments_and_bayes_error_of_twonorm():
    X, y = twonorm(100_000)
    for label in (-1, 1):
        np.testing.assert_allclose(X[y == label].mean(axis=0), label * 2 / np.sqrt(20), atol=0.03)
        np.testing.assert_allclose(np.cov(X[y == label].T), np.eye(20), atol=0.04)
    assert abs((y > 0).mean() - 0.5) < 0.01
    assert abs((np.sign(X.sum(axis=1)) != y).mean() - norm.cdf(-2.0)) < 0.002


def test_moments_and_bayes_error_of_ringnorm():
    X, y = ringnorm(100_000)
    mean = np.full(20, 2 / np.sqrt(20))
    np.testing.assert_allclose(X[y > 0].mean(axis=0), 0.0, atol=0.05)
    np.testing.assert_allclose(X[y < 0].mean(axis=0), mean, atol=0.03)
    np.testing.assert_allclose(np.cov(X[y > 0].T), 4 * np.eye(20), atol=0.15)
    np.testing.assert_allclose(np.cov(X[y < 0].T), np.eye(20), atol=0.04)
    wide = multivariate_normal(np.zeros(20), 4 * np.eye(20)).logpdf(X)
    narrow = multivariate_normal(mean, np.eye(20)).logpdf(X)
    assert abs((np.where(wide > narrow, 1, -1) != y).mean() - 0.0124) < 0.002
    assert abs((np.where(X.sum(axis=1) < 0.85 * np.sqrt(20), 1, -1) != y).mean() - 0.23) < 0.01


def test_waves_of_the_book():
    """Half of each of two waves, on average, and the covariance of their shares."""
    X, classes = waveform(60_000, binary=False)
    signs = waveform(60_000)[1]
    assert classes.dtype.kind == "i" and (signs == np.where(classes == 0, 1.0, -1.0)).all()
    np.testing.assert_allclose(np.bincount(classes) / 60_000, 1 / 3, atol=0.005)
    j = np.arange(1, 22)
    waves = [np.interp(j, [peak - 6, peak, peak + 6], [0, 6, 0]) for peak in (11, 15, 7)]
    for c, (a, b) in enumerate([(0, 1), (0, 2), (1, 2)]):
        np.testing.assert_allclose(X[classes == c].mean(axis=0), (waves[a] + waves[b]) / 2, atol=0.03)
        difference = waves[a] - waves[b]
        covariance = np.eye(21) + np.outer(difference, difference) / 12
        np.testing.assert_allclose(np.cov(X[classes == c].T), covariance, atol=0.1)


def test_bayes_error_of_waveform():
    """The density of a class is an integral over the share u of its first wave."""
    X, classes = waveform(4000, binary=False)
    shares = np.linspace(0.005, 0.995, 100)
    j = np.arange(1, 22)
    waves = [np.interp(j, [peak - 6, peak, peak + 6], [0, 6, 0]) for peak in (11, 15, 7)]
    densities = [
        sum(np.exp(-0.5 * ((X - u * waves[a] - (1 - u) * waves[b]) ** 2).sum(axis=1)) for u in shares)
        for a, b in [(0, 1), (0, 2), (1, 2)]
    ]
    assert abs((np.argmax(densities, axis=0) != classes).mean() - 0.14) < 0.015
