"""Soft-margin boosting: the problem and its solution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from cutplane.boosting.methods import BoostingMethod, ERLPBoost, LPBoost
from cutplane.boosting.pool import Pool
from cutplane.boosting.weak_learner import as_weak_learner
from cutplane.exceptions import InvalidInputError
from cutplane.losses.classification import Hinge
from cutplane.pieces.validation import as_scalar, refuse_masked
from cutplane.stopping import MaxIter, TimeLimit

if TYPE_CHECKING:
    from cutplane.boosting.early_stopping import EarlyStopping
    from cutplane.boosting.result import BoostingResult
    from cutplane.engine.driver import Callback

_FINE = 1e-3


class SoftMargin:
    """maximise rho - 1/nu sum_i xi_i over ensembles w: y_i sum_h w_h h(x_i) >= rho - xi_i, xi >= 0.

    The hypotheses h are those of a weak learner: too many to list, they are found one by one, each as the one
    that is best for a distribution of the examples (column generation). The dual is ``min over d in D of
    max_h sum_i d_i y_i h(x_i)`` with the capped simplex ``D = {0 <= d_i <= 1/nu, sum d = 1}``.

    Parameters
    ----------
    X : array_like or sparse matrix of shape (m, n)
        Whatever the weak learner reads.
    y : array_like of shape (m,)
        Labels -1 and +1.
    nu : float
        In [1, m]: how many examples may count as outliers. 1 is the hard margin.
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
        self.y = Hinge().check_targets(y)
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
        """Find an ensemble whose soft margin is within `tol` of the largest.

        Parameters
        ----------
        method : LPBoost, ERLPBoost, CorrectiveERLPBoost, MLPBoost or "auto", default "auto"
            "auto" is `ERLPBoost` down to a `tol` of 1e-3, then `LPBoost`.
        tol : float, default 0.01
            Positive. Absolute, in the unit of the margins, which are in [-1, 1]: the run stops when the least
            edge of the best hypothesis so far exceeds the soft margin of the ensemble by at most `tol`. It is
            OPTIMAL with an exact weak learner, TARGET with another.
        max_iter : int, default 10000
            Rounds at most.
        time_limit : float, optional
            Seconds; tested after each round.
        early_stopping : EarlyStopping, optional
            Stops, with status INTERRUPTED, when the error on other data no longer falls.
        callback : callable, optional
            Called after each round with the `State`, whose bounds are those of the soft margin; if it returns
            True, the run ends with status INTERRUPTED.
        progress, log : bool, default False
            Show a live display; print a line per round.

        Returns
        -------
        BoostingResult
            On Ctrl-C too, with status INTERRUPTED and the best ensemble so far.
        """
        from cutplane.boosting.rounds import Rounds, SoftMarginGap
        from cutplane.engine.driver import Driver

        as_scalar("tol", tol, low=0.0, low_open=True)
        if method != "auto" and not isinstance(method, BoostingMethod):
            raise InvalidInputError(f"method must be LPBoost(), MLPBoost(), ... or 'auto', got {method!r}.")
        automatic = ERLPBoost() if tol >= _FINE else LPBoost()
        chosen = automatic if method == "auto" else method
        pool = Pool(self.weak_learner.bind(self.X, self.y), self.y.size)
        rule = SoftMarginGap(tol, pool.learner.exact) | MaxIter(max_iter)
        if time_limit is not None:
            rule |= TimeLimit(time_limit)
        process = Rounds(self, chosen, pool, tol, early_stopping)
        return Driver(process, rule).run(callback, progress, log)
