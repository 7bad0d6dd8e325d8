"""Linear objectives, nonnegative combinations of risks, and the sum of a risk and a regularizer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from operator import add
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.algebra import common_domain, enclosed, not_offered
from cutplane.pieces.capabilities import Capability, ask, offers
from cutplane.pieces.cvxpy_tools import common_variables
from cutplane.pieces.forms import ProgrammeForm
from cutplane.pieces.latex import times
from cutplane.pieces.lines import Line, quadratic_line
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array, as_nonnegative, as_vector
from cutplane.regularizers.base import Regularizer
from cutplane.risks.base import Estimate, ImagedRisk, OnDemandRisk, Risk, RoundedTerms, answer_of
from cutplane.risks.columns import Columns
from cutplane.risks.programmes import of_linear, of_sum

if TYPE_CHECKING:
    from cutplane.pieces.capabilities import ExactTerms


@dataclass(frozen=True, eq=False)
class LinearObjective(ImagedRisk):
    """f(x) = <c, x>; its only cut is the function itself.

    Parameters
    ----------
    c : array_like of shape (dim,)
        Finite costs.

    Raises
    ------
    InvalidInputError
        If `c` is not a vector of finite numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.risks import LinearObjective
    >>> value, slope = LinearObjective([1.0, -2.0]).oracle(np.array([3.0, 1.0]))
    >>> float(value), slope.tolist()
    (1.0, [1.0, -2.0])
    """

    black_box = False
    linear = True
    c: Array

    def __post_init__(self) -> None:
        c = as_vector("LinearObjective.c", self.c)
        set_fields(self, c=c, dim=c.shape[0])

    def __repr__(self) -> str:
        return f"LinearObjective(dim={self.dim})"

    @property
    def infima(self) -> Array:
        return np.full(1, -np.inf if self.c.any() else 0.0)

    def image(self, x: Array) -> float:
        return float(self.c @ x)

    def formula(self, x: str = "x") -> str:
        return rf"\langle c, {x}\rangle"

    def values(self, z: float) -> float:
        return z

    def slopes(self, z: float) -> Array:
        return self.c

    def line(self, z0: float, z1: float) -> Line:
        return quadratic_line(z0, z1 - z0, 0.0)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        found.linear(self.c, factor)

    def cvxpy_form(self, x: Any) -> Any:
        return self.c @ x

    def programme_form(self) -> ProgrammeForm:
        return of_linear(self.c)


@dataclass(frozen=True, eq=False, repr=False)
class WeightedSum(Risk):
    """f(x) = sum_j c_j f_j(x), with weights c_j > 0.

    It is made by ``0.3 * r1 + r2`` or by `of`; a sum of sums contains all their terms. If every term has an
    image, the sum has one, too. A query gives one cut of the sum; `disaggregated` gives one cut for each
    block of each term.

    Parameters
    ----------
    terms : tuple of (float, Risk)
        The weights and the risks, of equal dimension.
    separate : bool, default False
        Whether each block of each term gets a cut.

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

    terms: tuple[tuple[float, Any], ...]
    separate: bool = False

    def __post_init__(self) -> None:
        risks = [r for _, r in self.terms]
        set_fields(
            self,
            dim=risks[0].dim,
            n_blocks=sum(r.n_blocks for r in risks) if self.separate else 1,
            exact=all(r.exact for r in risks),
            black_box=any(r.black_box for r in risks),
            smooth=all(r.smooth or r.linear for r in risks),
            linear=all(r.linear for r in risks),
            open=all(r.open for r in risks),
            splits_sums=self.separate,
            domain=common_domain(risks),
            cvxpy_variables=common_variables(risks),
        )

    @staticmethod
    def of(*terms: tuple[float, Risk]) -> WeightedSum:
        """Return the sum of the terms (c, risk), each with a weight c >= 0; terms of weight 0 are omitted.

        A term that is a sum is replaced by its terms. The result is disaggregated if one of the terms is
        disaggregated.

        Raises
        ------
        InvalidInputError
            If there is no term, a weight is negative or not finite, or the dimensions differ.
        """
        if not terms:
            raise InvalidInputError("WeightedSum.of needs at least one term (weight, risk).")
        weights: list[float] = []
        risks: list[Risk] = []
        for weight, risk in terms:
            if not isinstance(risk, Risk):
                raise InvalidInputError(f"A term of a sum of risks must be (weight, Risk), got {risk!r}.")
            c = as_nonnegative("the weight of a risk", weight)
            weights += [c * d for d, _ in risk.summands]
            risks += [r for _, r in risk.summands]
        separate = any(r.splits_sums for _, r in terms)
        risks = of_one_dimension("a sum", risks)
        zero = (1.0, LinearObjective(np.zeros(risks[0].dim)))
        kept = tuple((c, r) for c, r in zip(weights, risks, strict=True) if c > 0.0) or (zero,)
        if all(isinstance(r, ImagedRisk) for _, r in kept):
            return ImagedWeightedSum(kept, separate)
        on_demand = any(offers(r, Capability.ON_DEMAND) for _, r in kept)
        return (OnDemandWeightedSum if on_demand else WeightedSum)(kept, separate)

    def __repr__(self) -> str:
        text = " + ".join(repr(r) if c == 1.0 else f"{c:g} * {r!r}" for c, r in self.terms)
        return f"({text}).disaggregated()" if self.separate else text

    def __getstate__(self) -> dict[str, Any]:
        return {name: entry for name, entry in vars(self).items() if name not in ("_last", "_parts")}

    @cached_property
    def _is_nonnegative(self) -> bool:
        """Whether all terms are nonnegative, so that their values cannot cancel."""
        return all((r.infima >= 0.0).all() for _, r in self.terms)

    def formula(self, x: str = "x") -> str:
        return " + ".join(times(c, risk.formula(x)) for c, risk in self.terms)

    def disaggregated(self) -> Self:
        """Return the same sum with a cut for each block of each term."""
        return replace(self, separate=True)

    @property
    def summands(self) -> tuple[tuple[float, Risk], ...]:
        return self.terms

    @property
    def withheld(self) -> tuple[Capability, ...]:
        """The capabilities that the sum does not have.

        The sum has a cvxpy form and columns if every term has them, a split if one term has it, and pieces if
        exactly one term has them, or if there is a cut for each block.
        """
        risks = [r for _, r in self.terms]
        missing = not_offered(risks, (Capability.CVXPY, Capability.UNITS))
        several = [r.n_blocks for r in risks if offers(r, Capability.PIECES)]
        if not several or (not self.separate and several != [1]):
            missing += (Capability.PIECES,)
        return missing if any(offers(r, Capability.SPLIT) for r in risks) else (*missing, Capability.SPLIT)

    def resolve(self, dim: int) -> Risk:
        if dim == self.dim:
            return self
        return replace(self, terms=tuple((c, r.resolve(dim)) for c, r in self.terms))

    @property
    def infima(self) -> Array:
        infima = np.concatenate([c * r.infima for c, r in self.terms])
        return infima if self.separate else infima.sum(keepdims=True)

    def oracle(self, x: Array) -> tuple[Any, ...]:
        answers, sizes = zip(*(answer_of(r, x) for _, r in self.terms), strict=True)
        value, slope = self.add_values(a[0] for a in answers), self.add_slopes(a[1] for a in answers)
        self.remember(x, self.hidden(sizes, [answer[0] for answer in answers]))
        if all(len(answer) == 2 for answer in answers):
            return value, slope
        return value, slope, self._gather([answer[2] if len(answer) > 2 else None for answer in answers])

    def remember(self, x: Array, cancelled: Any) -> None:
        """Store the size of the terms that cancelled in the value at x."""
        set_fields(self, _last=(np.array(x), cancelled))

    def cancelled(self, z: Any) -> Any:
        """Return the sizes of the terms minus the size of the sum; 0 if no term can be negative.

        Directly after ``oracle(z)`` no oracle is called, because the answer is stored.
        """
        if not np.array_equal(vars(self).get("_last", (None,))[0], z):
            self.oracle(z)
        return vars(self)["_last"][1]

    def rounded_terms(self, x: Array, excess: float) -> RoundedTerms | None:
        """Return the sizes of the terms, with the same `excess`, because no term exceeds it."""
        found = [(c, r.rounded_terms(x, excess / c)) for c, r in self.terms]
        known = [c * terms for c, terms in found if terms is not None]
        return reduce(add, known) if known else None

    def hidden(self, within: Iterable[Any], values: Iterable[Any]) -> Any:
        """Return the size of the numbers that cancel within the terms and between them.

        Parameters
        ----------
        within : iterable
            The size of the numbers that cancel within each term.
        values : iterable
            The value of each term.
        """
        pairs = zip(self.terms, within, strict=True)
        if self.separate:
            return np.concatenate(
                [np.broadcast_to(c * np.asarray(size), r.n_blocks) for (c, r), size in pairs]
            )
        total = sum(
            c * (r.n_blocks * float(size) if np.ndim(size) == 0 else float(np.sum(size)))
            for (c, r), size in pairs
        )
        if self._is_nonnegative:
            return total
        sums = [c * _total(r, value) for (c, r), value in zip(self.terms, values, strict=True)]
        size = sum(map(abs, sums))
        return total + size - abs(sum(sums)) if math.isfinite(size) else total

    def _gather(self, solutions: list[Any]) -> Any:
        """Return a solution per block, or for a single cut the solutions of the terms that return one."""
        pairs = list(zip(self.terms, solutions, strict=True))
        if not self.separate:
            found = [s if r.n_blocks == 1 else tuple(s) for (_, r), s in pairs if s is not None]
            return found[0] if len(found) == 1 else tuple(found)
        each = [[s] if r.n_blocks == 1 else [None] * r.n_blocks if s is None else [*s] for (_, r), s in pairs]
        return [solution for blocks in each for solution in blocks]

    def data_columns(self) -> Columns | None:
        return Columns.of_all([ask(r, Capability.UNITS) for _, r in self.terms])

    def in_units(self, centre: Array, size: Array) -> Risk:
        """Return the risk of the columns (X - 1 centre') / size."""
        return replace(self, terms=tuple((c, r.in_units(centre, size)) for c, r in self.terms))

    def split(self, n_parts: int) -> list[WeightedSum]:
        """Return at most `n_parts` sums of parts of the terms; a term without a split is in the first sum."""
        parts = [(c, ask(r, Capability.SPLIT, n_parts) or [r]) for c, r in self.terms]
        count = max(len(found) for _, found in parts)
        return [self.of(*((c, found[k]) for c, found in parts if k < len(found))) for k in range(count)]

    def programme_form(self) -> ProgrammeForm | None:
        return of_sum(self.terms, self.dim)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        for c, term in self.terms:
            found.add(term, factor * Fraction(c))

    def cvxpy_form(self, x: Any) -> Any:
        return reduce(add, [c * r.cvxpy_form(x) for c, r in self.terms])

    @np.errstate(over="ignore")  # inf is an admissible value
    def add_values(self, values: Iterable[Any]) -> Any:
        """Return the weighted sum of the values of the terms, or the list of them if disaggregated."""
        pairs = zip(self.terms, values, strict=True)
        if self.separate:
            return np.concatenate([c * _shaped(r, "value", v, (r.n_blocks,)) for (c, r), v in pairs])
        return sum(c * _total(r, v) for (c, r), v in pairs)

    @np.errstate(over="ignore")
    def add_slopes(self, slopes: Iterable[Any]) -> Array:
        """Return the weighted sum of the subgradients of the terms, or the list of them if disaggregated."""
        pairs = zip(self.terms, slopes, strict=True)
        parts = [c * _shaped(r, "subgradient", s, (r.n_blocks, r.dim)) for (c, r), s in pairs]
        if self.separate:
            return np.concatenate(parts)
        return reduce(add, [part[0] if len(part) == 1 else part.sum(axis=0) for part in parts])


