"""Squared norms over groups of coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.parameters import as_parameter, set_fields, short_repr
from cutplane.pieces.validation import Array, as_scalar
from cutplane.regularizers.base import Minimum, Regularizer, check_lam, minimise_linear, minimum
from cutplane.sets.base import is_whole_space

if TYPE_CHECKING:
    from cutplane.sets.base import FeasibleSet


@dataclass(frozen=True, eq=False)
class SquaredGroupNorm(Regularizer):
    """g(x) = lam/2 (sum_k rho_k^p ||x_k||_2^p)^(2/p), where x_k holds the coordinates of group k.

    The regularizer of multiple kernel learning: p = 1 selects groups, p = 2 is a weighted `L2`.

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
        If the groups overlap or leave out a coordinate; the message names it.

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
    _group_of: Array = field(init=False, repr=False)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        groups, labels = as_partition("SquaredGroupNorm", self.groups)
        set_fields(self, groups=groups, lam=check_lam(self.lam), _group_of=labels)
        p = as_scalar("SquaredGroupNorm.p", self.p, low=1.0)
        object.__setattr__(self, "p", p)
        rho = as_parameter("SquaredGroupNorm.rho", self.rho, low=0.0, low_open=True)
        if np.shape(rho) not in ((), (len(self.groups),)):
            raise InvalidInputError(
                f"SquaredGroupNorm.rho must have shape ({len(self.groups)},), got {np.shape(rho)}."
            )
        object.__setattr__(self, "rho", rho)

    def check_dim(self, dim: int) -> None:
        """Raise `InvalidInputError` if the groups do not cover exactly `dim` coordinates."""
        if self._group_of.shape[0] != dim:
            raise InvalidInputError(
                f"SquaredGroupNorm.groups cover {self._group_of.shape[0]} coordinates, "
                f"but the problem has {dim}."
            )

    @property
    def dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The number of coordinates in all groups."""
        return self._group_of.size

    def value(self, x: Array) -> float:
        """Return g(x)."""
        norm = _norm(self._rho * self._norms(x), self.p)
        return 0.5 * self.lam * norm * norm

    def subgradient(self, x: Array) -> Array:
        """Return a subgradient, which is 0 for the groups with x_k = 0."""
        norms = self._norms(x)
        total = _norm(self._rho * norms, self.p)
        factors = self.lam * total * self._rho * _power(self._rho * norms, total, self.p - 1.0)
        return _ratio(factors, norms)[self._group_of] * x

    def conjugate_minimiser(
        self, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
    ) -> Minimum | None:
        """Return the minimum of g(x) + <v, x> over the whole space: by the dual norm of v, squared."""
        if self.lam == 0.0:
            return minimise_linear(v, feasible_set)
        if not is_whole_space(feasible_set, v.shape[0]):
            return None
        norms = self._norms(v)
        scaled = norms / self._rho
        if self.p == 1.0:
            total = float(scaled.max())
            shares = (np.arange(scaled.size) == np.argmax(scaled)).astype(np.float64)
        else:
            q = self.p / (self.p - 1.0)
            total = _norm(scaled, q)
            shares = _power(scaled, total, q - 1.0)
        x = -(_ratio(total / self.lam * shares / self._rho, norms))[self._group_of] * v
        return minimum(-0.5 * total * (total / self.lam), x)

    def quadratic(self, dim: int) -> DiagonalQuadratic | None:
        """Return the weights lam rho_k^2 if p = 2."""
        if self.p != 2.0:
            return None
        return DiagonalQuadratic((self.lam * self._rho**2)[self._group_of], np.zeros(dim))

    def in_unit(self, unit: float) -> SquaredGroupNorm:
        """Return u -> g(unit * u)."""
        return replace(self, lam=unit * unit * self.lam)

    def cvxpy_form(self, x: Any) -> Any:
        """Return g as the square of a norm of norms."""
        import cvxpy as cp

        if self.p == 2.0:
            return 0.5 * self.lam * cp.sum_squares(cp.multiply(self._rho[self._group_of], x))
        norms = cp.hstack(
            [rho * cp.norm2(x[group]) for rho, group in zip(self._rho, self.groups, strict=True)]
        )
        return 0.5 * self.lam * cp.square(cp.pnorm(norms, self.p))  # pyright: ignore[reportArgumentType]

    @cached_property
    def _rho(self) -> Array:
        return np.broadcast_to(self.rho, (len(self.groups),))

    def _norms(self, x: Array) -> Array:
        return group_norms(self._group_of, len(self.groups), x)


def as_partition(name: str, groups: Sequence[Any]) -> tuple[tuple[Array, ...], Array]:
    """Return the groups of a partition as read-only indices, and the group of each coordinate.

    A vector of integers says the group of each coordinate.
    """
    if isinstance(groups, np.ndarray) and groups.ndim == 1 and np.issubdtype(groups.dtype, np.integer):
        groups = [np.flatnonzero(groups == label) for label in np.unique(groups)]
    members = tuple(_indices(name, k, group) for k, group in enumerate(groups))
    _check_partition(name, members)
    sizes = [group.size for group in members]
    labels = np.empty(sum(sizes), dtype=np.int64)
    labels[np.concatenate(members)] = np.repeat(np.arange(len(sizes)), sizes)
    return members, labels


def group_norms(labels: Array, count: int, x: Array) -> Array:
    """Return the l2 norm of each group of coordinates, shape (count,), without overflow."""
    scale = np.abs(x).max()
    return scale * np.sqrt(np.bincount(labels, weights=(x / scale) ** 2)) if scale > 0.0 else np.zeros(count)


def _indices(name: str, k: int, group: Any) -> Array:
    indices = np.array(group)
    if indices.ndim != 1 or indices.size == 0 or not np.issubdtype(indices.dtype, np.integer):
        raise InvalidInputError(f"{name}.groups[{k}] must be a nonempty vector of integers, got {group!r}.")
    indices.flags.writeable = False
    return indices


def _check_partition(name: str, groups: Sequence[Array]) -> None:
    if not groups:
        raise InvalidInputError(f"{name}.groups is empty; give a partition of the coordinates.")
    members = np.sort(np.concatenate(groups))
    wrong = np.flatnonzero(members != np.arange(members.size))
    if wrong.size:
        j, found = int(wrong[0]), int(members[wrong[0]])
        fault = (
            f"{found} is not a coordinate"
            if found < 0
            else f"{min(j, found)} is " + ("in two groups" if found < j else "in no group")
        )
        raise InvalidInputError(f"{name}.groups must be a partition of the coordinates, but {fault}.")


def _norm(entries: Array, p: float) -> float:
    largest = entries.max()
    return float(largest * ((entries / largest) ** p).sum() ** (1.0 / p)) if largest > 0.0 else 0.0


def _power(entries: Array, total: float, exponent: float) -> Array:
    return (entries / total) ** exponent if total > 0.0 else np.zeros_like(entries)


def _ratio(numerators: Array, norms: Array) -> Array:
    """Return numerators / norms, and 0 where a norm is zero."""
    return np.divide(numerators, norms, out=np.zeros_like(norms), where=norms > 0.0)
