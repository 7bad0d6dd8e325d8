"""Generators of labelled examples, reproducible by a seed.

An argument out of its range raises `InvalidInputError`. float32 data are the rounded float64 data.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_count, as_scalar

_N_FEATURES = 20
"""Dimension of Breiman's problems, because their published errors are for dimension 20."""


def planted_dense(
    n_samples: int, n_features: int, *, noise: float = 0.1, seed: Any = 0, dtype: Any = np.float64
) -> tuple[Array, Array]:
    """Gaussian examples, labelled by a hidden hyperplane through the origin; some labels are flipped.

        x_i ~ N(0, I),  w ~ N(0, I),  y_i = sign <x_i, w>, or its negative with probability `noise`.

    Parameters
    ----------
    n_samples, n_features : int
        At least 1.
    noise : float, default 0.1
        Probability in [0, 0.5] that a label is flipped: the rate of random
        classification noise (Angluin, Laird 1988, 10.1023/A:1022873112823).
    seed : int or numpy.random.Generator, default 0
        The same seed gives the same data; the examples do not depend on `noise`.
    dtype : numpy.float64 or numpy.float32, default numpy.float64

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Labels -1 and +1.

    Examples
    --------
    >>> from cutplane.datasets import planted_dense
    >>> X, y = planted_dense(1000, 20, noise=0.05)
    >>> X.shape, y.shape, sorted(set(y.tolist()))
    ((1000, 20), (1000,), [-1.0, 1.0])
    """
    m, rng, dtype = _checked(n_samples, seed, dtype)
    n, noise = as_count("n_features", n_features), as_scalar("noise", noise, low=0.0, high=0.5)
    w = rng.normal(size=n)
    X = rng.normal(size=(m, n))
    return X.astype(dtype, copy=False), _noisy_signs(X @ w, noise, rng)


def planted_text(
    n_samples: int,
    n_features: int,
    density: float = 0.0015,
    *,
    informative: float = 0.05,
    noise: float = 0.05,
    seed: Any = 0,
    dtype: Any = np.float64,
) -> tuple[Any, Array]:
    """Documents as bags of words, labelled by a hidden sparse hyperplane; some labels are flipped.

    The j-th most frequent word has the Zipf-Mandelbrot probability

        p_j proportional to 1 / (j + 2.7),

    and a document is Poisson(L) words drawn from p, at least one. L is chosen such that the expected number
    of different words in it is ``density * n_features``. A word that occurs c times in it has the tf-idf
    weight (Salton, Buckley 1988, 10.1016/0306-4573(88)90021-0)

        (1 + ln c) (1 + ln((1 + m) / (1 + m_j))),   m_j of the m documents hold the word,

    divided by the norm of the document. The hyperplane w has normal weights on a share `informative` of the
    words, drawn without replacement from p, minus a constant that makes the mean score <x, w> of the
    documents 0. The label is y_i = sign <x_i, w>, or its negative with probability `noise`. The columns are
    in the order of p.

    Parameters
    ----------
    n_samples, n_features : int
        At least 1.
    density : float, default 0.0015
        Expected share of the words that occur in a document, in (0, 0.5]; ``density * n_features`` is at
        least 1.
    informative : float, default 0.05
        Share of the words with a weight in the hyperplane, in (0, 1], rounded up to whole words.
    noise : float, default 0.05
        Probability in [0, 0.5] that a label is flipped.
    seed : int or numpy.random.Generator, default 0
        The same seed gives the same data; the documents do not depend on `noise`.
    dtype : numpy.float64 or numpy.float32, default numpy.float64

    Returns
    -------
    X : csr_array of shape (n_samples, n_features)
        Rows of norm 1, none of them empty.
    y : ndarray of shape (n_samples,)
        Labels -1 and +1.

    Examples
    --------
    >>> from cutplane.datasets import planted_text
    >>> X, y = planted_text(500, 2000, density=0.01)
    >>> X.format, X.shape, abs(X.nnz / (500 * 2000) - 0.01) < 5e-4
    ('csr', (500, 2000), True)
    """
    m, rng, dtype = _checked(n_samples, seed, dtype)
    n, noise = as_count("n_features", n_features), as_scalar("noise", noise, low=0.0, high=0.5)
    density = as_scalar("density", density, low=0.0, low_open=True, high=0.5)
    if density * n < 1.0:
        raise InvalidInputError(
            f"density * n_features must be at least 1, one word per document, got {density * n:g}; raise one."
        )
    informative = as_scalar("informative", informative, low=0.0, low_open=True, high=1.0)
    frequencies = _zipf(n)
    chosen = rng.choice(n, int(np.ceil(informative * n)), replace=False, p=frequencies)
    normal = rng.normal(size=chosen.size)
    lengths = np.maximum(1, rng.poisson(_length(frequencies, density * n), size=m))
    X = _tf_idf(np.repeat(np.arange(m), lengths), _words(frequencies, int(lengths.sum()), rng), (m, n))
    sums = X.sum(axis=0)[chosen]
    w = np.zeros(n)
    w[chosen] = normal - (sums @ normal / sums.sum() if sums.any() else 0.0)
    return X.astype(dtype, copy=False), _noisy_signs(X @ w, noise, rng)


