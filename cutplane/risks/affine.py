"""Risks of a linear image, of a part, or of a shift of the vector."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.forms import ImageForm, ProgrammeForm
from cutplane.pieces.linear_maps import LinearMap, enclosed
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array
from cutplane.risks.base import ImagedRisk, Risk

_PASSED_ON = (
    Capability.CVXPY,
    Capability.DUAL_CUT,
    Capability.IMAGE_FORM,
    Capability.PROGRAMME,
    Capability.CURVATURE,
    Capability.PIECES,
    Capability.SPLIT,
)


@dataclass(frozen=True, eq=False, repr=False)
class AffineRisk(Risk):
    """f(x) = h(A x + b); written ``h @ A``, ``h.on(index)`` or ``h.shift(b)``.

    It has as many blocks as h, and an image if h has one. Multipliers of the examples give cuts of f, too.

    Parameters
    ----------
    risk : Risk
        h.
    map : LinearMap
        x -> A x.
    offset : ndarray of shape (risk.dim,), optional
        b.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> h = cut.LinearObjective([1.0, 2.0])
    >>> f = h @ np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    >>> f
    LinearObjective(dim=2) @ <2x3 matrix>
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> f(x), h.on([2, 0])(x), h.shift([1.0, 0.0])(np.zeros(2))
    (8.0, 5.0, 1.0)
    """

    risk: Risk
    map: LinearMap
    offset: Array | None = None
    dim: int = field(init=False)
    n_blocks: int = field(init=False)
    exact: bool = field(init=False)

    def __post_init__(self) -> None:
        inner = self.risk.resolve(self.map.shape[0])
        set_fields(self, risk=inner, dim=self.map.shape[1], n_blocks=inner.n_blocks, exact=inner.exact)

    @staticmethod
    def of(risk: Risk, linear_map: LinearMap, offset: Array | None = None) -> AffineRisk:
        """Return h(A x + b), with an image if h has one."""
        return (ImagedAffineRisk if isinstance(risk, ImagedRisk) else AffineRisk)(risk, linear_map, offset)

    def __repr__(self) -> str:
        return enclosed(self.risk) + (self.map.shown() if self.offset is None else ".shift(b)")

    def formula(self, x: str = "x") -> str:
        """Return f(x) in LaTeX."""
        return self.risk.formula(f"A {x}" + ("" if self.offset is None else " + b"))

    @cached_property
    def withheld(self) -> tuple[Capability, ...]:
        """The capabilities that h does not offer."""
        return tuple(kind for kind in _PASSED_ON if not offers(self.risk, kind))

    @property
    def open(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether `dim` is only the least of those that fit."""
        return self.map.open

    @property
    def black_box(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether h is a black box."""
        return self.risk.black_box

    @property
    def smooth(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether h is smooth."""
        return self.risk.smooth

    @property
    def linear(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether h is linear."""
        return self.risk.linear

    @property
    def splits_sums(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether h is disaggregated."""
        return self.risk.splits_sums

    @property
    def infima(self) -> Array:
        """Those of h, shape (n_blocks,)."""
        return self.risk.infima

    def resolve(self, dim: int) -> Risk:
        """Return the same risk of vectors of dimension `dim`, or raise `InvalidInputError`."""
        return self if dim == self.dim else replace(self, map=self.map.resolve(dim))

    def oracle(self, x: Array) -> tuple[Any, ...]:
        """Return the value and a subgradient at `x`, and what else h returns."""
        value, slope, *rest = self.risk.oracle(self._at(x))
        return value, self.map.transposed(slope), *rest

    def cancelled(self, z: Any) -> Any:
        """Return what h says."""
        return self.risk.cancelled(self._at(z))

    def pieces(self, z: Any) -> tuple[Any, Any, Any]:
        """Return values, subgradients and blocks of the functions that the blocks are the maxima of."""
        values, slopes, blocks = self._inner.pieces(self._at(z))
        return values, self.map.transposed(slopes), blocks

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        """Return the cut, slopes and offsets, that multipliers of the examples give."""
        slopes, offsets = self._inner.dual_cut(u)
        return self.map.transposed(slopes), offsets if self.offset is None else offsets + slopes @ self.offset

    def split(self, n_parts: int) -> list[AffineRisk]:
        """Return at most `n_parts` risks of shares of h, whose sum is the risk."""
        return [self.of(share, self.map, self.offset) for share in self._inner.split(n_parts)]

    def curvature_bound(self, x: Array, direction: Array) -> float:
        """Return c with f(x + t d) <= f(x) + t <f'(x), d> + c t^2 / 2 for all t."""
        return self._inner.curvature_bound(self._at(x), self.map(direction))

    def cvxpy_form(self, x: Any) -> Any:
        """Return h of the image of x as a cvxpy expression."""
        return self._inner.cvxpy_form(self._expression(x))

    def cvxpy_image_form(self, x: Any) -> ImageForm:
        """Return the image form of h at A x + b."""
        image, value, multipliers = self._inner.cvxpy_image_form(self._expression(x))
        return ImageForm(image, value, lambda slope, x: multipliers(slope, self._at(x)))

    def programme_form(self) -> ProgrammeForm | None:
        """Return that of h of A x + b; None if h has none."""
        from cutplane.risks.programmes import of_image

        inner = self._inner.programme_form()
        return None if inner is None else of_image(inner, self.map, self.offset)

    def _expression(self, x: Any) -> Any:
        image = self.map.cvxpy_form(x)
        return image if self.offset is None else image + self.offset

    def _at(self, x: Array) -> Array:
        return self.map(x) if self.offset is None else self.map(x) + self.offset

    @property
    def _inner(self) -> Any:
        """h, which is known to offer what is asked for."""
        return self.risk


class ImagedAffineRisk(AffineRisk, ImagedRisk):
    """h(A x + b) of a risk h with images: its image of x is that of A x + b."""

    def image(self, x: Array) -> Any:
        """Return the image of A x + b."""
        return self._imaged.image(self._at(x))

    def values(self, z: Any) -> Any:
        """Return the value, a float or an ndarray of shape (n_blocks,)."""
        return self._imaged.values(z)

    def slopes(self, z: Any) -> Any:
        """Return a subgradient, shape (dim,) or (n_blocks, dim)."""
        return self.map.transposed(self._imaged.slopes(z))

    def pieces(self, z: Any) -> tuple[Any, Any, Any]:
        """Return values, subgradients and blocks of the functions that the blocks are the maxima of."""
        values, slopes, blocks = self._inner.pieces(z)
        return values, self.map.transposed(slopes), blocks

    def line(self, z0: Any, z1: Any) -> Line:
        """Return the line of h."""
        return self._imaged.line(z0, z1)

    def combine(self, z0: Any, z1: Any, t: float) -> Any:
        """Return the image of x0 + t (x1 - x0) from the images of x0 and x1."""
        return self._imaged.combine(z0, z1, t)

    def cancelled(self, z: Any) -> Any:
        """Return what h says."""
        return self._imaged.cancelled(z)

    @property
    def _imaged(self) -> ImagedRisk:
        return cast(ImagedRisk, self.risk)
