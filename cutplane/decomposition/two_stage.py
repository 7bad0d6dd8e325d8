"""Linear two-stage programmes with random data, for all scenarios or a sample."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain, product
from math import prod
from typing import Any

import numpy as np

from cutplane.decomposition.stage import LinearStage
from cutplane.decomposition.value_function import ValueFunction
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_count, as_vector
from cutplane.problem import Problem
from cutplane.risks.sums import LinearObjective
from cutplane.sets.base import FeasibleSet

Entries = dict[tuple[str, str], float]
"""Values of entries by the names of column and row; the right-hand side is named like a column."""

_MANY = 100_000
"""Largest number of scenarios that are enumerated, because more take minutes and gigabytes."""
_ROUNDING = 1e-9
"""Error of a sum of probabilities that is accepted, because up to some millions of them are rounded."""


@dataclass(frozen=True)
class RandomEntries:
    """Random entries with a joint discrete distribution.

    Parameters
    ----------
    probabilities : tuple of float
        Nonnegative, with sum 1.
    outcomes : tuple of dict
        The values of the entries in each outcome, by column and row.
    """

    probabilities: tuple[float, ...]
    outcomes: tuple[Entries, ...]

    def __post_init__(self) -> None:
        p = as_vector("probabilities", self.probabilities, len(self.outcomes))
        if (p < 0.0).any() or abs(p.sum() - 1.0) > _ROUNDING:
            raise InvalidInputError(f"probabilities must be >= 0 and sum to 1, got the sum {p.sum():g}.")


@dataclass(frozen=True, eq=False, repr=False)
class TwoStageProgram:
    """min <cost, x> + E Q(x; xi) over x in the feasible set; `read_smps` reads one from files.

    Parameters
    ----------
    name : str
    cost : ndarray of shape (dim,)
    feasible_set : FeasibleSet
        The feasible set of the first stage.
    core : LinearStage
        The second stage before random entries are replaced.
    rows, columns : dict of str to int
        The indices of the rows and columns of the second stage. Columns of the first stage have negative
        indices, from -dim to -1.
    objective_row : str
        The row name of the costs.
    random : tuple of RandomEntries
        Independent groups of random entries.
    sides : frozenset of str, default {"RHS"}
        The column names of the right-hand side.
    sign : float, default 1.0
        -1 for a maximisation. Then costs and constant are the negatives of the file's numbers, and the
        optimal value is ``sign * result.objective``. Random entries are as in the file.
    """

    name: str
    cost: Array
    feasible_set: FeasibleSet
    core: LinearStage
    rows: dict[str, int]
    columns: dict[str, int]
    objective_row: str
    random: tuple[RandomEntries, ...]
    sides: frozenset[str] = frozenset({"RHS"})
    sign: float = 1.0

    def __repr__(self) -> str:
        rows, columns = self.core.W.shape
        return (
            f"TwoStageProgram({self.name}: {self.cost.size} first-stage variables, a second stage of {rows} "
            f"rows and {columns} columns, {self.n_scenarios:.4g} scenarios"
            f"{', maximised' if self.sign < 0.0 else ''})"
        )

    @property
    def n_scenarios(self) -> int:
        """The number of scenarios, which are all combinations of outcomes."""
        return prod(len(one.outcomes) for one in self.random)

    def value_function(self, n: int | None = None, seed: int = 0, **options: Any) -> ValueFunction:
        """Return E Q(x; xi).

        Parameters
        ----------
        n : int, optional
            The number of scenarios to draw, with equal weights; by default all scenarios with their
            probabilities.
        seed : int, default 0
            The seed of the draw.
        **options
            ``n_groups`` and ``n_jobs`` of `ValueFunction`.

        Raises
        ------
        InvalidInputError
            If `n` is None, and there are more than 100,000 scenarios.
        """
        if n is not None:
            n, rng = as_count("n", n), np.random.default_rng(seed)
            drawn = []
            for one in self.random:
                p = np.array(one.probabilities)
                drawn.append([one.outcomes[k] for k in rng.choice(p.size, size=n, p=p / p.sum())])
            scenarios, weights = list(zip(*drawn, strict=True)) or [()] * n, np.full(n, 1.0 / n)
        elif self.n_scenarios <= _MANY:
            scenarios = list(product(*(one.outcomes for one in self.random)))
            weights = np.array([prod(p) for p in product(*(one.probabilities for one in self.random))])
        else:
            raise InvalidInputError(
                f"{self.name} has {self.n_scenarios:.3g} scenarios, too many to enumerate; draw a "
                "sample, for example n=1000."
            )
        stages = [self._stage(outcomes) for outcomes in scenarios]
        return ValueFunction.of_stages(stages, self.cost.size, weights, **options)

    def problem(self, n: int | None = None, seed: int = 0, **options: Any) -> Problem:
        """Return the first stage as a `Problem`, with the value function of all scenarios or a sample.

        The parameters are as in `value_function`.
        """
        Q = self.value_function(n, seed, **options)
        return Problem(Q + LinearObjective(self.cost), feasible_set=self.feasible_set)

    def _stage(self, outcomes: Iterable[Entries]) -> LinearStage:
        """Return the core with the entries of outcomes; arrays that do not change are shared."""
        core = self.core
        changed: dict[str, Any] = {}

        def copied(name: str) -> Any:
            return changed.setdefault(name, getattr(core, name).copy())

        for (column, row), value in chain.from_iterable(outcome.items() for outcome in outcomes):
            name, where = self.place(column, row)
            if name == "constant":
                changed[name] = 0.0 - self.sign * value
            elif name == "side":
                for side in ("row_lower", "row_upper"):
                    if np.isfinite(getattr(core, side)[where]):
                        copied(side)[where] = value
            else:
                copied(name)[where] = self.sign * value if name == "cost" else value
        return replace(core, **changed)

    def place(self, column: str, row: str) -> tuple[str, Any]:
        """Return the array of the second stage that contains a random entry, and the index in this array.

        Parameters
        ----------
        column, row : str

        Returns
        -------
        str
            "T", "W", "cost", "side" (right-hand side of a row) or "constant" (right-hand side of the costs).
        int or tuple of int

        Raises
        ------
        InvalidInputError
            If the entry is not in the second stage.
        """
        i, j = self.rows.get(row), self.columns.get(column)
        if i is None and row != self.objective_row:
            raise InvalidInputError(f"The random row {row!r} is not in the second stage.")
        if j is None and column not in self.sides:
            raise InvalidInputError(
                f"The random column {column!r} is not in the core, nor the right-hand side "
                f"{' or '.join(sorted(self.sides))}; bounds and ranges cannot be random."
            )
        if i is None:
            if j is not None and j < 0:
                raise InvalidInputError(f"The cost of the first-stage column {column!r} cannot be random.")
            return ("constant", 0) if j is None else ("cost", j)
        if j is not None:
            return ("T", (i, j + self.cost.size)) if j < 0 else ("W", (i, j))
        lower, upper = self.core.row_lower[i], self.core.row_upper[i]
        if np.isfinite([lower, upper]).all() and lower != upper:
            raise InvalidInputError(f"The row {row!r} has a range, so its right-hand side cannot be random.")
        return "side", i