def newsgroups_like(
    n_samples: int,
    n_features: int,
    n_classes: int = 20,
    *,
    length: float = 120.0,
    overlap: float = 0.6,
    noise: float = 0.0,
    seed: Any = 0,
    dtype: Any = np.float64,
    return_topics: bool = False,
) -> tuple[Any, ...]:
    """Documents of several classes whose vocabularies overlap: a mixture of topics.

    The model is a variant of LDA (Blei, Ng, Jordan 2003, jmlr.org/papers/v3/blei03a.html).

    A topic is a distribution of words: one of common words, the Zipf law p of `planted_text`, and one for
    each class, phi_cj proportional to p_j g_cj with independent g_cj ~ Gamma(0.2). The number of words of a
    document of class c is log-normal with the median `length` and the shape 0.7; each word is drawn from
    topic t with probability pi_t,

        pi ~ Dirichlet(5 a),   a_c = 1 - overlap,   a_common = overlap / 2,   the others share overlap / 2.

    Rows are weighted by tf-idf and have norm 1, as in `planted_text`.

    Parameters
    ----------
    n_samples, n_features : int
        At least 1.
    n_classes : int, default 20
        At least 2; all equally likely.
    length : float, default 120
        Median number of words in a document, at least 1, repetitions included.
    overlap : float, default 0.6
        Expected share of the words of a document that are not from the topic of its class, in (0, 1).
    noise : float, default 0
        Probability in [0, 1] that a label is replaced by one drawn from all classes.
    seed : int or numpy.random.Generator, default 0
        The same seed gives the same data; the documents do not depend on `noise`.
    dtype : numpy.float64 or numpy.float32, default numpy.float64
    return_topics : bool, default False
        Whether to return phi, too.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features)
        Rows of norm 1, none of them empty.
    y : ndarray of shape (n_samples,)
        Integer labels 0, ..., n_classes - 1.
    topics : ndarray of shape (n_classes + 1, n_features)
        Only with `return_topics`: the probabilities of the words in each topic; the last is the common one.

    Examples
    --------
    >>> from cutplane.datasets import newsgroups_like
    >>> X, y, topics = newsgroups_like(300, 2000, 4, return_topics=True)
    >>> X.shape, sorted(set(y.tolist())), topics.shape
    ((300, 2000), [0, 1, 2, 3], (5, 2000))
    """
    m, rng, dtype = _checked(n_samples, seed, dtype)
    n, k = as_count("n_features", n_features), as_count("n_classes", n_classes, low=2)
    length = as_scalar("length", length, low=1.0)
    overlap = as_scalar("overlap", overlap, low=0.0, high=1.0, low_open=True, high_open=True)
    noise = as_scalar("noise", noise, low=0.0, high=1.0)
    frequencies = _zipf(n)
    topics = np.vstack([frequencies * rng.gamma(0.2, size=(k, n)), frequencies])
    topics /= topics.sum(axis=1, keepdims=True)
    y = rng.integers(k, size=m)
    lengths = np.maximum(1, np.rint(length * rng.lognormal(sigma=0.7, size=m))).astype(np.int64)
    shares = np.full((k, k + 1), 0.5 * overlap / (k - 1))
    shares[:, k] = 0.5 * overlap
    np.fill_diagonal(shares, 1.0 - overlap)
    mixtures = rng.standard_gamma(5.0 * shares[y])
    counts = rng.multinomial(lengths, mixtures / mixtures.sum(axis=1, keepdims=True))
    documents = np.concatenate([np.repeat(np.arange(m), column) for column in counts.T])
    words = np.concatenate(
        [_words(topic, int(column.sum()), rng) for topic, column in zip(topics, counts.T, strict=True)]
    )
    X = _tf_idf(documents, words, (m, n)).astype(dtype, copy=False)
    y = np.where(rng.random(m) < noise, rng.integers(k, size=m), y)
    return (X, y, topics) if return_topics else (X, y)


