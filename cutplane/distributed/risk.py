"""The risk of examples that are on the workers of a Dask cluster."""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.distributed.search import Reply, add_estimates, add_replies, search_pieces, search_probes
from cutplane.distributed.share import Description, Recipe, Request, Share
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.lines import Line
from cutplane.pieces.validation import Array, as_vector
from cutplane.risks.base import ImagedRisk, Risk

if TYPE_CHECKING:
    from cutplane.distributed.cluster import Cluster


class ShareImage:
    """The client's record of an image whose pieces are on the workers: its point, and how it is computed.

    Until it is computed, it refers to the images of which it is a combination.
    """

    def __init__(self, key: int, x: Array, parents: tuple[ShareImage, ShareImage, float] | None = None):
        self.key = key
        self.x = x
        self.parents = parents
        self.made = False
        self.slope: Array | None = None
        self.cancelled: float | None = None

    @property
    def source(self) -> Any:
        """The way in which a share computes the image; None if it is already computed."""
        if self.made:
            return None
        return self.x if self.parents is None else (self.parents[0].key, self.parents[1].key, self.parents[2])

    def plan(self) -> list[ShareImage]:
        """Return the images that must be computed for this one, which is the last."""
        if self.made or self.parents is None:
            return [self]
        return [*self.parents[0].plan(), *self.parents[1].plan(), self]


class DistributedRisk(Risk):
    """f(x) = sum_k weight_k f_k(x), where the data of f_k are on a worker of a Dask cluster.

    `distribute` returns it. Partitions and images stay on their workers; only points, values, subgradients
    and parts of lines are sent. Answers are added on the workers, and the client receives their sum.

    Parameters
    ----------
    cluster : Cluster
    known : Description
        The sum of the descriptions of the terms.

    Attributes
    ----------
    dim : int
    n_partitions : int
    """

    black_box = False

    def __init__(self, cluster: Cluster, known: Description):
        self._cluster = cluster
        self._keys = itertools.count()
        self._unused: list[int] = []
        self._first = known.name
        self._cancelled: tuple[Any, float] = None, 0.0
        self.dim, self.n_partitions = known.dim, known.count
        self.smooth, self.exact = known.smooth, known.exact
        self._infimum = known.infimum

    @staticmethod
    def of(cluster: Cluster) -> DistributedRisk:
        """Return the risk of the partitions on a cluster, with images if all partitions have images."""
        answer = cluster.query(Request((), (), Share.describe))
        if not answer.found:
            raise InvalidInputError("All partitions are empty; give at least one with examples.")
        known: Description = answer.found[0]
        if known.other is not None:
            raise InvalidInputError(
                f"Partition {known.other.number}, {known.other.name}, has dimension {known.other.dim}, but "
                f"partition {known.number}, {known.name}, has {known.dim}; all must have the same."
            )
        return (DistributedImagedRisk if known.imaged else DistributedRisk)(cluster, known)

    def __repr__(self) -> str:
        return f"DistributedRisk({self.n_partitions} partitions, the first {self._first})"

    @property
    def infima(self) -> Array:
        """The sum of the infima of the partitions, shape (1,)."""
        return np.array([self._infimum])

    def oracle(self, x: Array) -> tuple[float, Array]:
        """Return the value and a subgradient: one round trip."""
        z = self._new(as_vector("x", x, self.dim, finite=False).copy())
        answer = self._ask([z], Share.value_and_slope, z.key)
        self._cancelled = z.x, _cancelled(answer)
        return float(answer[0]), answer[_SIZES:]

    def cancelled(self, z: Any) -> float:
        """Return the size of the terms that cancelled, which the last answer includes."""
        if not np.array_equal(self._cancelled[0], z):
            self.oracle(z)
        return self._cancelled[1]

    def _new(self, x: Array, parents: tuple[ShareImage, ShareImage, float] | None = None) -> ShareImage:
        image = ShareImage(next(self._keys), x, parents)
        weakref.finalize(image, self._unused.append, image.key).atexit = False
        return image

    def _ask(
        self, images: list[ShareImage], method: Callable[..., Any], *arguments: Any, by: Any = add
    ) -> Any:
        """Query every share; if a share lost its images, send it the points again."""
        unused = tuple(self._unused)
        plan = [step for image in images for step in image.plan()]
        recipes = tuple(Recipe(step.key, step.source) for step in plan)
        request = Request(recipes, unused, method, arguments, by)
        answer = self._cluster.query(request)
        found = list(answer.found)
        if answer.lost:
            again = replace(request, recipes=tuple(Recipe(z.key, z.x) for z in images))
            found += self._cluster.query(again, answer.lost).found
        for step in plan:
            step.made, step.parents = True, None
        del self._unused[: len(unused)]
        return reduce(by, found)


