"""The max-margin risk of sequence alignment: substitution and gap scores learnt from aligned pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.validation import Array, as_count, as_vector
from cutplane.risks.examples import as_weights
from cutplane.structured.example_sum import ExampleSum, Factors, Shares
from cutplane.structured.sequences import LabelLoss, as_costs


class AlignmentRisk(Shares, ExampleSum):
    """The mean over m pairs of sequences of the largest violation of a margin, for global alignments.

    An alignment s matches some positions of a sequence a, in order, with positions of a sequence b. The
    unmatched positions of a sequence between two matches, before the first and after the last match form a
    gap. The vector w contains the scores M of matched symbols, and the scores of opening and of extending a
    gap. The score of an alignment is [1]_

        F_w(a, b, s) = sum over matches (i, j) of M[a_i, b_j] + opening #gaps + extension #positions in gaps.

    With the loss D, the number of missed true matches, the risk is

        f(w) = sum_i c_i max_s [D(y_i, s) + F_w(a_i, b_i, s) - F_w(a_i, b_i, y_i)].

    Parameters
    ----------
    A, B : list of array_like of int
        The sequences of symbols 0, 1, ..., S - 1.
    y : list of array_like of int
        For each position of a sequence of A its match in the sequence of B, or -1.
    loss : {"hamming", "share"}, default "hamming"
        The number of missed true matches ("hamming"), or their fraction ("share").
    n_symbols : int, optional
        S; by default one more than the largest symbol.
    sample_weight : array_like of shape (m,), optional
        Weights >= 0 of the pairs, by default 1 each.
    normalize : bool, default True
        Whether the weights c are divided by their sum.

    Raises
    ------
    InvalidInputError
        If the lists differ in length, a sequence is empty or contains no symbols, matches are out of range or
        not in order, or a weight is negative.

    Notes
    -----
    Pairs are aligned by dynamic programming with affine gaps, O(len(a) len(b)) each [2]_.

    References
    ----------
    .. [1] C.-N. Yu, T. Joachims, R. Elber, J. Pillardy, "Support vector training of protein alignment
       models", J. Comput. Biol. 15, 2008, doi:10.1089/cmb.2007.0152.
    .. [2] O. Gotoh, "An improved algorithm for matching biological sequences", J. Mol. Biol. 162, 1982,
       doi:10.1016/0022-2836(82)90398-9.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> A, B = [[0, 1, 2], [0, 2]], [[0, 2], [0, 1, 2]]
    >>> risk = cut.structured.AlignmentRisk(A, B, [[0, -1, 1], [0, 2]])
    >>> risk
    AlignmentRisk(2 pairs, 3 symbols)
    >>> result = cut.Problem(risk, cut.L2(1e-2)).solve(tol=1e-6)
    >>> print(round(result.objective, 4), cut.structured.align(result.x, A, B)[0].tolist())
    0.007 [0, -1, 1]
    """

    black_box = False
    per_example = "A", "B", "y", "weights", "costs", "_true"

    def __init__(
        self,
        A: Sequence[Any],
        B: Sequence[Any],
        y: Sequence[Any],
        loss: LabelLoss = "hamming",
        n_symbols: int | None = None,
        sample_weight: Any = None,
        normalize: bool = True,
    ):
        m = len(A)
        if m == 0 or len(B) != m or len(y) != m:
            raise InvalidInputError(
                f"A, B and y must have as many entries, and at least one, got {m}, {len(B)} and {len(y)}."
            )
        self.A, self.B = as_symbols("A", A), as_symbols("B", B)
        largest = max(int(part.max()) for part in [*self.A, *self.B])
        self.n_symbols = largest + 1 if n_symbols is None else as_count("n_symbols", n_symbols)
        if largest >= self.n_symbols:
            raise InvalidInputError(f"n_symbols is {n_symbols}, but there is a symbol {largest}.")
        for i, (a, b, matches) in enumerate(zip(self.A, self.B, y, strict=True)):
            if not _is_alignment(np.asarray(matches), a.size, b.size):
                raise InvalidInputError(
                    f"y[{i}] must hold {a.size} positions below {b.size} in ascending order, or -1, got "
                    f"{matches!r}."
                )
        self.y = [np.array(matches, dtype=np.int64) for matches in y]
        self.n_examples, self.dim = m, self.n_symbols**2 + 2
        self.weights = as_weights(sample_weight, m, normalize)
        counts = np.array([max(1, np.count_nonzero(matches >= 0)) for matches in self.y])
        self.loss, self.costs = loss, as_costs(loss, counts)
        self._true = [self._feature(i, matches) for i, matches in enumerate(self.y)]

    def __repr__(self) -> str:
        return f"AlignmentRisk({self.n_examples} pairs, {self.n_symbols} symbols)"

    @property
    def work(self) -> Array:
        return np.cumsum([0, *(a.size * b.size for a, b in zip(self.A, self.B, strict=True))])

    def cancelled(self, z: Array) -> float:
        sizes = np.array([2 * (a.size + b.size) for a, b in zip(self.A, self.B, strict=True)])
        return float(np.abs(z).max()) * float(self.weights @ sizes)

    def decode(self, w: Array, i: int) -> Array:
        """Return the matches of an alignment that attains the maximum for pair i."""
        return _aligned(w, self.A[i], self.B[i], self.y[i], -float(self.costs[i]))

    def piece(self, i: int, y: Array) -> tuple[Factors, float]:
        slope = self.weights[i] * (self._feature(i, y) - self._true[i])
        indices = np.flatnonzero(slope)
        missed = np.count_nonzero((self.y[i] >= 0) & (y != self.y[i]))
        return Factors(indices, slope[indices]), float(self.weights[i] * self.costs[i] * missed)

    def from_numbers(self, i: int, numbers: Array) -> Array:
        """Return checked matches."""
        if (numbers % 1.0).any() or not _is_alignment(
            numbers.astype(np.int64), self.A[i].size, self.B[i].size
        ):
            raise OracleError(f"The multipliers contain numbers that are no alignment of pair {i}.")
        return numbers.astype(np.int64)

    def _feature(self, i: int, y: Array) -> Array:
        a, b, S = self.A[i], self.B[i], self.n_symbols
        here = np.flatnonzero(y >= 0)
        feature = np.zeros(self.dim)
        feature[: S * S] = np.bincount(a[here] * S + b[y[here]], minlength=S * S)
        for matched, length in ((here, a.size), (y[here], b.size)):
            between = np.diff(np.concatenate([[-1], matched, [length]])) - 1
            feature[S * S :] += np.count_nonzero(between), between.sum()
        return feature


def align(w: Any, A: Sequence[Any], B: Sequence[Any]) -> list[Array]:
    """Return the alignments of pairs of sequences with the largest scores.

    Parameters
    ----------
    w : array_like of shape (dim,)
        The weights, as in `AlignmentRisk`.
    A, B : list of array_like of int

    Returns
    -------
    list of ndarray
        For each position of a sequence of A, the matched position in the sequence of B, or -1.

    Raises
    ------
    InvalidInputError
        If the lists differ in length, or w has no S^2 + 2 entries for these symbols.

    Examples
    --------
    Equal symbols score 1, others -1, gaps -1 for each position:

    >>> import numpy as np
    >>> from cutplane.structured import align
    >>> w = np.append(2.0 * np.eye(3) - 1.0, [0.0, -1.0])
    >>> align(w, [[0, 1, 2, 2]], [[0, 2, 2]])[0].tolist()
    [0, -1, 1, 2]
    """
    w, A, B = as_vector("w", w), as_symbols("A", A), as_symbols("B", B)
    if len(A) != len(B):
        raise InvalidInputError(f"A and B must have as many entries, got {len(A)} and {len(B)}.")
    S = math.isqrt(max(0, w.size - 2))
    largest = max((int(part.max()) for part in [*A, *B]), default=0)
    if S * S + 2 != w.size or largest >= S:
        raise InvalidInputError(
            f"w has {w.size} entries, but S symbols need S^2 + 2, and the largest symbol is {largest}."
        )
    return [_aligned(w, a, b, np.full(a.size, -1), 0.0) for a, b in zip(A, B, strict=True)]


def as_symbols(name: str, sequences: Sequence[Any]) -> list[Array]:
    """Convert sequences of symbols to int64 vectors, or raise `InvalidInputError`."""
    found = []
    for i, part in enumerate(sequences):
        symbols = np.asarray(part)
        if symbols.ndim != 1 or symbols.size == 0 or symbols.dtype.kind not in "iu" or symbols.min() < 0:
            raise InvalidInputError(
                f"{name}[{i}] must be a nonempty vector of symbols 0, 1, ..., got {part!r}; encode letters "
                "by numpy.unique(letters, return_inverse=True)[1]."
            )
        found.append(symbols.astype(np.int64))
    return found


def _is_alignment(y: Array, n: int, m: int) -> bool:
    if y.shape != (n,) or y.dtype.kind not in "iu" or (y < -1).any() or (y >= m).any():
        return False
    return bool((np.diff(y[y >= 0]) > 0).all())


def _aligned(w: Array, a: Array, b: Array, partners: Array, bonus: float) -> Array:
    from cutplane.structured.alignment_passes import best_alignment

    S = math.isqrt(w.size - 2)
    prefixes, predecessors = np.empty((3, b.size + 1)), np.empty((3, a.size + 1, b.size + 1), dtype=np.uint8)
    found = np.empty(a.size, dtype=np.int64)
    matches = w[: S * S].reshape(S, S)
    best_alignment(a, b, matches, bonus, partners, float(w[-2]), float(w[-1]), prefixes, predecessors, found)
    return found
