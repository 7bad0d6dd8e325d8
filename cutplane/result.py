"""Results of solves: points, bounds, the reason of the end, and the proof."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutplane.engine.history import History
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.html import table
from cutplane.pieces.validation import Array
from cutplane.proof.certificate import Certificate, Verification
from cutplane.status import Status, relative_gap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cutplane.engine.declaration import Declaration
    from cutplane.report.explore import Explorer

_NOTICED = 0.1
"""Seconds of compilation from which they are shown, because less is not noticed."""


@dataclass(frozen=True, eq=False, repr=False)
class BaseResult:
    """The result of a solve; results of special problems have further attributes.

    Attributes
    ----------
    status : Status
        OPTIMAL only if the certified gap is within the tolerance; ``status.remedy`` is advice in words.
    reason : str
        Why the solve ended, in words.
    history : History
        The record of every iteration.
    method : str
        The method, also when it was chosen automatically.
    x : ndarray or None
        The best point; results of special problems have a second name for it.
    objective, lower_bound : float
        The objective at x, and a certified lower bound of the objective over all feasible points.
    certificate : Certificate
        ``certificate.verify()`` recomputes both.
    """

    status: Status
    reason: str
    history: History
    method: str

    if TYPE_CHECKING:

        @property
        def x(self) -> Any:
            """The best point."""

        @property
        def objective(self) -> float:  # pyright: ignore[reportReturnType]
            """The objective at x."""

        @property
        def lower_bound(self) -> float:  # pyright: ignore[reportReturnType]
            """The certified lower bound."""

    @property
    def gap(self) -> float:
        """The relative gap, (objective - lower_bound) / max(1e-12, |objective|)."""
        return relative_gap(self.lower_bound, self.objective)

    @property
    def gap_abs(self) -> float:
        """The absolute gap, objective - lower_bound."""
        return max(0.0, self.objective - self.lower_bound)

    @property
    def n_iter(self) -> int:
        """Number of iterations after the first point."""
        return max(0, len(self.history) - 1)

    @property
    def oracle_calls(self) -> int:
        """Number of queries of the oracle."""
        return self.history[-1].oracle_calls if len(self.history) else 0

    def save(self, path: str | Path) -> Path:
        """Write the result to ``path``, with ``.npz`` appended if it is missing, and return the path.

        `cutplane.load` reads it in any process. Results of special problems contain objects, for example
        learners, and are pickled; `load` reads them only with ``trusted=True``.
        """
        from cutplane.engine.storage import save_objects

        return save_objects(self, path)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot both bounds over the iterations into `ax` or new axes, and return them (extra ``plot``)."""
        from cutplane.report.plotting import plot_bounds

        return plot_bounds(self.history, ax=ax)

    def _facts(self) -> dict[str, Any]:
        """Return the entries of `repr` after status and reason."""
        raise NotImplementedError

    @property
    def _remedy(self) -> str:
        return "" if self.status is Status.OPTIMAL else self.status.remedy

    def _seconds(self, oracle: str = "oracle") -> dict[str, str]:
        if not len(self.history):
            return {}
        times = (self.history.column(name).sum() for name in ("oracle_seconds", "master_seconds"))
        parts = ", ".join(
            f"{name} {time:.3g}" for name, time in zip((oracle, "master"), times, strict=True) if time
        )
        last = self.history[-1]
        compiled = f", after {last.compiled:.2g} of compiling" if last.compiled > _NOTICED else ""
        return {"seconds": f"{last.elapsed:.3g}" + (f" ({parts})" if parts else "") + compiled}

    def _shown(self) -> dict[str, Any]:
        facts = {"status": str(self.status), "reason": self.reason} | self._facts()
        return facts | ({"what to do": self._remedy} if self._remedy else {})

    def __repr__(self) -> str:
        lines = [f"  {name:<12} {value}" for name, value in self._shown().items()]
        return "\n".join([type(self).__name__, *lines])

    def _repr_html_(self) -> str:
        return table(self._shown()) + self.history.sparkline


@dataclass(frozen=True)
class SpecialCertificate:
    """The proof of the result of a special problem, which the result itself contains."""

    result: Any

    def verify(self, *arguments: Any, **options: Any) -> Verification:
        """Recompute both bounds; see `verify` of the result."""
        return self.result.verify(*arguments, **options)


