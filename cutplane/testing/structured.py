"""The check of a structured risk: its decoder against enumeration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, product
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.validation import Array
from cutplane.structured.risk import StructuredRisk
from cutplane.testing.report import Counterexample, NotTested, Property, Report, examine

_LOSS = "loss(y_true, y) must be a finite number >= 0, and 0 for the true labelling."
_FEATURE = "joint_feature(x, y) must depend on x and y alone, and be a finite vector of the same length."
_DECODER = (
    "loss_augmented_inference(x, y_true, w) must return a labelling that maximises the loss plus "
    "<w, joint_feature(x, y)> with margin rescaling, and the loss times (1 + <w, joint_feature(x, y) - "
    "joint_feature(x, y_true)>) with slack rescaling: look for a loss left out, a sign, a last step. If it "
    'searches more than the labellings say decoder="outer", if it may miss the best one "inner".'
)
_TOLERANCE = 1e-9
_POINTS = 6
"""Points w per example: zero, where the loss alone decides, and others of several sizes."""


def check_structured(
    risk: StructuredRisk,
    labellings: Callable[[Any, Any], Iterable[Any]] | None = None,
    *,
    rng: int | np.random.Generator = 0,
    n_examples: int = 20,
    most: int = 4096,
    scale: float = 1.0,
    raise_on_failure: bool = True,
) -> Report:
    """Compare the decoder of a structured risk with enumeration, at w = 0 and at random ones.

    Parameters
    ----------
    risk : StructuredRisk
    labellings : callable, optional
        ``labellings(x, y_true)`` returns every labelling of x. By default the labels that occur in Y: each of
        them, or, where labellings are arrays or sequences, each combination of the length of y_true.
    rng : int or numpy.random.Generator, default 0
        Seed of the random w.
    n_examples : int, default 20
        How many examples are looked at, the first that have few labellings.
    most : int, default 4096
        Examples with more labellings are left out.
    scale : float, default 1.0
        Size of the entries of w.
    raise_on_failure : bool, default True
        Whether a failed check is an error.

    Returns
    -------
    Report
        Lists every check; ``bool(report)`` is whether all passed.

    Raises
    ------
    OracleError
        If a check failed; the message shows the example, the labellings and what to do.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> def forgets_the_loss(x, y_true, w):
    ...     return int(np.argmax(w.reshape(2, 2) @ x))
    >>> risk = cut.StructuredRisk(
    ...     np.eye(2), [0, 1], lambda x, y: np.kron(np.eye(2)[y], x), lambda y, z: float(y != z),
    ...     forgets_the_loss)
    >>> report = cut.testing.check_structured(risk, raise_on_failure=False)
    >>> [check.name for check in report.failures]
    ['the decoder finds the largest score of all labellings']
    """
    if not isinstance(risk, StructuredRisk):
        raise InvalidInputError(f"check_structured needs a StructuredRisk, got {risk!r}.")
    probe = _StructuredProbe(risk, labellings or _Combinations(risk.Y), rng, n_examples, most, scale)
    return examine(repr(risk), probe.properties(), OracleError if raise_on_failure else None)


class _Combinations:
    """Every labelling made of the labels that occur, of the same length as the true one."""

    def __init__(self, Y: Any):
        self.labels = sorted({label for y in Y for label in np.ravel(y).tolist()})

    def __call__(self, x: Any, y_true: Any) -> Iterator[Any]:
        if np.ndim(y_true) == 0:
            yield from self.labels
            return
        for labels in product(self.labels, repeat=np.size(y_true)):
            if isinstance(y_true, np.ndarray):
                yield np.array(labels, dtype=y_true.dtype).reshape(y_true.shape)
            else:
                yield type(y_true)(labels)


class _StructuredProbe:
    def __init__(
        self, risk: StructuredRisk, labellings: Any, rng: Any, n_examples: int, most: int, scale: float
    ):
        self.risk = risk
        rng = np.random.default_rng(rng)
        sizes = np.append(0.0, scale * 10.0 ** rng.uniform(-2, 1, size=_POINTS - 1))
        self.points = sizes[:, np.newaxis] * rng.standard_normal((_POINTS, risk.dim))
        self.known: dict[int, list[Any]] = {}
        for i in range(risk.n_examples):
            found = list(islice(labellings(risk.X[i], risk.Y[i]), most + 1))
            if len(found) <= most:
                self.known[i] = found
            if len(self.known) == n_examples:
                break

    def properties(self) -> Iterator[Property]:
        yield Property("losses are at least 0", self._losses, _LOSS)
        yield Property("joint features are the same when asked again", self._features, _FEATURE)
        words = {
            "exact": "finds the largest score of all labellings",
            "outer": "finds no less than the largest score of all labellings",
            "inner": "finds the score of a labelling",
        }
        yield Property(f"the decoder {words[self.risk.decoder]}", self._decoder, _DECODER)

    def _losses(self) -> str:
        self._require_examples()
        for i, labellings in self.known.items():
            for y in labellings:
                loss = float(self.risk.loss(self.risk.Y[i], y))
                if not 0.0 <= loss < np.inf:
                    raise Counterexample(f"the loss of {y!r} in place of {self.risk.Y[i]!r} is {loss}")
        return f"{sum(map(len, self.known.values()))} labellings"

    def _features(self) -> str:
        self._require_examples()
        for i, labellings in self.known.items():
            first, again = (self.risk.piece(i, labellings[-1])[0] for _ in range(2))
            if not all(np.array_equal(a, b) for a, b in zip(first, again, strict=True)):
                raise Counterexample(f"the joint feature of example {i} and {labellings[-1]!r} changes")
        return f"{len(self.known)} examples"

    def _decoder(self) -> str:
        self._require_examples()
        for i, labellings in self.known.items():
            pieces = [self.risk.piece(i, y) for y in labellings]
            for w in self.points:
                self._compare(i, labellings, pieces, w)
        return f"{len(self.known)} examples, {len(self.points)} points w"

    def _compare(self, i: int, labellings: list[Any], pieces: list[Any], w: Array) -> None:
        scores = [factors.dot(w) + offset for factors, offset in pieces]
        best = int(np.argmax(scores))
        y = self.risk.decode(w, i)
        factors, offset = self.risk.piece(i, y)
        found = factors.dot(w) + offset
        allowed = _TOLERANCE * (
            abs(scores[best]) + float(np.abs(factors.values) @ np.abs(w[factors.indices]))
        )
        if self.risk.decoder != "inner" and found < scores[best] - allowed:
            raise Counterexample(
                f"example {i}: {y!r} has the score {found:.10g}, but {labellings[best]!r} has "
                f"{scores[best]:.10g}",
                w=w,
            )
        if self.risk.decoder != "outer" and found > scores[best] + allowed:
            raise Counterexample(
                f"example {i}: {y!r} has the score {found:.10g}, above all labellings that were enumerated, "
                f"{scores[best]:.10g}",
                w=w,
            )

    def _require_examples(self) -> None:
        if not self.known:
            raise NotTested("no example has so few labellings that they can be enumerated")
