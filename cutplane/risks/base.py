"""The interface of a risk: a convex function given by a first-order oracle."""

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
    """Sizes of the terms that an oracle adds, which bound its rounding errors.

    Attributes
    ----------
    count : int
        Number of floating-point operations on each term.
    value : float
        The sum of the absolute terms of the values of all blocks, plus the sum of the absolute products of
        scores and derivatives.
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
    """A convex function f, possibly nonsmooth and expensive, given by its values and subgradients.

    A subclass implements `oracle`. ``risk(x)`` is the value, a float. A `Problem` minimises ``risk +
    regularizer``. Risks can be combined:

    * ``0.3 * r1 + r2`` is a sum, `maximum` the largest of several;
    * ``risk @ B`` is x -> risk(B x) for a dense or sparse matrix or a `scipy.sparse.linalg.LinearOperator`;
    * ``risk.on(index)`` is x -> risk(x[index]), and ``risk.shift(b)`` is x -> risk(x + b).

    Attributes
    ----------
    dim : int
        Number of coordinates of x.
    n_blocks : int
        Number of cuts the oracle returns per query; f is the sum of the blocks.
    infima : ndarray of shape (n_blocks,)
        A lower bound of each block over all x; -inf where none is given. A solve starts from a finite one,
        and uses it as a cut if the method needs one.
    exact : bool
        Whether the values of the oracle are exact. An oracle that is not exact may return values that are too
        low, but its cuts must be valid. If a later cut is above a value, the engine raises this value, and
        with it the upper bound. A lower bound that is above the value of a point is dropped.
    black_box : bool
        Whether a few queries at the end of a solve test the oracle for mistakes (see `Problem.solve`); False
        for a risk whose code is tested.
    linear : bool
        Whether f is linear, so that its only cut is the function itself.
    smooth : bool
        Whether f is differentiable, so that its subgradients are gradients.
    splits_sums : bool
        Whether a sum with this risk gives a cut for each block of each term.
    open : bool
        Whether `dim` is only the least possible dimension. For example, ``risk.on([2])`` fits any vector of
        three or more coordinates; sums and problems `resolve` it to their dimension.
    domain : FeasibleSet or None
        The set where f is finite: a simple set, separation oracles, or both. A `Problem` intersects it with
        its feasible set. None if f is finite on the whole feasible set.
    cvxpy_variables : tuple of cvxpy.Variable
        The variables whose entries are the coordinates of x, for `Result.value`; () if f was not given by
        cvxpy.
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
        """A lower bound of each block over all x, shape (n_blocks,); -inf where none is given."""
        return np.full(self.n_blocks, -np.inf)

    @abstractmethod
    def oracle(self, x: Array) -> tuple[Any, ...]:
        """Return the value and a subgradient at `x`, and optionally the solution of an inner problem.

        Parameters
        ----------
        x : ndarray of shape (dim,)

        Returns
        -------
        value : float, or ndarray of shape (n_blocks,)
        subgradient : ndarray of shape (dim,), or of shape (n_blocks, dim)
        solution : object, or a sequence of n_blocks, optional
            If the value is the optimum of an inner problem, its solution; `Result.primal` averages them.
        """

    def cancelled(self, z: Any) -> Any:
        """Return the size of the terms that cancel in the values at a point: one number, or one per block.

        For example, 1e9 + 1 - 1e9 has the value 1 and terms of size 2e9. Lower bounds are reduced by the
        rounding error of the terms. The default 0 means that no term is much larger than the value. `z` is
        the image of the point if the risk has images, otherwise the point.
        """
        return 0.0

    def rounded_terms(self, x: Array, excess: float) -> RoundedTerms | None:
        """Return the sizes of the terms whose sums are the answers at x.

        Lower bounds are reduced by the rounding errors of such sums. `excess` is an upper bound of f(x) - inf
        f. The default None means that the answers count as exact.
        """
        return None

    @property
    def summands(self) -> tuple[tuple[float, Risk], ...]:
        """The weighted risks whose sum is f; a larger sum has these terms in place of f."""
        return ((1.0, self),)

    def resolve(self, dim: int) -> Risk:
        """Return the risk with its dimension fixed to `dim`, or raise `InvalidInputError`."""
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
    """Upper bounds of f at a point x, and cuts, by an oracle of on-demand accuracy."""

    values: Array
    """Upper bounds of the blocks at x, shape (n_blocks,)."""
    slopes: Array
    """The slopes of a cut of each block, shape (n_blocks, dim)."""
    offsets: Array
    """The offsets of these cuts, shape (n_blocks,). The cuts are valid everywhere, and close to `values` at
    x."""
    multipliers: Array
    """The multipliers of the examples for which `dual_cut` returns these cuts."""


class OnDemandRisk(Risk):
    """f(x) = max over u of a function concave in u and linear in x, so that any feasible u gives a cut.

    The engine requests a low accuracy as long as the gap is large [1]_, because a rough u then suffices.
    Values are never too low, and cuts never too high.

    References
    ----------
    .. [1] W. de Oliveira, C. Sagastizábal, "Level bundle methods for oracles with on-demand accuracy", Optim.
       Methods Softw. 29, 2014, doi:10.1080/10556788.2013.871282.
    """

    black_box = False

    @abstractmethod
    def estimate(self, x: Array, accuracy: float, start: Estimate | None = None) -> Estimate:
        """Return values at `x`, and cuts whose values at `x` are lower by at most `accuracy`.

        Parameters
        ----------
        x : ndarray of shape (dim,)
        accuracy : float
            At least 0. 0 requests the most accurate answer; inf accepts any.
        start : Estimate, optional
            The last answer, possibly at another point, as a start.
        """

    @abstractmethod
    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        """Return slopes and offsets of the cuts, one per block, for given multipliers of the examples."""

    def oracle(self, x: Array) -> tuple[Any, Any]:
        """Return the value and a subgradient at `x`, with the best accuracy."""
        answer = self.estimate(x, 0.0)
        return answer.values, answer.slopes


class ImagedRisk(Risk):
    """f(x) = h(M x): a costly linear map M (a pass over the data) and a cheap h.

    The engine stores the image z = M x of each evaluated point. The image and the value of a point on the
    line through two evaluated points then need no pass over the data. An image may be any object: the engine
    only gives it back to the methods of the risk.
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
