"""The declared problem, in the form that engine and methods use."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.masters.base import ReducedProblem
from cutplane.pieces.capabilities import Capability, ability, offers
from cutplane.pieces.cvxpy_tools import common_variables, order_of_entries
from cutplane.pieces.validation import Array, as_count, as_vector
from cutplane.proof.rounding import FEASIBLE, NEAR
from cutplane.regularizers.base import Regularizer, separable_form_of
from cutplane.regularizers.separable import NoRegularizer
from cutplane.risks.base import Risk
from cutplane.risks.sums import CompositeObjective
from cutplane.sets.base import FeasibleSet, Separator
from cutplane.sets.box import Box, WholeSpace

if TYPE_CHECKING:
    from cutplane.engine.standard import Restated
    from cutplane.masters.least import SolvedMinimum
    from cutplane.masters.whole import Conjugate
    from cutplane.proof.bound import SeparableInBox

Answer = TypeVar("Answer")


class Declaration:
    """minimise f(x) + g(x) subject to x in X: pieces whose dimensions agree.

    `simple_set` is X without the separation oracles, intersected with the domains of risk and regularizer;
    `separators` are the oracles of X and of the domain of the risk; `active_regularizer` is `NoRegularizer`
    if the weight is zero. With `as_given`, the problem is solved in the user's variables, whatever their
    units.
    """

    as_given = False

    def __init__(
        self,
        risk: Risk | CompositeObjective,
        regularizer: Regularizer | None = None,
        feasible_set: FeasibleSet | None = None,
    ):
        regularizer = NoRegularizer() if regularizer is None else regularizer
        if isinstance(risk, CompositeObjective):
            own = risk.regularizer
            risk, regularizer = risk.risk, own + regularizer if regularizer.lam > 0.0 else own
        feasible_set = WholeSpace() if feasible_set is None else feasible_set
        _check_kind("risk", risk, Risk, "decorate a function with @cutplane.risk(dim=...) or subclass Risk")
        _check_kind("regularizer", regularizer, Regularizer, "use L2(lam), ... or subclass Regularizer")
        _check_kind(
            "feasible_set", feasible_set, FeasibleSet, "use Box(lower, upper), ... or subclass FeasibleSet"
        )
        common_variables((risk, regularizer, feasible_set))
        said = [piece.dim for piece in (feasible_set, regularizer) if piece.dim is not None]
        dim = said[0] if risk.open and said else risk.dim
        self.dim = as_count(f"{type(risk).__name__}.dim", dim)
        self.risk = risk.resolve(self.dim)
        self.regularizer = regularizer.resolve(self.dim)
        self.active_regularizer = self.regularizer if self.regularizer.lam > 0 else NoRegularizer()
        self.feasible_set = feasible_set
        domain = self.risk.domain
        simple, separators = (feasible_set if domain is None else feasible_set & domain).parts
        if self.active_regularizer.domain is not None:
            simple = simple & self.active_regularizer.domain
        self.simple_set: FeasibleSet = simple.resolve(self.dim)
        self.separators: tuple[Separator, ...] = separators

    @property
    def separable(self) -> SeparableInBox | None:
        """The regularizer and the simple set as a sum over coordinates; None if they are not separable."""
        return self._separable

    @cached_property
    def _separable(self) -> SeparableInBox | None:
        from cutplane.proof.bound import SeparableInBox

        form = separable_form_of(self.active_regularizer, self.dim)
        bounds = self.simple_set.bounds(self.dim)
        return None if form is None or bounds is None else SeparableInBox(form, *bounds)

    @property
    def standard(self) -> Restated | None:
        """The problem in the variables of a solve, and the change of variables; None if both are the same."""
        from cutplane.engine.standard import standardized

        return standardized(self)

    def within(self, reach: float) -> Declaration:
        """Return the problem with all coordinates between -reach and reach."""
        inside = self.feasible_set & Box(-reach, reach, dim=self.dim)
        return Declaration(self.risk, self.regularizer, inside)

    def conjugate(self) -> Conjugate:
        """Return a function from a slope to the offset of the highest cut with this slope."""
        from cutplane.masters.whole import Conjugate

        return Conjugate(self.risk, self.simple_set, self.dim)

    def solved_minimum(self) -> SolvedMinimum:
        """Return a function that minimises g(x) + <v, x> over the simple set by a solver."""
        from cutplane.masters.least import SolvedMinimum

        return SolvedMinimum(self.active_regularizer, self.simple_set, self.dim)

    @cached_property
    def reduced(self) -> ReducedProblem:
        """The part of a reduced problem that does not depend on its cuts."""
        return ReducedProblem(self.dim, self.risk.n_blocks, self.active_regularizer, self.simple_set)

    @property
    def order(self) -> str:
        """A note on the order of the entries of cvxpy's matrix variables in x; "" if there are none.

        A risk written in numpy may use another order than a `CvxpySet`, and no error would be raised.
        """
        return order_of_entries(common_variables((self.risk, self.regularizer, self.feasible_set)))

    @cached_property
    def suitable(self) -> dict[Any, Any]:
        """The estimates or refusals of methods, computed so far."""
        return {}

    def has_set_of(self, other: Declaration) -> bool:
        """Tell whether another problem has the same set, and a risk with the same domain."""
        same = len(self.separators) == len(other.separators)
        same &= all(a is b for a, b in zip(self.separators, other.separators, strict=False))
        return same and self.feasible_set is other.feasible_set

    @cached_property
    def is_unconstrained(self) -> bool:
        """Whether X is the whole space."""
        return not self.separators and self.reduced.unconstrained

    def objective(self, x: Any) -> float:
        """Return f(x) + g(x); the feasible set is not checked."""
        x = as_vector("x", x, self.dim)
        values = self.risk.oracle(x)[0]
        return float(np.sum(values)) + self.regularizer.value(x)

    def into_simple_set(self, x: Array) -> Array:
        """Return the projection of x on the simple part of X (x itself if it is inside)."""
        if self._project is not None:
            return self._project(x)
        if not self.in_simple_set(x, NEAR):
            from cutplane.masters.simplex_qp import project_on_polyhedron

            near = project_on_polyhedron(self.simple_set, x)
            x = near if near is not None and self.in_simple_set(near, NEAR) else self._projection(x)
        restore = ability(self.simple_set, Capability.RESTORATION)
        if restore is not None:
            x = restore(x)
        return x

    @cached_property
    def _project(self) -> Callable[[Array], Array] | None:
        return ability(self.simple_set, Capability.PROJECTION)

    def in_simple_set(self, x: Array, tolerance: float = FEASIBLE) -> bool:
        """Tell whether x lies in the simple part of X, up to a tolerance relative to x."""
        return self.simple_set.violation(x) <= tolerance * float(np.abs(x).max(initial=0.0))

    @cached_property
    def _projection(self) -> Any:
        from cutplane.masters.certificates import ConicProjection

        return ConicProjection(self.simple_set, self.dim)

    def starting_point(self, x0: Any = None) -> Array:
        """Return x0 (by default zero), projected on the simple part of X.

        A set without a projection has as default the minimiser of <0, x>.
        """
        simple = self.simple_set
        if x0 is None and not offers(simple, Capability.PROJECTION):
            minimise = ability(simple, Capability.LINEAR_MINIMISATION)
            if minimise is not None:
                return as_vector(f"minimise_linear of {simple!r}", minimise(np.zeros(self.dim)), self.dim)
        x = np.zeros(self.dim) if x0 is None else as_vector("x0", x0, self.dim)
        return self.into_simple_set(x)


def remembered(question: Callable[[Declaration], Answer]) -> Callable[[Declaration], Answer]:
    """Cache the answers to a question about a problem, as long as the problem exists."""
    known: WeakKeyDictionary[Declaration, Answer] = WeakKeyDictionary()

    @wraps(question)
    def ask(problem: Declaration) -> Answer:
        if problem not in known:
            known[problem] = question(problem)
        return known[problem]

    return ask


def _check_kind(name: str, piece: Any, kind: type, remedy: str) -> None:
    if isinstance(piece, kind):
        return
    hint = "; did you forget to create it, as in L2(0.1)?" if isinstance(piece, type) else "."
    raise InvalidInputError(f"{name} must be a {kind.__name__}, got {piece!r}{hint} To make one, {remedy}.")