class ImagedWeightedSum(WeightedSum, ImagedRisk):
    """A weighted sum of risks with images; its image is the tuple of their images."""

    declare = WeightedSum.declare

    def image(self, x: Array) -> tuple[Any, ...]:
        return tuple(r.image(x) for _, r in self.terms)

    def values(self, z: tuple[Any, ...]) -> Any:
        return self.add_values(self._values(z))

    def _values(self, z: tuple[Any, ...]) -> list[Any]:
        """Return the values of the terms, which are stored because the engine calls `cancelled` next."""
        image, values = vars(self).get("_parts", (None, None))
        if image is not z:
            values = [r.values(part) for (_, r), part in zip(self.terms, z, strict=True)]
            set_fields(self, _parts=(z, values))
        return values

    def slopes(self, z: tuple[Any, ...]) -> Array:
        return self.add_slopes(r.slopes(part) for (_, r), part in zip(self.terms, z, strict=True))

    def pieces(self, z: tuple[Any, ...]) -> tuple[Array, Array, Array]:
        """Return values, subgradients and blocks of functions; each block is the maximum of its functions.

        If the sum is not disaggregated, these are the pieces of one term plus the other terms.
        """
        found = []
        for (c, r), part in zip(self.terms, z, strict=True):
            values, slopes, blocks = ask(r, Capability.PIECES, part) or (
                _shaped(r, "value", r.values(part), (r.n_blocks,)),
                _shaped(r, "subgradient", r.slopes(part), (r.n_blocks, r.dim)),
                np.arange(r.n_blocks),
            )
            found.append((c * values, c * slopes, blocks))
        if self.separate:
            starts = np.cumsum([0, *(r.n_blocks for _, r in self.terms[:-1])])
            found = [
                (*answer, blocks + start) for (*answer, blocks), start in zip(found, starts, strict=True)
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
        triples = zip(self.terms, z0, z1, strict=True)
        return reduce(add, [c * r.line(start, end) for (c, r), start, end in triples])

    def combine(self, z0: tuple[Any, ...], z1: tuple[Any, ...], t: float) -> tuple[Any, ...]:
        triples = zip(self.terms, z0, z1, strict=True)
        return tuple(r.combine(start, end, t) for (_, r), start, end in triples)

    def cancelled(self, z: tuple[Any, ...]) -> Any:
        sizes = (r.cancelled(part) for (_, r), part in zip(self.terms, z, strict=True))
        return self.hidden(sizes, self._values(z))


class OnDemandWeightedSum(WeightedSum, OnDemandRisk):
    """A weighted sum of risks, some of them with on-demand accuracy.

    Its multipliers are the multipliers of these risks, followed by the point x of the cuts of the other
    risks. It is not a black box, because its values depend on the requested accuracy.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, black_box=False)

    def oracle(self, x: Array) -> tuple[Any, Any]:
        return OnDemandRisk.oracle(self, x)

    def estimate(self, x: Array, accuracy: float, start: Estimate | None = None) -> Estimate:
        """Return the sums of values and cuts; each risk gets an equal share of the accuracy."""
        count = sum(offers(r, Capability.ON_DEMAND) for _, r in self.terms)
        pairs = (
            (r.estimate(x, accuracy / (count * c)), r.cancelled(x))
            if offers(r, Capability.ON_DEMAND)
            else _exact(r, x)
            for c, r in self.terms
        )
        answers, sizes = zip(*pairs, strict=True)
        values = np.atleast_1d(self.add_values(answer.values for answer in answers))
        self.remember(x, self.hidden(sizes, [answer.values for answer in answers]))
        slopes, offsets = self._joined((answer.slopes, answer.offsets) for answer in answers)
        u = np.concatenate([*(answer.multipliers for answer in answers), x])
        return Estimate(values, slopes, offsets, u)

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        x, sizes = u[-self.dim :], np.zeros(len(self.terms), dtype=np.int64)
        on_demand = [offers(r, Capability.ON_DEMAND) for _, r in self.terms]
        for j in np.flatnonzero(on_demand):
            one = sum(on_demand) == 1
            sizes[j] = u.size - self.dim if one else self.terms[j][1].estimate(x, np.inf).multipliers.size
        *parts, x = np.split(u, np.cumsum(sizes))
        return self._joined(
            r.dual_cut(part) if known else _exact(r, x)[0][1:3]
            for (_, r), part, known in zip(self.terms, parts, on_demand, strict=True)
        )

    def _joined(self, cuts: Iterable[tuple[Array, Array]]) -> tuple[Array, Array]:
        slopes, offsets = zip(*cuts, strict=True)
        total = self.add_slopes(slopes).reshape(self.n_blocks, self.dim)
        return total, np.atleast_1d(self.add_values(offsets))


def _exact(risk: Risk, x: Array) -> tuple[Estimate, Any]:
    """Return a risk's value and cut at x, and the size of the terms that cancelled in both."""
    (value, slope, *_), size = answer_of(risk, x)
    values, slopes = np.atleast_1d(value), np.reshape(slope, (risk.n_blocks, risk.dim))
    if risk.linear:
        return Estimate(values, slopes, np.zeros(risk.n_blocks), np.empty(0)), size
    return Estimate(values, slopes, values - slopes @ x, np.empty(0)), size + np.abs(slopes) @ np.abs(x)


def of_one_dimension(whole: str, risks: Sequence[Risk]) -> list[Risk]:
    """Return the risks with open dimensions resolved to the dimension of the others, or raise an error."""
    dims = {r.dim for r in risks if not r.open}
    if len(dims) > 1:
        parts = ", ".join(f"{r!r} has {r.dim}" for r in risks)
        raise InvalidInputError(f"The risks of {whole} must have the same dimension, but {parts}.")
    dim = dims.pop() if dims else max(r.dim for r in risks)
    return [r.resolve(dim) for r in risks]


def _total(risk: Risk, value: Any) -> float:
    """Return the sum of the blocks of a term's value."""
    if isinstance(value, float) and risk.n_blocks == 1:
        return float(value)  # Python's sum, because numpy would warn of an overflow
    return float(_shaped(risk, "value", value, (risk.n_blocks,)).sum())


def _shaped(risk: Risk, what: str, answer: Any, shape: tuple[int, ...]) -> Array:
    """Return a term's answer with an axis for its blocks, because numpy would broadcast a wrong shape."""
    try:
        array = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise OracleError(f"{risk!r} returned a {what} that is not numeric: {answer!r}.") from error
    if array.shape != shape and not (shape[0] == 1 and array.shape == shape[1:]):
        wanted = shape[1:] if shape[0] == 1 else shape
        raise OracleError(f"{risk!r} returned a {what} of shape {array.shape} instead of {wanted}.")
    return array.reshape(shape)


@dataclass(frozen=True, eq=False, repr=False)
class CompositeObjective:
    """f(x) + g(x), a risk plus a regularizer, which a `Problem` minimises; written ``risk + regularizer``.

    Further risks and regularizers can be added to it.

    Parameters
    ----------
    risk : Risk
    regularizer : Regularizer

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> lasso = cut.LinearRisk(np.eye(2), [3.0, -1.0], cut.losses.Squared(), normalize=False) + cut.L1(1.0)
    >>> result = cut.Problem(lasso).solve(tol=1e-9)
    >>> print(result.x.round(6) + 0.0, lasso(np.zeros(2)))
    [2. 0.] 5.0
    """

    risk: Risk
    regularizer: Regularizer
    __array_ufunc__ = None  # so that numpy calls __rmul__ and __rmatmul__

    def __repr__(self) -> str:
        return f"{self.risk!r} + {self.regularizer!r}"

    def __call__(self, x: Array) -> float:
        """Return f(x) + g(x)."""
        return self.risk(x) + self.regularizer.value(x)

    def __add__(self, other: Any) -> CompositeObjective:
        if isinstance(other, CompositeObjective):
            return self + other.risk + other.regularizer
        if isinstance(other, Risk):
            return CompositeObjective(self.risk + other, self.regularizer)
        if isinstance(other, Regularizer):
            return CompositeObjective(self.risk, self.regularizer + other)
        return NotImplemented

    def __radd__(self, other: Any) -> CompositeObjective:
        return self if isinstance(other, int) and other == 0 else self.__add__(other)

    def __rmul__(self, factor: Any) -> CompositeObjective:
        return CompositeObjective(factor * self.risk, factor * self.regularizer)

    __mul__ = __rmul__

    def __matmul__(self, matrix: Any) -> CompositeObjective:
        return CompositeObjective(self.risk @ matrix, self.regularizer @ matrix)

    def __rmatmul__(self, matrix: Any) -> CompositeObjective:
        raise TypeError(f"The function of an image B x is written f @ B, as in {enclosed(self)} @ B.")
