"""Learning a polynomial kernel: weights for all products of base kernels, found by sampling them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.mkl.polynomial.bases import BaseKernels, LinearBases
from cutplane.mkl.polynomial.descent import Sampling
from cutplane.pieces.validation import as_positive, as_scalar, as_vector
from cutplane.stopping import MaxIter, RelativeGap, TimeLimit

if TYPE_CHECKING:
    from cutplane.engine.driver import Callback
    from cutplane.mkl.polynomial.result import PolynomialMKLResult

_SAMPLINGS = ("importance", "uniform")


class PolynomialMKL:
    """minimise over theta >= 0, ||theta||_2 <= 1, and f in H_theta: C/2 sum_i (f(x_i) - y_i)^2 + 1/2 ||f||^2.

    H_theta has the kernel ``sum_I theta_I / rho_d^2 prod_{j in I} kappa_j`` over all ordered tuples I of at
    most `degree` base kernels, d = len(I), the empty one with the kernel 1 among them. That is the l_p norm
    of the group norms with p = 4/3. There are too many tuples to list: they are sampled one by one [1]_, with
    probability proportional to the gradient, at a cost that does not depend on their number.

    Parameters
    ----------
    X : array_like of shape (m, r), or BaseKernels
        Dense; the base kernels are ``x_j z_j``, one for each variable, best standardised. Or such as
        `GramBases`.
    y : array_like of shape (m,)
        Real targets; labels -1 and +1 will do.
    degree : int, default 3
        The most factors of a product, at least 0. Not used if `X` has base kernels.
    C : float, default 1.0
        Positive: the inverse of the regularization parameter of ridge regression.
    rho : array_like of shape (degree + 1,), optional
        Positive weights of the norms by degree; larger ones make a degree dearer. Default: all 1.
    constant : bool, default False
        Whether a variable that is 1 everywhere is added, so that products of fewer factors count more often.

    Raises
    ------
    InvalidInputError
        If a shape, a range or an entry is wrong, or `X` is sparse.

    References
    ----------
    .. [1] A. Afkanpour, A. György, C. Szepesvári, M. Bowling, "A randomized mirror descent algorithm for
       large scale multiple kernel learning", ICML 2013, http://proceedings.mlr.press/v28/afkanpour13.html.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.mkl import PolynomialMKL
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 5))
    >>> y = X[:, 0] * X[:, 3] - 0.1 * X[:, 1]
    >>> result = PolynomialMKL(X, y, degree=3, C=1e4).solve(max_iter=300)
    >>> result.lower_bound <= result.objective, result.exact_bound
    (True, True)
    >>> max(result.polynomial().items(), key=lambda item: abs(item[1]))[0]
    (0, 3)
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        degree: int = 3,
        *,
        C: float = 1.0,
        rho: Any = None,
        constant: bool = False,
    ):
        self.bases = X if isinstance(X, BaseKernels) else LinearBases(X, degree, constant)
        self.y = as_vector("y", y, self.bases.n_samples)
        self.C = as_positive("C", C)
        ones = np.ones(self.bases.degree + 1)
        self.rho = ones if rho is None else as_vector("rho", rho, ones.size)
        if not (self.rho > 0.0).all():
            raise InvalidInputError(f"rho must be positive, got {self.rho}.")

    def __repr__(self) -> str:
        return f"PolynomialMKL({self.bases!r}, C={self.C:g})"

    def solve(
        self,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        *,
        sampling: Sampling = "importance",
        seed: int = 0,
        tol: float = 1e-2,
        bound_work: float = 1e9,
        callback: Callback | None = None,
        progress: bool = False,
        log: bool = False,
    ) -> PolynomialMKLResult:
        """Do stochastic steps; evaluate the averaged weights exactly after 1, 2, 4, 8, ... of them.

        Parameters
        ----------
        max_iter : int, default 10000
            Steps at most. The gap falls like 1 / sqrt(steps).
        time_limit : float, optional
            Seconds; tested after each step.
        sampling : {"importance", "uniform"}, default "importance"
            "uniform" gives all tuples the same probability: the baseline.
        seed : int, default 0
            The same seed gives the same result, unless the time limit ends the run.
        tol : float, default 0.01
            Relative certified gap at which the status is OPTIMAL.
        bound_work : float, default 1e9
            Multiplications allowed for a lower bound; beyond, a looser one is computed.
        callback : callable, optional
            Called after each evaluation with the `State`, whose ``x`` is None; if it returns True, the run
            ends with status INTERRUPTED.
        progress, log : bool, default False
            Show a live display; print a line per evaluation.

        Returns
        -------
        PolynomialMKLResult
            The best averaged weights; on Ctrl-C too, with status INTERRUPTED.
        """
        from cutplane.engine.driver import Driver
        from cutplane.mkl.polynomial.run import Steps

        if sampling not in _SAMPLINGS:
            raise InvalidInputError(f'sampling must be "importance" or "uniform", got {sampling!r}.')
        rule = RelativeGap(tol) | MaxIter(max_iter)
        if time_limit is not None:
            rule |= TimeLimit(time_limit)
        process = Steps(
            self, sampling, seed, as_scalar("bound_work", bound_work, low=0.0, infinite=True), max_iter
        )
        return Driver(process, rule).run(callback, progress, log)