def _zipf(n: int) -> Array:
    p = 1.0 / (np.arange(1, n + 1) + 2.7)
    return p / p.sum()


def _length(frequencies: Array, distinct: float) -> float:
    """Return the expected number of words among which `distinct` different ones are expected."""
    low, high = 0.0, distinct
    while -np.expm1(-high * frequencies).sum() < distinct:
        low, high = high, 2.0 * high
    for _ in range(50):
        middle = 0.5 * (low + high)
        if -np.expm1(-middle * frequencies).sum() < distinct:
            low = middle
        else:
            high = middle
    return high


def _words(probabilities: Array, count: int, rng: np.random.Generator) -> Array:
    edges = np.cumsum(probabilities)
    return np.searchsorted(edges, edges[-1] * rng.random(count), side="right")


def _tf_idf(documents: Array, words: Array, shape: tuple[int, int]) -> Any:
    """Return the tf-idf matrix, with rows of norm 1, of a list of pairs (document, word)."""
    X = sparse.csr_array(
        (np.ones(words.size), (documents.astype(np.int32), words.astype(np.int32))), shape=shape
    )
    X.sum_duplicates()
    held_by = np.bincount(X.indices, minlength=shape[1])
    idf = 1.0 + np.log((1.0 + shape[0]) / (1.0 + held_by))
    X.data = (1.0 + np.log(X.data)) * idf[X.indices]
    norms = np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1]))
    X.data /= np.repeat(norms, np.diff(X.indptr))
    return X


def twonorm(n_samples: int, *, seed: Any = 0, dtype: Any = np.float64) -> tuple[Array, Array]:
    """Two Gaussian classes with the same covariance, in 20 dimensions (Breiman 1998, 10.1214/aos/1024691079).

        y = +1 or -1, equally likely,   x ~ N(y (a, ..., a), I),   a = 2 / sqrt(20).

    The best classifier is sign(x_1 + ... + x_20), whose error is 2.3%; it is oblique to all axes, so that
    many stumps are needed.

    Parameters
    ----------
    n_samples : int
        At least 1.
    seed : int or numpy.random.Generator, default 0
        The same seed gives the same data.
    dtype : numpy.float64 or numpy.float32, default numpy.float64

    Returns
    -------
    X : ndarray of shape (n_samples, 20)
    y : ndarray of shape (n_samples,)
        Labels -1 and +1.

    Examples
    --------
    >>> from cutplane.datasets import twonorm
    >>> X, y = twonorm(100_000)
    >>> error = ((X.sum(axis=1) > 0) != (y > 0)).mean()
    >>> X.shape, bool(abs(error - 0.0228) < 0.002)
    ((100000, 20), True)
    """
    X, y, dtype = _normal_with_signs(n_samples, seed, dtype)
    X += y[:, np.newaxis] * (2.0 / math.sqrt(_N_FEATURES))
    return X.astype(dtype, copy=False), y


