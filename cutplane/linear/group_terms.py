"""Norms of groups of coordinates, and what is asked of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutplane.linear.terms import strongest
from cutplane.pieces.capabilities import Capability, ask
from cutplane.pieces.forms import GroupedForm
from cutplane.pieces.validation import Array
from cutplane.proof.rounding import EPS
from cutplane.sets.base import is_whole_space

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration


@dataclass(frozen=True, eq=False)
class GroupTerms:
    """sum_k costs_k ||x_k||: for groups what `Terms` is for coordinates.

    Attributes
    ----------
    form : GroupedForm
        In which free coordinates have the label -1.
    """

    form: GroupedForm
    scalable = True
    smooth = forced = False
    low, high = -np.inf, np.inf

    @property
    def costs(self) -> Array:
        """What the group of each coordinate costs."""
        return np.append(self.form.costs, 0.0)[self.form.labels]

    @property
    def free(self) -> Array:
        """Which coordinates have no term."""
        return self.costs == 0.0

    def on(self, index: Array) -> GroupTerms:
        """Return those of some coordinates, which hold all or none of a group, with labels in their order."""
        labels = self.form.labels[index]
        groups, first = np.unique(labels[labels >= 0], return_index=True)
        order = groups[np.argsort(first)]
        places = np.full(self.form.costs.size + 1, -1)
        places[order] = np.arange(order.size)
        return GroupTerms(GroupedForm(places[labels], self.form.costs[order]))

    def moves(self, x: Array) -> Array:
        """Return where the sum is smooth: in groups that are not zero, and where it is free."""
        return self.free | np.append(self.form.norms(x) > 0.0, True)[self.form.labels]

    def __call__(self, x: Array) -> float:
        """Return the sum."""
        return self.form(x)

    def slope(self, x: Array) -> Array:
        """Return the derivatives where the sum is smooth, and 0 elsewhere."""
        return self.pull_of_norms(x) * x

    def pull_of_norms(self, x: Array) -> Array:
        """Return the cost of the group of each coordinate over its norm; 0 where that is."""
        norms = self.form.norms(x)
        each = np.divide(self.form.costs, norms, out=np.zeros_like(norms), where=norms > 0.0)
        return np.append(each, 0.0)[self.form.labels]

    def ratios(self, x: Array, g: Array) -> Array:
        """Return by which factor slopes g of the risk exceed what the groups hold, for each coordinate."""
        costs, norms = self.form.costs, self.form.norms(g)
        each = np.divide(norms, costs, out=np.zeros_like(norms), where=costs > 0.0)
        return np.append(each, 0.0)[self.form.labels]

    def chosen(self, x: Array, g: Array) -> Array:
        """Return a working set: the groups that move, those that are pulled most, and what is free."""
        costs, norms = self.form.costs, self.form.norms(g)
        size = costs + norms
        pulls = (norms - costs) / np.where(size > 0.0, size, 1.0)
        groups = strongest(pulls, self.form.norms(x) > 0.0)
        ranks = np.full(costs.size + 1, -1)
        ranks[groups] = np.arange(groups.size)
        mine = ranks[self.form.labels]
        chosen = np.flatnonzero((mine >= 0) | self.free)
        return chosen[np.argsort(mine[chosen], kind="stable")]

    def outlook(self, x: Array, g: Array) -> tuple[float, float]:
        """Return the factor of the multipliers that gives a bound, and the gap with it, as `Terms` does."""
        excess = float(self.ratios(x, g).max(initial=0.0))
        factor = 1.0 / (excess * (1.0 + 4.0 * EPS)) if excess > 1.0 else 1.0
        held = ~self.free
        return factor, max(0.0, self(x) + factor * float(g[held] @ x[held]))


def group_terms_of(problem: Declaration) -> GroupTerms | None:
    """Return the regularizer as a sum of norms over the whole space; None if it is none."""
    form = ask(problem.active_regularizer, Capability.GROUPED, problem.dim)
    whole = is_whole_space(problem.simple_set, problem.dim) and not problem.separators
    return GroupTerms(form) if form is not None and whole else None
