"""The maximum of several risks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.algebra import not_offered
from cutplane.pieces.capabilities import Capability, ask
from cutplane.pieces.cvxpy_tools import common_variables
from cutplane.pieces.lines import Line, maximum_line
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array
from cutplane.risks.base import ImagedRisk, Risk, RoundedTerms, answer_of
from cutplane.risks.columns import Columns
from cutplane.risks.sums import of_one_dimension


def maximum(*risks: Risk) -> Maximum:
    """Return f(x) = max_j f_j(x), the largest of several risks.

    Parameters
    ----------
    *risks : Risk
        Risks of equal dimension; a risk with several blocks counts as one function, their sum.

    Returns
    -------
    Maximum
        A risk whose queries give a cut of each part. It has an image, or exact line searches, if every part
        has them; `weights` returns the dual weights of the parts.

    Raises
    ------
    InvalidInputError
        If there are no arguments, an argument is not a risk, or the dimensions differ.

    Examples
    --------
    Minimise the mean loss of the worse of two groups:

    >>> import numpy as np, cutplane as cut
    >>> y = np.array([0.0, 1.0, 2.0, 10.0])
    >>> groups = [[0, 1, 2], [3]]
    >>> distance = [cut.LinearRisk(np.ones((len(g), 1)), y[g], cut.losses.Absolute()) for g in groups]
    >>> worst = cut.maximum(*distance)
    >>> result = cut.Problem(worst, feasible_set=cut.Box(-20, 20)).solve(tol=1e-9)
    >>> print(result.x.round(6), worst.weights(result).round(6))
    [5.5] [0.5 0.5]
    """
    if not risks or not all(isinstance(part, Risk) for part in risks):
        raise InvalidInputError(f"maximum needs at least one risk, and nothing else; got {risks!r}.")
    parts = tuple(of_one_dimension("a maximum", risks))
    imaged = all(isinstance(part, ImagedRisk) for part in parts)
    return (ImagedMaximum if imaged else Maximum)(parts)


_SAME = 1e-6
"""Relative difference up to which slopes of one part at one point are equal, because two answers may differ
by rounding."""


@dataclass(frozen=True, eq=False, repr=False)
class Maximum(Risk):
    """f(x) = max_j f_j(x); made by `maximum`.

    Parameters
    ----------
    parts : tuple of Risk
    """

    parts: tuple[Any, ...]

    def __post_init__(self) -> None:
        parts = self.parts
        set_fields(
            self,
            dim=parts[0].dim,
            exact=all(part.exact for part in parts),
            black_box=any(part.black_box for part in parts),
            open=all(part.open for part in parts),
            cvxpy_variables=common_variables(parts),
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: entry for name, entry in vars(self).items() if name != "_last"}

    def __repr__(self) -> str:
        return f"maximum({', '.join(map(repr, self.parts))})"

    def __rmul__(self, factor: Any) -> Risk:
        return replace(self, parts=tuple(factor * part for part in self.parts))

    __mul__ = __rmul__

    def formula(self, x: str = "x") -> str:
        return r"\max\left\{" + r",\; ".join(part.formula(x) for part in self.parts) + r"\right\}"

    @property
    def withheld(self) -> tuple[Capability, ...]:
        """The capabilities that are missing because a part does not have them."""
        return not_offered(self.parts, (Capability.CVXPY, Capability.UNITS))

    @property
    def infima(self) -> Array:
        return self._infima.max(keepdims=True)

    @property
    def _infima(self) -> Array:
        return np.array([part.infima.sum() for part in self.parts])

    def resolve(self, dim: int) -> Risk:
        if dim == self.dim:
            return self
        return replace(self, parts=tuple(part.resolve(dim) for part in self.parts))

    def data_columns(self) -> Columns | None:
        return Columns.of_all([ask(part, Capability.UNITS) for part in self.parts])

    def in_units(self, centre: Array, size: Array) -> Risk:
        """Return the risk of the columns (X - 1 centre') / size."""
        return replace(self, parts=tuple(part.in_units(centre, size) for part in self.parts))

    def oracle(self, x: Array) -> tuple[Any, ...]:
        vars(self).pop("_last", None)
        values, slopes, _ = self._answers(x)
        largest = int(np.argmax(values))
        return float(values[largest]), slopes[largest].copy()

    def pieces(self, z: Any) -> tuple[Array, Array, Array]:
        """Return values, shape (k,), subgradients, shape (k, dim), and blocks of the parts; all are in block
        0.

        `z` is the image of a point if the risk has images, otherwise the point.
        """
        values, slopes, _ = self._answers(z)
        return values, slopes, np.zeros(len(self.parts), dtype=np.int64)

    def rounded_terms(self, x: Array, excess: float) -> RoundedTerms | None:
        known = np.isfinite(self._infima)
        above = np.full(len(self.parts), np.inf)
        if known.any():
            above[known] = excess + self._infima.max() - self._infima[known]
        found = [part.rounded_terms(x, float(most)) for part, most in zip(self.parts, above, strict=True)]
        stated = [terms for terms in found if terms is not None]
        if not stated:
            return None
        counts, values, slopes = zip(*stated, strict=True)
        return RoundedTerms(max(counts), max(values), np.max(slopes, axis=0))

    def cancelled(self, z: Any) -> float:
        return self._answers(z)[2]

    def weights(self, result: Any) -> Array:
        """Return the dual weights of the parts: nonnegative, of sum 1, shape (number of parts,).

        The weight of a part is the sum of the multipliers of its cuts in the proof of the lower bound. At the
        solution, the problem with the risk sum_j weights_j f_j has the same optimum, and parts with positive
        weights have the largest value.

        Parameters
        ----------
        result : Result
            The result of a problem with this risk; its lower bound must be proven.

        Raises
        ------
        InvalidInputError
            If the multipliers of the result belong to cuts of another risk.
        """
        proof, total = result.certificate, np.zeros(len(self.parts))
        answers: dict[int, tuple[Array, Array]] = {}
        for row in np.flatnonzero((proof.multipliers > 0.0) & (proof.blocks == 0)).tolist():
            query, slope = int(proof.queries[row]), proof.slopes[[row]]
            slope = (slope.toarray() if hasattr(slope, "toarray") else slope)[0]
            if query not in proof.points:
                total[int(np.argmax(self._infima))] += proof.multipliers[row]  # the cut of `infima`
                continue
            x = proof.points[query]
            if query not in answers:
                answers[query] = self._answers(x)[:2]
            values, slopes = answers[query]
            apart = np.abs(slopes - slope).sum(axis=1)
            size = np.abs(slopes).sum(axis=1) + np.abs(slope).sum()
            offsets = np.abs(values - slopes @ x - proof.offsets[row])
            part = int(np.argmin(apart / (size + (size == 0.0)) + offsets / (1.0 + np.abs(values).max())))
            if apart[part] > _SAME * size[part]:
                raise InvalidInputError("The result is not of a problem whose risk is this maximum.")
            total[part] += proof.multipliers[row]
        if not total.sum() > 0.0:
            raise InvalidInputError("The result has no lower bound that cuts of this maximum prove.")
        return total / total.sum()

    def _answers(self, x: Array) -> tuple[Array, Array, float]:
        """Return values and subgradients of the parts, and the largest size of the terms that cancelled.

        The last answers are stored, because the engine calls `pieces` and `cancelled` after the oracle.
        """
        point, *answers = vars(self).get("_last", (None,))
        if np.array_equal(point, x):
            values, slopes, size = answers
            return values, slopes, size
        found, sizes = zip(*(answer_of(part, x) for part in self.parts), strict=True)
        values = np.array([float(np.sum(value)) for value, *_ in found])
        slopes, size = np.array([_total(slope) for _, slope, *_ in found]), max(map(np.sum, sizes))
        set_fields(self, _last=(np.array(x), values, slopes, float(size)))
        return values, slopes, float(size)

    def cvxpy_form(self, x: Any) -> Any:
        import cvxpy as cp

        return cp.max(cp.hstack([part.cvxpy_form(x) for part in self.parts]))


class ImagedMaximum(Maximum, ImagedRisk):
    """The maximum of several risks with images; its image is the tuple of their images."""

    def image(self, x: Array) -> tuple[Any, ...]:
        return tuple(part.image(x) for part in self.parts)

    def values(self, z: tuple[Any, ...]) -> float:
        return max(self._values(z))

    def slopes(self, z: tuple[Any, ...]) -> Array:
        largest = int(np.argmax(self._values(z)))
        return _total(self.parts[largest].slopes(z[largest]))

    def pieces(self, z: tuple[Any, ...]) -> tuple[Array, Array, Array]:
        slopes = [_total(part.slopes(image)) for part, image in zip(self.parts, z, strict=True)]
        return np.array(self._values(z)), np.array(slopes), np.zeros(len(self.parts), dtype=np.int64)

    def oracle(self, x: Array) -> tuple[Any, Any]:
        return ImagedRisk.oracle(self, x)

    def line(self, z0: tuple[Any, ...], z1: tuple[Any, ...]) -> Line:
        triples = zip(self.parts, z0, z1, strict=True)
        return maximum_line([part.line(start, end) for part, start, end in triples])

    def combine(self, z0: tuple[Any, ...], z1: tuple[Any, ...], t: float) -> tuple[Any, ...]:
        triples = zip(self.parts, z0, z1, strict=True)
        return tuple(part.combine(start, end, t) for part, start, end in triples)

    def cancelled(self, z: tuple[Any, ...]) -> float:
        pairs = zip(self.parts, z, strict=True)
        return max(float(np.sum(part.cancelled(image))) for part, image in pairs)

    def _values(self, z: tuple[Any, ...]) -> list[float]:
        return [float(np.sum(part.values(image))) for part, image in zip(self.parts, z, strict=True)]


def _total(slopes: Any) -> Array:
    """Return the sum of the subgradients of the blocks."""
    array = np.asarray(slopes, dtype=np.float64)
    return array if array.ndim == 1 else array.sum(axis=0)
