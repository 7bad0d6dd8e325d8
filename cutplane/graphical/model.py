"""Graphical models over discrete variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array, as_choice, as_count, as_positive, as_scalar

if TYPE_CHECKING:
    from cutplane.engine.driver import Callback
    from cutplane.graphical.k_best import KBestResult
    from cutplane.graphical.marginals import MinMarginals
    from cutplane.graphical.result import MAPResult
    from cutplane.graphical.sampling import LogPartitionBound


class GraphicalModel(FactorGraph):
    r"""An energy of discrete variables: a sum of tables, each over a few of the variables.

    .. math:: E(x) = \theta_0 + \sum_u \theta_u(x_u) + \sum_A \theta_A(x_A), \quad x_u \in \{0, ..., k_u - 1\}

    The table of a factor contains energies. An entry +inf forbids its states (a hard constraint).

    A model is immutable, and its arrays are read-only. Factors over the same variables are added into one
    table, rounded down; `energy` is still the exact sum of the given tables.

    Parameters
    ----------
    cardinalities : array_like of int, shape (n_variables,)
        Number of states of each variable, at least 1.
    factors : iterable of (variables, table)
        ``variables`` are distinct numbers of variables; the shape of ``table`` is their cardinalities, in the
        same order. A factor ``((), number)`` adds to the constant. Factors that are given the same object as
        table share its memory.
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
        The table of factor a, in C order, begins at ``tables[table_starts[a]]``. Factors may share a table.

    Raises
    ------
    InvalidInputError
        If the shape of a table is not the cardinalities of its variables, or it contains NaN or -inf; if a
        factor contains a variable twice or a variable that does not exist; if a sum of energies may overflow.

    Examples
    --------
    Equal neighbours cost 1. In a cycle of three variables with two states, two neighbours are always equal:

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
        tol_abs: float = 0.0,
        max_iter: int = 100_000,
        time_limit: float | None = None,
        labelling: Any = None,
        start: MAPResult | None = None,
        callback: Callback | None = None,
        progress: bool = False,
        log: bool = False,
    ) -> MAPResult:
        r"""Return a labelling of least energy, or the best one found and a lower bound of the least energy.

        .. math:: \min_x E(x) \ge \min_{\mu \in M} \langle \theta, \mu \rangle

        for every set M that contains the marginals of all labellings. M is the local polytope at first;
        cutting planes shrink it towards the smallest such set, the marginal polytope.

        Parameters
        ----------
        method : {"auto", "primal", "dual", "elimination", "search"}, default "auto"
            "primal": the linear programme over the local polytope, with cuts and branching. "dual":
            sequential message passing; its cutting planes are clusters of variables that are added to the
            model. "elimination": exact, by dynamic programming. "search": exact, by branch and bound after
            message passing. "auto": elimination if small tables suffice; otherwise a local search and message
            passing, and then branch and bound, cutting planes and local search in turns, which share bounds
            and labellings. The result at a time limit may differ from run to run, because turns are measured
            in seconds. Branch and bound runs on `get_threads` threads; with more than one, its number of
            nodes, and which labelling of the least energy it finds, may differ from run to run.
        tighten : bool, default True
            Whether to tighten the local polytope, by cycle inequalities and clusters, and with "auto" to
            close the remaining gap by branch and bound.
        tol : float, default 1e-6
            The relative gap (energy - bound) / abs(energy) at which the status is OPTIMAL. With 0, energy and
            bound must be equal up to the rounding errors of their sums.
        tol_abs : float, default 0
            The absolute gap, energy - bound, at which the status is OPTIMAL too; with inf, the run ends at
            the first finite bound.
        max_iter : int, default 100 000
            Total number of iterations of all methods, for example rounds of cuts or of sweeps.
        time_limit : float, optional
            Seconds after which every stage stops, and the best labelling and bound so far are returned.
        labelling : array_like of int, shape (n_variables,), optional
            A start, for example the best labelling of a similar model.
        start : MAPResult, optional
            A result for a model with other costs of the same variables and factors, see `with_costs`. The
            local search and sweeps start from its labelling and its messages.
        callback : callable, optional
            Called with the `State` after each iteration; ``state.x`` is the best labelling so far. The run
            stops if it returns True.
        progress, log : bool, default False
            Show a live display (needs the extra ``progress``); print a line per iteration.

        Returns
        -------
        MAPResult
            ``labelling``, ``energy``, ``bound``, ``gap``, ``status``. Ctrl-C returns the best result so far.

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

        limits = tol, as_scalar("tol_abs", tol_abs, low=0.0, infinite=True), max_iter, time_limit
        return solve_map(self, method, tighten, *limits, labelling, start, callback, progress, log)

    def complete(self, labelling: Any) -> Array:
        r"""Extend a labelling of the first variables to all variables, with the least energy.

        .. math:: \min_x E(x) \quad \text{subject to } (x_0, ..., x_{k-1}) = \text{labelling}

        For example, `read_wcsp` appends auxiliary variables for cost functions that a file defines by
        keywords. The minimum is computed by `map` with its default parameters, which is exact for auxiliary
        variables.

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
            If `labelling` is not a vector of states of the first variables.

        Examples
        --------
        >>> from cutplane.graphical import GraphicalModel
        >>> model = GraphicalModel([2, 2, 2], [((0, 1), [[1, 0], [0, 1]]), ((1, 2), [[1, 0], [0, 1]])])
        >>> model.complete([1]).tolist()
        [1, 0, 1]
        """
        given = np.asarray(labelling)
        if given.ndim != 1 or given.size > self.n_variables:
            raise InvalidInputError(
                f"labelling must have the states of the first variables, at most {self.n_variables}, got "
                f"{labelling!r}."
            )
        states = dict(enumerate(given.tolist()))
        best = self.condition(states).map().labelling
        complete = np.zeros(self.n_variables, dtype=np.int64) if best is None else np.array(best)
        complete[: len(states)] = list(states.values())
        return complete

    def k_best(
        self, k: int, *, min_distance: int = 1, tol: float = 1e-6, time_limit: float | None = None
    ) -> KBestResult:
        r"""Return the k labellings of least energy, ascending, with a proof for each.

        .. math:: E(x^{(m)}) = \min \{ E(x) : |\{u : x_u \ne x^{(j)}_u\}| \ge d, \; j < m \}

        With d = 1, these are the k best labellings, by Lawler's partition of the labellings [1]_. If the
        tables of elimination are small, possibly after excluding states that are in none of the k best
        labellings, elimination solves all parts; otherwise `map` solves the parts in the order of bounds from
        messages. With d > 1, the formula is a greedy rule for diverse labellings. First the energy is
        minimised with prices on the states of previous labellings [2]_; then `map` solves a model with
        additional variables, which count the differences.

        Parameters
        ----------
        k : int
            Number of labellings, at least 1; fewer are returned if there are no more.
        min_distance : int, default 1
            d, the least number of variables in which two of the labellings differ.
        tol : float, default 1e-6
            The relative gap (energy - bound) / abs(energy) at which a labelling counts as proven. With
            elimination, labellings are optimal up to the rounding errors of sums.
        time_limit : float, optional
            Seconds. Without a limit, `map` runs on a hard model until it stops by itself. With d > 1, a gap
            often remains if the tables of elimination are not small; the status is then STALLED.

        Returns
        -------
        KBestResult
            ``labellings``, ``energies``, ``bounds``, ``statuses``. Ctrl-C and `time_limit` return the proven
            labellings, followed by the best others found.

        Raises
        ------
        InvalidInputError
            If a parameter is out of range.

        References
        ----------
        .. [1] E. L. Lawler, "A procedure for computing the K best solutions to discrete optimization problems
           and its application to the shortest path problem", Management Science 18(7), 1972,
           doi:10.1287/mnsc.18.7.401.
        .. [2] D. Batra, P. Yadollahpour, A. Guzman-Rivera, G. Shakhnarovich, "Diverse M-best solutions in
           Markov random fields", ECCV 2012, doi:10.1007/978-3-642-33715-4_1.

        Examples
        --------
        >>> from cutplane.graphical import chain
        >>> model = chain([[0, 2], [1, 2], [2, 0.5]], [[0, 3], [3, 0]])
        >>> best = model.k_best(3)
        >>> best.labellings.tolist(), best.energies.tolist()
        ([[0, 0, 0], [1, 1, 1], [0, 0, 1]], [3.0, 4.5, 4.5])
        >>> model.k_best(3, min_distance=2).labellings.tolist()
        [[0, 0, 0], [1, 1, 1]]
        """
        from cutplane.graphical.k_best import k_best

        k, distance = as_count("k", k), as_count("min_distance", min_distance)
        limit = None if time_limit is None else as_positive("time_limit", time_limit)
        return k_best(self, k, distance, as_scalar("tol", tol, low=0.0), limit)

    def min_marginals(
        self,
        method: str = "auto",
        *,
        start: MAPResult | None = None,
        time_limit: float | None = None,
    ) -> MinMarginals:
        r"""Return the least energy with each state of each variable, or certified bounds of it.

        .. math:: \min \{ E(x) : x_u = s \}

        Elimination computes all of them exactly, by messages to the roots of a clique tree and back [1]_. If
        its tables are too large, lower bounds follow from the messages of sweeps [2]_. Upper bounds are then
        energies of the best labelling with one state changed; in models of moderate size, local search
        improves them.

        A state whose lower bound is above the best energy is in no labelling of least energy. ``excluded``
        marks these states, and ``fixed`` has the state of each variable whose other states are all excluded.

        Parameters
        ----------
        method : {"auto", "elimination", "sweeps"}, default "auto"
            "auto": elimination if its tables have at most 2^23 entries in total, otherwise sweeps.
        start : MAPResult, optional
            A result of `map` on this model. The sweeps start from its messages and its labelling. By default
            `map` is called.
        time_limit : float, optional
            Seconds after which the bounds so far are returned.

        Returns
        -------
        MinMarginals
            ``lower``, ``upper``, ``is_exact``, ``excluded``, ``fixed``, ``labelling``, ``energy``. Ctrl-C
            during sweeps returns the bounds so far.

        Raises
        ------
        InvalidInputError
            If a parameter is out of range; with "elimination", if the tables would be too large.

        References
        ----------
        .. [1] A. P. Dawid, "Applications of a general propagation algorithm for probabilistic expert
           systems", Statistics and Computing 2, 1992, doi:10.1007/BF01890546.
        .. [2] V. Kolmogorov, "A new look at reweighted message passing", IEEE TPAMI 37(5), 2015,
           doi:10.1109/TPAMI.2014.2363465.

        Examples
        --------
        >>> from cutplane.graphical import chain
        >>> marginals = chain([[0, 2], [1, 1], [2, 0.5]], [[0, 3], [3, 0]]).min_marginals()
        >>> [marginals.of(u)[1].round(6).tolist() for u in range(3)]
        [[3.0, 3.5], [3.0, 3.5], [3.0, 3.5]]
        >>> marginals.fixed.tolist()
        [0, 0, 0]
        """
        from cutplane.graphical.marginals import METHODS, min_marginals

        limit = None if time_limit is None else as_positive("time_limit", time_limit)
        return min_marginals(self, as_choice("method", method, METHODS), start, limit)

    def log_partition(self, *, max_entries: int = 2**23) -> float:
        r"""Return the logarithm of the partition function, by elimination.

        .. math:: \log Z = \log \sum_x \exp(-E(x))

        It is exact up to rounding errors, and -inf if no labelling has finite energy. For a temperature other
        than 1, divide all energies by the temperature first.

        Parameters
        ----------
        max_entries : int, default 2**23
            Largest total number of entries of all tables, 8 bytes each.

        Raises
        ------
        InvalidInputError
            If the tables would be larger; use `log_partition_bound`, which needs no such tables.

        Examples
        --------
        >>> from cutplane.graphical import GraphicalModel
        >>> round(GraphicalModel([2, 2, 2]).log_partition(), 6)  # log 8
        2.079442
        """
        from cutplane.graphical.sampling import log_partition

        return log_partition(self, as_count("max_entries", max_entries))

    def log_partition_bound(
        self, n_samples: int = 100, *, seed: Any = 0, tol: float = 1e-6, time_limit: float | None = None
    ) -> LogPartitionBound:
        r"""Estimate an upper bound of the logarithm of the partition function by perturbed MAP inference.

        .. math:: \log \sum_x e^{-E(x)} \le \mathbb{E}_\gamma \max_x \Bigl( \sum_u \gamma_u(x_u) - E(x) \Bigr)

        for independent :math:`\gamma_u(s)` of the Gumbel distribution with mean zero [1]_. The right-hand
        side is the bound. The mean of `n_samples` maxima is an unbiased estimate of the bound. It may be
        below log Z by chance: add some standard errors, for example three. If a maximum is not computed to
        the tolerance, its certified upper bound replaces it.

        Parameters
        ----------
        n_samples : int, default 100
        seed : int or Generator, default 0
            Seed of the random numbers, as for `numpy.random.default_rng`.
        tol : float, default 1e-6
            The relative gap of each inference, as for `map`. A larger one is faster and gives a looser bound.
        time_limit : float, optional
            Seconds for all samples together.

        Returns
        -------
        LogPartitionBound
            ``value``, ``standard_error``, ``samples``, and the ``labellings`` that attain the maxima
            ("perturb and MAP" [2]_). Ctrl-C and `time_limit` return the samples so far.

        Raises
        ------
        InvalidInputError
            If a parameter is out of range.

        References
        ----------
        .. [1] T. Hazan, T. Jaakkola, "On the partition function and random maximum a-posteriori
           perturbations", ICML 2012, arXiv:1206.6410.
        .. [2] G. Papandreou, A. Yuille, "Perturb-and-MAP random fields: using discrete optimization to learn
           and sample from energy models", ICCV 2011, doi:10.1109/ICCV.2011.6126242.

        Examples
        --------
        >>> from cutplane.graphical import spin_glass
        >>> model = spin_glass(4, 4, field=0.5)
        >>> bound = model.log_partition_bound(200, seed=0)
        >>> model.log_partition() < bound.value + 3 * bound.standard_error
        True
        """
        from cutplane.graphical.sampling import log_partition_bound

        limit = None if time_limit is None else as_positive("time_limit", time_limit)
        n_samples, tol = as_count("n_samples", n_samples), as_scalar("tol", tol, low=0.0)
        return log_partition_bound(self, n_samples, seed, tol, limit)

    def sample(self, n: int = 1, *, seed: Any = 0, max_entries: int = 2**23) -> Array:
        r"""Return independent labellings, drawn exactly from the Gibbs distribution.

        .. math:: p(x) = \exp(-E(x)) / Z

        Messages sum over one variable after the other (elimination). Then the variables are drawn in reverse
        order, each given the states drawn before (Dawid 1992, doi:10.1007/BF01890546). There is no
        approximate sampler for larger tables: ``log_partition_bound(...).labellings``, by perturbed MAP
        inference, have a different distribution.

        Parameters
        ----------
        n : int, default 1
            Number of labellings, at least 1.
        seed : int or Generator, default 0
            Seed of the random numbers, as for `numpy.random.default_rng`.
        max_entries : int, default 2**23
            Largest total number of entries of all tables, 8 bytes each.

        Returns
        -------
        ndarray of int, shape (n, n_variables)

        Raises
        ------
        InvalidInputError
            If the tables would be larger, or if no labelling has finite energy.

        Examples
        --------
        Two variables that agree with odds of 3 to 1:

        >>> import numpy as np
        >>> from cutplane.graphical import GraphicalModel
        >>> model = GraphicalModel([2, 2], [((0, 1), np.log(3) * (1 - np.eye(2)))])
        >>> x = model.sample(10_000)
        >>> bool(abs((x[:, 0] == x[:, 1]).mean() - 0.75) < 0.02)
        True
        """
        from cutplane.graphical.sampling import sample

        return sample(self, as_count("n", n), seed, as_count("max_entries", max_entries))
