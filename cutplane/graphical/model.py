"""Graphical models over discrete variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.driver import Callback
    from cutplane.graphical.result import MAPResult


class GraphicalModel(FactorGraph):
    r"""An energy of discrete variables that is a sum of functions of a few of them each.

    .. math:: E(x) = \theta_0 + \sum_u \theta_u(x_u) + \sum_A \theta_A(x_A), \quad x_u \in \{0, ..., k_u - 1\}

    The table of a factor holds energies; +inf forbids the states at that place (a hard constraint).

    A model does not change, and its arrays are read-only. Factors on the same set of variables are summed:
    their table is the sum rounded down, and `energy` is exact for the tables that were given.

    Parameters
    ----------
    cardinalities : array_like of int, shape (n_variables,)
        Number of states of each variable, at least 1.
    factors : iterable of (variables, table)
        ``variables`` are distinct numbers of variables; the shape of ``table`` is their cardinalities, in the
        same order. No variables and a number add to the constant.
    constant : float, default 0
        :math:`\theta_0`.

    Attributes
    ----------
    unary_starts : ndarray of shape (n_variables + 1,)
        The unary costs of u are ``unaries[unary_starts[u]:unary_starts[u + 1]]``.
    unaries : ndarray
    scope_starts, scopes : ndarray
        The variables of factor a (of arity >= 2), ascending, are
        ``scopes[scope_starts[a]:scope_starts[a + 1]]``.
    table_starts, tables : ndarray
        Where its table begins in `tables`, in C order. Factors may share a table.

    Raises
    ------
    InvalidInputError
        If a table does not fit its variables, contains NaN or -inf, or names a variable twice or one that
        there is not; if a sum of energies may be too large for a float.

    Examples
    --------
    A cycle of three variables that all want to differ has no labelling without a cost:

    >>> from cutplane.graphical import GraphicalModel
    >>> differ = [[1, 0], [0, 1]]
    >>> model = GraphicalModel([2, 2, 2], [((0, 1), differ), ((1, 2), differ), ((0, 2), differ)])
    >>> model.energy([0, 1, 0]), model.brute_force()[1]
    (1.0, 1.0)
    """

    def map(
        self,
        method: str = "auto",
        *,
        tighten: bool = True,
        tol: float = 1e-6,
        max_iter: int = 100_000,
        time_limit: float | None = None,
        labelling: Any = None,
        callback: Callback | None = None,
        progress: bool = False,
        log: bool = False,
    ) -> MAPResult:
        r"""Return a labelling of least energy, or the best one found and a bound on how far it is from that.

        .. math:: \min_x E(x) \ge \min_{\mu \in M} \langle \theta, \mu \rangle

        for every set M of marginals that contains those of all labellings. The local polytope is the first;
        cutting planes bring it closer to the smallest, the marginal polytope.

        Parameters
        ----------
        method : {"auto", "primal", "dual", "elimination", "search"}, default "auto"
            "primal": the linear programme over the local polytope, with cycle inequalities. "dual":
            sequential sweeps of messages, with clusters added to the model, which are cutting planes of the
            dual. "elimination": exact, by dynamic programming. "search": exact, by branch and bound after
            sweeps. "auto": elimination if small tables suffice, then a local search and sweeps, then search,
            cutting planes and local search in turns that share bounds and labellings. Turns are measured in
            seconds, so that a labelling found at a time limit may differ from run to run.
        tighten : bool, default True
            Whether to go beyond the local polytope: cycle inequalities, clusters, and with "auto" a search
            for what these leave open.
        tol : float, default 1e-6
            The relative gap (energy - bound) / abs(energy) at which the status is OPTIMAL. With 0, energy and
            bound must be equal up to the rounding errors of their sums.
        max_iter : int, default 100 000
            Iterations of all methods together: rounds of cuts or of sweeps.
        time_limit : float, optional
            Seconds; each stage is cut short, and the best labelling and bound so far are returned.
        labelling : array_like of int, shape (n_variables,), optional
            A good one, if known.
        callback : callable, optional
            Called with the `State` after each iteration, whose x is the best labelling; stops the run by
            returning True.
        progress, log : bool, default False
            Show a progress display (needs the extra ``progress``), print a line per iteration.

        Returns
        -------
        MAPResult
            ``labelling``, ``energy``, ``bound``, ``gap``, ``status``. Ctrl-C returns the best so far.

        Raises
        ------
        InvalidInputError
            If a parameter is out of range; with "elimination", if the tables would be too large.

        References
        ----------
        .. [1] T. Werner, "Revisiting the linear programming relaxation approach to Gibbs energy minimization
           and weighted constraint satisfaction", IEEE TPAMI 32(8), 2010, doi:10.1109/TPAMI.2009.134.
        .. [2] D. Sontag, T. Meltzer, A. Globerson, T. Jaakkola, Y. Weiss, "Tightening LP relaxations for MAP
           using message passing", UAI 2008, arXiv:1206.3288.

        Examples
        --------
        >>> from cutplane.graphical import spin_glass
        >>> result = spin_glass(8, 8, seed=1).map()
        >>> print(result.status, round(result.energy, 4), result.gap < 1e-6)
        OPTIMAL -41.3852 True
        """
        from cutplane.graphical.map import solve_map

        return solve_map(self, method, tighten, tol, max_iter, time_limit, labelling, callback, progress, log)

    def complete(self, labelling: Any) -> Array:
        r"""Extend a labelling of the first variables to all variables, with the least energy.

        .. math:: \min_x E(x) \quad \text{subject to } (x_0, ..., x_{k-1}) = \text{labelling}

        For example, cost functions of a file by keywords have auxiliary variables after those of the file.

        Parameters
        ----------
        labelling : array_like of int, shape (k,)
            States of the variables 0 to k - 1.

        Returns
        -------
        ndarray of int, shape (n_variables,)
            The other states are 0 if all extensions have the energy +inf.

        Raises
        ------
        InvalidInputError
            If there are more states than variables, or there is no such state.

        Examples
        --------
        >>> from cutplane.graphical import GraphicalModel
        >>> model = GraphicalModel([2, 2, 2], [((0, 1), [[1, 0], [0, 1]]), ((1, 2), [[1, 0], [0, 1]])])
        >>> model.complete([1]).tolist()
        [1, 0, 1]
        """
        states = dict(enumerate(np.asarray(labelling).tolist()))
        best = self.condition(states).map().labelling
        complete = np.zeros(self.n_variables, dtype=np.int64) if best is None else np.array(best)
        complete[: len(states)] = list(states.values())
        return complete
