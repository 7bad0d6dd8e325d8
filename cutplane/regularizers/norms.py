"""Norms: the maximum norm, norms of groups of coordinates and their squares, and norms of matrices."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.forms import DiagonalQuadratic, GroupedForm, LinearForm
from cutplane.pieces.latex import times
from cutplane.pieces.parameters import as_parameter, set_fields, short_repr
from cutplane.pieces.validation import Array, as_count, as_scalar
from cutplane.regularizers.base import UNBOUNDED, FreeRegularizer, Minimum, check_lam, minimum


class Norm(FreeRegularizer):
    """g(x) = lam ||x||; a subclass implements the norm, a subgradient of it, and the dual norm."""

    @abstractmethod
    def norm(self, x: Array) -> float:
        """Return ||x||."""

    @abstractmethod
    def norm_slope(self, x: Array) -> Array:
        """Return a subgradient of the norm, which is an s with <s, x> = ||x|| and dual norm at most 1."""

    @abstractmethod
    def dual_norm(self, v: Array) -> tuple[float, Array]:
        """Return the maximum of <v, a> over ||a|| <= 1, and a maximiser a."""

    def value(self, x: Array) -> float:
        return self.lam * self.norm(x)

    def subgradient(self, x: Array) -> Array:
        return self.lam * self.norm_slope(x)

    def free_minimum(self, v: Array, budget: float) -> Minimum:
        """Return the minimum of g(x) + <v, x>, which is 0 if the dual norm of v is at most lam.

        Otherwise it is -inf, or for a finite `budget` the minimum over {g <= budget}, at which g equals the
        budget.
        """
        dual, atom = self.dual_norm(v)
        if dual <= self.lam:
            return Minimum(0.0, np.zeros(v.shape[0]))
        if not math.isfinite(budget):
            return UNBOUNDED
        with np.errstate(all="ignore"):
            return minimum(budget * (1.0 - dual / self.lam), -budget / self.lam * atom)

    def in_unit(self, unit: float) -> Self:
        return replace(self, lam=unit * self.lam)  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class LInf(Norm):
    """g(x) = lam max_j |x_j|.

    Parameters
    ----------
    lam : float, default 1.0
        Nonnegative and finite.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> cut.LInf(0.5).value(np.array([3.0, -4.0]))
    2.0
    >>> cut.LInf(2.0).conjugate_minimiser(np.array([1.0, -0.5]), cut.WholeSpace()).value
    0.0
    """

    lam: float = 1.0

    __repr__ = short_repr

    def __post_init__(self) -> None:
        set_fields(self, lam=check_lam(self.lam))

    def formula(self, x: str = "x") -> str:
        return times(self.lam, rf"\lVert {x} \rVert_\infty")

    def norm(self, x: Array) -> float:
        return float(np.abs(x).max())

    def norm_slope(self, x: Array) -> Array:
        slope, j = np.zeros(x.shape[0]), np.argmax(np.abs(x))
        slope[j] = np.sign(x[j])
        return slope

    def dual_norm(self, v: Array) -> tuple[float, Array]:
        return float(np.abs(v).sum()), np.sign(v)

    def linear_form(self, dim: int) -> LinearForm:
        eye, ones = sparse.eye_array(dim, format="csr"), sparse.csr_array(np.ones((dim, 1)))
        return LinearForm(
            cost=np.append(np.zeros(dim), self.lam),
            lower=np.append(np.full(dim, -np.inf), 0.0),
            upper=np.full(dim + 1, np.inf),
            rows=sparse.csr_array(sparse.block_array([[eye, -ones], [eye, ones]])),
            row_lower=np.append(np.full(dim, -np.inf), np.zeros(dim)),
            row_upper=np.append(np.zeros(dim), np.full(dim, np.inf)),
        )

    def cvxpy_form(self, x: Any) -> Any:
        import cvxpy as cp

        return self.lam * cp.norm_inf(x)


class _Groups(FreeRegularizer):
    """A function of the norms of groups of coordinates."""

    groups: Sequence[Any]
    _labels: Array

    def _set(self, name: str, weights: Any) -> Any:
        """Check the groups and the weights, which are the parameter `name`; return the weights."""
        owner = type(self).__name__
        groups, labels = as_partition(owner, self.groups)
        weights = as_parameter(f"{owner}.{name}", weights, low=0.0, low_open=True)
        if np.shape(weights) not in ((), (len(groups),)):
            raise InvalidInputError(
                f"{owner}.{name} must have shape ({len(groups)},), got {np.shape(weights)}."
            )
        set_fields(self, groups=groups, _labels=labels, lam=check_lam(self.lam), dim=labels.size)
        return weights

    def _norms(self, x: Array) -> Array:
        """Return the l2 norm of each group, without overflow."""
        scale = np.abs(x).max()
        if not scale > 0.0:
            return np.zeros(len(self.groups))
        return scale * np.sqrt(np.bincount(self._labels, weights=(x / scale) ** 2))

    def _spread(self, factors: Any, norms: Array) -> Array:
        """Return factors / norms for the coordinates of each group; 0 where the norm is 0."""
        return np.divide(factors, norms, out=np.zeros_like(norms), where=norms > 0.0)[self._labels]


@dataclass(frozen=True, eq=False)
class GroupLasso(_Groups, Norm):
    """g(x) = lam sum_k weights_k ||x_k||_2, where x_k are the coordinates of group k.

    It sets whole groups to zero. For overlapping groups, write ``GroupLasso(groups) @ copies`` with a 0-1
    matrix that has a row for each member of each group. For groups of some coordinates, use ``.on(index)``.

    Parameters
    ----------
    groups : sequence of integer arrays, or integer ndarray of shape (dim,)
        A partition of the coordinates 0, ..., dim - 1, or the group of each coordinate.
    lam : float, default 1.0
        Nonnegative and finite.
    weights : float or array_like of shape (n_groups,), default 1.0
        Positive; for example the square roots of the group sizes.

    Raises
    ------
    InvalidInputError
        If the groups overlap or omit a coordinate; the message names it.

    References
    ----------
    Yuan and Lin, Model selection and estimation in regression with grouped variables, J. R. Stat. Soc. B 68
    (2006), doi:10.1111/j.1467-9868.2005.00532.x.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> lasso = cut.GroupLasso([[0, 1], [2]], weights=[2.0, 1.0])
    >>> lasso.value(np.array([3.0, -4.0, 1.0]))
    11.0
    """

    groups: Sequence[Any]
    lam: float = 1.0
    weights: Any = 1.0
    _labels: Array = field(init=False, repr=False)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        set_fields(self, weights=self._set("weights", self.weights))

    def norm(self, x: Array) -> float:
        return float((self.weights * self._norms(x)).sum())

    def norm_slope(self, x: Array) -> Array:
        return self._spread(self.weights, self._norms(x)) * x

    def dual_norm(self, v: Array) -> tuple[float, Array]:
        ratios = self._norms(v) / self.weights
        chosen = np.arange(ratios.size) == np.argmax(ratios)
        return float(ratios.max()), self._spread(chosen / self.weights, self._norms(v)) * v

    def grouped_form(self, dim: int) -> GroupedForm:
        return GroupedForm(self._labels, self.lam * np.broadcast_to(self.weights, (len(self.groups),)))

    def cvxpy_form(self, x: Any) -> Any:
        import cvxpy as cp

        norms = cp.hstack([cp.norm2(x[group]) for group in self.groups])
        return self.lam * cp.sum(cp.multiply(np.broadcast_to(self.weights, (len(self.groups),)), norms))


@dataclass(frozen=True, eq=False)
class SquaredGroupNorm(_Groups):
    """g(x) = lam/2 (sum_k rho_k^p ||x_k||_2^p)^(2/p), where x_k are the coordinates of group k.

    This is the regularizer of multiple kernel learning: p = 1 selects groups, p = 2 is a weighted `L2`.

    Parameters
    ----------
    groups : sequence of integer arrays, or ndarray of shape (dim,)
        A partition of the coordinates 0, ..., dim - 1.
    lam : float, default 1.0
        Nonnegative and finite.
    p : float, default 1.0
        In [1, inf).
    rho : float or array_like of shape (n_groups,), default 1.0
        Positive.

    Raises
    ------
    InvalidInputError
        If the groups overlap or omit a coordinate; the message names it.

    References
    ----------
    Kloft, Brefeld, Sonnenburg and Zien, lp-norm multiple kernel learning, JMLR 12 (2011) 953-997.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.regularizers import SquaredGroupNorm
    >>> from cutplane.sets import WholeSpace
    >>> norm = SquaredGroupNorm([[0, 1], [2]], p=1.0)
    >>> norm.value(np.array([3.0, 4.0, -1.0]))
    18.0
    >>> norm.conjugate_minimiser(np.array([3.0, 4.0, -1.0]), WholeSpace()).value
    -12.5
    """

    groups: Sequence[Any]
    lam: float = 1.0
    p: float = 1.0
    rho: Any = 1.0
    _labels: Array = field(init=False, repr=False)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        p = as_scalar("SquaredGroupNorm.p", self.p, low=1.0)
        set_fields(self, rho=self._set("rho", self.rho), p=p)

    def value(self, x: Array) -> float:
        norm = _lp_norm(self._rho * self._norms(x), self.p)
        return 0.5 * self.lam * norm * norm

    def subgradient(self, x: Array) -> Array:
        norms = self._norms(x)
        total = _lp_norm(self._rho * norms, self.p)
        factors = self.lam * total * self._rho * _power(self._rho * norms, total, self.p - 1.0)
        return self._spread(factors, norms) * x

    def free_minimum(self, v: Array, budget: float) -> Minimum:
        """Return the minimum of g(x) + <v, x>, which is -||v||^2 / (2 lam) for the dual norm."""
        norms = self._norms(v)
        scaled = norms / self._rho
        if self.p == 1.0:
            total = float(scaled.max())
            shares = (np.arange(scaled.size) == np.argmax(scaled)).astype(np.float64)
        else:
            q = self.p / (self.p - 1.0)
            total = _lp_norm(scaled, q)
            shares = _power(scaled, total, q - 1.0)
        x = -self._spread(total / self.lam * shares / self._rho, norms) * v
        return minimum(-0.5 * total * (total / self.lam), x)

    def quadratic(self, dim: int) -> DiagonalQuadratic | None:
        if self.p != 2.0:
            return None
        return DiagonalQuadratic((self.lam * self._rho**2)[self._labels], np.zeros(dim))

    def in_unit(self, unit: float) -> SquaredGroupNorm:
        return replace(self, lam=unit * unit * self.lam)

    def cvxpy_form(self, x: Any) -> Any:
        import cvxpy as cp

        if self.p == 2.0:
            return 0.5 * self.lam * cp.sum_squares(cp.multiply(self._rho[self._labels], x))
        norms = cp.hstack(
            [rho * cp.norm2(x[group]) for rho, group in zip(self._rho, self.groups, strict=True)]
        )
        return 0.5 * self.lam * cp.square(cp.pnorm(norms, self.p))  # pyright: ignore[reportArgumentType]

    @cached_property
    def _rho(self) -> Array:
        return np.broadcast_to(self.rho, (len(self.groups),))


@dataclass(frozen=True, eq=False)
class _MatrixNorm(Norm):
    shape: tuple[int, int]
    lam: float = 1.0

    __repr__ = short_repr

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not isinstance(self.shape, Sequence) or len(self.shape) != 2:
            raise InvalidInputError(f"{name}.shape must be (rows, columns), got {self.shape!r}.")
        shape = tuple(as_count(f"{name}.shape", side) for side in self.shape)
        set_fields(self, shape=shape, lam=check_lam(self.lam), dim=math.prod(shape))

    def _sum(self, x: Array) -> tuple[float, Array]:
        """Return the sum of the singular values, and U V' of the singular vectors."""
        left, sizes, right = np.linalg.svd(x.reshape(self.shape), full_matrices=False)
        return float(sizes.sum()), (left @ right).ravel()

    def _largest(self, x: Array) -> tuple[float, Array]:
        """Return the largest singular value, and u v' of its singular vectors."""
        left, sizes, right = np.linalg.svd(x.reshape(self.shape), full_matrices=False)
        return float(sizes[0]), np.outer(left[:, 0], right[0]).ravel()

    def _sizes(self, x: Array) -> Array:
        return np.linalg.svd(x.reshape(self.shape), compute_uv=False)

    def _matrix(self, x: Any) -> Any:
        import cvxpy as cp

        return cp.reshape(x, self.shape, order="C")


