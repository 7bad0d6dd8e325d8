"""`Problem`: the declaration of a problem, and the methods that solve it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

from cutplane.engine.declaration import Declaration
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.cvxpy_tools import assign
from cutplane.pieces.validation import Array, as_count, as_vector
from cutplane.stopping import StoppingRule, stopping_rules

if TYPE_CHECKING:
    from cutplane.engine.driver import Callback, Driver
    from cutplane.engine.path import ExactPath, Path
    from cutplane.masters.base import MasterKind
    from cutplane.masters.select import Backend
    from cutplane.methods.base import Method
    from cutplane.regularizers.base import Regularizer
    from cutplane.result import Result

_ELSEWHERE = {
    "eps": "tol",
    "iterations": "max_iter",
    "max_iters": "max_iter",
    "max_time": "time_limit",
    "maxiter": "max_iter",
    "solver": "backend, or method",
    "timeout": "time_limit",
    "tolerance": "tol",
    "verbose": "log, or progress",
}
"""Names of options in other libraries, and their names here."""


def refuse_options(unknown: Mapping[str, Any]) -> None:
    """Raise `TypeError` if there is an option that `solve` does not have."""
    for name in unknown:
        hint = f"; it is called {_ELSEWHERE[name]} here" if name in _ELSEWHERE else ""
        raise TypeError(f"Problem.solve has no option {name!r}{hint}.")


class Problem(Declaration):
    """minimise f(x) + g(x) subject to x in X.

    Parameters
    ----------
    risk : Risk
        f: convex, given by an oracle; defined on the simple part of X.
    regularizer : Regularizer, default NoRegularizer()
        g: convex and simple.
    feasible_set : FeasibleSet, default WholeSpace()
        X: a simple set, separation oracles, or their intersection.

    Raises
    ------
    InvalidInputError
        If a piece is of the wrong kind or the dimensions do not agree.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> @cut.risk(dim=1)
    ... def distance_to_three(x):
    ...     return abs(x[0] - 3.0), np.sign(x - 3.0)
    >>> result = cut.Problem(distance_to_three, cut.L2(0.5)).solve(tol=1e-9)
    >>> print(result.status, round(result.objective, 6), result.x.round(4))
    OPTIMAL 2.0 [2.]
    """

    def __repr__(self) -> str:
        return f"Problem({self.risk!r}, {self.regularizer!r}, {self.feasible_set!r})"

    def regularized_by(self, regularizer: Regularizer) -> Problem:
        """Return the problem with another regularizer."""
        return Problem(self.risk, regularizer, self.feasible_set)

    def formula(self) -> str:
        r"""Return the problem in LaTeX; pieces without a formula are shown by name.

        Examples
        --------
        >>> import numpy as np, cutplane as cut
        >>> print(cut.Problem(cut.LinearObjective(np.ones(3)), cut.L2(0.1), cut.Box(-1, 1)).formula())
        \min_{x \in \mathbb{R}^{3}} \; \langle c, x\rangle + \frac{0.1}{2} \lVert x \rVert_2^2
        \quad \text{subject to} \quad -1 \le x \le 1
        """
        terms = [self.risk.formula(), self.regularizer.formula() if self.regularizer.lam > 0.0 else ""]
        inside = self.feasible_set.formula()
        where = rf" \quad \text{{subject to}} \quad {inside}" if inside else ""
        return rf"\min_{{x \in \mathbb{{R}}^{{{self.dim}}}}} \; {' + '.join(filter(None, terms))}{where}"

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {self.formula()}$"

    def _repr_html_(self) -> str:
        import html

        from cutplane.pieces.html import table

        return f"<p>{html.escape(self._repr_latex_())}</p>" + table(
            {
                "minimise": "f(x) + g(x) subject to x in X",
                "f, the risk": self.risk,
                "g, the regularizer": self.regularizer,
                "X, the feasible set": self.feasible_set,
                "dimension": self.dim,
            }
        )

    def iterate(
        self,
        method: Method | str = "auto",
        backend: str | Backend | MasterKind = "auto",
        *,
        tol: float = 1e-4,
        tol_abs: float = 0.0,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        max_cuts: int | None = None,
        x0: Any = None,
        warm_start: Result | None = None,
        stop: StoppingRule | None = None,
        probes: bool = True,
        **unknown: Any,
    ) -> Driver[Result]:
        """Solve step by step: iterating over the returned object yields the `State` after each iteration.

        The parameters are as in `solve`; ``.result()`` of the returned object gives the result so far.

        Examples
        --------
        >>> import numpy as np, cutplane as cut
        >>> problem = cut.Problem(cut.LinearObjective(np.array([1.0, -2.0])), feasible_set=cut.Box(0, 1))
        >>> for step in problem.iterate(cut.Kelley()):
        ...     print(step.iteration, step.lower_bound, step.upper_bound)
        0 -inf 0.0
        1 -2.0 -2.0
        """
        from cutplane.engine.driver import Driver
        from cutplane.engine.method_process import MethodProcess
        from cutplane.engine.run import Run
        from cutplane.engine.standard import standardized
        from cutplane.masters.select import as_backend
        from cutplane.methods.auto import as_method
        from cutplane.runtime.clock import clock
        from cutplane.runtime.failures import memory_for

        refuse_options(unknown)
        began = clock()
        if max_cuts is not None:
            as_count("max_cuts", max_cuts, low=3 * self.risk.n_blocks + 1 + bool(self.separators))
        if warm_start is not None and not hasattr(warm_start, "certificate"):
            raise InvalidInputError(f"warm_start must be a Result of an earlier solve, got {warm_start!r}.")
        rules = stopping_rules(tol, tol_abs, max_iter, time_limit, stop)
        with memory_for("what precedes the first iteration"):
            x = None if x0 is None else as_vector("x0", x0, self.dim)
            problem, change = standardized(self) or (self, None)
            if change is not None:
                if warm_start is not None:
                    proof = change.certificate_inward(warm_start.certificate)
                    if proof is None and x is None and warm_start.x is not None:
                        # Only the point, because the cuts are in other variables and would be rounded.
                        x = as_vector("warm_start.x", warm_start.x, self.dim)
                    warm_start = None if proof is None else replace(warm_start, certificate=proof)
                x = None if x is None else change.inward(x)
            chosen = as_method(method, problem)
            run = Run(problem, chosen, as_backend(backend), max_cuts=max_cuts, tol=tol, tol_abs=tol_abs)
            process = MethodProcess(run, x, warm_start, probes, self, change)
        return Driver(process, rules, began)

    def solve(
        self,
        method: Method | str = "auto",
        backend: str | Backend | MasterKind = "auto",
        *,
        tol: float = 1e-4,
        tol_abs: float = 0.0,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        max_cuts: int | None = None,
        x0: Any = None,
        warm_start: Result | None = None,
        stop: StoppingRule | None = None,
        probes: bool = True,
        callback: Callback | None = None,
        progress: bool = False,
        log: bool = False,
        **unknown: Any,
    ) -> Result:
        """Minimise the objective, and prove a bound of the distance to the minimum.

        Parameters
        ----------
        method : Method or str, default "auto"
            `Kelley`, `BMRM`, `OCAS`, `ProximalBundle`, `LevelBundle`, `FrankWolfe`, `Direct`, ..., or the
            name of one, such as "direct", "proximal" or "ocas"; "auto" chooses by the pieces.
        backend : str, Backend or MasterKind, default "auto"
            The solver of the reduced problems: "simplex_qp", "highs", any installed cvxpy solver, or your
            class of masters (see `cutplane.masters.Master`); if it refuses or fails, other masters solve.
        tol : float, default 1e-4
            Relative certified gap at which the status is OPTIMAL.
        tol_abs : float, default 0
            Absolute certified gap at which the status is OPTIMAL.
        max_iter : int, default 10000
        time_limit : float, optional
            Seconds; tested after each iteration, between parts of a pass over the data, inside reduced
            problems and certificates, and while waiting for a cluster. The first point is always evaluated.
            Compilation does not count, because it happens only once per machine and version of the package. A
            routine whose compilation would end after the limit by the wall clock is interpreted.
        max_cuts : int, optional
            Largest number of cuts and half-spaces in memory, at least ``3 n_blocks + 1``, with separation
            oracles ``3 n_blocks + 2``. Old inactive ones are dropped, active ones are aggregated. Default: no
            limit.
        x0 : array_like of shape (dim,), optional
            First query; default: the point of X nearest to zero.
        warm_start : Result, optional
            A result for the same risk; its cuts are reused.
        stop : StoppingRule, optional
            A further rule, such as ``OracleCalls(100) | TargetReached(3.0)``.
        probes : bool, default True
            Whether a black box (``risk.black_box``) is queried a few more times before the status is OPTIMAL,
            to find mistakes in it: 1/20 of the calls, at least 4; the reason mentions them. Projections of
            users' sets and minima of users' regularizers are tested, too.
        callback : callable, optional
            Called with the `State` after each iteration; if it returns True, the solve ends with status
            INTERRUPTED.
        progress : bool, default False
            Show a live progress display (needs the extra ``progress``).
        log : bool, default False
            Print a line per iteration.

        Returns
        -------
        Result
            Also after Ctrl-C, with status INTERRUPTED and the best point so far. The cvxpy variables of the
            pieces have the values of its x.

        Raises
        ------
        MissingCapabilityError
            If the method or every backend needs a capability that a piece lacks; raised before the first
            iteration.
        TypeError
            If there is no such option; for an option of another library the message gives our name.
        OracleError
            If the first query fails, or if an oracle raises; ``error.result`` holds the best point so far.
        OutOfMemoryError
            If memory runs out; ``error.result`` holds the best point so far.
        """
        driver = self.iterate(
            method,
            backend,
            tol=tol,
            tol_abs=tol_abs,
            max_iter=max_iter,
            time_limit=time_limit,
            max_cuts=max_cuts,
            x0=x0,
            warm_start=warm_start,
            stop=stop,
            probes=probes,
            **unknown,
        )
        result = driver.run(callback, progress, log)
        if result.x is not None:
            for piece in (self.risk, self.regularizer, self.feasible_set):
                assign(piece.cvxpy_variables, result.x)
        return result

    @overload
    def path(
        self, lams: Sequence[float] | Array, *, exact: Literal[False] = False, **options: Any
    ) -> Path: ...
    @overload
    def path(self, lams: float | None = None, *, exact: Literal[True], **options: Any) -> ExactPath: ...
    def path(self, lams: Any = None, *, exact: bool = False, **options: Any) -> Path | ExactPath:
        """Solve for each weight of the regularizer and reuse every cut, or solve exactly for all weights.

        A linear model starts from the solution at the previous weight. It reuses the Gram matrix for losses
        without kinks, the multipliers for losses with kinks and `L2`, and the vertex for piecewise linear
        losses and an l1 norm. Each weight has a certificate.

        Parameters
        ----------
        lams : sequence of float
            Weights of the regularizer, solved in this order (from large to small is best). With `exact`, the
            last weight of the path, by default the weight of the regularizer.
        exact : bool, default False
            Whether to follow the solution as a function of the weight, from the least weight at which it is
            zero to the end, and find the knots of this piecewise linear function. The path is over the weight
            of an l1 norm for a piecewise quadratic loss (squares in the regularizer keep their weights; see
            `cutplane.linear.PathTracking`). Or it is over the weight of a squared norm, `L2` or the norm of a
            kernel machine, for a piecewise linear loss (see `cutplane.kernels.KernelPathTracking`).
        **options
            Passed to `solve`. With `exact`, only the options of `iterate`, ``callback``, ``progress`` and
            ``log`` exist.

        Returns
        -------
        Path or ExactPath
            The results, in the order of `lams`; or the solution at any weight, with ``path.knots``.

        Raises
        ------
        MissingCapabilityError
            If the path is not piecewise linear, or cannot be followed.

        Examples
        --------
        >>> import numpy as np, cutplane as cut
        >>> X, y = np.array([[2.0], [-2.0]]), np.array([1.0, -1.0])
        >>> problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(1.0))
        >>> path = problem.path([1.0, 0.1], tol=1e-9)
        >>> print(path.objectives.round(6))
        [0.125  0.0125]
        >>> problem = cut.Problem(cut.LinearRisk(np.eye(2), [1.0, 3.0], cut.losses.Squared()), cut.L1(0.25))
        >>> path = problem.path(exact=True)
        >>> path.knots.round(6).tolist(), path.events
        ([1.5, 0.5, 0.25], ('starts', 'joins 0', 'ends'))
        >>> path(1.0).round(6).tolist(), bool(path.gaps.max() < 1e-12)
        ([0.0, 1.0], True)
        """
        from cutplane.engine.path import follow, follow_exactly
        from cutplane.methods.auto import as_method, path_method

        if not exact:
            method = as_method(options.get("method", "auto"), self)
            return follow(self, () if lams is None else lams, method, options)
        method = options.pop("method", "auto")
        method = path_method(self) if method == "auto" else as_method(method, self)
        return follow_exactly(self, method, lams, options)
