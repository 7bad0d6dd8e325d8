"""Multiple kernel learning: the problem."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.bank import as_bank
from cutplane.losses.base import ScalarLoss
from cutplane.losses.scalar import Hinge
from cutplane.mkl.risk import MKLRisk
from cutplane.pieces.parameters import as_optional_vector
from cutplane.pieces.validation import as_nonnegative, as_scalar
from cutplane.problem import Problem
from cutplane.regularizers.entropy import RelativeEntropy
from cutplane.sets.balls import NonnegativeBall
from cutplane.sets.simplex import Simplex

if TYPE_CHECKING:
    from cutplane.engine.driver import Callback
    from cutplane.methods.base import Method
    from cutplane.mkl.result import MKLPath, MKLResult
    from cutplane.mkl.solve import DualMethod


class MKL:
    """minimise D(beta) + entropy sum_k beta_k ln(n_kernels beta_k) over beta >= 0 with ||beta||_p <= 1.

    ``D(beta) = min over f in H_beta, b of 1/2 ||f||^2 + C sum_i l(f(x_i) + b, y_i)`` is the objective of a
    kernel machine with the kernel ``sum_k beta_k K_k / rho_k^2``. With p = 1, beta is in the simplex, and few
    kernels get weight. The same predictor minimises ``C sum_i l(f(x_i) + b, y_i) + 1/2 (sum_k (rho_k
    ||f_k||)^q)^(2/q)`` over ``f = sum_k f_k``, with q = 2 p / (p + 1), a group norm.

    Parameters
    ----------
    kernels : KernelBank, PrecomputedKernels, or array_like of shape (n_kernels, m, m)
        Positive semidefinite kernels of the m training examples; a sequence of (m, m) arrays will do.
    y : array_like of shape (m,)
        Labels -1 and +1 for a classification loss, numbers for a regression loss.
    C : float, default 1.0
        Positive: the weight of each example's loss.
    loss : ScalarLoss, default Hinge()
        `Hinge`, `SquaredHinge`, `Squared`, `EpsilonInsensitive` and the others that `KernelMachine` solves.
    norm : float, default 1.0
        p, in [1, inf].
    entropy : float, default 0.0
        At least 0; smooth MKL, for norm 1 only. It raises the optimum by at most ``entropy ln n_kernels``.
    intercept : bool, default True
        Whether there is an unregularised b.
    rho : array_like of shape (n_kernels,), optional
        Positive; by default ones.

    Raises
    ------
    InvalidInputError
        If a kernel is not m x m, a parameter is out of its range, or a machine for the loss is not known.

    References
    ----------
    .. [1] S. Sonnenburg, G. Rätsch, C. Schäfer, B. Schölkopf, "Large scale multiple kernel learning", JMLR 7,
       2006, https://jmlr.org/papers/v7/sonnenburg06a.html.
    .. [2] M. Kloft, U. Brefeld, S. Sonnenburg, A. Zien, "lp-norm multiple kernel learning", JMLR 12, 2011,
       https://jmlr.org/papers/v12/kloft11a.html.
    .. [3] Z. Xu, R. Jin, S. Zhu, M. R. Lyu, I. King, "Smooth optimization for effective multiple kernel
       learning", AAAI 2010, doi:10.1609/aaai.v24i1.7675.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> y = np.array([1.0, 1.0, -1.0, -1.0])
    >>> kernels = [np.outer(y, y), np.eye(4)]
    >>> result = cut.mkl.MKL(kernels, y, C=1.0).solve(tol=1e-9)
    >>> print(result.status, round(result.objective, 6), result.weights.round(6))
    OPTIMAL 0.5 [1. 0.]
    """

    def __init__(
        self,
        kernels: Any,
        y: Any,
        C: float = 1.0,
        loss: ScalarLoss | None = None,
        norm: float = 1.0,
        *,
        entropy: float = 0.0,
        intercept: bool = True,
        rho: Any = None,
    ):
        from cutplane.kernels.machine import KernelMachine

        self.bank = as_bank(kernels)
        self.norm = as_scalar("norm", norm, low=1.0, infinite=True)
        self.entropy = as_nonnegative("entropy", entropy)
        if self.entropy > 0.0 and self.norm != 1.0:
            raise InvalidInputError(
                f"entropy is for norm=1, where the weights sum to 1; got norm={norm:g}. Set one of the two."
            )
        self.rho = as_optional_vector("rho", rho)
        if self.rho is not None:
            if self.rho.size != self.bank.n_kernels or not (self.rho > 0.0).all():
                raise InvalidInputError(f"rho must hold {self.bank.n_kernels} positive numbers, got {rho!r}.")
            self.bank = self.bank.scaled(self.rho**-2.0)
        self.machine = KernelMachine(Hinge() if loss is None else loss, y, C, intercept)
        if self.machine.y.size != self.bank.n_samples:
            raise InvalidInputError(
                f"y has {self.machine.y.size} entries, the kernels have {self.bank.n_samples} examples."
            )

    def __repr__(self) -> str:
        shown = f"norm={self.norm:g}" + (f", entropy={self.entropy:g}" if self.entropy else "")
        return f"MKL({self.bank!r}, {self.machine!r}, {shown})"

    @property
    def C(self) -> float:
        """The weight of each example's loss."""
        return self.machine.C

    def with_C(self, C: float) -> MKL:
        """Return the same problem with another C; the bank is shared."""
        changed = copy(self)
        changed.machine = replace(self.machine, C=C)
        for computed in ("risk", "problem"):
            vars(changed).pop(computed, None)
        return changed

    @cached_property
    def risk(self) -> MKLRisk:
        """The optimum of the kernel machine, as a function of the weights."""
        return MKLRisk(self.bank, self.machine)

    @cached_property
    def problem(self) -> Problem:
        """The problem as the engine sees it: a risk over the simplex or a ball."""
        if self.norm == 1.0:
            n = self.bank.n_kernels
            entropy = RelativeEntropy(1.0 / n, self.entropy) if self.entropy else None
            return Problem(self.risk, entropy, Simplex(n))
        return Problem(self.risk, feasible_set=NonnegativeBall(self.norm, dim=self.bank.n_kernels))

    def solve(
        self,
        method: Method | DualMethod | Literal["auto"] = "auto",
        *,
        tol: float = 1e-3,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        warm_start: MKLResult | None = None,
        callback: Callback | None = None,
        progress: bool = False,
        log: bool = False,
    ) -> MKLResult:
        """Find weights and a predictor whose objective is within `tol` of the least.

        Parameters
        ----------
        method : Method or "auto", default "auto"
            For norm 1 `Kelley` (which is SILP), `LevelBundle`, `ProximalBundle`, `ReducedGradient`
            (SimpleMKL), `MirrorDescent`, `FrankWolfe` or `UniformWeights`; for any norm `ClosedFormWeights`;
            with an entropy `SmoothMKL`, `BMRM` or `LevelBundle`. "auto" is `LevelBundle` for norm 1, and
            `ClosedFormWeights` for larger norms.
        tol : float, default 1e-3
            Relative certified gap at which the status is OPTIMAL.
        max_iter : int, default 10000
        time_limit : float, optional
            Seconds; tested after each iteration.
        warm_start : MKLResult, optional
            A result for the same kernels and targets, maybe with another C: its cuts are reused.
        callback : callable, optional
            Called with the `State` after each iteration; if it returns True, the run ends with INTERRUPTED.
        progress, log : bool, default False
            Show a live display; print a line per iteration.

        Returns
        -------
        MKLResult
            On Ctrl-C too, with status INTERRUPTED and the best weights so far.
        """
        from cutplane.mkl.solve import solve

        limits = {"tol": tol, "max_iter": max_iter, "time_limit": time_limit}
        shown = {"callback": callback, "progress": progress, "log": log}
        return solve(self, method, warm_start, limits | shown)

    def path(self, Cs: Sequence[float] | Any, **options: Any) -> MKLPath:
        """Solve for each C, in this order; every cut is carried over to the next C.

        The coefficients behind a cut are rescaled into the domain of the next C, which gives a cut of its
        risk without a pass over the kernels.

        Parameters
        ----------
        Cs : sequence of float
            Positive.
        **options
            Passed to `solve`.

        Examples
        --------
        >>> import numpy as np, cutplane as cut
        >>> y = np.array([1.0, 1.0, -1.0, -1.0])
        >>> path = cut.mkl.MKL([np.outer(y, y), np.eye(4)], y).path([0.01, 0.1, 1.0], tol=1e-6)
        >>> print(path.objectives.round(4))
        [0.0392 0.32   0.5   ]
        """
        from cutplane.mkl.solve import follow

        return follow(self, Cs, options)
