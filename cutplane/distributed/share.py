"""A term of the sum on a worker, with the images of the points in use, and the tasks that workers run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, is_dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.distributed.search import Estimate, Reply, estimate, summarise
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.lines import Derivative, Line, PiecewiseLinear
from cutplane.pieces.validation import Array
from cutplane.risks.base import ImagedRisk, Risk, answer_of

PARTITION = "cutplane_partition"
"""The attribute of an exception for the number of the partition that raised it."""

LOST = "lost"
"""Value that replaces the risk in a copy of a share on another worker."""


@dataclass(frozen=True, eq=False)
class Block:
    """The risk of a block as a Delayed, and the futures of the block, which tell its worker."""

    made: Any
    held: Sequence[Any]


@dataclass(frozen=True)
class Recipe:
    """The way to compute an image.

    Attributes
    ----------
    key : int
    source : ndarray or (int, int, float) or None
        The point x; or the keys of the images of x0 and x1, and t, for x = x0 + t (x1 - x0); or None if the
        image is on the worker.
    """

    key: int
    source: Array | tuple[int, int, float] | None = None


@dataclass(frozen=True)
class Request:
    """A query of every share: a method of `Share`, and its arguments after the share.

    Attributes
    ----------
    recipes : tuple of Recipe
        The images needed, each after the images that it is computed from.
    unused : tuple of int
        Keys of images that can be deleted.
    combine : callable
        Combines the answers of two groups of shares.
    """

    recipes: tuple[Recipe, ...]
    unused: tuple[int, ...]
    method: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    combine: Callable[[Any, Any], Any] = add


@dataclass(frozen=True)
class ShareAnswer:
    """The combined answers of a group of shares (() if there is none), and the shares that lost an image."""

    found: tuple[Any, ...]
    lost: tuple[int, ...] = ()


@dataclass(frozen=True)
class Description:
    """The properties of terms that the client needs, for example whether all of them have images.

    `other` is a term of another dimension, which is an error.
    """

    number: int
    name: str
    dim: int
    count: int
    infimum: float
    imaged: bool
    smooth: bool
    exact: bool
    other: Description | None = None

    def __add__(self, more: Description) -> Description:
        first, last = sorted((self, more), key=lambda each: each.number)
        odd = [each for each in (first.other, last, last.other) if each and each.dim != first.dim]
        return replace(
            first,
            count=first.count + last.count,
            infimum=first.infimum + last.infimum,
            imaged=first.imaged and last.imaged,
            smooth=first.smooth and last.smooth,
            exact=first.exact and last.exact,
            other=min(odd, key=lambda each: each.number, default=None),
        )


class AnsweredPoint:
    """A point with the answer of the oracle, for a risk without images."""

    def __init__(self, risk: Risk, x: Array):
        (self.value, self.slope, *_), self.cancelled = answer_of(risk, x)


@dataclass(eq=False)
class Share:
    """The term weight * f_k of a distributed risk; no term if the partition has no examples.

    Images are a cache: a copy on another worker or on disk has none, and the client sends the points again.
    """

    number: int
    weight: float
    risk: Any
    images: dict[int, Any] = field(default_factory=dict)
    _lines: dict[tuple[int, int], _Bracketed] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {"number": self.number, "weight": self.weight, "risk": self.risk}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)

    def __sizeof__(self) -> int:
        """Return the bytes of the data, by which Dask decides which results it copies or writes to disk."""
        return _size(self.risk, set())

    def answer(self, request: Request) -> ShareAnswer:
        """Answer a request."""
        if self.risk is None or self.risk is LOST:
            return ShareAnswer((), (self.number,) if self.risk is LOST else ())
        for key in request.unused:
            self.images.pop(key, None)
        for recipe in request.recipes:
            if recipe.key not in self.images and not self._make(recipe.key, recipe.source):
                return ShareAnswer((), (self.number,))
        return ShareAnswer((request.method(self, *request.arguments),))

    def _make(self, key: int, source: Any) -> bool:
        imaged = isinstance(self.risk, ImagedRisk)
        if isinstance(source, np.ndarray):
            self.images[key] = self.risk.image(source) if imaged else AnsweredPoint(self.risk, source)
        elif imaged and source is not None and source[0] in self.images and source[1] in self.images:
            self.images[key] = self.risk.combine(*(self.images[end] for end in source[:2]), source[2])
        return key in self.images

    def describe(self) -> Description:
        """Return the description for the client."""
        risk = self.risk
        infimum = self.weight * float(np.sum(risk.infima))
        known = isinstance(risk, ImagedRisk), risk.smooth or risk.linear, risk.exact
        return Description(self.number, repr(risk), risk.dim, 1, infimum, *known)

    def value(self, key: int) -> Array:
        """Return the value at an image, its absolute value, and the size of its cancelled terms."""
        z = self.images[key]
        imaged = isinstance(self.risk, ImagedRisk)
        value = float(np.sum(self.risk.values(z) if imaged else z.value))
        cancelled = float(np.sum(self.risk.cancelled(z) if imaged else z.cancelled))
        return self.weight * np.array([value, abs(value), cancelled])

    def slope(self, key: int) -> Array:
        """Return a subgradient at an image, shape (dim,)."""
        z = self.images[key]
        slopes = self.risk.slopes(z) if isinstance(self.risk, ImagedRisk) else z.slope
        return self.weight * np.reshape(slopes, (-1, self.risk.dim)).sum(axis=0)

    def value_and_slope(self, key: int) -> Array:
        """Return the answers of `value` and `slope` at an image, in one vector."""
        return np.append(self.value(key), self.slope(key))

    def sample(self, start: int, end: int, points: Array) -> Array:
        """Return the values and the right derivatives on the line through two images, shape (2, points)."""
        line = self._line(start, end).line
        return np.array([line(t) for t in points.tolist()]).T

    def estimate(self, start: int, end: int) -> Estimate | None:
        """Return an approximate derivative on the line, and its deviation; None if there is no derivative."""
        line = self._line(start, end).line
        return estimate(line.derivative) if line.derivative is not None and line.newton is None else None

    def pieces(self, start: int, end: int, low: float, high: float, probes: Array) -> Reply:
        """Return the derivative on [low, high], or a summary of it; see `summarise`."""
        return summarise(self._line(start, end).between(low, high), probes)

    def _line(self, start: int, end: int) -> _Bracketed:
        line = self._lines.get((start, end))
        if line is None:
            line = _Bracketed(self.weight * self.risk.line(self.images[start], self.images[end]))
            self._lines = {(start, end): line}
        return line


class _Bracketed:
    """A line, and its derivative on the last bracket that was queried."""

    def __init__(self, line: Line):
        self.line = line
        self._low, self._high = np.inf, -np.inf
        self._part: Derivative | None = None

    def between(self, low: float, high: float) -> PiecewiseLinear:
        within = self._low <= low and high <= self._high
        known = self._part if within else self.line.derivative
        assert known is not None
        part = known.between(low, high)
        self._low, self._high, self._part = low, high, part
        return part


def build(number: int, weight: float, source: Any) -> Share:
    """Return a share on the worker that calls this, from a risk or a function that returns one."""
    with _numbered(number):
        risk = source() if callable(source) and not isinstance(source, Risk) else source
        if risk is None:
            return Share(number, weight, None)
        if not isinstance(risk, Risk):
            raise InvalidInputError(f"A partition must be a risk, such as a LinearRisk, got {risk!r}.")
        if risk.domain is not None:
            raise InvalidInputError(
                f"{risk!r} is finite on a domain only; distribute a risk without, and pass the domain as the "
                "feasible set of the problem."
            )
        return Share(number, weight, risk)


@dataclass(eq=False)
class ShareBundle:
    """The shares on a worker; its copy on another worker has no shares."""

    shares: Sequence[Share]

    def __getstate__(self) -> dict[str, Any]:
        return {"shares": [Share(share.number, share.weight, LOST) for share in self.shares]}


def hand_over(request: Request, _bundle: ShareBundle) -> Request:
    """Return the request, on the worker that has the bundle; other workers fetch it from there, each once."""
    return request


def serve(request: Request, bundle: ShareBundle, threads: int) -> ShareAnswer:
    """Return the combined answer of the shares on a worker to a request, on its threads, in one task."""
    groups = [bundle.shares[i::threads] for i in range(min(threads, len(bundle.shares)))]
    if len(groups) == 1:
        return _serve(request, groups[0])
    with ThreadPoolExecutor(len(groups)) as pool:
        return total(request, list(pool.map(partial(_serve, request), groups)))


def _serve(request: Request, shares: Sequence[Share]) -> ShareAnswer:
    answers = []
    for share in shares:
        with _numbered(share.number):
            answers.append(share.answer(request))
    return total(request, answers)


def total(request: Request, answers: Sequence[ShareAnswer]) -> ShareAnswer:
    """Combine the answers of groups of shares."""
    found = [each for answer in answers for each in answer.found]
    lost = tuple(number for answer in answers for number in answer.lost)
    return ShareAnswer((reduce(request.combine, found),) if found else (), lost)


@contextmanager
def _numbered(number: int) -> Iterator[None]:
    """Store the number of the partition in an exception that its risk raised."""
    try:
        yield
    except BaseException as error:
        setattr(error, PARTITION, number)
        raise


def _size(piece: Any, seen: set[int]) -> int:
    """Return the bytes of a piece; an array with two references counts once."""
    if id(piece) in seen:
        return 0
    seen.add(id(piece))
    if isinstance(piece, np.ndarray):
        return piece.nbytes
    if isinstance(piece, tuple | list):
        return sum(_size(part, seen) for part in piece)
    if isinstance(piece, Risk) or is_dataclass(piece) or sparse.issparse(piece):
        return sum(_size(part, seen) for part in vars(piece).values())
    return sys.getsizeof(piece)
