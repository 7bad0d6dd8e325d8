"""Graphical models over discrete variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array, as_choice, as_count, as_positive, as_scalar

if TYPE_CHECKING:
    from cutplane.engine.driver import Callback
    from cutplane.graphical.k_best import KBestResult
    from cutplane.graphical.marginals import MinMarginals
    from cutplane.graphical.result import MAPResult
    from cutplane.graphical.sampling import LogPartitionBound


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

    def k_best(
        self, k: int, *, min_distance: int = 1, tol: float = 1e-6, time_limit: float | None = None
    ) -> KBestResult:
        r"""Return the k labellings of least energy, ascending, with a proof for each.

        .. math:: x^m \in \operatorname{argmin} \{ E(x) : |\{u : x_u \ne x^j_u\}| \ge d, \; j < m \}

        With d = 1, these are the k best labellings, by Lawler's partition [1]_: by elimination where its
        tables are small, also after states that are in none of the k best have been ruled out; else by `map`
        on one part after the other, in the order of bounds from messages. With d > 1, they are diverse by a
        greedy rule, which is the definition above: prices of the states taken before [2]_, then `map` on a
        model with variables that count the differences.

        Parameters
        ----------
        k : int
            At least 1; there may be fewer labellings.
        min_distance : int, default 1
            d, the number of variables in which labellings differ at least.
        tol : float, default 1e-6
            The relative gap (energy - bound) / abs(energy) at which a labelling counts as proven. With
            elimination, they are proven up to the rounding errors of sums.
        time_limit : float, optional
            Seconds. Without, a model that `map` does not solve takes as long as `map` does. With d > 1, a gap
            often remains where tables of elimination are not small, and the status is STALLED.

        Returns
        -------
        KBestResult
            ``labellings``, ``energies``, ``bounds``, ``statuses``. Ctrl-C and `time_limit` return what is
            proven, and the best labellings found besides.

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

        Elimination computes all of them by messages to the roots of a tree of cliques and back [1]_. Where
        its tables are too large, lower bounds follow from the messages of sweeps [2]_, and upper bounds from
        the best labelling with one state changed and, in models of moderate size, a local search after that.

        States whose lower bound is above the best energy are in no labelling of least energy: ``excluded``
        tells them, and ``fixed`` the variables that have only one state left.

        Parameters
        ----------
        method : {"auto", "elimination", "sweeps"}, default "auto"
            "auto": elimination if tables of 2^23 entries together suffice, else sweeps.
        start : MAPResult, optional
            A result of `map` on this model, whose messages and labelling are the start of the sweeps; by
            default `map` is called.
        time_limit : float, optional
            Seconds; what is known then is returned.

        Returns
        -------
        MinMarginals
            ``lower``, ``upper``, ``is_exact``, ``excluded``, ``fixed``, ``labelling``, ``energy``. Ctrl-C
            during sweeps returns what is known.

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

        exact up to rounding errors; -inf if no labelling has finite energy. Divide all energies by a
        temperature beforehand if there is one.

        Parameters
        ----------
        max_entries : int, default 2**23
            Entries of all tables together, 8 bytes each.

        Raises
        ------
        InvalidInputError
            If the tables would be larger; `log_partition_bound` does without.

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
        side is the bound. The mean of `n_samples` maxima estimates it without bias, and may by chance be
        below the logarithm: take some standard errors on top. Where a maximum is not found to the tolerance,
        the certified bound from above takes its place.

        Parameters
        ----------
        n_samples : int, default 100
        seed : int or Generator, default 0
            Of the random numbers, as for `numpy.random.default_rng`.
        tol : float, default 1e-6
            The relative gap of each inference, as for `map`. A larger one is faster, and the bound looser.
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

        by elimination: messages sum over one variable after the other, and variables are drawn on the way
        back, each given those before it (Dawid 1992, doi:10.1007/BF01890546).
        There is no approximate sampler for larger tables: perturbed MAP inference draws by a distribution of
        its own, see ``log_partition_bound(...).labellings``.

        Parameters
        ----------
        n : int, default 1
            Number of labellings, at least 1.
        seed : int or Generator, default 0
            Of the random numbers, as for `numpy.random.default_rng`.
        max_entries : int, default 2**23
            Entries of all tables together, 8 bytes each.

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