class DistributedImagedRisk(DistributedRisk, ImagedRisk):
    """A distributed risk whose partitions keep images: lines are searched without a pass over the data."""

    _piecewise = True

    def image(self, x: Array) -> ShareImage:
        """Return the image of x, which the workers compute on first use."""
        return self._new(as_vector("x", x, self.dim, finite=False).copy())

    def combine(self, z0: ShareImage, z1: ShareImage, t: float) -> ShareImage:
        """Return the image of x0 + t (x1 - x0), which the workers compute on first use."""
        return self._new(z0.x + t * (z1.x - z0.x), (z0, z1, t))

    def values(self, z: ShareImage) -> float:
        """Return the value: one round trip, and a pass over the data if the image is new.

        At a combination of two points the answer includes the subgradient, because a cut there is usual.
        """
        both = z.parents is not None
        answer = self._ask([z], Share.value_and_slope if both else Share.value, z.key)
        z.cancelled = _cancelled(answer)
        if both:
            z.slope = answer[_SIZES:]
        return float(answer[0])

    def slopes(self, z: ShareImage) -> Array:
        """Return a subgradient, shape (dim,): one round trip and one pass over the data."""
        slope, z.slope = z.slope, None
        return self._ask([z], Share.slope, z.key) if slope is None else slope

    def cancelled(self, z: ShareImage) -> float:
        """Return the size of the terms that cancelled, which the answer of the value includes."""
        if z.cancelled is None:
            z.cancelled = _cancelled(self._ask([z], Share.value, z.key))
        return z.cancelled

    def line(self, z0: ShareImage, z1: ShareImage) -> Line:
        """Return the risk on the line; its search takes a few round trips, but no pass over the data."""

        def ask(method: Callable[..., Any], *arguments: Any, by: Any = add) -> Any:
            return self._ask([z0, z1], method, z0.key, z1.key, *arguments, by=by)

        def sample(points: Array) -> Array:
            return ask(Share.sample, points)

        def pieces(low: float, high: float, probes: Array) -> Reply:
            return ask(Share.pieces, low, high, probes, by=partial(add_replies, probes=probes))

        def evaluate(t: float) -> tuple[float, float]:
            value, slope = sample(np.array([t]))[:, 0].tolist()
            return value, slope

        def search(rest: Line, limit: float) -> float:
            if self._piecewise and rest.derivative is not None and rest.newton is None:
                estimate = ask(Share.estimate, by=add_estimates)
                self._piecewise = estimate is not None
                if estimate is not None:
                    return search_pieces(estimate, pieces, rest.derivative, limit)
            return search_probes(sample, rest, limit)

        return Line(evaluate, search=search)


_SIZES = 3
"""Number of entries before the subgradient in a reply of `Share.value_and_slope`; 3, because `Share.value`
has as many."""


def _cancelled(answer: Array) -> float:
    """Return the size of the cancelled terms in the sum over the partitions, and in each partition."""
    value, size, inside = answer[:_SIZES].tolist()
    return inside + max(0.0, size - abs(value)) if math.isfinite(size) else inside
