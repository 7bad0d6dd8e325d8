"""The max-margin risk of structured outputs, given by a user's joint feature, loss and decoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.capabilities import Capability
from cutplane.pieces.validation import Array, as_count
from cutplane.risks.base import Estimate
from cutplane.risks.examples import as_weights
from cutplane.runtime.deadline import check_time
from cutplane.structured.example_sum import ExampleSum, Factors, Shares, as_factors, dimension_of
from cutplane.structured.mixture import pack

Rescaling = Literal["margin", "slack"]
Decoder = Literal["exact", "outer", "inner"]
UserDecoder = Literal["exact", "outer", "inner", "bounded"]

_NOTHING = Factors(np.empty(0, dtype=np.int64), np.empty(0))
_ROUNDING = 1e-9
"""Negative violation, relative to its terms, that counts as 0, because it may be a rounding error."""


class StructuredRisk(Shares, ExampleSum):
    """The mean over m examples of the largest violation of a margin, for any structured output.

    With ``psi_i(y) = joint_feature(x_i, y) - joint_feature(x_i, y_i)`` it is [1]_

        f(w) = sum_i c_i max_y [loss(y_i, y) + <w, psi_i(y)>]      (margin rescaling),
        f(w) = sum_i c_i max_y loss(y_i, y) (1 + <w, psi_i(y)>)    (slack rescaling).

    Parameters
    ----------
    X, Y : sequence of length m
        The examples and their true labellings, of any type that your functions accept.
    joint_feature : callable
        ``joint_feature(x, y)`` returns an array of shape (dim,), a sparse row of this length, or a pair
        ``(indices, values)``, whose indices may repeat.
    loss : callable
        ``loss(y_true, y)`` returns a number >= 0, and 0 for ``y == y_true``.
    loss_augmented_inference : callable
        ``loss_augmented_inference(x, y_true, w)`` returns a labelling y that attains the maximum.
    rescaling : {"margin", "slack"}, default "margin"
    decoder : {"exact", "outer", "inner", "bounded"}, default "exact"
        The kind of `loss_augmented_inference`, because the proof depends on it:

        * "exact": it finds the maximum. Bounds and cuts are valid for f.
        * "outer": it maximises over a larger set than the labellings, for example a linear relaxation, and
          returns a point of this set, which `joint_feature` and `loss` must accept. The relaxed risk, an
          upper bound of f, is minimised and certified.
        * "inner": it searches only some labellings, and may miss the best one. Cuts and lower bounds are
          valid for f, but values may be too low. A closed gap therefore gives the status TARGET, not OPTIMAL.
        * "bounded": ``loss_augmented_inference(x, y_true, w, accuracy)`` returns a pair (y, bound). The
          finite bound is at least ``loss(y_true, z) + <w, joint_feature(x, z)>`` for every labelling z, and
          should exceed it for y by at most `accuracy`, which follows from the gap of the solve: inf at first,
          0 at the end. Bounds are valid for f also if it exceeds it by more. Requires margin rescaling, and
          labellings that are numbers or vectors of numbers.
    sample_weight : array_like of shape (m,), optional
        Weights >= 0, by default 1 for each example.
    normalize : bool, default True
        Whether the weights c are divided by their sum.
    dim : int, optional
        The number of coordinates of w; required if joint features are pairs.

    Raises
    ------
    InvalidInputError
        If X and Y are empty or differ in length, a function is not callable, the loss of a true labelling is
        not 0, `dim` is missing, or another argument is invalid.
    OracleError
        While solving, if a function returns an invalid value, or an exact decoder returns a labelling that is
        worse than the true one. `cutplane.testing.check_structured` compares a decoder with enumeration.

    Notes
    -----
    `certificate.verify` calls your functions again: the decoder at the points of recorded cuts and, after
    `BlockFrankWolfe`, `joint_feature` and `loss` with recorded labellings. It cannot test whether a recorded
    labelling is feasible for x. If this matters, let `joint_feature` raise for infeasible labellings.

    References
    ----------
    .. [1] I. Tsochantaridis, T. Joachims, T. Hofmann, Y. Altun, "Large margin methods for structured and
       interdependent output variables", JMLR 6, 2005, https://jmlr.org/papers/v6/tsochantaridis05a.html.

    Examples
    --------
    Three classes with one vector of weights each:

    >>> import numpy as np, cutplane as cut
    >>> X, Y = [np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([-1.0, -1.0])], [0, 1, 2]
    >>> def joint_feature(x, y):
    ...     return 2 * y + np.arange(2), x
    >>> def loss(y_true, y):
    ...     return float(y_true != y)
    >>> def loss_augmented_inference(x, y_true, w):
    ...     return int(np.argmax(w.reshape(3, 2) @ x + (np.arange(3) != y_true)))
    >>> risk = cut.StructuredRisk(X, Y, joint_feature, loss, loss_augmented_inference, dim=6)
    >>> print(round(cut.Problem(risk, cut.L2(0.1)).solve(tol=1e-6).objective, 4))
    0.0667
    """

    per_example = "X", "Y", "weights"

    def __init__(
        self,
        X: Sequence[Any],
        Y: Sequence[Any],
        joint_feature: Callable[[Any, Any], Any],
        loss: Callable[[Any, Any], float],
        loss_augmented_inference: Callable[..., Any],
        rescaling: Rescaling = "margin",
        decoder: UserDecoder = "exact",
        sample_weight: Any = None,
        normalize: bool = True,
        dim: int | None = None,
    ):
        functions = joint_feature, loss, loss_augmented_inference
        names = "joint_feature", "loss", "loss_augmented_inference"
        for name, function in zip(names, functions, strict=True):
            if not callable(function):
                raise InvalidInputError(f"{name} must be a function, got {function!r}.")
        for name, value, choices in (
            ("rescaling", rescaling, get_args(Rescaling)),
            ("decoder", decoder, get_args(UserDecoder)),
        ):
            if value not in choices:
                raise InvalidInputError(f"{name} must be one of {choices}, got {value!r}.")
        m = len(X)
        if m == 0 or len(Y) != m:
            raise InvalidInputError(
                f"X and Y must have as many entries, and at least one, got {m} and {len(Y)}."
            )
        self.X, self.Y = X, Y
        self.joint_feature, self.loss, self.loss_augmented_inference = functions
        self.rescaling, self.decoder = rescaling, decoder
        self.n_examples = m
        self.weights = as_weights(sample_weight, m, normalize)
        self.exact, self.black_box = decoder != "inner", decoder != "bounded"
        if decoder == "bounded" and (rescaling != "margin" or Capability.DUAL_CUT in self.withheld):
            raise InvalidInputError(
                'decoder="bounded" needs rescaling="margin", and labellings that are numbers or vectors of '
                f'numbers, got rescaling="{rescaling}" and Y[0] = {Y[0]!r}.'
            )
        found = dimension_of(joint_feature(X[0], Y[0])) if dim is None else as_count("dim", dim)
        if found is None:
            raise InvalidInputError(
                "joint_feature returns pairs (indices, values): pass dim, the number of coordinates of w."
            )
        self.dim = found
        for i in range(m):
            if loss(Y[i], Y[i]) != 0.0:
                raise InvalidInputError(
                    f"loss(Y[{i}], Y[{i}]) is {loss(Y[i], Y[i])!r}; the loss of a true labelling must be 0."
                )

    def __repr__(self) -> str:
        decoder = "" if self.decoder == "exact" else f", {self.decoder} decoder"
        return f"StructuredRisk({self.n_examples} examples, dim={self.dim}, {self.rescaling}{decoder})"

    @property
    def withheld(self) -> tuple[Capability, ...]:
        """Block steps and cuts of labellings that are no numbers; estimates unless the decoder is bounded."""
        first = self.Y[0]
        try:
            numbers = np.asarray(first)
        except ValueError:  # parts of different shapes
            numbers = np.empty(0, dtype=object)
        plain = isinstance(first, np.ndarray) or numbers.ndim <= 1
        estimates = () if self.decoder == "bounded" else (Capability.ON_DEMAND,)
        if plain and numbers.dtype.kind in "biuf":
            return estimates
        return Capability.BLOCK_ASCENT, Capability.DUAL_CUT, *estimates

    def decode(self, w: Array, i: int) -> Any:
        if self.decoder == "bounded":
            return self.bounded(w, i, 0.0)[0]
        return self.loss_augmented_inference(self.X[i], self.Y[i], w)

    def bounded(self, w: Array, i: int, accuracy: float) -> tuple[Any, float]:
        """Return a labelling, and an upper bound of the largest violation of the margin."""
        answer = self.loss_augmented_inference(self.X[i], self.Y[i], w, accuracy)
        try:
            y, bound = answer[0], float(answer[1])
        except (TypeError, ValueError, IndexError, KeyError):
            bound = np.nan
        if not np.isfinite(bound):
            raise OracleError(
                f"A bounded decoder must return a pair (labelling, finite bound), got {answer!r}."
            )
        return y, bound - as_factors(self.joint_feature(self.X[i], self.Y[i]), self.dim).dot(w)

    def estimate(self, x: Array, accuracy: float, start: Estimate | None = None) -> Estimate:
        """Return an upper bound of the value at `x`, and a cut at most `accuracy` below it, if possible."""
        value, offset, slope, numbers = 0.0, 0.0, np.zeros(self.dim), []
        remaining, weight = accuracy, float(self.weights.sum())
        for i, c in enumerate(self.weights.tolist()):
            check_time()
            share = max(weight, c)
            y, bound = self.bounded(x, i, max(remaining, 0.0) / share if share > 0.0 else np.inf)
            factors, b = self.piece(i, y)
            score = factors.dot(x) + b
            if score <= 0.0:
                y, factors, b, score = self.Y[i], _NOTHING, 0.0, 0.0
            highest = max(c * bound, score) if c > 0.0 else 0.0
            remaining, weight = remaining - (highest - score), weight - c
            value, offset = value + highest, offset + b
            factors.add_to(slope, 1.0)
            numbers.append(self.as_numbers(y))
        sizes = np.array([each.size for each in numbers])
        u = pack(np.ones((1, sizes.size)), np.concatenate(numbers)[np.newaxis], sizes)
        return Estimate(np.array([value]), slope[np.newaxis], np.array([offset]), u)

    def from_numbers(self, i: int, numbers: Array) -> Any:
        """Convert numbers to a labelling of the type of Y[i]; integers stay integers."""
        truth = self.Y[i]
        whole = np.asarray(truth).dtype.kind in "biu" and not (numbers % 1.0).any()
        exact = numbers.astype(np.int64) if whole else numbers
        if isinstance(truth, np.ndarray):
            return exact.reshape(truth.shape)
        return exact[0].item() if np.ndim(truth) == 0 else type(truth)(exact.tolist())

    def best(self, w: Array, i: int) -> tuple[Any, Factors, float]:
        """Return the decoder's labelling, or the true one if it is better, with its slope and offset."""
        y, factors, offset = super().best(w, i)
        score = factors.dot(w) + offset
        if score >= 0.0:
            return y, factors, offset
        size = float(np.abs(factors.values) @ np.abs(w[factors.indices])) + abs(offset)
        if self.exact and score < -_ROUNDING * size:
            raise OracleError(
                f"loss_augmented_inference returned a labelling of example {i} with the score {score:.6g}, "
                "but the true labelling has the score 0. Compare the function with enumeration by "
                'cutplane.testing.check_structured, or pass decoder="inner" if it may miss the best one.'
            )
        return self.Y[i], _NOTHING, 0.0

    def piece(self, i: int, y: Any) -> tuple[Factors, float]:
        x, truth = self.X[i], self.Y[i]
        loss = float(self.loss(truth, y))
        if not 0.0 <= loss < np.inf:
            raise OracleError(f"loss(Y[{i}], y) is {loss}; it must be a number >= 0.")
        weight = float(self.weights[i])
        found, true = (as_factors(self.joint_feature(x, each), self.dim) for each in (y, truth))
        rescaled = weight if self.rescaling == "margin" else weight * loss
        return found.minus(true).times(rescaled), weight * loss
