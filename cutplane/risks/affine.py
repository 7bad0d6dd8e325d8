"""Risks of an affine image of the vector, such as a part or a shift of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cutplane.pieces.algebra import Composed
from cutplane.pieces.capabilities import Capability
from cutplane.pieces.forms import ImageForm, ProgrammeForm
from cutplane.pieces.linear_maps import LinearMap
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array
from cutplane.risks.base import ImagedRisk, Risk
from cutplane.risks.programmes import of_image

_SHARED = "n_blocks", "exact", "black_box", "smooth", "linear", "splits_sums"
"""Attributes that h(A x + b) copies from h."""


@dataclass(frozen=True, eq=False, repr=False)
class AffineRisk(Composed, Risk):
    """f(x) = h(A x + b); written ``h @ A``, ``h.on(index)`` or ``h.shift(b)``.

    It has as many blocks as h. It has an image, and cuts from multipliers, if h has them.

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

    passed_on = (
        Capability.CVXPY,
        Capability.DUAL_CUT,
        Capability.IMAGE_FORM,
        Capability.PROGRAMME,
        Capability.CURVATURE,
        Capability.PIECES,
        Capability.SPLIT,
    )
    risk: Any
    map: LinearMap
    offset: Array | None = None

    def __post_init__(self) -> None:
        h = self.risk.resolve(self.map.shape[0])
        shared = {name: getattr(h, name) for name in _SHARED}
        set_fields(self, risk=h, inner=h, dim=self.map.shape[1], **shared)

    @staticmethod
    def of(risk: Risk, linear_map: LinearMap, offset: Array | None = None) -> AffineRisk:
        """Return h(A x + b), with an image if h has one."""
        return (ImagedAffineRisk if isinstance(risk, ImagedRisk) else AffineRisk)(risk, linear_map, offset)

    def formula(self, x: str = "x") -> str:
        return self.inner.formula(f"A {x}" + ("" if self.offset is None else " + b"))

    @property
    def infima(self) -> Array:
        return self.inner.infima

    def resolve(self, dim: int) -> Risk:
        return self if dim == self.dim else replace(self, map=self.map.resolve(dim))

    def oracle(self, x: Array) -> tuple[Any, ...]:
        value, slope, *rest = self.inner.oracle(self.at(x))
        return value, self.map.transposed(slope), *rest

    def cancelled(self, z: Any) -> Any:
        return self.inner.cancelled(self.at(z))

    def pieces(self, z: Any) -> tuple[Any, Any, Any]:
        values, slopes, blocks = self.inner.pieces(self.at(z))
        return values, self.map.transposed(slopes), blocks

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        slopes, offsets = self.inner.dual_cut(u)
        return self.map.transposed(slopes), offsets if self.offset is None else offsets + slopes @ self.offset

    def split(self, n_parts: int) -> list[AffineRisk]:
        return [self.of(share, self.map, self.offset) for share in self.inner.split(n_parts)]

    def curvature_bound(self, x: Array, direction: Array) -> float:
        return self.inner.curvature_bound(self.at(x), self.map(direction))

    def cvxpy_image_form(self, x: Any) -> ImageForm:
        image, value, multipliers = self.inner.cvxpy_image_form(self.expression(x))
        return ImageForm(image, value, lambda slope, x: multipliers(slope, self.at(x)))

    def programme_form(self) -> ProgrammeForm | None:
        inner = self.inner.programme_form()
        return None if inner is None else of_image(inner, self.map, self.offset)


class ImagedAffineRisk(AffineRisk, ImagedRisk):
    """h(A x + b) for a risk h with images; the image of x is the image of A x + b under h."""

    def image(self, x: Array) -> Any:
        return self.inner.image(self.at(x))

    def values(self, z: Any) -> Any:
        return self.inner.values(z)

    def slopes(self, z: Any) -> Any:
        return self.map.transposed(self.inner.slopes(z))

    def pieces(self, z: Any) -> tuple[Any, Any, Any]:
        values, slopes, blocks = self.inner.pieces(z)
        return values, self.map.transposed(slopes), blocks

    def line(self, z0: Any, z1: Any) -> Line:
        return self.inner.line(z0, z1)

    def combine(self, z0: Any, z1: Any, t: float) -> Any:
        return self.inner.combine(z0, z1, t)

    def cancelled(self, z: Any) -> Any:
        return self.inner.cancelled(z)
