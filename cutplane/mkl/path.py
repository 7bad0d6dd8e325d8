"""The path over C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.path import Results
from cutplane.exceptions import InvalidInputError
from cutplane.mkl.result import MKLResult
from cutplane.pieces.validation import Array, as_vector
from cutplane.runtime.extras import require_extra
from cutplane.status import Status

if TYPE_CHECKING:
    import pandas as pd

    from cutplane.mkl.problem import MKL


@dataclass(frozen=True, eq=False, repr=False)
class MKLPath(Results[MKLResult]):
    """The results for one C after another.

    Attributes
    ----------
    Cs : ndarray of shape (n,)
    results : tuple of MKLResult
    """

    Cs: Array
    results: tuple[MKLResult, ...]

    @property
    def weights(self) -> Array:
        """The weights at each C, shape (n, n_kernels)."""
        return np.array([result.weights for result in self.results])

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per C (needs the extra ``tables``)."""
        pd = require_extra("pandas", "tables")
        return pd.DataFrame(
            {
                "C": self.Cs,
                "objective": self.objectives,
                "lower_bound": [result.lower_bound for result in self.results],
                "gap": [result.gap for result in self.results],
                "status": [str(result.status) for result in self.results],
                "kernels": [result.selected.size for result in self.results],
                "machines": [result.oracle_calls for result in self.results],
            }
        )

    def __repr__(self) -> str:
        return (
            f"MKLPath({len(self)} values of C from {self.Cs[0]:.3g} to {self.Cs[-1]:.3g}, "
            f"{self.oracle_calls} kernel machines, largest gap {max(result.gap for result in self):.2g})"
        )


def follow(mkl: MKL, Cs: Any, options: Mapping[str, Any]) -> MKLPath:
    """Solve for each C in turn; see `MKL.path`."""
    values = as_vector("Cs", Cs)
    if values.size == 0 or not (values > 0.0).all():
        raise InvalidInputError(f"Cs must hold at least one number, all of them positive, got {Cs!r}.")
    previous: MKLResult | None = options.get("warm_start")
    rest = {name: value for name, value in options.items() if name != "warm_start"}
    results: list[MKLResult] = []
    for C in values.tolist():
        previous = mkl.with_C(C).solve(warm_start=previous, **rest)
        results.append(previous)
        if previous.status is Status.INTERRUPTED:
            break
    return MKLPath(values[: len(results)], tuple(results))
