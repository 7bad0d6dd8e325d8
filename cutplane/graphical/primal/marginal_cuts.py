"""Inequalities of cut polytopes as a separation oracle over marginals."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from cutplane.graphical.cycles.cycle_graph import CycleGraph
from cutplane.graphical.cycles.odd_cycles import separate_odd_cycles
from cutplane.graphical.cycles.projections import projection_graph
from cutplane.graphical.primal.disagreement import Disagreements
from cutplane.graphical.primal.local_cuts import separate_local_cuts
from cutplane.graphical.primal.local_polytope import LocalPolytope
from cutplane.graphical.primal.rounding import Rounding
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock
from cutplane.sets.base import FeasibleSet, HalfSpaces, Separator
from cutplane.sets.box import WholeSpace


class CycleInequalities(FeasibleSet):
    r"""The points whose probabilities of disagreement satisfy all cycle inequalities.

    .. math::
        \sum_{e \in F} (1 - c_e) + \sum_{e \in C \setminus F} c_e \ge 1, \qquad
        C \text{ a cycle}, \; F \subseteq C, \; |F| \text{ odd}

    Around a cycle, a labelling changes sides an even number of times. For `Disagreements`, c is the point
    itself. For a `LocalPolytope`, c is the probability that just one of two neighbours is in a state chosen
    for it, for all choices of a state each.

    Parameters
    ----------
    relaxation : Disagreements or LocalPolytope
    rounding : Rounding, optional
        Proposes labellings near the points that are cut off, as points for the upper bound.
    local_cuts : bool, default False
        Whether to look, where no cycle inequality is violated, for other facets of small subgraphs: see
        `separate_local_cuts`.
    tol : float, default 1e-6
        Violations of cycle inequalities up to this are not looked at.
    deadline : float, default inf
        The time, as `cutplane.runtime.clock.clock` tells it, after which none are looked for.

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
        self,
        relaxation: Disagreements | LocalPolytope,
        rounding: Rounding | None = None,
        *,
        local_cuts: bool = False,
        tol: float = 1e-6,
        deadline: float = math.inf,
    ):
        self.dim = relaxation.dim
        self.relaxation = relaxation
        self._tol = tol
        self._local_cuts = local_cuts
        self._rounding = rounding
        self._deadline = deadline

    def __repr__(self) -> str:
        return f"CycleInequalities({self.relaxation!r})"

    @property
    def parts(self) -> tuple[FeasibleSet, tuple[Separator, ...]]:
        """The whole space, and this oracle."""
        return WholeSpace(self.dim), (self,)

    def violation(self, x: Array) -> float:
        """Return the largest violation that is found, 0 if none exceeds the tolerance."""
        return float(self.separate(x).violations(x).max(initial=0.0))

    def separate(self, x: Array) -> HalfSpaces:
        """Return violated inequalities as sparse half-spaces; none if none were found."""
        if clock() > self._deadline or self._is_labelling(x):
            return HalfSpaces(np.empty((0, x.size)), np.empty(0))
        graph, projection = self._projected
        c = x if projection is None else projection @ x
        normals, offsets = separate_odd_cycles(graph, c, tol=self._tol).rows(graph.n_edges)
        if not offsets.size and self._local_cuts and clock() <= self._deadline:
            normals, offsets = separate_local_cuts(graph, c)
        return HalfSpaces(normals if projection is None else normals @ projection, offsets)

    @cached_property
    def _projected(self) -> tuple[CycleGraph, Any]:
        relaxation = self.relaxation
        if isinstance(relaxation, Disagreements):
            return CycleGraph(relaxation.model.n_variables + 1, relaxation.edges), None
        return projection_graph(relaxation.model)

    def _is_labelling(self, x: Array) -> bool:
        """Tell whether x is a labelling in a local polytope, which all inequalities hold for."""
        return isinstance(self.relaxation, LocalPolytope) and bool(((x == 0.0) | (x == 1.0)).all())

    def nearby(self, x: Array) -> Array | None:
        """Return the best labelling known after rounding x, as a point; None without a rounding."""
        return None if self._rounding is None else self._rounding(x)
