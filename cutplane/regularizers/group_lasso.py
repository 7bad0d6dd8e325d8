"""The sum of the norms of groups of coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.forms import GroupedForm
from cutplane.pieces.parameters import as_parameter, set_fields, short_repr
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import check_lam
from cutplane.regularizers.group import as_partition, group_norms
from cutplane.regularizers.norm import Norm


@dataclass(frozen=True, eq=False)
class GroupLasso(Norm):
    """g(x) = lam sum_k weights_k ||x_k||_2, where x_k holds the coordinates of group k.

    It sets whole groups to zero. For groups that overlap, write ``GroupLasso(groups) @ copies`` with a matrix
    that has a row for each member of each group; for some of the coordinates, ``.on(index)``.

    Parameters
    ----------
    groups : sequence of integer arrays, or integer ndarray of shape (dim,)
        A partition of the coordinates 0, ..., dim - 1, or the group of each.
    lam : float, default 1.0
        Nonnegative and finite.
    weights : float or array_like of shape (n_groups,), default 1.0
        Positive; the square roots of the sizes are usual.

    Raises
    ------
    InvalidInputError
        If the groups overlap or leave out a coordinate; the message names it.

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
        groups, labels = as_partition("GroupLasso", self.groups)
        weights = as_parameter("GroupLasso.weights", self.weights, low=0.0, low_open=True)
        if np.shape(weights) not in ((), (len(groups),)):
            raise InvalidInputError(
                f"GroupLasso.weights must have shape ({len(groups)},), got {np.shape(weights)}."
            )
        set_fields(self, groups=groups, lam=check_lam(self.lam), weights=weights, _labels=labels)

    @property
    def dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The number of coordinates in all groups."""
        return self._labels.size

    def check_dim(self, dim: int) -> None:
        """Raise `InvalidInputError` if the groups do not cover exactly `dim` coordinates."""
        if self.dim != dim:
            raise InvalidInputError(
                f"GroupLasso.groups cover {self.dim} coordinates, but the problem has {dim}."
            )

    def norm(self, x: Array) -> float:
        """Return the weighted sum of the norms of the groups."""
        return float((self.weights * self._norms(x)).sum())

    def norm_slope(self, x: Array) -> Array:
        """Return the weighted directions of the groups, 0 for those that are zero."""
        return self._spread(self.weights, self._norms(x)) * x

    def dual_norm(self, v: Array) -> tuple[float, Array]:
        """Return the largest norm of a group over its weight, and the direction of that group."""
        ratios = self._norms(v) / self.weights
        chosen = np.arange(ratios.size) == np.argmax(ratios)
        return float(ratios.max()), self._spread(chosen / self.weights, self._norms(v)) * v

    def grouped_form(self, dim: int) -> GroupedForm:
        """Return the groups and what they cost."""
        return GroupedForm(self._labels, self.lam * np.broadcast_to(self.weights, (len(self.groups),)))

    def cvxpy_form(self, x: Any) -> Any:
        """Return g as a sum of norms."""
        import cvxpy as cp

        norms = cp.hstack([cp.norm2(x[group]) for group in self.groups])
        return self.lam * cp.sum(cp.multiply(np.broadcast_to(self.weights, (len(self.groups),)), norms))

    def _norms(self, x: Array) -> Array:
        return group_norms(self._labels, len(self.groups), x)

    def _spread(self, factors: Any, norms: Array) -> Array:
        """Return factors over norms at the coordinates of each group; 0 where the norm is."""
        each = np.divide(factors, norms, out=np.zeros_like(norms), where=norms > 0.0)
        return each[self._labels]