@dataclass(frozen=True, eq=False)
class NuclearNorm(_MatrixNorm):
    """g(x) = lam times the sum of the singular values of X, the matrix with the entries x, row after row.

    It favours matrices of low rank.

    Parameters
    ----------
    shape : tuple of int
        The shape of ``X = x.reshape(shape)``.
    lam : float, default 1.0
        Nonnegative and finite.

    Raises
    ------
    InvalidInputError
        If `shape` is not a pair of positive integers.

    References
    ----------
    Fazel, Hindi and Boyd, A rank minimization heuristic with application to minimum order system
    approximation, ACC 2001, doi:10.1109/ACC.2001.945730.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> cut.NuclearNorm((2, 3), lam=0.5).value(np.array([3.0, 0.0, 0.0, 0.0, 0.0, -1.0]))
    2.0
    """

    __repr__ = short_repr

    def norm(self, x: Array) -> float:
        return float(self._sizes(x).sum())

    def norm_slope(self, x: Array) -> Array:
        return self._sum(x)[1]

    def dual_norm(self, v: Array) -> tuple[float, Array]:
        return self._largest(v)

    def cvxpy_form(self, x: Any) -> Any:
        import cvxpy as cp

        return self.lam * cp.normNuc(self._matrix(x))


@dataclass(frozen=True, eq=False)
class SpectralNorm(_MatrixNorm):
    """g(x) = lam times the largest singular value of X, the matrix with the entries x, row after row.

    Parameters
    ----------
    shape : tuple of int
        The shape of ``X = x.reshape(shape)``.
    lam : float, default 1.0
        Nonnegative and finite.

    Raises
    ------
    InvalidInputError
        If `shape` is not a pair of positive integers.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> cut.SpectralNorm((2, 3), lam=0.5).value(np.array([3.0, 0.0, 0.0, 0.0, 0.0, -1.0]))
    1.5
    """

    __repr__ = short_repr

    def norm(self, x: Array) -> float:
        return float(self._sizes(x)[0])

    def norm_slope(self, x: Array) -> Array:
        return self._largest(x)[1]

    def dual_norm(self, v: Array) -> tuple[float, Array]:
        return self._sum(v)

    def cvxpy_form(self, x: Any) -> Any:
        import cvxpy as cp

        return self.lam * cp.sigma_max(self._matrix(x))


