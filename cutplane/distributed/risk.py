"""The risk of examples that live on the workers of a Dask cluster."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.distributed.search import search_pieces, search_probes
from cutplane.distributed.share import Answer, Recipe, Request, Share
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.lines import Line
from cutplane.pieces.validation import Array, as_vector
from cutplane.risks.base import ImagedRisk

if TYPE_CHECKING:
    from cutplane.distributed.cluster import Cluster


class Image:
    """The client's end of an image that lies in pieces on the workers: its point, and how to make it.

    The images that it is a combination of are kept alive until it is made, no longer.
    """

    def __init__(self, key: int, x: Array, parents: tuple[Image, Image, float] | None = None):
        self.key = key
        self.x = x
        self.parents = parents
        self.made = False
        self.slope: Array | None = None

    def plan(self) -> list[Image]:
        """Return the images that must be made for this one, itself last."""
        if self.made or self.parents is None:
            return [self]
        return [*self.parents[0].plan(), *self.parents[1].plan(), self]


class DistributedRisk(ImagedRisk):
    """f(x) = sum_k weight_k f_k(x), where the data of f_k live on a worker of a Dask cluster.

    Made by `distribute`. Partitions and images stay where they are: only points, values, subgradients and
    what a line search needs are sent.

    Parameters
    ----------
    cluster : Cluster

    Attributes
    ----------
    dim : int
    n_partitions : int
    """

    black_box = False

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self._everyone = range(len(cluster))
        self._keys = itertools.count()
        self._unused: list[int] = []
        self._piecewise = True
        shares = cluster.ask(self._everyone, Request((), (), Share.describe), ())
        parts = sorted(part for share in shares for part in share)
        _, dim, _, self._first = parts[0]
        for number, other, _, name in parts:
            if other != dim:
                raise InvalidInputError(
                    f"Partition {number}, {name}, has dimension {other}, but partition 0, {self._first}, has "
                    f"{dim}; all must have the same."
                )
        self.dim = int(dim)
        self.n_partitions = len(parts)
        self._infimum = float(sum(infimum for _, _, infimum, _ in parts))

    def __repr__(self) -> str:
        return f"DistributedRisk({self.n_partitions} partitions, the first {self._first})"

    @property
    def infima(self) -> Array:
        """The sum of the infima of the partitions, shape (1,)."""
        return np.array([self._infimum])

    def image(self, x: Array) -> Image:
        """Return the image of x; nothing is sent before it is used."""
        return self._new(as_vector("x", x, self.dim, finite=False).copy())

    def combine(self, z0: Image, z1: Image, t: float) -> Image:
        """Return the image of x0 + t (x1 - x0); nothing is sent before it is used."""
        return self._new(z0.x + t * (z1.x - z0.x), (z0, z1, t))

    def values(self, z: Image) -> float:
        """Return the value: one round trip, and a pass over the data if the image is new.

        Who asks for the value at a point between two others mostly goes on to cut there: its subgradient
        comes along.
        """
        if z.parents is None:
            return float(sum(self._ask([z], Share.value, z.key)))
        values, slopes = zip(*self._ask([z], Share.value_and_slope, z.key), strict=True)
        z.slope = np.sum(slopes, axis=0)
        return float(sum(values))

    def slopes(self, z: Image) -> Array:
        """Return a subgradient, shape (dim,): one round trip and one pass over the data."""
        slope, z.slope = z.slope, None
        return np.sum(self._ask([z], Share.slope, z.key), axis=0) if slope is None else slope

    def line(self, z0: Image, z1: Image) -> Line:
        """Return the risk on the line; it brings a search of its own, a few round trips without data."""

        def ask(method: Callable[..., Any], *arguments: Any) -> list[Any]:
            return self._ask([z0, z1], method, z0.key, z1.key, *arguments)

        def sample(points: Array) -> Array:
            return np.sum(ask(Share.sample, points), axis=0)

        def evaluate(t: float) -> tuple[float, float]:
            value, slope = sample(np.array([t]))[:, 0].tolist()
            return value, slope

        def search(rest: Line, limit: float) -> float:
            if self._piecewise and rest.derivative is not None and rest.newton is None:
                estimates = ask(Share.estimate)
                self._piecewise = None not in estimates
                if self._piecewise:
                    return search_pieces(estimates, partial(ask, Share.pieces), rest.derivative, limit)
            return search_probes(sample, rest, limit)

        return Line(evaluate, search=search)

    def _new(self, x: Array, parents: tuple[Image, Image, float] | None = None) -> Image:
        image = Image(next(self._keys), x, parents)
        weakref.finalize(image, self._unused.append, image.key).atexit = False
        return image

    def _ask(self, images: list[Image], method: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Ask every share; one that was made anew in the meantime is sent the points again."""
        unused = tuple(self._unused)
        plan = [step for image in images for step in image.plan()]
        points = [step.x for step in plan if not step.made and step.parents is None]
        sources = iter(range(len(points)))
        recipes = [
            Recipe(step.key)
            if step.made
            else Recipe(step.key, next(sources))
            if step.parents is None
            else Recipe(step.key, (step.parents[0].key, step.parents[1].key, step.parents[2]))
            for step in plan
        ]
        request = Request(tuple(recipes), unused, method, arguments)
        answers = self._cluster.ask(self._everyone, request, points)
        lost = [k for k, answer in enumerate(answers) if answer is Answer.LOST]
        if lost:
            anew = replace(request, recipes=tuple(Recipe(z.key, i) for i, z in enumerate(images)))
            again = self._cluster.ask(lost, anew, [z.x for z in images])
            for k, answer in zip(lost, again, strict=True):
                answers[k] = answer
        for step in plan:
            step.made, step.parents = True, None
        del self._unused[: len(unused)]
        return answers
