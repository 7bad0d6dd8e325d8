"""The separation oracle of cycle inequalities, cliques of states and odd sets of cliques over marginals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cutplane.graphical.primal.disagreement import Disagreements
from cutplane.graphical.primal.local_polytope import LocalPolytope
from cutplane.graphical.primal.odd_cycles import separate_odd_cycles
from cutplane.pieces.validation import Array
from cutplane.sets.base import FeasibleSet, HalfSpaces, Separator
from cutplane.sets.box import WholeSpace


class CycleInequalities(FeasibleSet):
    r"""The points whose probabilities of disagreement satisfy all cycle inequalities.

    .. math::
        \sum_{e \in F} (1 - c_e) + \sum_{e \in C \setminus F} c_e \ge 1, \qquad
        C \text{ a cycle}, \; F \subseteq C, \; |F| \text{ odd}

    They are valid because a labelling changes sides an even number of times around a cycle. For
    `Disagreements`, c is the point itself. For a `LocalPolytope`, one state of each variable is chosen, in
    all ways, and c is the probability that exactly one of two neighbours is in its chosen state.

    Parameters
    ----------
    relaxation : Disagreements or LocalPolytope
    local_cuts : bool, default False
        Whether to separate other inequalities too: cliques of states that exclude each other, and odd sets
        of such cliques. See `Conflicts`.
    tol : float, default 1e-6
        Violations of cycle inequalities up to `tol` are ignored.

    References
    ----------
    .. [1] F. Barahona, A. R. Mahjoub, "On the cut polytope", Mathematical Programming 36, 1986,
       doi:10.1007/BF02592023.
    .. [2] D. Sontag, T. Jaakkola, "New outer bounds on the marginal polytope", NIPS 20, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.graphical import GraphicalModel
    >>> from cutplane.graphical.primal.disagreement import Disagreements
    >>> from cutplane.graphical.primal.marginal_cuts import CycleInequalities
    >>> differ = [[1, 0], [0, 1]]
    >>> model = GraphicalModel([2, 2, 2], [((0, 1), differ), ((1, 2), differ), ((0, 2), differ)])
    >>> CycleInequalities(Disagreements(model)).violation(np.ones(3))
    1.0
    """

    def __init__(
        self, relaxation: Disagreements | LocalPolytope, *, local_cuts: bool = False, tol: float = 1e-6
    ):
        self.dim = relaxation.dim
        self.relaxation = relaxation
        self._tol = tol
        self._local_cuts = local_cuts

    def __repr__(self) -> str:
        return f"CycleInequalities({self.relaxation!r})"

    @property
    def parts(self) -> tuple[FeasibleSet, tuple[Separator, ...]]:
        return WholeSpace(self.dim), (self,)

    def violation(self, x: Array) -> float:
        return float(self.separate(x).violations(x).max(initial=0.0))

    def separate(self, x: Array) -> HalfSpaces:
        """Return violated inequalities as sparse half-spaces; none if none were found."""
        for half_spaces in self.kinds(x):
            if half_spaces:
                return half_spaces
        return HalfSpaces(np.empty((0, x.size)), np.empty(0))

    def kinds(self, x: Array) -> Iterator[HalfSpaces]:
        """Yield half-spaces of one kind after the other, the fastest first."""
        relaxation = self.relaxation
        conflicts, literals = relaxation.conflicts, relaxation.literals
        excludes = self._local_cuts and len(conflicts) > 0
        if excludes:
            yield literals.pull_back(*conflicts.cliques(literals(x)))
        if self._is_labelling(x):
            return
        graph, differ = relaxation.projection
        cycles = separate_odd_cycles(graph, differ(x), tol=self._tol)
        found = differ.pull_back(*cycles.rows(graph.n_edges))
        if excludes:
            odd_sets = literals.pull_back(*conflicts.odd_sets(literals(x)))
            found = HalfSpaces.stack([found, odd_sets], x.size)
        yield found

    def _is_labelling(self, x: Array) -> bool:
        """Return whether x is a labelling, because a labelling violates no inequality except conflicts."""
        relaxation, integral = self.relaxation, ((x == 0.0) | (x == 1.0)).all()
        return bool(integral) and np.array_equal(x, relaxation.embed(relaxation.read(x)))
