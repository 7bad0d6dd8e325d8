"""What runs on a worker: risks of some of the examples, with the images of the points that are in use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.distributed.search import Reply, estimate, summarise
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.lines import Derivative, Line, PiecewiseLinear
from cutplane.pieces.validation import Array
from cutplane.risks.base import ImagedRisk, Risk

PARTITION = "cutplane_partition"
"""The attribute of an exception that holds the number of the partition that raised it."""


class Answer(Enum):
    """An answer that is none."""

    LOST = "the images asked for are not there, since the share was made anew"


@dataclass(frozen=True)
class Recipe:
    """How to get an image.

    Attributes
    ----------
    key : int
    source : int or (int, int, float) or None
        Which of the points sent along it is the image of; or the keys of two images and where between them;
        or None if it is there.
    """

    key: int
    source: int | tuple[int, int, float] | None = None


@dataclass(frozen=True)
class Request:
    """A question to every share: a method of `Share`, and its arguments after the share.

    Attributes
    ----------
    recipes : tuple of Recipe
        The images needed, in an order in which they can be made.
    unused : tuple of int
        Keys of images to forget.
    """

    recipes: tuple[Recipe, ...]
    unused: tuple[int, ...]
    method: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class Part:
    """One term weight * f_k of a distributed risk."""

    number: int
    weight: float
    risk: ImagedRisk

    def value(self, z: Any) -> float:
        """Return the value at an image."""
        return self.weight * float(np.sum(self.risk.values(z)))

    def slope(self, z: Any) -> Array:
        """Return a subgradient at an image, shape (dim,)."""
        slopes = np.reshape(self.risk.slopes(z), (self.risk.n_blocks, self.risk.dim))
        return self.weight * slopes.sum(axis=0)

    def line(self, z0: Any, z1: Any) -> Line:
        """Return the term on the line through two images."""
        return self.weight * self.risk.line(z0, z1)


class Share:
    """The terms that one thread of a worker has, and their images.

    With one share for each thread no task waits for a thread, so that Dask has no reason to move data from
    one worker to another. The images are a cache: they are left behind when the share moves nevertheless, or
    is spilled to the disk, and the client sends their points again.
    """

    def __init__(self, parts: Sequence[Part]):
        self.parts = parts
        self.images: dict[int, list[Any]] = {}
        self._lines: dict[tuple[int, int], _Bracketed] = {}

    def __getstate__(self) -> Sequence[Part]:
        return self.parts

    def __setstate__(self, parts: Sequence[Part]) -> None:
        self.__init__(parts)

    def __sizeof__(self) -> int:
        """Return the bytes of the data, by which Dask decides what to move and what to spill."""
        return sum(_size(part.risk) for part in self.parts)

    def answer(self, request: Request, points: Sequence[Array]) -> Any:
        """Answer a request, or `Answer.LOST` if an image is missing."""
        for key in request.unused:
            self.images.pop(key, None)
        for recipe in request.recipes:
            if recipe.key in self.images:
                continue
            source = recipe.source
            if isinstance(source, int):
                x = points[source]
                self.images[recipe.key] = self._each(lambda part, x=x: part.risk.image(x))
            elif source is not None and source[0] in self.images and source[1] in self.images:
                start, end, t = source
                self.images[recipe.key] = self._each(
                    lambda part, z0, z1, t=t: part.risk.combine(z0, z1, t), start, end
                )
            else:
                return Answer.LOST
        return request.method(self, *request.arguments)

    def describe(self) -> list[tuple[int, int, float, str]]:
        """Return the number, the dimension, the infimum and the repr of each part."""
        return self._each(
            lambda part: (
                part.number,
                part.risk.dim,
                part.weight * float(np.sum(part.risk.infima)),
                repr(part.risk),
            )
        )

    def value(self, key: int) -> float:
        """Return the value at an image."""
        return sum(self._each(Part.value, key))

    def slope(self, key: int) -> Array:
        """Return a subgradient at an image, shape (dim,)."""
        return np.sum(self._each(Part.slope, key), axis=0)

    def value_and_slope(self, key: int) -> tuple[float, Array]:
        """Return both at an image."""
        return self.value(key), self.slope(key)

    def sample(self, start: int, end: int, points: Array) -> Array:
        """Return the values and the right derivatives on the line through two images, shape (2, points)."""
        line = self._line(start, end).line
        return np.array([line(t) for t in points.tolist()]).T

    def estimate(self, start: int, end: int) -> tuple[PiecewiseLinear, float] | None:
        """Return a rough copy of the derivative on the line, and its deviation; None if it is unknown."""
        line = self._line(start, end).line
        return estimate(line.derivative) if line.derivative is not None and line.newton is None else None

    def pieces(self, start: int, end: int, low: float, high: float, probes: Array) -> Reply:
        """Return what there is to know of the derivative on [low, high], see `summarise`."""
        return summarise(self._line(start, end).between(low, high), probes)

    def _line(self, start: int, end: int) -> _Bracketed:
        line = self._lines.get((start, end))
        if line is None:
            line = _Bracketed(reduce(add, self._each(Part.line, start, end)))
            self._lines = {(start, end): line}
        return line

    def _each(self, function: Callable[..., Any], *keys: int) -> list[Any]:
        """Return function(part, its images) for each part; an exception says which part raised it."""
        images = [self.images[key] for key in keys]
        return [
            _numbered(part.number, function, part, *zs) for part, *zs in zip(self.parts, *images, strict=True)
        ]


class _Bracketed:
    """A line, and its derivative on the last bracket that was asked for."""

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


def build(numbers: Sequence[int], weights: Sequence[float], *sources: Any) -> Share:
    """Make a share on the worker that calls this, from risks or functions that return one."""
    return Share(
        [
            Part(number, weight, _numbered(number, _risk, source))
            for number, weight, source in zip(numbers, weights, sources, strict=True)
        ]
    )


def serve(share: Share, request: Request, *points: Array) -> Any:
    """Answer a request; the task that the client submits."""
    return share.answer(request, points)


def _risk(source: Any) -> ImagedRisk:
    risk = source() if callable(source) and not isinstance(source, Risk) else source
    if not isinstance(risk, ImagedRisk):
        raise InvalidInputError(
            f"A partition must be a risk that keeps images, such as a LinearRisk, got {risk!r}."
        )
    return risk


def _numbered(number: int, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        setattr(error, PARTITION, number)
        raise


def _size(piece: Any) -> int:
    if isinstance(piece, Risk) or sparse.issparse(piece):
        return sum(_size(part) for part in vars(piece).values())
    if isinstance(piece, tuple | list):
        return sum(_size(part) for part in piece)
    return piece.nbytes if isinstance(piece, np.ndarray) else sys.getsizeof(piece)
