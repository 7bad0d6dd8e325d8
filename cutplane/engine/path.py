"""The regularisation path."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from cutplane.exceptions import InvalidInputError, MissingExtraError
from cutplane.pieces.validation import Array, as_vector
from cutplane.result import Result
from cutplane.runtime.extras import require_extra

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from cutplane.problem import Problem


R = TypeVar("R", bound=Any)


class Results(Generic[R]):
    """Results in order, as a sequence; a subclass has `results` and `to_frame`."""

    results: tuple[R, ...]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[R]:
        return iter(self.results)

    def __getitem__(self, index: int) -> R:
        return self.results[index]

    @property
    def objectives(self) -> Array:
        """The objective of each result, shape (n,)."""
        return np.array([result.objective for result in self.results])

    @property
    def oracle_calls(self) -> int:
        """Queries of the risk, over the whole path."""
        return sum(result.oracle_calls for result in self.results)

    @abstractmethod
    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per result."""

    def _repr_html_(self) -> str | None:
        try:
            return self.to_frame().to_html(max_rows=60)
        except MissingExtraError:
            return None


@dataclass(frozen=True, eq=False, repr=False)
class Path(Results[Result]):
    """The results along a path of regularizer weights.

    Attributes
    ----------
    lams : ndarray of shape (n,)
    results : tuple of Result
    """

    lams: Array
    results: tuple[Result, ...]

    @property
    def coefficients(self) -> Array:
        """The best point at each weight, shape (n, dim)."""
        return np.array([result.x for result in self.results])

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per weight (needs the extra ``tables``)."""
        pd = require_extra("pandas", "tables")

        return pd.DataFrame(
            {
                "lam": self.lams,
                "objective": self.objectives,
                "lower_bound": [result.lower_bound for result in self.results],
                "gap": [result.gap for result in self.results],
                "status": [str(result.status) for result in self.results],
                "iterations": [result.n_iter for result in self.results],
                "oracle_calls": [result.oracle_calls for result in self.results],
                "cuts": [len(result.certificate.offsets) for result in self.results],
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot every coordinate over the weight and return the axes (needs the extra ``plot``)."""
        from cutplane.report.plotting import plot_path

        return plot_path(self, ax=ax)

    def __repr__(self) -> str:
        return (
            f"Path({len(self)} weights from {self.lams[0]:.3g} to {self.lams[-1]:.3g}, "
            f"{self.oracle_calls} oracle calls, largest gap {max(result.gap for result in self.results):.2g})"
        )


def follow(problem: Problem, lams: Sequence[float] | Array, options: Mapping[str, Any]) -> Path:
    """Solve `problem` for each weight in turn; see `Problem.path`."""
    from cutplane.problem import Problem

    weights = as_vector("lams", lams)
    if weights.size == 0:
        raise InvalidInputError("lams is empty; pass at least one weight.")
    results: list[Result] = []
    previous: Result | None = options.get("warm_start")
    rest = {name: value for name, value in options.items() if name != "warm_start"}
    for lam in weights.tolist():
        step = Problem(problem.risk, problem.regularizer.with_lam(lam), problem.feasible_set)
        previous = step.solve(warm_start=previous, **rest)
        results.append(previous)
        if previous.status.name == "INTERRUPTED":
            break
    return Path(weights[: len(results)], tuple(results))
