"""Documents as bags of words."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cutplane.datasets.draws import as_generator, as_real_type, noisy_signs
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_count, as_scalar

_ZIPF_EXPONENT, _ZIPF_SHIFT = 1.0, 2.7
_CONCENTRATION = 5.0


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

    The j-th most frequent word has the Zipf-Mandelbrot probability [1]_

        p_j proportional to 1 / (j + 2.7),

    a document is Poisson(L) words drawn from p, at least one, with L such that ``density * n_features``
    different ones are expected in it, and a word that occurs c times in it has the tf-idf weight [2]_

        (1 + ln c) (1 + ln((1 + m) / (1 + m_j))),   m_j of the m documents hold the word,

    divided by the norm of the document. The hyperplane w has normal weights on a share `informative` of the
    words, drawn without replacement from p, less a constant such that the documents have the mean score
    <x, w> = 0. The label is y_i = sign <x_i, w>, or its negative with probability `noise`. The columns are in
    the order of p.

    Parameters
    ----------
    n_samples, n_features : int
        At least 1.
    density : float, default 0.0015
        Expected share of the words that occur in a document, in (0, 0.5]; ``density * n_features`` is at
        least 1.
    informative : float, default 0.05
        Share of the words that the hyperplane looks at, in (0, 1], rounded up to a whole number of words.
    noise : float, default 0.05
        Probability in [0, 0.5] that a label is flipped.
    seed : int or numpy.random.Generator, default 0
        The same seed gives the same data, and the same documents whatever the noise.
    dtype : numpy.float64 or numpy.float32, default numpy.float64
        Of X; float32 data are the float64 data, rounded.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features)
        Rows of norm 1, none of them empty.
    y : ndarray of shape (n_samples,)
        Labels -1 and +1.

    Raises
    ------
    InvalidInputError
        If an argument is out of its range.

    References
    ----------
    .. [1] B. Mandelbrot, "An informational theory of the statistical structure of language", in
       Communication Theory, 1953.
    .. [2] G. Salton, C. Buckley, "Term-weighting approaches in automatic text retrieval", Information
       Processing & Management 24, 1988, https://doi.org/10.1016/0306-4573(88)90021-0.

    Examples
    --------
    >>> from cutplane.datasets import planted_text
    >>> X, y = planted_text(500, 2000, density=0.01)
    >>> X.format, X.shape, abs(X.nnz / (500 * 2000) - 0.01) < 5e-4
    ('csr', (500, 2000), True)
    """
    m, n = as_count("n_samples", n_samples), as_count("n_features", n_features)
    density = as_scalar("density", density, low=0.0, low_open=True, high=0.5)
    if density * n < 1.0:
        raise InvalidInputError(
            f"density * n_features must be at least 1, one word per document, got {density * n:g}; raise one."
        )
    informative = as_scalar("informative", informative, low=0.0, low_open=True, high=1.0)
    noise, rng, dtype = as_scalar("noise", noise, low=0.0, high=0.5), as_generator(seed), as_real_type(dtype)
    frequencies = _zipf(n)
    chosen = rng.choice(n, int(np.ceil(informative * n)), replace=False, p=frequencies)
    normal = rng.normal(size=chosen.size)
    lengths = np.maximum(1, rng.poisson(_length(frequencies, density * n), size=m))
    X = _tf_idf(np.repeat(np.arange(m), lengths), _words(frequencies, int(lengths.sum()), rng), (m, n))
    sums = X.sum(axis=0)[chosen]
    w = np.zeros(n)
    w[chosen] = normal - (sums @ normal / sums.sum() if sums.any() else 0.0)
    return X.astype(dtype, copy=False), noisy_signs(X @ w, noise, rng)


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
    """Documents of several classes whose vocabularies overlap: a mixture of topics, as in LDA [1]_.

    There is a topic for each class and one of common words, the Zipf law p of `planted_text`. The topic of a
    class is p made uneven, phi_cj proportional to p_j g_cj with independent g_cj ~ Gamma(0.2). A document of
    class c has log-normally many words with the median `length` and the shape 0.7; each is drawn from topic t
    with probability pi_t,

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
        The same seed gives the same data, and the same documents whatever the noise.
    dtype : numpy.float64 or numpy.float32, default numpy.float64
        Of X; float32 data are the float64 data, rounded.
    return_topics : bool, default False
        Whether to return phi too.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features)
        Rows of norm 1, none of them empty.
    y : ndarray of shape (n_samples,)
        Integer labels 0, ..., n_classes - 1.
    topics : ndarray of shape (n_classes + 1, n_features)
        Only with `return_topics`: the probabilities of the words in each topic; the last is the common one.

    Raises
    ------
    InvalidInputError
        If an argument is out of its range.

    References
    ----------
    .. [1] D. Blei, A. Ng, M. Jordan, "Latent Dirichlet allocation", JMLR 3, 2003,
       https://jmlr.org/papers/v3/blei03a.html.

    Examples
    --------
    >>> from cutplane.datasets import newsgroups_like
    >>> X, y, topics = newsgroups_like(300, 2000, 4, return_topics=True)
    >>> X.shape, sorted(set(y.tolist())), topics.shape
    ((300, 2000), [0, 1, 2, 3], (5, 2000))
    """
    m, n, k = as_count("n_samples", n_samples), as_count("n_features", n_features), n_classes
    k = as_count("n_classes", n_classes, low=2)
    length = as_scalar("length", length, low=1.0)
    overlap = as_scalar("overlap", overlap, low=0.0, high=1.0, low_open=True, high_open=True)
    noise, rng, dtype = as_scalar("noise", noise, low=0.0, high=1.0), as_generator(seed), as_real_type(dtype)
    frequencies = _zipf(n)
    topics = np.vstack([frequencies * rng.gamma(0.2, size=(k, n)), frequencies])
    topics /= topics.sum(axis=1, keepdims=True)
    y = rng.integers(k, size=m)
    lengths = np.maximum(1, np.rint(length * rng.lognormal(sigma=0.7, size=m))).astype(np.int64)
    shares = np.full((k, k + 1), 0.5 * overlap / (k - 1))
    shares[:, k] = 0.5 * overlap
    np.fill_diagonal(shares, 1.0 - overlap)
    mixtures = rng.standard_gamma(_CONCENTRATION * shares[y])
    counts = rng.multinomial(lengths, mixtures / mixtures.sum(axis=1, keepdims=True))
    documents = np.concatenate([np.repeat(np.arange(m), column) for column in counts.T])
    words = np.concatenate(
        [_words(topic, int(column.sum()), rng) for topic, column in zip(topics, counts.T, strict=True)]
    )
    X = _tf_idf(documents, words, (m, n)).astype(dtype, copy=False)
    y = np.where(rng.random(m) < noise, rng.integers(k, size=m), y)
    return (X, y, topics) if return_topics else (X, y)


def _zipf(n: int) -> Array:
    p = (np.arange(1, n + 1) + _ZIPF_SHIFT) ** -_ZIPF_EXPONENT
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
    """Return the tf-idf matrix with rows of norm 1 of pairs (document, word)."""
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