def ringnorm(n_samples: int, *, seed: Any = 0, dtype: Any = np.float64) -> tuple[Array, Array]:
    """Gaussian classes, one around the other, in 20 dimensions (Breiman 1998, 10.1214/aos/1024691079).

        y = +1 or -1, equally likely,   x | +1 ~ N(0, 4 I),   x | -1 ~ N((a, ..., a), I),   a = 2 / sqrt(20).

    The best classifier tests on which side of a sphere x lies; its error is 1.2%, the error of the best
    hyperplane 23%.

    Parameters
    ----------
    n_samples : int
        At least 1.
    seed : int or numpy.random.Generator, default 0
        The same seed gives the same data.
    dtype : numpy.float64 or numpy.float32, default numpy.float64

    Returns
    -------
    X : ndarray of shape (n_samples, 20)
    y : ndarray of shape (n_samples,)
        Labels -1 and +1.

    Examples
    --------
    >>> from cutplane.datasets import ringnorm
    >>> X, y = ringnorm(10_000)
    >>> [round(float(X[y == label].std()), 1) for label in (-1, 1)]
    [1.0, 2.0]
    """
    X, y, dtype = _normal_with_signs(n_samples, seed, dtype)
    wide = y > 0
    X[wide] *= 2.0
    X[~wide] += 2.0 / math.sqrt(_N_FEATURES)
    return X.astype(dtype, copy=False), y


def waveform(
    n_samples: int, *, binary: bool = True, seed: Any = 0, dtype: Any = np.float64
) -> tuple[Array, Array]:
    """Noisy mixtures of two of three triangular waves, at 21 places (Breiman et al., 10.1201/9781315139470).

        x_j = u h(j) + (1 - u) h'(j) + e_j,   j = 1, ..., 21,   u ~ U(0, 1),   e_j ~ N(0, 1),
        h_1(j) = max(6 - |j - 11|, 0),   h_2(j) = h_1(j - 4),   h_3(j) = h_1(j + 4).

    The waves (h, h') are (h_1, h_2) in class 0, (h_1, h_3) in class 1, and (h_2, h_3) in class 2; the classes
    are equally likely. The least possible error is about 14% with three classes.

    Parameters
    ----------
    n_samples : int
        At least 1.
    binary : bool, default True
        Whether y is +1 for class 0 and -1 for the other two, instead of the class.
    seed : int or numpy.random.Generator, default 0
        The same seed gives the same data; the examples do not depend on `binary`.
    dtype : numpy.float64 or numpy.float32, default numpy.float64

    Returns
    -------
    X : ndarray of shape (n_samples, 21)
    y : ndarray of shape (n_samples,)
        Labels -1.0 and +1.0; integers 0, 1 and 2 if not `binary`.

    Examples
    --------
    >>> from cutplane.datasets import waveform
    >>> X, y = waveform(30_000)
    >>> X.shape, round(float((y > 0).mean()), 2)
    ((30000, 21), 0.33)
    """
    m, rng, dtype = _checked(n_samples, seed, dtype)
    places = np.arange(1, 22)
    waves = np.maximum(6.0 - np.abs(places - np.array([[11], [15], [7]])), 0.0)
    classes = rng.integers(3, size=m)
    u = rng.random((m, 1))
    X = rng.normal(size=(m, places.size))
    first, second = np.array([[0, 1], [0, 2], [1, 2]])[classes].T
    X += u * waves[first] + (1.0 - u) * waves[second]
    return X.astype(dtype, copy=False), np.where(classes == 0, 1.0, -1.0) if binary else classes


def _normal_with_signs(n_samples: int, seed: Any, dtype: Any) -> tuple[Array, Array, np.dtype[Any]]:
    m, rng, dtype = _checked(n_samples, seed, dtype)
    y = np.where(rng.random(m) < 0.5, -1.0, 1.0)
    return rng.normal(size=(m, _N_FEATURES)), y, dtype


def _checked(n_samples: Any, seed: Any, dtype: Any) -> tuple[int, np.random.Generator, np.dtype[Any]]:
    """Return the checked number of examples, a generator and a dtype, or raise `InvalidInputError`."""
    if dtype not in (np.float32, np.float64):
        raise InvalidInputError(f"dtype must be numpy.float64 or numpy.float32, got {dtype!r}.")
    m = as_count("n_samples", n_samples)
    try:
        return m, np.random.default_rng(seed), np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"seed must be an integer >= 0 or a numpy.random.Generator, got {seed!r}."
        ) from error


def _noisy_signs(scores: Array, noise: float, rng: np.random.Generator) -> Array:
    return np.where((scores >= 0.0) ^ (rng.random(scores.size) < noise), 1.0, -1.0)
