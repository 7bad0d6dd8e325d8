"""Nonnegative combinations of risks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, reduce
from operator import add, and_
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.capabilities import Capability, ask, offers
from cutplane.pieces.cvxpy_tools import common_variables
from cutplane.pieces.forms import ProgrammeForm
from cutplane.pieces.latex import times
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array, as_nonnegative
from cutplane.risks.base import ImagedRisk, OnDemandRisk, Risk, RoundedTerms, answer_of
from cutplane.risks.columns import Columns
from cutplane.risks.objective import LinearObjective
from cutplane.sets.base import FeasibleSet

if TYPE_CHECKING:
    from cutplane.pieces.capabilities import ExactTerms


@dataclass(frozen=True, eq=False, repr=False)
class WeightedSum(Risk):
    """f(x) = sum_j c_j f_j(x), with weights c_j > 0.

    It is built by ``0.3 * r1 + r2`` or by `of`, which merge sums of sums. If every term has an image, so has
    the sum. A query gives one cut of the sum; `disaggregated` gives one cut for each block of each term.

    Parameters
    ----------
    terms : tuple of (float, Risk)
        The weights and the risks, of equal dimension.
    separate : bool, default False
        Whether each block of each term gets a cut of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.risks import LinearObjective
    >>> f = 0.5 * LinearObjective([2.0, 0.0]) + LinearObjective([0.0, 3.0])
    >>> f
    0.5 * LinearObjective(dim=2) + LinearObjective(dim=2)
    >>> x = np.ones(2)
    >>> f.oracle(x)[0], f.disaggregated().oracle(x)[0].tolist()
    (4.0, [1.0, 3.0])
    """

    terms: tuple[tuple[float, Risk], ...]
    separate: bool = False
    dim: int = field(init=False)
    n_blocks: int = field(init=False)
    exact: bool = field(init=False)
    cvxpy_variables: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        set_fields(
            self,
            exact=all(r.exact for _, r in self.terms),
            dim=self.terms[0][1].dim,
            cvxpy_variables=common_variables(r for _, r in self.terms),
            n_blocks=sum(r.n_blocks for _, r in self.terms) if self.separate else 1,
        )

    @staticmethod
    def of(*terms: tuple[float, Risk]) -> WeightedSum:
        """Return the sum of the terms (c, risk), each with a weight c >= 0; those with weight 0 are left out.

        Terms that are sums themselves are replaced by their terms; if one is disaggregated, so is the result.

        Raises
        ------
        InvalidInputError
            If there is no term, a weight is negative or not finite, or the dimensions differ.
        """
        if not terms:
            raise InvalidInputError("WeightedSum.of needs at least one term (weight, risk).")
        flat: list[tuple[float, Risk]] = []
        for weight, risk in terms:
            if not isinstance(risk, Risk):
                raise InvalidInputError(f"A term of a sum of risks must be (weight, Risk), got {risk!r}.")
            c = as_nonnegative("the weight of a risk", weight)
            flat += [(c * d, r) for d, r in risk.summands]
        flat = list(zip([c for c, _ in flat], of_one_dimension("a sum", [r for _, r in flat]), strict=True))
        separate = any(r.splits_sums for _, r in terms)
        kept = tuple((c, r) for c, r in flat if c > 0.0) or (
            (1.0, LinearObjective(np.zeros(flat[0][1].dim))),
        )
        if all(isinstance(r, ImagedRisk) for _, r in kept):
            return ImagedWeightedSum(kept, separate)
        if any(isinstance(r, OnDemandRisk) for _, r in kept):
            from cutplane.risks.on_demand_sum import OnDemandWeightedSum

            return OnDemandWeightedSum(kept, separate)
        return WeightedSum(kept, separate)

    def __repr__(self) -> str:
        parts = (repr(r) if c == 1.0 else f"{c:g} * {r!r}" for c, r in self.terms)
        text = " + ".join(parts)
        return f"({text}).disaggregated()" if self.separate else text

    def formula(self, x: str = "x") -> str:
        """Return f(x) in LaTeX."""
        return " + ".join(times(c, risk.formula(x)) for c, risk in self.terms)

    def disaggregated(self) -> Self:
        """Return the same sum with a cut for each block of each term."""
        return replace(self, separate=True)

    @property
    def summands(self) -> tuple[tuple[float, Risk], ...]:
        """The terms."""
        return self.terms

    @property
    def withheld(self) -> tuple[Capability, ...]:
        """The cvxpy form if a term has none; what no term has; pieces if several would be combined."""
        missing = [] if all(offers(r, Capability.CVXPY) for _, r in self.terms) else [Capability.CVXPY]
        several = [r.n_blocks for _, r in self.terms if offers(r, Capability.PIECES)]
        if not several or (not self.separate and several != [1]):
            missing.append(Capability.PIECES)
        if not any(offers(r, Capability.SPLIT) for _, r in self.terms):
            missing.append(Capability.SPLIT)
        if not all(offers(r, Capability.UNITS) for _, r in self.terms):
            missing.append(Capability.UNITS)
        return tuple(missing)

    @property
    def black_box(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether one of the terms is a black box."""
        return any(r.black_box for _, r in self.terms)

    @cached_property
    def domain(self) -> FeasibleSet | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The intersection of the domains of the terms."""
        domains = [r.domain for _, r in self.terms if r.domain is not None]
        return reduce(and_, domains) if domains else None

    @property
    def open(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether `dim` is only the least of those that fit every term."""
        return all(r.open for _, r in self.terms)

    def resolve(self, dim: int) -> Risk:
        """Return the same sum of vectors of dimension `dim`, or raise `InvalidInputError`."""
        if dim == self.dim:
            return self
        return replace(self, terms=tuple((c, r.resolve(dim)) for c, r in self.terms))

    @property
    def splits_sums(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether this sum is disaggregated."""
        return self.separate

    @property
    def smooth(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether every term is smooth or linear."""
        return all(r.smooth or r.linear for _, r in self.terms)

    @property
    def linear(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether every term is linear."""
        return all(r.linear for _, r in self.terms)

    @property
    def infima(self) -> Array:
        """A lower bound of each block over all x, shape (n_blocks,)."""
        infima = np.concatenate([c * r.infima for c, r in self.terms])
        return infima if self.separate else infima.sum(keepdims=True)

    def oracle(self, x: Array) -> tuple[Any, ...]:
        """Return the value and a subgradient at `x`, and the solutions of the terms that return them."""
        answers, sizes = zip(*(answer_of(r, x) for _, r in self.terms), strict=True)
        value, slope = (self.add_values(a[0] for a in answers), self.add_slopes(a[1] for a in answers))
        self.remember(x, self.hidden(sizes, [answer[0] for answer in answers]))
        if all(len(answer) == 2 for answer in answers):
            return value, slope
        return value, slope, self._gather([answer[2] if len(answer) > 2 else None for answer in answers])

    def remember(self, x: Array, cancelled: Any) -> None:
        """Keep what cancelled at the last point."""
        object.__setattr__(self, "_last", (np.array(x), cancelled))

    def cancelled(self, z: Any) -> Any:
        """Return by how much the sizes of the terms exceed that of the sum; 0 if none can be negative.

        Right after ``oracle(z)`` the terms are not asked again.
        """
        if not np.array_equal(vars(self).get("_last", (None,))[0], z):
            self.oracle(z)
        return vars(self)["_last"][1]

    def rounded_terms(self, x: Array, excess: float) -> RoundedTerms | None:
        """Return those of the terms that state them; none exceeds its infimum by more than the sum does."""
        found = [(c, r.rounded_terms(x, excess / c)) for c, r in self.terms]
        known = [c * terms for c, terms in found if terms is not None]
        return reduce(add, known) if known else None

    def hidden(self, within: Iterable[Any], values: Iterable[Any]) -> Any:
        """Return what cancels in the terms, and between them, from that and the values of the terms."""
        inside = [
            np.broadcast_to(c * np.asarray(size), r.n_blocks)
            for (c, r), size in zip(self.terms, within, strict=True)
        ]
        if self.separate:
            return np.concatenate(inside)
        total = float(sum(part.sum() for part in inside))
        if all((r.infima >= 0.0).all() for _, r in self.terms):
            return total
        sums = [c * float(np.sum(value)) for (c, _), value in zip(self.terms, values, strict=True)]
        size = float(np.abs(sums).sum())
        return total + size - abs(sum(sums)) if math.isfinite(size) else total

    def _gather(self, solutions: list[Any]) -> Any:
        """Return one solution per block, or, of a single cut, that of the terms that have one."""
        pairs = list(zip(self.terms, solutions, strict=True))
        if not self.separate:
            found = [s if r.n_blocks == 1 else tuple(s) for (_, r), s in pairs if s is not None]
            return found[0] if len(found) == 1 else tuple(found)
        each = [[s] if r.n_blocks == 1 else [None] * r.n_blocks if s is None else [*s] for (_, r), s in pairs]
        return [solution for blocks in each for solution in blocks]

    def data_columns(self) -> Columns | None:
        """Return what is known of the columns of all terms; None if they differ in their layout."""
        return Columns.of_all([ask(r, Capability.UNITS) for _, r in self.terms])

    def in_units(self, centre: Array, size: Array) -> Risk:
        """Return the sum of the terms whose columns are (X - 1 centre') / size."""
        terms: Any = self.terms
        return replace(self, terms=tuple((c, r.in_units(centre, size)) for c, r in terms))

    def split(self, n_parts: int) -> list[WeightedSum]:
        """Return at most `n_parts` sums of shares of the terms; one that has none is in the first."""
        shares = [(c, ask(r, Capability.SPLIT, n_parts) or [r]) for c, r in self.terms]
        count = max(len(found) for _, found in shares)
        return [self.of(*((c, found[k]) for c, found in shares if k < len(found))) for k in range(count)]

    def programme_form(self) -> ProgrammeForm | None:
        """Return the sum as a quadratic programme; None unless every term is one."""
        from cutplane.risks.programmes import of_sum

        return of_sum(self.terms, self.dim)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        """State the terms; see `ExactTerms`."""
        for c, term in self.terms:
            found.add(term, factor * Fraction(c))

    def cvxpy_form(self, x: Any) -> Any:
        """Return the sum as a cvxpy expression in x, if every term offers one."""
        terms: Any = self.terms
        return reduce(add, [c * r.cvxpy_form(x) for c, r in terms])

    @np.errstate(over="ignore")  # inf, which the engine knows
    def add_values(self, values: Iterable[Any]) -> Any:
        """Return the weighted sum of a value per term, or all of them if the sum is disaggregated."""
        pairs = zip(self.terms, values, strict=True)
        parts = [c * _shaped(r, "value", v, (r.n_blocks,)) for (c, r), v in pairs]
        return np.concatenate(parts) if self.separate else float(sum(part.sum() for part in parts))

    @np.errstate(over="ignore")
    def add_slopes(self, slopes: Iterable[Any]) -> Array:
        """Return the weighted sum of a subgradient per term, or all of them if the sum is disaggregated."""
        pairs = zip(self.terms, slopes, strict=True)
        parts = [c * _shaped(r, "subgradient", s, (r.n_blocks, r.dim)) for (c, r), s in pairs]
        return np.concatenate(parts) if self.separate else reduce(add, [part.sum(axis=0) for part in parts])


class ImagedWeightedSum(WeightedSum, ImagedRisk):
    """A weighted sum of risks that have images; its image is the tuple of theirs."""

    declare = WeightedSum.declare

    def image(self, x: Array) -> tuple[Any, ...]:
        """Return the image of x under each term."""
        return tuple(r.image(x) for r in self._risks)

    def values(self, z: tuple[Any, ...]) -> Any:
        """Return the value, a float or an ndarray of shape (n_blocks,)."""
        return self.add_values(r.values(part) for r, part in zip(self._risks, z, strict=True))

    def slopes(self, z: tuple[Any, ...]) -> Array:
        """Return a subgradient, shape (dim,) or (n_blocks, dim)."""
        return self.add_slopes(r.slopes(part) for r, part in zip(self._risks, z, strict=True))

    def pieces(self, z: tuple[Any, ...]) -> tuple[Array, Array, Array]:
        """Return values, subgradients and blocks of the functions that the blocks are the maxima of.

        If the sum is not disaggregated, one term has some, and the others are added to each.
        """
        found = []
        for (c, r), part in zip(self._weighted, z, strict=True):
            values, slopes, blocks = ask(r, Capability.PIECES, part) or (
                _shaped(r, "value", r.values(part), (r.n_blocks,)),
                _shaped(r, "subgradient", r.slopes(part), (r.n_blocks, r.dim)),
                np.arange(r.n_blocks),
            )
            found.append((c * values, c * slopes, blocks))
        if self.separate:
            starts = np.cumsum([0, *(r.n_blocks for _, r in self.terms)])
            found = [
                (*answer, blocks + start) for (*answer, blocks), start in zip(found, starts, strict=False)
            ]
            values, slopes, blocks = (np.concatenate(column) for column in zip(*found, strict=True))
            return values, slopes, blocks
        several = [offers(r, Capability.PIECES) for _, r in self.terms]
        values, slopes, blocks = found[several.index(True)]
        for (more, steeper, _), pieces in zip(found, several, strict=True):
            if not pieces:
                values, slopes = values + more.sum(), slopes + steeper.sum(axis=0)
        return values, slopes, blocks

    def line(self, z0: tuple[Any, ...], z1: tuple[Any, ...]) -> Line:
        """Return the sum of the lines of the terms."""
        triples = zip(self.terms, z0, z1, strict=True)
        return reduce(add, [c * r.line(start, end) for (c, r), start, end in triples])  # pyright: ignore

    def combine(self, z0: tuple[Any, ...], z1: tuple[Any, ...], t: float) -> tuple[Any, ...]:
        """Return the image of x0 + t (x1 - x0) from the images of x0 and x1."""
        triples = zip(self._risks, z0, z1, strict=True)
        return tuple(r.combine(start, end, t) for r, start, end in triples)

    def cancelled(self, z: tuple[Any, ...]) -> Any:
        """Return by how much the sizes of the terms exceed that of the sum; 0 if none can be negative."""
        pairs = list(zip(self._risks, z, strict=True))
        return self.hidden((r.cancelled(part) for r, part in pairs), (r.values(part) for r, part in pairs))

    @property
    def _weighted(self) -> list[tuple[float, ImagedRisk]]:
        return [(c, r) for c, r in self.terms if isinstance(r, ImagedRisk)]

    @property
    def _risks(self) -> list[ImagedRisk]:
        return [r for _, r in self.terms if isinstance(r, ImagedRisk)]


def of_one_dimension(whole: str, risks: Sequence[Risk]) -> list[Risk]:
    """Return risks that are to be combined, with open dimensions resolved to that of the others."""
    dims = {r.dim for r in risks if not r.open}
    if len(dims) > 1:
        parts = ", ".join(f"{r!r} has {r.dim}" for r in risks)
        raise InvalidInputError(f"The risks of {whole} must have the same dimension, but {parts}.")
    dim = dims.pop() if dims else max(r.dim for r in risks)
    return [r.resolve(dim) for r in risks]


def _shaped(risk: Risk, what: str, answer: Any, shape: tuple[int, ...]) -> Array:
    """Return a term's answer with an axis for its blocks, so that no wrong shape is broadcast in silence."""
    try:
        array = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise OracleError(f"{risk!r} returned a {what} that is not numeric: {answer!r}.") from error
    if array.shape != shape and not (shape[0] == 1 and array.shape == shape[1:]):
        wanted = shape[1:] if shape[0] == 1 else shape
        raise OracleError(f"{risk!r} returned a {what} of shape {array.shape} instead of {wanted}.")
    return array.reshape(shape)
