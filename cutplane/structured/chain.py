"""The max-margin risk of linear chains."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.exceptions import OracleError
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.structured.forest_ascent import ForestAscent
from cutplane.structured.mixture import unpack
from cutplane.structured.sequence_risk import SequenceRisk
from cutplane.structured.sequences import LabelLoss, as_costs


class ChainRisk(SequenceRisk):
    """The mean over m sequences of the largest violation of a margin, for labellings of linear chains.

    The vector w of the problem holds emission weights E, states x features, and transition weights T, states
    x states. A labelling s of a sequence x scores

        F_w(x, s) = sum_t <x_t, E[s_t]> + sum_t T[s_{t-1}, s_t],

    and with the loss D, how many labels are wrong, the risk is [1]_

        f(w) = sum_i c_i max_s [D(y_i, s) + F_w(x_i, s) - F_w(x_i, y_i)].

    Parameters
    ----------
    X : ndarray, sparse array, or list of these
        All positions, shape (N, n), sequence after sequence, or a list of sequences of shape (length, n).
        float32 and float64 ndarrays and CSR are not copied, and must not be changed afterwards.
    y : array_like of shape (N,), or list of these
        Labels 0, 1, ..., S - 1 of all positions, or a list of sequences.
    lengths : array_like of int, shape (m,), optional
        How many positions each sequence has, if X is not a list. By default it is one sequence.
    loss : {"hamming", "share"}, default "hamming"
        How many labels of a sequence are wrong, or what share of them.
    n_states : int, optional
        S; by default one more than the largest label.
    sample_weight : array_like of shape (m,), optional
        Weights >= 0 of the sequences, by default 1 each.
    normalize : bool, default True
        Whether the weights c are divided by their sum.

    Attributes
    ----------
    sequences : Sequences
        The data, checked.

    Raises
    ------
    InvalidInputError
        If a shape does not fit, an entry is not finite, a label is no integer or out of range, a sequence is
        empty, a weight is negative, or all are zero and `normalize` is set.

    Notes
    -----
    The oracle decodes all sequences by the Viterbi algorithm, on several threads: O(N S (n + S)). Memory
    beside the data is that of a few vectors w, N labels, and the scores of the longest sequences. The optimum
    found by `Problem.solve` is certified for the risk; the best method is `BlockFrankWolfe` where sequences
    are many, and `ProximalBundle` where they are few.

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
        """Return the value and a subgradient at `x`: all sequences are decoded."""
        value, found = self.sequences.decode(x, self.costs, self.weights)
        return value, self.sequences.differences([(found, self.weights)])

    def block_ascent(self, quadratic: DiagonalQuadratic, multipliers: Array | None = None) -> ForestAscent:
        """Return block-coordinate ascent on the dual, as `BlockFrankWolfe` does it."""
        return ForestAscent(self, self.sequences.forests, quadratic, multipliers)

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        """Return the cut that convex combinations of labellings give; u is a vector of `mixture`."""
        data = self.sequences
        terms, offset = [], 0.0
        for there, shares, places, numbers in unpack(u, np.diff(data.starts)):
            if ((numbers < 0) | (numbers >= data.n_states) | (numbers % 1.0 != 0.0)).any():
                raise OracleError(f"A labelling holds a label that is none of 0 to {data.n_states - 1}.")
            factors, found = np.zeros(len(data)), data.labels.copy()
            factors[there] = self.weights[there] * shares
            found[places] = numbers
            wrong = np.add.reduceat(found != data.labels, data.starts[:-1], dtype=np.int64)
            offset += float(factors @ (self.costs * wrong))
            terms.append((found, factors))
        return data.differences(terms)[np.newaxis], np.array([offset])
