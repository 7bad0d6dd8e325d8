"""What a proof is about, and what it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from cutplane.pieces.validation import Array
from cutplane.regularizers.base import Regularizer
from cutplane.risks.base import Risk
from cutplane.sets.base import FeasibleSet, Separator

if TYPE_CHECKING:
    from cutplane.proof.bound import SeparableInBox


HALF_SPACE = -1
"""Block number of a row that is a half-space <slope, x> + offset <= 0 and not a cut of the risk, negative
because blocks count from 0."""
TRIVIAL = -2
"""Query number of a cut of slope 0 that states a known infimum, negative because queries count from 0."""


class Standard(Protocol):
    """A problem in other variables, and the change of variables."""

    @property
    def problem(self) -> ProvableProblem:
        """The problem in them."""
        ...

    @property
    def change(self) -> Any:
        """What takes points `inward` and `outward`."""
        ...


class ProvableProblem(Protocol):
    """The parts of a declared problem that proofs read."""

    dim: int
    risk: Risk
    regularizer: Regularizer
    active_regularizer: Regularizer
    simple_set: FeasibleSet
    separators: tuple[Separator, ...]

    @property
    def separable(self) -> SeparableInBox | None:
        """Regularizer and simple set as a sum over the coordinates; None if they are none."""
        ...

    @property
    def standard(self) -> Standard | None:
        """The problem in the variables of a solve, and the change of variables; None if these are its own."""
        ...

    def in_simple_set(self, x: Array, tolerance: float = ...) -> bool:
        """Tell whether x lies in the simple part of X."""
        ...

    def within(self, reach: float) -> ProvableProblem:
        """Return the problem with no coordinate larger than the reach."""
        ...

    def conjugate(self) -> Any:
        """Return who finds the highest cut with a given slope."""
        ...

    def solved_minimum(self) -> Any:
        """Return who proves inner minima that have no closed form."""
        ...


class EvidenceRows(NamedTuple):
    """Cuts and half-spaces, with multipliers; see `Certificate`."""

    slopes: Any
    offsets: Array
    blocks: Array
    queries: Array
    multipliers: Array


def memory_of(vectors: Any) -> int:
    """Return the bytes of a mapping of vectors, as they are held."""
    return sum(vector.nbytes for vector in vectors.values()) if isinstance(vectors, dict) else vectors.nbytes


def dense(matrix: Any) -> Array:
    """Return a matrix, dense or sparse, as an ndarray."""
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def row_sizes(slopes: Any) -> Array:
    """Return the largest absolute entry of each row of a matrix, dense or sparse."""
    if not sparse.issparse(slopes):
        return np.abs(slopes).max(axis=1, initial=0.0)
    return abs(slopes).max(axis=1).toarray() if slopes.nnz else np.zeros(slopes.shape[0])