@dataclass(frozen=True, eq=False, repr=False)
class Result(BaseResult):
    """The best point, both bounds, the reason why the solve ended, and the proof.

    Attributes
    ----------
    x : ndarray of shape (dim,) or None
        The best feasible point found, read-only; None if there was none.
    objective : float
        f(x) + g(x): the upper bound. inf if x is None.
    lower_bound : float
        A certified bound: no feasible point has a smaller objective.
    gap, gap_abs : float
        (objective - lower_bound) / max(1e-12 s, |objective|), where s is 1 or the largest objective of the
        solve if that is smaller; and objective - lower_bound.
    certificate : Certificate
        Cuts, multipliers and points; ``certificate.verify()`` recomputes both bounds from the oracles.
    backend : str
        The solver of the reduced problems, also when it was chosen automatically.
    status, reason, n_iter, history, method, oracle_calls, max_cuts
        How the solve ended, and its record.
    """

    certificate: Certificate
    backend: str
    max_cuts: int | None = None

    @property
    def x(self) -> Array | None:
        """The best feasible point."""
        return self.certificate.x

    @property
    def objective(self) -> float:
        """The objective at x."""
        return self.certificate.upper_bound

    @property
    def lower_bound(self) -> float:
        """The certified lower bound."""
        return self.certificate.lower_bound

    @property
    def primal(self) -> Any:
        """The average of the oracle's solutions, weighted by the multipliers of the lower bound.

        An oracle may return its solution as a third value, ``value, subgradient, solution``; with several
        blocks, a sequence of solutions. For example, the solutions of the subproblems of a Lagrangian dual
        are the columns of a Dantzig-Wolfe master, and their average satisfies the coupling constraints.
        Solutions are arrays, sparse arrays, numbers, tuples of these, or objects with ``a + b`` and ``a *
        number``. With several blocks there is an average for each block; None if the oracle returned no
        solution. If there is no lower bound, the weights are the multipliers of the last reduced problem; if
        there are none, the last solution is returned.
        """
        return self.certificate.primal

    @property
    def gap(self) -> float:
        return relative_gap(self.lower_bound, self.objective, self.certificate.scale)

    def value(self, expression: Any, problem: Declaration | None = None) -> Any:
        """Return the value at x of a cvxpy variable of the problem, or of an expression in such variables.

        Parameters
        ----------
        expression : cvxpy.Expression
            In the variables of a `CvxpyRisk`, a `CvxpyRegularizer` or a `CvxpySet` of the problem.
        problem : Problem, optional
            Needed for a result that was loaded from a file.

        Raises
        ------
        InvalidInputError
            If the expression has other variables, no feasible point was found, or there is no problem.

        Examples
        --------
        >>> import cvxpy as cp, cutplane as cut
        >>> w, s = cp.Variable((2, 2), name="W"), cp.Variable(name="s")
        >>> risk = cut.CvxpyRisk(cp.sum_squares(w - s) + cp.abs(s - 1), [w, s])
        >>> result = cut.Problem(risk, cut.L2(1e-3)).solve(tol=1e-6)
        >>> result.value(w).shape, bool(abs(result.value(cp.sum(w) - 4 * s)) < 0.1)
        ((2, 2), True)
        """
        from cutplane.pieces.cvxpy_tools import value_at

        problem = self.certificate.problem if problem is None else problem
        if problem is None or self.x is None:
            missing = "the problem, which a file does not hold" if problem is None else "a feasible point"
            raise InvalidInputError(f"The value of an expression needs {missing}.")
        pieces = (problem.risk, problem.regularizer, problem.feasible_set)
        return value_at(expression, [piece.cvxpy_variables for piece in pieces], self.x)

    def save(self, path: str | Path) -> Path:
        """Write cuts, bounds, points and history to the file ``path``; see `BaseResult.save`.

        Solutions of the oracle are written if they are numbers or arrays; sparse arrays become dense.
        """
        from cutplane.engine.storage import save

        return save(self, path)

    def explore(self, along: Any = None, region: Any = None) -> Explorer:
        """Return a picture of the run to step through: cuts, model and bounds, in their order.

        A result stores only the last multipliers and points; `cutplane.explore` runs a method and shows all
        of them.

        ``along`` and ``region`` are as in `cutplane.explore`. A result that was loaded from a file raises
        `InvalidInputError`, because files do not hold the problem.

        Examples
        --------
        >>> import numpy as np, cutplane as cut
        >>> X, y = np.array([[2.0], [-2.0]]), np.array([1.0, -1.0])
        >>> result = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(1.0)).solve(cut.BMRM())
        >>> result.explore().frames
        2
        """
        from cutplane.report.explore import explore_result

        return explore_result(self, along, region)

    @property
    def n_bytes(self) -> int:
        """The number of bytes of the bundle: cuts and query points."""
        return self.certificate.n_bytes

    def _facts(self) -> dict[str, Any]:
        return {
            "objective": f"{self.objective:.10g}",
            "lower bound": f"{self.lower_bound:.10g}",
            "gap": f"{self.gap:.3g}",
            "iterations": f"{self.n_iter} ({self.oracle_calls} oracle calls)",
            "method": self.method,
            "backend": self.backend,
            "bundle": f"{len(self.certificate.offsets)} cuts, {self.n_bytes / 1e6:.3g} MB",
            **self._seconds(),
        }
