"""Linear chains: the max-margin risk, the log-likelihood, and predictions."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array, as_vector
from cutplane.risks.base import Risk
from cutplane.risks.examples import as_weights, describe
from cutplane.runtime.threads import run_chunks
from cutplane.structured.ascent import ForestAscent
from cutplane.structured.example_sum import Shares
from cutplane.structured.mixture import slots
from cutplane.structured.sequences import LabelLoss, Sequences, as_costs, as_csr_or_dense, as_starts, stack


class SequenceRisk(Shares, Risk):
    """The data, the weights, and parts of them, shared by `ChainRisk` and `ChainLogLikelihood`."""

    black_box = False

    def __init__(
        self,
        X: Any,
        y: Any,
        lengths: Any = None,
        n_states: int | None = None,
        sample_weight: Any = None,
        normalize: bool = True,
    ):
        self.sequences = Sequences.of(X, y, lengths, n_states)
        self.n_examples = len(self.sequences)
        self.weights = as_weights(sample_weight, self.n_examples, normalize)
        self.dim = self.sequences.dim

    def __repr__(self) -> str:
        data = self.sequences
        return f"{type(self).__name__}({len(data)} sequences, {describe(data.X)}, {data.n_states} states)"

    @property
    def work(self) -> Array:
        return self.sequences.work

    def part(self, low: int, high: int) -> Self:
        part = super().part(low, high)
        part.sequences = self.sequences.part(low, high)
        return part

    def cancelled(self, z: Array) -> float:
        """Return a bound of the absolute values of the scores, because scores cancel in differences."""
        return self.sequences.size_of_scores(z, self.weights)


class ChainRisk(SequenceRisk):
    """The mean over m sequences of the largest violation of a margin, for labellings of linear chains.

    The vector w contains emission weights E, states x features, and transition weights T, states x states.
    The score of a labelling s of a sequence x is

        F_w(x, s) = sum_t <x_t, E[s_t]> + sum_t T[s_{t-1}, s_t].

    With the loss D, the number of wrong labels, the risk is [1]_

        f(w) = sum_i c_i max_s [D(y_i, s) + F_w(x_i, s) - F_w(x_i, y_i)].

    Parameters
    ----------
    X : ndarray, sparse array, or list of these
        All positions, shape (N, n), sequence after sequence, or a list of sequences of shape (length, n).
        float32 and float64 ndarrays and CSR are not copied, and must not be changed afterwards.
    y : array_like of shape (N,), or list of these
        Labels 0, 1, ..., S - 1 of all positions, or a list of sequences.
    lengths : array_like of int, shape (m,), optional
        The length of each sequence, if X is not a list. By default X is a single sequence.
    loss : {"hamming", "share"}, default "hamming"
        The number of wrong labels of a sequence ("hamming"), or their fraction ("share").
    n_states : int, optional
        S; by default one more than the largest label.
    sample_weight : array_like of shape (m,), optional
        Weights >= 0 of the sequences, by default 1 each.
    normalize : bool, default True
        Whether the weights c are divided by their sum.

    Attributes
    ----------
    sequences : Sequences
        The checked data.

    Raises
    ------
    InvalidInputError
        If a shape is wrong, an entry is not finite, a label is not an integer or out of range, a sequence is
        empty, a weight is negative, or all weights are zero with `normalize`.

    Notes
    -----
    The oracle decodes all sequences by the Viterbi algorithm on several threads, in O(N S (n + S))
    operations. It needs memory for a few vectors w, N labels, and the scores of the longest sequences.
    `BlockFrankWolfe` is the fastest method for many sequences, `ProximalBundle` for few.

    References
    ----------
    .. [1] B. Taskar, C. Guestrin, D. Koller, "Max-margin Markov networks", NIPS 2003,
       https://papers.nips.cc/paper/2397-max-margin-markov-networks.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X = [np.eye(2)[[0, 1, 0]], np.eye(2)[[1, 1]]]
    >>> risk = cut.structured.ChainRisk(X, [[0, 1, 0], [1, 1]])
    >>> risk
    ChainRisk(2 sequences, 5 x 2 dense float64, 2 states)
    >>> risk(np.zeros(risk.dim))
    2.5
    >>> result = cut.Problem(risk, cut.L2(0.1)).solve(tol=1e-6)
    >>> print(round(result.objective, 4), cut.structured.decode(result.x, X))
    0.05 [array([0, 1, 0]), array([1, 1])]
    """

    per_example = "weights", "costs"

    def __init__(
        self,
        X: Any,
        y: Any,
        lengths: Any = None,
        loss: LabelLoss = "hamming",
        n_states: int | None = None,
        sample_weight: Any = None,
        normalize: bool = True,
    ):
        super().__init__(X, y, lengths, n_states, sample_weight, normalize)
        self.loss, self.costs = loss, as_costs(loss, np.diff(self.sequences.starts))

    def oracle(self, x: Array) -> tuple[float, Array]:
        value, found = self.sequences.decode(x, self.costs, self.weights)
        return value, self.sequences.differences([(found, self.weights)])

    def block_ascent(self, quadratic: DiagonalQuadratic, multipliers: Array | None = None) -> ForestAscent:
        slope = None if multipliers is None else self.dual_cut(multipliers)[0][0]
        return ForestAscent(self.sequences.forests(self.costs, self.weights), quadratic, multipliers, slope)

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        """Return the cut of convex combinations of labellings; u is packed as in `mixture`."""
        data, terms, offset = self.sequences, [], 0.0
        for found, shares in slots(u, data.labels, data.starts, data.n_states):
            wrong = np.add.reduceat(found != data.labels, data.starts[:-1], dtype=np.int64)
            offset += float((self.weights * shares) @ (self.costs * wrong))
            terms.append((found, self.weights * shares))
        return data.differences(terms)[np.newaxis], np.array([offset])


class ChainLogLikelihood(SequenceRisk):
    """The mean over m sequences of the negative log-likelihood of a conditional random field.

    The vector w and the scores F_w(x, s) of labellings s are as in `ChainRisk`. The probability of a
    labelling is proportional to exp F_w(x, s), which gives [1]_

        f(w) = sum_i c_i [log sum_s exp F_w(x_i, s) - F_w(x_i, y_i)].

    Because f is smooth, `LBFGS` can minimise it.

    Parameters
    ----------
    X, y, lengths, n_states, sample_weight, normalize
        The data and the weights c, as in `ChainRisk`.

    Raises
    ------
    InvalidInputError
        As in `ChainRisk`.

    Notes
    -----
    The oracle runs the forward-backward algorithm on all sequences and several threads, in O(N S (n + S))
    operations. It computes in logarithms, because sums over labellings of long sequences overflow.

    References
    ----------
    .. [1] J. Lafferty, A. McCallum, F. Pereira, "Conditional random fields: Probabilistic models for
       segmenting and labeling sequence data", ICML 2001, https://repository.upenn.edu/handle/20.500.14332/6188.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X = [np.eye(2)[[0, 1, 0]], np.eye(2)[[1, 1]]]
    >>> risk = cut.structured.ChainLogLikelihood(X, [[0, 1, 0], [1, 1]])
    >>> print(round(risk(np.zeros(risk.dim)), 4), round(2.5 * np.log(2.0), 4))
    1.7329 1.7329
    >>> result = cut.Problem(risk, cut.L2(0.1)).solve(tol=1e-6)
    >>> print(result.status, round(result.objective, 4))
    OPTIMAL 0.4796
    """

    smooth = True

    def oracle(self, x: Array) -> tuple[float, Array]:
        from cutplane.structured.likelihood_passes import expectations

        data, plan = self.sequences, self.sequences.sums
        known = data.powers(x)
        size, S = data.n_states * data.n_features, data.n_states
        sums = plan.room(self.dim)
        sums.fill(0.0)

        def do(group: tuple[int, int]) -> float:
            low, high = plan.span(group)
            longest = int(np.diff(data.starts[low : high + 1]).max())
            tables, largest = np.empty((3, longest, S)), np.empty(longest)
            room, value = np.empty((3, S)), 0.0
            for segment in range(*group):
                parts = sums[segment, :size].reshape(-1, S), sums[segment, size : self.dim].reshape(S, S)
                value += expectations(
                    data.rows, data.starts, plan.edges[segment], plan.edges[segment + 1],
                    data.labels, self.weights, *known, *tables, largest, room, *parts,
                )  # fmt: skip
            return value

        value = sum(run_chunks(do, plan.groups))
        slope = plan.add_up(sums, self.dim)[0]
        slope[:size] = slope[:size].reshape(-1, S).T.ravel()
        return max(0.0, value), slope


def decode(w: Array, X: Any, lengths: Any = None) -> Any:
    """Return the labellings of chains with the largest scores for the weights w.

    Parameters
    ----------
    w : array_like of shape (dim,)
        The weights of a `ChainRisk` or a `ChainLogLikelihood`.
    X : ndarray, sparse array, or list of these
        Positions of shape (N, n), or a list of sequences.
    lengths : array_like of int, optional
        The length of each sequence, if X is not a list.

    Returns
    -------
    ndarray of shape (N,), or list of ndarray
        A list if X is a list.

    Raises
    ------
    InvalidInputError
        If a shape is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.structured import decode
    >>> E, T = np.array([[1.0], [-1.0]]), np.array([[0.0, 3.0], [0.0, 0.0]])
    >>> decode(np.append(E, T), np.array([[1.0], [1.0], [0.5]])).tolist()
    [0, 0, 1]
    """
    w, data, listed = _unlabelled(w, X, lengths)
    nothing = np.zeros(len(data))
    found = data.decode(w, nothing, nothing)[1].astype(np.int64)
    return np.split(found, data.starts[1:-1]) if listed else found


def marginals(w: Array, X: Any, lengths: Any = None) -> Any:
    """Return the probabilities of the states at each position in a conditional random field.

    Parameters
    ----------
    w : array_like of shape (dim,)
        The weights of a `ChainLogLikelihood`.
    X, lengths
        As in `decode`.

    Returns
    -------
    ndarray of shape (N, S), or list of ndarray of shape (length, S)
        A list if X is a list.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.structured import marginals
    >>> E, T = np.zeros((2, 1)), np.log([[3.0, 1.0], [1.0, 1.0]])
    >>> marginals(np.append(E, T), np.ones((2, 1))).round(4).tolist()
    [[0.6667, 0.3333], [0.6667, 0.3333]]
    """
    from cutplane.structured.likelihood_passes import marginals as fill

    w, data, listed = _unlabelled(w, X, lengths)
    known, S = data.powers(w), data.n_states
    out = np.empty((data.labels.size, S))

    def do(part: tuple[int, int]) -> None:
        longest = int(np.diff(data.starts[part[0] : part[1] + 1]).max())
        tables, largest, room = np.empty((3, longest, S)), np.empty(longest), np.empty((3, S))
        fill(data.rows, data.starts, *part, *known, *tables, largest, room, out)

    run_chunks(do, data.chunks)
    return np.split(out, data.starts[1:-1]) if listed else out


def _unlabelled(w: Any, X: Any, lengths: Any) -> tuple[Array, Sequences, bool]:
    """Return checked weights, sequences without labels, and whether they were given as a list."""
    listed = lengths is None and isinstance(X, list | tuple)
    X, _, lengths = stack(X, None, lengths)
    X = as_csr_or_dense(X)
    w = as_vector("w", w)
    n = X.shape[1]
    n_states = round(0.5 * (math.sqrt(n * n + 4.0 * w.size) - n))
    if n_states * (n + n_states) != w.size:
        raise InvalidInputError(
            f"w has {w.size} entries, but S states and {n} features need S (S + {n}) entries."
        )
    labels = np.zeros(X.shape[0], dtype=np.min_scalar_type(n_states - 1))
    return w, Sequences(X, labels, as_starts(lengths, X.shape[0]), n_states), listed
