"""The interface between the engine and the masters, which solve the reduced problem.

The reduced problem over the rows (cuts and half-spaces) of a pool is

    min over x in X0 of  sum_k max_{i in block k} (<slope_i, x> + offset_i) + g(x)     [+ stabilisation]
    subject to           <slope_i, x> + offset_i <= 0    for the rows of no block (half-spaces).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from cutplane.pieces.capabilities import Capability, ask
from cutplane.pieces.forms import DiagonalQuadratic, LinearForm, SeparableForm
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import HALF_SPACE as HALF_SPACE
from cutplane.regularizers.base import separable_form_of
from cutplane.sets.base import is_whole_space, scale_of, size_of

if TYPE_CHECKING:
    from cutplane.regularizers.base import Regularizer
    from cutplane.sets.base import FeasibleSet


@dataclass(frozen=True)
class Prox:
    """Adds weight/2 ||x - centre||^2 to the reduced problem."""

    centre: Array
    weight: float


@dataclass(frozen=True)
class Level:
    """Turns the reduced problem into min 1/2 ||x - centre||^2 subject to model(x) + g(x) <= level."""

    centre: Array
    level: float


Stabilization = Prox | Level | None
Kind = type[Prox] | type[Level] | None


class Rows(Protocol):
    """The K rows of a reduced problem; read-only for the master.

    Rows are only appended or removed, and an id always refers to the same row. A master that updates a model
    adds the rows with new ids, and deletes those whose ids have disappeared.
    """

    @property
    def slopes(self) -> Any:
        """The slopes, shape (K, dim), float64; sparse only if the master has ``sparse = True``."""
        ...

    @property
    def offsets(self) -> Array:
        """Shape (K,)."""
        ...

    @property
    def blocks(self) -> Array:
        """Shape (K,), the block of each cut, or `HALF_SPACE`."""
        ...

    @property
    def ids(self) -> Array:
        """Shape (K,), strictly increasing."""
        ...


@dataclass(frozen=True)
class ReducedProblem:
    """The reduced problem without its rows: its pieces and their forms; a form is None if a piece has none.

    Attributes
    ----------
    dim, n_blocks : int
    regularizer : Regularizer
    simple_set : FeasibleSet
    """

    dim: int
    n_blocks: int
    regularizer: Regularizer
    simple_set: FeasibleSet

    @cached_property
    def quadratic(self) -> DiagonalQuadratic | None:
        """The regularizer as a diagonal quadratic."""
        return ask(self.regularizer, Capability.QUADRATIC, self.dim)

    @cached_property
    def separable(self) -> SeparableForm | None:
        """The regularizer as a diagonal quadratic and a weighted l1 norm."""
        return separable_form_of(self.regularizer, self.dim)

    @cached_property
    def polyhedron(self) -> LinearForm | None:
        """The simple set as linear constraints, possibly with auxiliary variables."""
        return ask(self.simple_set, Capability.LINEAR_FORM, self.dim)

    @cached_property
    def linear(self) -> LinearForm | None:
        """The regularizer and the simple set as a linear programme."""
        costs = ask(self.regularizer, Capability.LINEAR_FORM, self.dim)
        return None if costs is None or self.polyhedron is None else costs.merge(self.polyhedron, self.dim)

    @cached_property
    def widest(self) -> float:
        """The largest absolute bound, if the simple set is a box; else inf."""
        bounds = self.simple_set.bounds(self.dim)
        return math.inf if bounds is None else float(np.abs(bounds).max())

    @cached_property
    def largest(self) -> float:
        """The size of the simple set; inf if unknown."""
        return size_of(self.simple_set, self.dim)

    @cached_property
    def scale(self) -> float:
        """The largest finite number that defines the simple set; 0 if unknown."""
        return scale_of(self.simple_set, self.dim, 0.0)

    @cached_property
    def unconstrained(self) -> bool:
        """Whether the simple set is the whole space."""
        return is_whole_space(self.simple_set, self.dim)

    @cached_property
    def first_masters(self) -> dict[Any, Any]:
        """A cache of the first candidates, by stabilisation and backend."""
        return {}


class MasterStatus(Enum):
    """The outcome of a solve."""

    SOLVED = auto()
    UNBOUNDED = auto()
    INFEASIBLE = auto()
    FAILED = auto()


@dataclass(frozen=True)
class MasterSolution:
    """The answer of a master.

    Attributes
    ----------
    x : ndarray of shape (dim,) or None
        The minimiser; None unless SOLVED.
    multipliers : ndarray of shape (K,) or None
        One per row, nonnegative up to the solver's accuracy. They sum to 1 over each block. With a `Level`,
        they sum to another number, which is the same for every block.
    status : MasterStatus
    message : str
        The message of the backend, if it did not solve the problem.
    set_multipliers : ndarray or None
        Multipliers of the rows of the simple set's linear form, positive where the lower side is active.
    """

    x: Array | None
    multipliers: Array | None
    status: MasterStatus = MasterStatus.SOLVED
    message: str = ""
    set_multipliers: Array | None = None


class Least(NamedTuple):
    """A lower bound of min over x in X0 of g(x) + <slope, x>, for all x with entries up to `reach`.

    `residual` is the largest entry of the solver's residual slope; its product with `reach` is subtracted
    from the bound.
    """

    slope: Array
    value: float
    reach: float
    residual: float = 0.0

    def at(self, slope: Array) -> float:
        """Return a lower bound for another slope, lower by |difference of the slopes| times `reach`."""
        return self.value - self.reach * float(np.abs(slope - self.slope).sum())


class Whole(NamedTuple):
    """The solution of min h(z) + g(x) over x in X0 subject to z = M x, with proofs from its dual point.

    The risk is f(x) = h(M x), where M is the map to its image if it has such a form, otherwise the identity.

    Attributes
    ----------
    message : str
        The message of the backend, if it did not solve the problem.
    x : ndarray of shape (dim,) or None
    multipliers : ndarray or None
        A subgradient of h at M x, or the multipliers of a dual cut.
    offset : float
        h(z) >= offset + <multipliers, z> for all z; -inf if this was not proven.
    least : Least or None
        The lower bound of g over X0.
    """

    message: str
    x: Array | None = None
    multipliers: Array | None = None
    offset: float = -math.inf
    least: Least | None = None


class Master(Protocol):
    """Solves a sequence of reduced problems with changing rows, by one model that it updates.

    It may raise any exception; then another master solves the problem, and a new master is built for the next
    one. A slow master calls `cutplane.runtime.deadline.check_time` between its iterations, or passes
    `cutplane.runtime.deadline.seconds_left` to its backend, and does not catch `OutOfTime`, so that the run
    can end in time with its bounds. Compiled code should return to Python about every second, so that Ctrl-C
    works.

    Attributes
    ----------
    sparse : bool
        Whether it accepts sparse slopes; a missing attribute stands for False.
    """

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve; `accuracy` is the acceptable absolute error of the optimal value."""
        ...


class MasterKind(Protocol):
    """Builds masters: a class of masters, or any object that is called with a reduced problem.

    Pass your class as ``backend=``. A wrong master costs iterations, but cannot make a bound wrong, because
    lower bounds are computed from the multipliers alone.

    Attributes
    ----------
    name : str
        Used in results and notes.
    exact : bool
        Whether its answers are exact up to rounding, so that no other master can improve them; a missing
        attribute stands for False.
    """

    name: str

    def refusal(self, reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None) -> str | None:
        """Return None if the masters accept this kind of problem, otherwise the reason, as a clause."""
        ...

    def __call__(self, reduced: ReducedProblem) -> Master:
        """Return a new master."""
        ...
