"""The expected optimal value of a second stage as a function of the first stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from cutplane.decomposition.stage import Answer, LinearStage, SolvedStage, Stage
from cutplane.exceptions import InfeasibleError, InvalidInputError
from cutplane.pieces.validation import Array, as_count, as_vector
from cutplane.risks.base import Estimate, OnDemandRisk
from cutplane.sets.base import FeasibleSet, HalfSpace
from cutplane.sets.separation import SeparationOracle

_GROUPS = 20
"""Largest default number of blocks, because more cuts save queries but make reduced problems more
expensive."""


class ValueFunction(OnDemandRisk):
    r"""f(x) = sum_s p_s Q_s(x), where Q_s(x) is the optimal value of a convex programme for given x.

    .. math:: Q_s(x) = \min_y \{ h(x, y; \xi_s) : \text{constraints on } (x, y; \xi_s) \}

    This is the second stage of a stochastic programme, whose parameters :math:`\xi_s` have a value in each
    scenario. Dual points of the second stages give cuts, which a certificate stores. The cuts are valid for
    any accuracy of the solver, because they subtract its residuals.

    If no y is feasible, the dual of the least violation gives a half-space that separates x. `domain` is the
    set of all x with a feasible y in each scenario, given by this separation oracle; `Problem` intersects it
    with the feasible set. Cutting planes are then the L-shaped method [1]_, and a level or proximal term
    regularises it [2]_.

    Linear second stages are solved in one HiGHS model, which starts from the basis of the last scenario;
    others are solved by Clarabel.

    Parameters
    ----------
    problem : cvxpy.Problem
        A minimisation that is convex in all its variables by cvxpy's rules (DCP) for every scenario. If it
        also follows cvxpy's rules for parameters (DPP), it is set up much faster.
    variable : cvxpy.Variable
        The first-stage variable x, of any shape (flattened row by row), without attributes.
    scenarios : sequence of dict, default [{}]
        The values of the problem's parameters in each scenario.
    weights : array_like of shape (n_scenarios,), optional
        Probabilities, or any weights >= 0; by default all equal with sum 1.
    n_groups : int, optional
        Number of blocks, which are groups of scenarios with a common cut; by default the number of scenarios,
        at most 20.
    n_jobs : int, default 1
        Number of threads that solve scenarios in parallel.

    Attributes
    ----------
    dim : int
    stages : tuple of Stage
        The scenarios, as `LinearStage` or as cone programmes.

    Raises
    ------
    InvalidInputError
        If an argument is invalid.
    NotConvexError
        If the problem is not convex by cvxpy's rules.

    References
    ----------
    .. [1] R. M. Van Slyke, R. Wets, "L-shaped linear programs with applications to optimal control and
       stochastic programming", SIAM J. Appl. Math. 17(4), 1969, doi:10.1137/0117061.
    .. [2] A. Ruszczyński, "A regularized decomposition method for minimizing a sum of polyhedral functions",
       Math. Program. 35, 1986, doi:10.1007/BF01580883.

    Examples
    --------
    A newsvendor buys at 1 before the demand is known, and sells at 2.5.

    >>> import cvxpy as cp, numpy as np, cutplane as cut
    >>> stock, sold, demand = cp.Variable(1), cp.Variable(1), cp.Parameter(1)
    >>> evening = cp.Problem(cp.Minimize(-2.5 * cp.sum(sold)), [sold <= stock, sold <= demand, sold >= 0])
    >>> Q = cut.ValueFunction(evening, stock, scenarios=[{demand: [d]} for d in (1.0, 2.0, 4.0)])
    >>> result = cut.Problem(Q + cut.LinearObjective([1.0]), feasible_set=cut.Box(0, 10)).solve(tol=1e-9)
    >>> print(result.status, round(result.objective, 6), result.x.round(6))
    OPTIMAL -2.166667 [2.]
    """

    def __init__(
        self,
        problem: Any,
        variable: Any,
        scenarios: Sequence[Mapping[Any, Any]] = ({},),
        weights: Any = None,
        *,
        n_groups: int | None = None,
        n_jobs: int = 1,
    ):
        from cutplane.decomposition.canonical import stages_of

        stages = stages_of(problem, variable, scenarios)
        self._model = problem, variable, scenarios
        self.cvxpy_variables = (variable,)
        self._set_up(stages, int(variable.size), weights, n_groups, n_jobs)

    @classmethod
    def of_stages(
        cls,
        stages: Sequence[Stage],
        dim: int,
        weights: Any = None,
        *,
        n_groups: int | None = None,
        n_jobs: int = 1,
    ) -> ValueFunction:
        """Return the value function of second stages, for example given by their matrices.

        Parameters
        ----------
        stages : sequence of Stage
            For example `LinearStage`. Work on arrays that several scenarios share is done once.
        dim : int
            Number of coordinates of x.
        weights, n_groups, n_jobs
            See the class.
        """
        self = cls.__new__(cls)
        self._model = None
        self._set_up(stages, dim, weights, n_groups, n_jobs)
        return self

    def _set_up(
        self, stages: Sequence[Stage], dim: int, weights: Any, n_groups: int | None, n_jobs: int
    ) -> None:
        count = as_count("the number of scenarios", len(stages))
        self.stages = tuple(stages)
        self.dim = dim
        p = np.full(count, 1.0 / count) if weights is None else as_vector("weights", weights, count)
        if (p < 0.0).any():
            raise InvalidInputError(f"weights must be >= 0, got {p.min():g}.")
        self.weights = p
        self.n_jobs = as_count("n_jobs", n_jobs)
        self.n_blocks = min(count, _GROUPS if n_groups is None else as_count("n_groups", n_groups))
        self._groups = np.arange(count) * self.n_blocks // count
        self._starts = np.cumsum([0, *(stage.n_multipliers for stage in self.stages)])
        shares = np.array_split(np.arange(count), min(self.n_jobs, count))
        self._workers = [(share.tolist(), self.stages[share[0]].solver()) for share in shares]
        self._last: tuple[Array, list[Answer]] | None = None
        self._lock = Lock()

    def __repr__(self) -> str:
        groups = "" if self.n_blocks == len(self.stages) else f", n_groups={self.n_blocks}"
        return f"ValueFunction({len(self.stages)} scenarios, dim={self.dim}{groups})"

    def __getstate__(self) -> dict[str, Any]:
        made = "_workers", "_lock", "domain", "_last"
        return {name: value for name, value in vars(self).items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._set_up(self.stages, self.dim, self.weights, self.n_blocks, self.n_jobs)

    @property
    def splits_sums(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.n_blocks > 1

    @cached_property
    def domain(self) -> FeasibleSet:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The x for which every second stage has a solution, given by a separation oracle."""
        return SeparationOracle(self.separate, self.dim, nearby=_nowhere)

    def separate(self, x: Array) -> list[HalfSpace]:
        """Return half-spaces that separate x, one per scenario without a solution."""
        answers = enumerate(self._answers(x))
        found = {number: answer for number, answer in answers if isinstance(answer, HalfSpace)}
        never = [number for number, half_space in found.items() if not half_space.normal.any()]
        if never:
            raise InfeasibleError(
                f"Scenario {never[0]} has no feasible second stage for any x: the problem is infeasible."
            )
        return list(found.values())

    def estimate(self, x: Array, accuracy: float, start: Estimate | None = None) -> Estimate:
        solved = [answer for answer in self._answers(x) if isinstance(answer, SolvedStage)]
        if len(solved) < len(self.stages):
            zeros = np.zeros((self.n_blocks, self.dim))
            nothing = np.zeros(self._starts[-1])
            return Estimate(np.full(self.n_blocks, np.inf), zeros, zeros[:, 0], nothing)
        worth, values = np.empty(len(solved)), np.zeros(self.n_blocks)

        def cuts() -> Iterator[tuple[Array, float]]:
            for number, (stage, one) in enumerate(zip(self.stages, solved, strict=True)):
                slope, offset = stage.cut(one.multipliers)  # the cut may exceed the relaxed value
                worth[number] = max(one.value, float(slope @ x) + offset)
                yield slope, offset

        slopes, offsets = self._summed(cuts())
        np.add.at(values, self._groups, self.weights * worth)
        multipliers = np.concatenate([one.multipliers for one in solved])
        return Estimate(np.maximum(values, slopes @ x + offsets), slopes, offsets, multipliers)

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        parts = np.split(u, self._starts[1:-1])
        return self._summed(stage.cut(part) for stage, part in zip(self.stages, parts, strict=True))

    def _summed(self, cuts: Iterable[tuple[Array, float]]) -> tuple[Array, Array]:
        slopes, offsets = np.zeros((self.n_blocks, self.dim)), np.zeros(self.n_blocks)
        for (slope, offset), group, weight in zip(cuts, self._groups, self.weights, strict=True):
            slopes[group] += weight * slope
            offsets[group] += weight * offset
        return slopes, offsets

    def _answers(self, x: Array) -> list[Answer]:
        """Return a solution or a half-space for each scenario; the answers at the last point are stored."""
        with self._lock:
            if self._last is None or not np.array_equal(self._last[0], x):
                self._last = x.copy(), self._solve(x.copy())
            return self._last[1]

    def _solve(self, x: Array) -> list[Answer]:
        def share(worker: Any) -> list[Answer]:
            scenarios, solver = worker
            return [solver(self.stages[number], x) for number in scenarios]

        if len(self._workers) == 1:
            return share(self._workers[0])
        with ThreadPoolExecutor(len(self._workers)) as pool:
            return [answer for part in pool.map(share, self._workers) for answer in part]

    def extensive(self, x: Any = None) -> Any:
        """Return the extensive form, one cvxpy problem with x and a copy of the second stage per scenario.

        Its objective is f; add the objective and the constraints of the first stage for a comparison.

        Parameters
        ----------
        x : cvxpy.Variable of shape (dim,), optional
            The first-stage variable if the value function was made from linear stages, by default a new one.
            A value function of a cvxpy problem uses the variable of this problem.

        Returns
        -------
        cvxpy.Problem

        Raises
        ------
        InvalidInputError
            If the value function was made from stages that are not all linear.
        """
        from cutplane.decomposition.canonical import linear_written_out, written_out

        if self._model is not None:
            return written_out(*self._model, self.weights)
        if not all(isinstance(stage, LinearStage) for stage in self.stages):
            raise InvalidInputError(
                "extensive() needs linear stages, or a value function of a cvxpy problem."
            )
        return linear_written_out(self.stages, self.weights, x)


def _nowhere(x: Array) -> None:
    """Propose no point of the domain, because the best point is as good as a point on the boundary."""
