"""The parts of problems and certificates that proofs use."""

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
"""Block number of a half-space <slope, x> + offset <= 0, negative because blocks count from 0."""
TRIVIAL = -2
"""Query number of a cut with slope 0 and the infimum of a block as offset, negative because queries count
from 0."""


class Standard(Protocol):
    """A problem in other variables, and the change of variables."""

    @property
    def problem(self) -> ProvableProblem:
        """The problem in the other variables."""
        ...

    @property
    def change(self) -> Any:
        """The change of variables, with methods `inward` and `outward`."""
        ...


class ProvableProblem(Protocol):
    """The parts of a declared problem that proofs use."""

    dim: int
    risk: Risk
    regularizer: Regularizer
    active_regularizer: Regularizer
    simple_set: FeasibleSet
    separators: tuple[Separator, ...]

    @property
    def separable(self) -> SeparableInBox | None:
        """The regularizer and the simple set as a sum over coordinates; None if they are not separable."""
        ...

    @property
    def standard(self) -> Standard | None:
        """The problem in the variables of a solve, and the change of variables; None if both are the same."""
        ...

    def in_simple_set(self, x: Array, tolerance: float = ...) -> bool:
        """Tell whether x lies in the simple part of X."""
        ...

    def within(self, reach: float) -> ProvableProblem:
        """Return the problem with all coordinates between -reach and reach."""
        ...

    def conjugate(self) -> Any:
        """Return a function from a slope to the offset of the highest cut with this slope."""
        ...

    def solved_minimum(self) -> Any:
        """Return a function that computes inner minima without a closed form."""
        ...


class EvidenceRows(NamedTuple):
    """Cuts and half-spaces, with multipliers; see `Certificate`."""

    slopes: Any
    offsets: Array
    blocks: Array
    queries: Array
    multipliers: Array


def memory_of(vectors: Any) -> int:
    """Return the number of bytes of the vectors in a mapping."""
    return sum(vector.nbytes for vector in vectors.values()) if isinstance(vectors, dict) else vectors.nbytes


def dense(matrix: Any) -> Array:
    """Return a matrix, dense or sparse, as an ndarray."""
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def row_sizes(slopes: Any) -> Array:
    """Return the largest absolute entry of each row of a matrix, dense or sparse."""
    if not sparse.issparse(slopes):
        return np.abs(slopes).max(axis=1, initial=0.0)
    return abs(slopes).max(axis=1).toarray() if slopes.nnz else np.zeros(slopes.shape[0])
