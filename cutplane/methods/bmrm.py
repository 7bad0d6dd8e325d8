"""The bundle method for risk minimisation."""

from __future__ import annotations

from dataclasses import dataclass

from cutplane.methods.kelley import Kelley


@dataclass(frozen=True)
class BMRM(Kelley):
    """Bundle method for regularized risk minimisation: the regularizer is the stabiliser.

    ``w_t = argmin f_t(w) + g(w)``, next cut at w_t: the iteration of `Kelley` with a g that keeps the reduced
    problem bounded. With g = lam/2 ||w||^2 it needs at most O(1/(lam eps)) iterations, and O(log 1/eps) for a
    smooth risk.

    Raises
    ------
    MissingCapabilityError
        If the problem has neither a regularizer nor a bounded set.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le, "Bundle methods for regularized risk
       minimization", JMLR 11, 2010, https://jmlr.org/papers/v11/teo10a.html.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[2.0], [-2.0]]), np.array([1.0, -1.0])
    >>> problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(1.0))
    >>> print(round(problem.solve(cut.BMRM(), tol=1e-9).objective, 6))
    0.125
    """
