"""The laws of separation oracles, and of the decoders of structured risks, compared with enumeration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, product
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array, as_count
from cutplane.sets.base import HalfSpace, Separator
from cutplane.sets.separation import SeparationOracle
from cutplane.structured.risk import StructuredRisk
from cutplane.testing.laws import (
    TOLERANCE,
    Counterexample,
    Laws,
    NotTested,
    Report,
    Sampler,
    described,
    examine,
    law,
)

_RELAXATIONS = 100
"""Largest number of steps towards a set, because a set that is empty or has no interior is never reached."""
_BISECTIONS = 30
"""Number of halvings of a segment, because they find its end to 1e-9 of its length."""
_ACCURACY = 1e-9
"""Relative accuracy of scores of labellings, because each is a sum of few terms."""
_POINTS = 6
"""Points w per example, because at zero the loss alone decides, and elsewhere scores of several sizes do."""
_DECODERS = {
    "exact": "finds the largest score of all labellings",
    "outer": "finds no less than the largest score of all labellings",
    "inner": "finds the score of a labelling",
    "bounded": "finds the largest score of all labellings, and a bound of it",
}


@described(OracleError, calls=100, scale="they should lie inside as well as outside")
def check_separation(
    oracle: Separator | Callable[[Array], Any],
    dim: int | None = None,
    *,
    inside: Any = None,
    rng: int | np.random.Generator = 0,
    n_points: int = 20,
    scale: float = 1.0,
    raise_on_failure: bool = True,
) -> Report:
    """Search for a mistake in a separation oracle.

    It finds points inside by steps across the half-spaces, and points of the boundary by bisection. Then it
    tests whether every half-space cuts off its query point and contains all points inside, whether the points
    inside form a convex set, and whether an answer is the same when it is queried again.

    Parameters
    ----------
    oracle : SeparationOracle, function, or object with a method separate(x)
    dim : int, optional
        Dimension; default: the dimension of the oracle.
    inside : array_like of shape (n, dim) or (dim,), optional
        Points of the set. Needed if the set has no interior, or is far smaller than `scale`.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> @cut.separation_oracle(dim=2)
    ... def disc(x):
    ...     return [] if x @ x <= 1 else [cut.HalfSpace(x, 1.0)]
    >>> report = cut.testing.check_separation(disc, raise_on_failure=False)
    >>> [check.name for check in report.failures]
    ['each half-space holds at the points called inside']
    """
    given: Any = oracle
    separator: Any = given if offers(given, Capability.SEPARATION) else SeparationOracle(given, dim)
    size = getattr(separator, "dim", None) if dim is None else as_count("dim", dim)
    if size is None:
        raise InvalidInputError(f"{oracle!r} has no dimension: pass dim.")
    known = np.empty((0, size)) if inside is None else np.atleast_2d(np.asarray(inside, dtype=np.float64))
    if known.ndim != 2 or known.shape[1] != size:
        raise InvalidInputError(f"inside must have shape (n, {size}), got {known.shape}.")
    laws = SeparationLaws(separator, Sampler(size, rng, n_points, scale), known)
    return examine(repr(oracle), OracleError if raise_on_failure else None, laws)


class SeparationLaws(Laws):
    """Laws of a separation oracle: half-spaces contain a convex set, and cut off the points outside."""

    def __init__(self, separator: Separator, sampler: Sampler, known: Array):
        self.piece, self.sampler, self.known = separator, sampler, known
        self.inside: list[Array] = []
        self.cuts: list[tuple[Array, HalfSpace]] = []
        self.clear = 0
        """Number of cuts at points farther from the boundary than rounding errors."""

    def separate(self, x: Array) -> Sequence[HalfSpace]:
        """Query the oracle, and test the form of its answer."""
        given = x.copy()
        found = self.piece.separate(given)
        for half_space in found:
            if not isinstance(half_space, HalfSpace) or half_space.normal.shape != x.shape:
                raise Counterexample(
                    f"the answer at x holds {half_space!r}, not a HalfSpace of dimension {len(x)}", x=x
                )
        if not np.array_equal(given, x):
            raise Counterexample("the oracle wrote to x", x=x, afterwards=given)
        return found

    def store(self, x: Array) -> Sequence[HalfSpace]:
        """Query, and store the answer."""
        found = self.separate(x)
        self.cuts += [(x, half_space) for half_space in found]
        self.inside += [] if found else [x]
        return found

    def rounding(self, half_space: HalfSpace, x: Array) -> Any:
        """Return the violation that is accepted at x, or at each row of x: oracles have a tolerance."""
        size = (np.abs(x) + self.sampler.scale) @ np.abs(half_space.normal)
        return TOLERANCE * (size + abs(half_space.offset))

    @law(
        "answers are half-spaces of the right dimension",
        "Return None or [] for a point inside, else a HalfSpace or a list of them, with finite normals of "
        "shape (dim,).",
        essential=True,
    )
    def _answers(self) -> str:
        for x in (*self.known, *self.sampler.points()):
            self._walk_inside(x)
        self.clear = len(self.cuts)
        outside = [x for x, _ in self.cuts[:: max(1, len(self.cuts) // self.sampler.n_points)]]
        for k, end in enumerate(outside if self.inside else ()):
            start = self.inside[k % len(self.inside)]
            for _ in range(_BISECTIONS):
                middle = 0.5 * (start + end)
                start, end = (start, middle) if self.store(middle) else (middle, end)
        return f"{len(self.inside)} points found inside, {len(self.cuts)} half-spaces"

    def _walk_inside(self, x: Array) -> None:
        """Step across the half-spaces that x violates until it is inside."""
        for _ in range(_RELAXATIONS):
            found = self.store(x)
            deepest = max(found, key=lambda h: _violation(h, x) / np.linalg.norm(h.normal), default=None)
            if deepest is None or not _violation(deepest, x) > 0.0:
                return
            length = self.sampler.rng.uniform(1.0, 1.9) * _violation(deepest, x)
            x = x - length / (deepest.normal @ deepest.normal) * deepest.normal

    @law(
        "the points known to be inside are called inside",
        "The oracle must return nothing for these points: check its test, and its tolerance.",
    )
    def _known_inside(self) -> str:
        if not len(self.known):
            raise NotTested("no such point was given")
        for x in self.known:
            for half_space in self.separate(x):
                raise Counterexample(
                    f"the oracle cuts x off by {_violation(half_space, x):.6g}", x=x, normal=half_space.normal
                )
        return f"{len(self.known)} points"

    @law(
        "each half-space cuts off the point it was returned for",
        "Return only half-spaces <normal, x> <= offset that x violates; look for a sign, or a test with "
        "another tolerance.",
    )
    def _separates(self) -> str:
        for k, (x, half_space) in enumerate(self.cuts):
            rounding = 0.0 if k < self.clear else self.rounding(half_space, x)
            if not _violation(half_space, x) > -rounding:
                raise Counterexample(
                    f"<normal, x> = {half_space.normal @ x:.8g} is not above the offset "
                    f"{half_space.offset:.8g}",
                    x=x,
                    normal=half_space.normal,
                )
        return f"{len(self.cuts)} half-spaces"

    @law("the same x gives the same answer", "The answer must depend on x alone, and x must not be changed.")
    def _repeats(self) -> str:
        again = [*self.inside[:5], *(x for x, _ in self.cuts[:5])]
        for x in again:
            first = [half_space for point, half_space in self.cuts if point is x]
            found = self.separate(x)
            if bool(found) != bool(first):
                sides = ("cut off", "called inside")[:: 1 if first else -1]
                raise Counterexample("x was {} at first and {} later".format(*sides), x=x)
            pairs = zip(first, found, strict=False)
            if len(first) != len(found) or not all(_agree(old, new) for old, new in pairs):
                raise Counterexample("the half-spaces at x were others when x was queried again", x=x)
        return f"{len(again)} points"

    @law(
        "each half-space holds at the points called inside",
        "Each half-space must hold on the whole set: look for a sign, an offset too small, or a set that is "
        "not convex.",
    )
    def _valid(self) -> str:
        if not self.inside:
            raise NotTested("no point was found inside: pass inside=")
        points = np.array(self.inside)
        for x, half_space in self.cuts:
            products = points @ half_space.normal
            excess = products - half_space.offset - self.rounding(half_space, points)
            k = int(np.argmax(excess))
            if excess[k] > 0.0:
                raise Counterexample(
                    "the half-space returned at x cuts off z, which is called inside: <normal, z> = "
                    f"{products[k]:.8g} > {half_space.offset:.8g} = offset",
                    x=x,
                    z=points[k],
                    normal=half_space.normal,
                )
        return f"{len(self.cuts)} half-spaces at {len(points)} points"

    @law("the points called inside form a convex set", "The set of the points called inside must be convex.")
    def _convex(self) -> str:
        if len(self.inside) < 2:
            raise NotTested("fewer than two points were found inside: pass inside=")
        points, count = self.inside, 5 * self.sampler.n_points
        for i, k in self.sampler.rng.integers(len(points), size=(count, 2)):
            t = self.sampler.rng.uniform(0.1, 0.9)
            between = points[i] + t * (points[k] - points[i])
            for half_space in self.separate(between):
                violation = _violation(half_space, between)
                if violation > self.rounding(half_space, between):
                    raise Counterexample(
                        f"x and z are called inside, x + {t:.3g} (z - x) is cut off by {violation:.6g}",
                        x=points[i],
                        z=points[k],
                    )
        return f"{count} segments"


def _violation(half_space: HalfSpace, x: Array) -> float:
    return float(half_space.normal @ x - half_space.offset)


def _agree(old: HalfSpace, new: HalfSpace) -> bool:
    changes = np.abs(new.normal - old.normal).max() <= TOLERANCE * 2.0 * np.abs(old.normal).max()
    return bool(changes) and abs(old.offset - new.offset) <= TOLERANCE * (1.0 + abs(old.offset))


@described(OracleError)
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
        ``labellings(x, y_true)`` returns every labelling of x. By default each label that occurs in Y; if
        labellings are arrays or sequences, each combination of these labels with the length of y_true.
    n_examples : int, default 20
        Number of examples to test, the first ones with few labellings.
    most : int, default 4096
        Examples with more labellings are skipped.
    scale : float, default 1.0
        Size of the entries of w.

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
    rng = np.random.default_rng(rng)
    sizes = np.append(0.0, scale * 10.0 ** rng.uniform(-2, 1, size=_POINTS - 1))
    W = sizes[:, np.newaxis] * rng.standard_normal((_POINTS, risk.dim))
    known: dict[int, list[Any]] = {}
    for i in range(risk.n_examples):
        found = list(islice((labellings or _combinations(risk.Y))(risk.X[i], risk.Y[i]), most + 1))
        if len(found) <= most:
            known[i] = found
        if len(known) == n_examples:
            break
    return examine(repr(risk), OracleError if raise_on_failure else None, _StructuredLaws(risk, W, known))


def _combinations(Y: Any) -> Callable[[Any, Any], Iterator[Any]]:
    """Return all labellings of the length of the true one, made of the labels that occur in Y."""
    occurring = sorted({label for y in Y for label in np.ravel(y).tolist()})

    def labellings(x: Any, y_true: Any) -> Iterator[Any]:
        if np.ndim(y_true) == 0:
            yield from occurring
            return
        for labels in product(occurring, repeat=np.size(y_true)):
            if isinstance(y_true, np.ndarray):
                yield np.array(labels, dtype=y_true.dtype).reshape(y_true.shape)
            else:
                yield type(y_true)(labels)

    return labellings


class _StructuredLaws(Laws):
    def __init__(self, risk: StructuredRisk, W: Array, known: dict[int, list[Any]]):
        self.piece, self.W, self.known = risk, W, known
        self.decoders = (_DECODERS[risk.decoder],)

    def examples(self) -> Iterator[tuple[int, list[Any]]]:
        if not self.known:
            raise NotTested("no example has so few labellings that they can be enumerated")
        yield from self.known.items()

    @law(
        "losses are at least 0", "loss(y_true, y) must be a finite number >= 0, and 0 for the true labelling."
    )
    def _losses(self) -> str:
        for i, labellings in self.examples():
            for y in labellings:
                loss = float(self.piece.loss(self.piece.Y[i], y))
                if not 0.0 <= loss < np.inf:
                    raise Counterexample(f"the loss of {y!r} in place of {self.piece.Y[i]!r} is {loss}")
        return f"{sum(map(len, self.known.values()))} labellings"

    @law(
        "joint features are the same when evaluated again",
        "joint_feature(x, y) must depend on x and y alone, and be a finite vector of the same length.",
    )
    def _features(self) -> str:
        for i, labellings in self.examples():
            first, again = (self.piece.piece(i, labellings[-1])[0] for _ in range(2))
            if not all(np.array_equal(a, b) for a, b in zip(first, again, strict=True)):
                raise Counterexample(f"the joint feature of example {i} and {labellings[-1]!r} changes")
        return f"{len(self.known)} examples"

    @law(
        "the decoder {}",
        "loss_augmented_inference(x, y_true, w) must return a labelling that maximises the loss plus "
        "<w, joint_feature(x, y)> with margin rescaling, and the loss times (1 + <w, joint_feature(x, y) - "
        "joint_feature(x, y_true)>) with slack rescaling: look for a missing loss, a sign, a last step. If "
        'it searches more than the labellings say decoder="outer", if it may miss the best one "inner".',
        each="decoders",
    )
    def _decoder(self, words: str) -> str:
        for i, labellings in self.examples():
            pieces = [self.piece.piece(i, y) for y in labellings]
            for w in self.W:
                scores = [factors.dot(w) + offset for factors, offset in pieces]
                best = int(np.argmax(scores))
                y = self.piece.decode(w, i)
                factors, offset = self.piece.piece(i, y)
                found = factors.dot(w) + offset
                terms = abs(scores[best]) + float(np.abs(factors.values) @ np.abs(w[factors.indices]))
                if self.piece.decoder != "inner" and found < scores[best] - _ACCURACY * terms:
                    raise Counterexample(
                        f"example {i}: {y!r} has the score {found:.10g}, but {labellings[best]!r} has "
                        f"{scores[best]:.10g}",
                        w=w,
                    )
                if (
                    self.piece.decoder == "bounded"
                    and (bound := self.piece.bounded(w, i, 0.0)[1] * self.piece.weights[i])
                    < scores[best] - _ACCURACY * terms
                ):
                    raise Counterexample(
                        f"example {i}: the bound {bound:.10g} is below the score {scores[best]:.10g} of "
                        f"{labellings[best]!r}",
                        w=w,
                    )
                if self.piece.decoder != "outer" and found > scores[best] + _ACCURACY * terms:
                    raise Counterexample(
                        f"example {i}: {y!r} has the score {found:.10g}, above all labellings that were "
                        f"enumerated, {scores[best]:.10g}",
                        w=w,
                    )
        return f"{len(self.known)} examples, {len(self.W)} points w"
