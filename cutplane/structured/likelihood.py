"""The negative log-likelihood of linear chains: conditional random fields."""

from __future__ import annotations

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.runtime.threads import run_chunks
from cutplane.structured.sequence_risk import SequenceRisk


class ChainLogLikelihood(SequenceRisk):
    """The mean over m sequences of the negative log-likelihood of a conditional random field.

    The vector w holds emission weights, states x features, and transition weights, states x states, as in
    `ChainRisk`, and scores labellings s of a sequence x by F_w(x, s). Probabilities are in proportion to
    exp F_w(x, s), and [1]_

        f(w) = sum_i c_i [log sum_s exp F_w(x_i, s) - F_w(x_i, y_i)],

    a smooth function, which `LBFGS` minimises.

    Parameters
    ----------
    X : ndarray, sparse array, or list of these
        All positions, shape (N, n), sequence after sequence, or a list of sequences of shape (length, n).
        float32 and float64 ndarrays and CSR are not copied, and must not be changed afterwards.
    y : array_like of shape (N,), or list of these
        Labels 0, 1, ..., S - 1 of all positions, or a list of sequences.
    lengths : array_like of int, shape (m,), optional
        How many positions each sequence has, if X is not a list. By default it is one sequence.
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
    The oracle goes forward and backward over all sequences, on several threads: O(N S (n + S)). All is
    computed in logarithms, so that no length and no weights overflow.

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
        """Return the value and the gradient at `x`."""
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
