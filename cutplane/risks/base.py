"""The interface of a risk: a convex function known through a first-order oracle."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cutplane.pieces.algebra import ConvexFunction, check_dimension
from cutplane.pieces.linear_maps import LinearMap, Selection, as_shift
from cutplane.pieces.lines import Line
from cutplane.pieces.validation import Array, as_scalar, as_vector

if TYPE_CHECKING:
    from cutplane.sets.base import FeasibleSet


class RoundedTerms(NamedTuple):
    """Sizes of the terms that an answer is a sum of, because its rounding errors are relative to them.

    Attributes
    ----------
    count : int
        Operations on each term.
    value : float
        The sum of the absolute terms of the values of all blocks, and of scores multiplied by derivatives.
    slope : ndarray of shape (dim,)
        The sums of the absolute terms of the subgradients of all blocks.
    """

    count: int
    value: float
    slope: Array

    def __add__(self, other: RoundedTerms) -> RoundedTerms:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the terms of a sum."""
        return RoundedTerms(
            max(self.count, other.count) + 1, self.value + other.value, self.slope + other.slope
        )

    def __rmul__(self, factor: float) -> RoundedTerms:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the terms of a multiple."""
        return RoundedTerms(self.count + 1, factor * self.value, factor * self.slope)


class Risk(ConvexFunction):
    """f(x), convex, maybe nonsmooth and expensive; known by its value and one subgradient at a point.

    A subclass implements `oracle`. Risks are pieces of an algebra: ``0.3 * r1 + r2``; ``risk @ B`` is the
    function x -> risk(B x) of a dense or sparse matrix or a `scipy.sparse.linalg.LinearOperator`;
    ``risk.on(index)`` is x -> risk(x[index]), ``risk.shift(b)`` is x -> risk(x + b), `maximum` the largest of
    several. A `Problem` minimises ``risk + regularizer``. ``risk(x)`` is the value, a float.

    Attributes
    ----------
    dim : int
        Number of coordinates of x.
    n_blocks : int
        Number of cuts the oracle returns per query; f is the sum of the blocks.
    infima : ndarray of shape (n_blocks,)
        A known lower bound of each block over all x; -inf where none is known. A finite one is the bound
        that a run starts from, and a cut if the method needs one.
    exact : bool
        Whether the values of the oracle are right. The cuts of an oracle that is not exact must hold, but its
        values may be too low: then the engine raises them when later cuts show it, and the upper bound with
        them, which is relative to the oracle's answers. A lower bound that a point contradicts is
        forgotten.
    black_box : bool
        Whether mistakes are looked for by a few questions at the end of a solve (see `Problem.solve`); False
        for a risk that is known to be right.
    linear : bool
        Whether f is linear, so that its only cut is the function itself.
    smooth : bool
        Whether f is known to be differentiable, so that its subgradients are gradients.
    splits_sums : bool
        Whether a sum with this risk gives a cut for each block of each term.
    open : bool
        Whether `dim` is only the least dimension that fits, as for a part of the vector: sums and problems
        `resolve` it to theirs.
    domain : FeasibleSet or None
        Where f is finite: a simple set, separation oracles, or both, which a `Problem` intersects with its
        feasible set; None if that is everywhere on it.
    cvxpy_variables : tuple of cvxpy.Variable
        The variables whose entries x holds, for `Result.value`; () if f was not given by cvxpy.
    """

    written = "risk"
    dim: int
    n_blocks: int = 1
    exact: bool = True
    black_box: bool = True
    linear: bool = False
    smooth: bool = False
    splits_sums: bool = False
    domain: FeasibleSet | None = None

    @property
    def infima(self) -> Array:
        """A lower bound of each block over all x, shape (n_blocks,); -inf where none is known."""
        return np.full(self.n_blocks, -np.inf)

    @abstractmethod
    def oracle(self, x: Array) -> tuple[Any, ...]:
        """Return the value and a subgradient at `x`; and, if there is one, the solution behind them.

        Parameters
        ----------
        x : ndarray of shape (dim,)

        Returns
        -------
        value : float, or ndarray of shape (n_blocks,)
        subgradient : ndarray of shape (dim,), or of shape (n_blocks, dim)
        solution : object, or a sequence of n_blocks, optional
            What the value is attained by, of an inner problem; `Result.primal` averages them.
        """

    def cancelled(self, z: Any) -> Any:
        """Return the size of terms that cancel in the values at a point: one number, or one for each block.

        `z` is the image of the point if the risk has images, else the point. The rounding error of the
        terms is charged to lower bounds. 0 by default: the values show their size.
        """
        return 0.0

    def rounded_terms(self, x: Array, excess: float) -> RoundedTerms | None:
        """Return the sizes of the terms that the answers at x are sums of; lower bounds are charged for them.

        `excess` is an upper bound of f(x) - inf f. None by default: answers are taken as they are.
        """
        return None

    @property
    def summands(self) -> tuple[tuple[float, Risk], ...]:
        """The weighted risks that f is the sum of, which a larger sum takes in place of f."""
        return ((1.0, self),)

    def resolve(self, dim: int) -> Risk:
        """Return the same risk of vectors of dimension `dim`, or raise `InvalidInputError`."""
        check_dimension(self, dim)
        return self

    def __call__(self, x: Any) -> Any:
        """Return f(x), a float."""
        return float(np.sum(self.oracle(as_vector("x", x, self.dim))[0]))

    def __add__(self, other: Any) -> Any:
        from cutplane.regularizers.base import Regularizer
        from cutplane.risks.sums import CompositeObjective, WeightedSum

        if isinstance(other, Regularizer):
            return CompositeObjective(self, other)
        if not isinstance(other, Risk):
            return NotImplemented
        return WeightedSum.of((1.0, self), (1.0, other))

    def __radd__(self, other: Any) -> Any:
        from cutplane.regularizers.base import Regularizer

        if isinstance(other, Regularizer):
            return self + other
        return super().__radd__(other)

    def __rmul__(self, factor: Any) -> Risk:
        from cutplane.risks.sums import WeightedSum

        return WeightedSum.of((as_scalar("the factor of a risk", factor, low=0.0), self))

    __mul__ = __rmul__

    def composed(self, linear_map: LinearMap, offset: Array | None = None) -> Risk:
        """Return x -> f(A x + b)."""
        from cutplane.risks.affine import AffineRisk

        return AffineRisk.of(self, linear_map, offset)

    def shift(self, b: Any) -> Risk:
        """Return x -> f(x + b), with b of shape (dim,)."""
        return self.composed(Selection(slice(None), self.dim), as_shift(b, self.dim))


class Estimate(NamedTuple):
    """Bounds and cuts of f at a point x, by an oracle of on-demand accuracy."""

    values: Array
    """Upper bounds of the blocks at x, shape (n_blocks,)."""
    slopes: Array
    """Those of a cut of each block, shape (n_blocks, dim)."""
    offsets: Array
    """The cuts hold everywhere, and at x they are close to the values; shape (n_blocks,)."""
    multipliers: Array
    """The multipliers of the examples for which `dual_cut` returns the cuts."""


class OnDemandRisk(Risk):
    """f(x) = max over u of a concave function of u that is linear in x: any feasible u gives a cut.

    The engine requests the accuracy that the gap needs [1]_: while the gap is large, a rough u
    will do. Its values are never too low, and its cuts never too high.

    References
    ----------
    .. [1] W. de Oliveira, C. Sagastizábal, "Level bundle methods for oracles with on-demand accuracy", Optim.
       Methods Softw. 29, 2014, doi:10.1080/10556788.2013.871282.
    """

    black_box = False

    @abstractmethod
    def estimate(self, x: Array, accuracy: float, start: Estimate | None = None) -> Estimate:
        """Return values, and cuts that lie below them by at most `accuracy` at `x`.

        Parameters
        ----------
        x : ndarray of shape (dim,)
        accuracy : float
            At least 0, which is as exact as can be; inf is any accuracy.
        start : Estimate, optional
            The last answer, maybe at another point.
        """

    @abstractmethod
    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        """Return slopes and offsets of the cuts, one per block, that multipliers of the examples give."""

    def oracle(self, x: Array) -> tuple[Any, Any]:
        """Return the value and a subgradient at `x`, as exact as can be."""
        answer = self.estimate(x, 0.0)
        return answer.values, answer.slopes


class ImagedRisk(Risk):
    """f(x) = h(M x): a costly linear map M (a pass over the data) and a cheap h.

    The engine keeps the image z = M x of each evaluated point, so that points on a line, and the value there,
    cost no pass over the data. An image is whatever `image` returns; only `combine` needs to understand it.
    """

    @abstractmethod
    def image(self, x: Array) -> Any:
        """Return z = M x: one pass over the data."""

    @abstractmethod
    def values(self, z: Any) -> Any:
        """Return h(z), a float or an ndarray of shape (n_blocks,)."""

    @abstractmethod
    def slopes(self, z: Any) -> Any:
        """Return a subgradient M'h'(z), shape (dim,) or (n_blocks, dim): one pass over the data."""

    @abstractmethod
    def line(self, z0: Any, z1: Any) -> Line:
        """Return t -> h(z0 + t (z1 - z0)), summed over the blocks."""

    def combine(self, z0: Any, z1: Any, t: float) -> Any:
        """Return the image of x0 + t (x1 - x0) from the images of x0 and x1."""
        return z0 + t * (z1 - z0)

    def oracle(self, x: Array) -> tuple[Any, Any]:
        """Return the value and a subgradient at `x`: two passes over the data."""
        z = self.image(x)
        return self.values(z), self.slopes(z)


def answer_of(risk: Risk, x: Array) -> tuple[tuple[Any, ...], Any]:
    """Return ``risk.oracle(x)``, and the size of the terms that cancelled in the value."""
    if isinstance(risk, ImagedRisk):
        z = risk.image(x)
        return (risk.values(z), risk.slopes(z)), risk.cancelled(z)
    return risk.oracle(x), risk.cancelled(x)