def as_partition(name: str, groups: Sequence[Any]) -> tuple[tuple[Array, ...], Array]:
    """Return the groups of a partition as read-only indices, and the group of each coordinate.

    A vector of integers gives the group of each coordinate.
    """
    if isinstance(groups, np.ndarray) and groups.ndim == 1 and np.issubdtype(groups.dtype, np.integer):
        groups = [np.flatnonzero(groups == label) for label in np.unique(groups)]
    members = tuple(np.array(group) for group in groups)
    for k, group in enumerate(members):
        if group.ndim != 1 or group.size == 0 or not np.issubdtype(group.dtype, np.integer):
            raise InvalidInputError(
                f"{name}.groups[{k}] must be a nonempty vector of integers, got {groups[k]!r}."
            )
        group.flags.writeable = False
    if not members:
        raise InvalidInputError(f"{name}.groups is empty; give a partition of the coordinates.")
    every = np.concatenate(members)
    found = np.sort(every)
    wrong = np.flatnonzero(found != np.arange(found.size))
    if wrong.size:
        j, other = int(wrong[0]), int(found[wrong[0]])
        place = "in two groups" if other < j else "in no group"
        fault = f"{other} is not a coordinate" if other < 0 else f"{min(j, other)} is {place}"
        raise InvalidInputError(f"{name}.groups must be a partition of the coordinates, but {fault}.")
    labels = np.empty(every.size, dtype=np.int64)
    labels[every] = np.repeat(np.arange(len(members)), [group.size for group in members])
    return members, labels


def _lp_norm(entries: Array, p: float) -> float:
    largest = entries.max()
    return float(largest * ((entries / largest) ** p).sum() ** (1.0 / p)) if largest > 0.0 else 0.0


def _power(entries: Array, total: float, exponent: float) -> Array:
    return (entries / total) ** exponent if total > 0.0 else np.zeros_like(entries)
