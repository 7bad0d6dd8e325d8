"""Soft-margin boosting: the problem, and its process of rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from cutplane.boosting.methods import BoostingMethod, ERLPBoost, LPBoost, Pool
from cutplane.boosting.result import BoostingResult, Ensemble, soft_margin
from cutplane.boosting.weak_learner import as_weak_learner
from cutplane.engine.driver import Driver, Standing, Turn
from cutplane.engine.history import History, State
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_count, as_scalar, as_signs, refuse_masked
from cutplane.status import Status
from cutplane.stopping import MaxIter, Stop, StoppingRule, TimeLimit

if TYPE_CHECKING:
    from cutplane.engine.driver import Callback

_FINE = 1e-3
"""Least tolerance for which "auto" chooses ERLPBoost, because its number of rounds grows like 1 / tol^2."""


class SoftMargin:
    """maximise rho - 1/nu sum_i xi_i over ensembles w: y_i sum_h w_h h(x_i) >= rho - xi_i, xi >= 0.

    The hypotheses h are given by a weak learner. Because there are too many to list, they are found by column
    generation: the weak learner returns the best hypothesis for a distribution d of the examples. The dual is
    ``min over d in D of max_h sum_i d_i y_i h(x_i)`` with the capped simplex ``D = {0 <= d_i <= 1/nu, sum d =
    1}``.

    Parameters
    ----------
    X : array_like or sparse matrix of shape (m, n)
        Data that the weak learner accepts.
    y : array_like of shape (m,)
        Labels -1 and +1.
    nu : float
        In [1, m]: the number of examples that may count as outliers. 1 is the hard margin.
    weak_learner : WeakLearner, scikit-learn classifier, or callable
        `DecisionStumps`, `HypothesisMatrix`, any classifier whose ``fit`` accepts ``sample_weight``, or a
        function ``(X, y, d) -> hypothesis``.

    Raises
    ------
    InvalidInputError
        If a label is not -1 or +1, or `nu` is not in [1, m].

    References
    ----------
    .. [1] G. Raetsch, T. Onoda, K.-R. Mueller, "Soft margins for AdaBoost", Machine Learning 42, 2001,
       doi:10.1023/A:1007618119488.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.arange(6.0).reshape(-1, 1), np.array([-1.0, -1, 1, -1, 1, 1])
    >>> problem = cut.boosting.SoftMargin(X, y, nu=3, weak_learner=cut.boosting.DecisionStumps())
    >>> result = problem.solve(tol=1e-9)
    >>> print(result.status, round(result.soft_margin, 6))
    OPTIMAL 0.333333
    """

    def __init__(self, X: Any, y: Any, nu: float, weak_learner: Any):
        refuse_masked("X", X)
        try:
            self.X = X if sparse.issparse(X) else np.asarray(X)
        except ValueError as error:
            raise InvalidInputError(f"X must be a matrix, got {type(X).__name__}: {error}") from error
        self.y = as_signs("SoftMargin", y)
        m = self.y.size
        if self.X.ndim != 2 or self.X.shape[0] != m:
            raise InvalidInputError(
                f"X must have one row per label, shape ({m}, n_features), got {self.X.shape}."
            )
        self.nu = as_scalar("nu", nu, low=1.0, high=float(m))
        self.weak_learner = as_weak_learner(weak_learner)

    def __repr__(self) -> str:
        return f"SoftMargin({self.y.size} examples, nu={self.nu:g}, {self.weak_learner!r})"

    def solve(
        self,
        method: BoostingMethod | Literal["auto"] = "auto",
        *,
        tol: float = 1e-2,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        early_stopping: EarlyStopping | None = None,
        callback: Callback | None = None,
        progress: bool = False,
        log: bool = False,
    ) -> BoostingResult:
        """Find an ensemble whose soft margin is within `tol` of the largest soft margin.

        Parameters
        ----------
        method : LPBoost, ERLPBoost, CorrectiveERLPBoost, MLPBoost or "auto", default "auto"
            "auto" is `ERLPBoost` if `tol` is at least 1e-3, else `LPBoost`.
        tol : float, default 0.01
            Positive and absolute, in the unit of the margins, which are in [-1, 1]. The run stops when the
            least edge found exceeds the soft margin of the ensemble by at most `tol`. The status is then
            OPTIMAL with an exact weak learner, else TARGET.
        max_iter : int, default 10000
            Largest number of rounds.
        time_limit : float, optional
            Seconds; tested after each round.
        early_stopping : EarlyStopping, optional
            Stops, with status INTERRUPTED, when the error on validation data no longer decreases.
        callback : callable, optional
            Called after each round with the `State` and its bounds of the soft margin; if it returns True,
            the run ends with status INTERRUPTED.
        progress, log : bool, default False
            Show a live display; print a line per round.

        Returns
        -------
        BoostingResult
            Also after Ctrl-C, with status INTERRUPTED and the best ensemble so far.
        """
        as_scalar("tol", tol, low=0.0, low_open=True)
        if method == "auto":
            method = ERLPBoost() if tol >= _FINE else LPBoost()
        elif not isinstance(method, BoostingMethod):
            raise InvalidInputError(f"method must be LPBoost(), MLPBoost(), ... or 'auto', got {method!r}.")
        rounds = Rounds(self, method, tol, early_stopping)
        rule = SoftMarginGap(tol, rounds.pool.learner.exact) | MaxIter(max_iter)
        if time_limit is not None:
            rule |= TimeLimit(time_limit)
        return Driver(rounds, rule).run(callback, progress, log)


@dataclass(frozen=True)
class SoftMarginGap(StoppingRule):
    """Stop when edge - soft margin <= tol; OPTIMAL if the weak learner is exact."""

    tol: float
    exact: bool

    def __call__(self, state: State) -> Stop | None:
        gap = state.upper_bound - state.lower_bound
        if gap > self.tol:
            return None
        reason = f"gap {max(0.0, gap):.2g} of the soft margin is at most tol = {self.tol:g}"
        if self.exact:
            return Stop(Status.OPTIMAL, f"the certified {reason}")
        return Stop(
            Status.TARGET,
            f"the {reason} relative to the hypotheses found: other hypotheses may have larger edges, because "
            "the weak learner is not declared exact",
        )


@dataclass(frozen=True, eq=False)
class EarlyStopping:
    """Stop after `patience` rounds without a lower validation error; return the ensemble with least error.

    Parameters
    ----------
    X : array_like or sparse matrix of shape (n, n_features)
    y : array_like of shape (n,)
        Labels -1 and +1.
    patience : int, default 20
    """

    X: Any
    y: Any
    patience: int = 20

    def __post_init__(self) -> None:
        refuse_masked("X", self.X)
        object.__setattr__(self, "y", as_signs("EarlyStopping", self.y))
        as_count("EarlyStopping.patience", self.patience)


class Rounds:
    """A process of the driver; each round is an iteration of a method and evaluates its ensemble."""

    def __init__(
        self, problem: SoftMargin, method: BoostingMethod, tol: float, early_stopping: EarlyStopping | None
    ):
        self.problem, self.method, self.early_stopping = problem, method, early_stopping
        self.pool = Pool(problem.weak_learner.bind(problem.X, problem.y), problem.y.size)
        self._inner, self._weights = method.start(self.pool, problem.y.size, problem.nu, tol)
        self._best = -math.inf, np.empty(0)
        self._stages: list[Array] = []
        self._predictions: list[Array] = []  # predictions of each hypothesis on the validation data
        self._errors: list[float] = []  # errors on the validation data after each round

    @property
    def started(self) -> bool:
        """Whether there is an ensemble."""
        return bool(self._stages)

    @property
    def standing(self) -> Standing:
        """The soft margin, the edge, and the counts of the method."""
        inner = self._inner.standing
        return inner._replace(lower=self._best[0], upper=self.pool.edge, x=self.pool.distribution, scale=1.0)

    def step(self) -> Turn:
        """Do an iteration of the method, and store its ensemble if it is the best one so far."""
        turn = self._inner.step()
        weights = self._weights()
        weights = weights if weights.any() else np.ones(1)
        self._stages.append(weights)
        value = soft_margin(weights @ self.pool.columns[: weights.size], self.problem.nu)
        self._best = max(self._best, (value, weights), key=lambda pair: pair[0])
        inner, stop = self._inner.standing, turn.finished
        if inner.lower >= inner.upper:
            reason = "the smoothed problem is solved, but eta is too small for tol: raise eta"
            stop = Stop(Status.STALLED, reason)
        if self.early_stopping is not None:
            stop = self._validated(self.early_stopping, weights) or stop
        return Turn(turn.kind, stop)

    def _validated(self, rule: EarlyStopping, weights: Array) -> Stop | None:
        """Evaluate the ensemble of a round on the validation data; stop if the error no longer decreases."""
        for hypothesis in self.pool.hypotheses[len(self._predictions) :]:
            self._predictions.append(np.asarray(hypothesis.predict(rule.X)))
        votes = sum(weights[k] * self._predictions[k] for k in np.flatnonzero(weights))
        self._errors.append(float(np.mean(np.where(votes >= 0.0, 1.0, -1.0) != rule.y)))
        best = int(np.argmin(self._errors))
        if len(self._errors) - 1 - best < rule.patience:
            return None
        return Stop(
            Status.INTERRUPTED,
            f"early stopping: the error {self._errors[best]:.4g} on the validation data was not improved for "
            f"{rule.patience} rounds",
        )

    def confirm(self, stop: Stop) -> Stop:
        """Return the stop unchanged, because the weak learner itself computed the edge."""
        return stop

    def result(self, stop: Stop, history: History) -> BoostingResult:
        """Return the ensemble with the largest soft margin, or with the least validation error."""
        pool = self.pool
        chosen = self._stages[int(np.argmin(self._errors))] if self._errors else self._best[1]
        margins = chosen @ pool.columns[: chosen.size]
        return BoostingResult(
            ensemble=Ensemble.of(pool.hypotheses, chosen),
            soft_margin=soft_margin(margins, self.problem.nu),
            edge=pool.edge,
            distribution=pool.distribution,
            margins=margins,
            is_global=pool.learner.exact,
            status=stop.status,
            reason=stop.reason,
            history=history,
            method=repr(self.method),
            nu=self.problem.nu,
            hypotheses=tuple(pool.hypotheses),
            stages=tuple(self._stages),
            problem=self.problem,
        )
