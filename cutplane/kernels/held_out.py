"""Leave-one-out predictions of kernel machines, computed from one solution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.decomposition import form_of
from cutplane.kernels.dual import DualForm
from cutplane.pieces.validation import Array
from cutplane.result import Result

if TYPE_CHECKING:
    from cutplane.kernels.risk import KernelRisk

_SHIFT = 1e-12
"""Ridge relative to the diagonal, because the rows of the free examples may be linearly dependent."""
_ROUNDING = 1e-9
"""Distance to a bound, relative to the largest coefficient, that counts as zero, because solutions are
inexact."""
_CHUNK = 256
"""Number of examples in a block, because a matrix product of this size reaches full speed."""


def leave_one_out(result: Any) -> Array:
    """Return the predictions f_{-i}(x_i) of the functions that are fitted without example i, including b.

    The weights of the other examples do not change. Let F be the coefficients strictly within their bounds
    and D their second derivatives in the dual: lam / c_i times the second derivatives of the conjugate, which
    are zero for piecewise linear losses. With the bordered matrix M = (K_FF + D, 1; 1', 0), without its
    border if there is no intercept,

        f_{-i}(x_i) = f(x_i) + a_i (D_ii - 1 / (M^-1)_ii)   for i in F,
        f_{-i}(x_i) = f(x_i) - a_i (K_ii - k_i' M^-1 k_i)   for i at a bound, k_i = (K_Fi, 1),

    and f(x_i) where a_i = 0. For `Squared` (kernel ridge regression or the LS-SVM), F contains all examples
    and the result is exact [1]_. For other losses it is exact where a_i = 0, and where the fit without
    example i has the same examples at their bounds (the span rule [2]_). The cost is one inverse of M.

    Parameters
    ----------
    result : Result
        The result of a problem with a `KernelRisk`, its `squared_norm`, and a loss that `Decomposition`
        supports. The gap should be close to 0.

    Returns
    -------
    ndarray of shape (m,)
        If F has a single example, its entry is infinite, because the intercept is not determined without it.

    Raises
    ------
    MissingCapabilityError
        If the problem has another form.
    InvalidInputError
        If `result` is not a `Result`.

    References
    ----------
    .. [1] G. C. Cawley, N. L. C. Talbot, "Fast exact leave-one-out cross-validation of sparse least-squares
       support vector machines", Neural Networks 17, 2004, doi:10.1016/j.neunet.2004.07.002.
    .. [2] O. Chapelle, V. Vapnik, O. Bousquet, S. Mukherjee, "Choosing multiple parameters for support vector
       machines", Machine Learning 46, 2002, doi:10.1023/A:1012450327387.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 2.0, 3.0])
    >>> risk = cut.kernels.KernelRisk(X, y, cut.losses.Squared(), cut.kernels.Linear())
    >>> result = cut.Problem(risk, risk.squared_norm(1e-9)).solve(tol=1e-9)
    >>> cut.kernels.leave_one_out(result).round(4).tolist()           # the line through the other three
    [0.0, 1.0, 2.0, 3.0]
    """
    risk, form = _machine_of(result, "leave_one_out")
    a = result.x[: risk.gram.n]
    free, least = _inside(form, a), _ROUNDING * np.abs(a).max(initial=0.0)
    F, bound = np.flatnonzero(free), np.flatnonzero(~free & (np.abs(a) > least))
    found, diagonal = risk.image(result.x), risk.gram.diagonal()
    found[bound] -= a[bound] * diagonal[bound]
    if not F.size:
        return found
    ridge = form.ridge[F] * form.curved
    M = np.ones((F.size + risk.intercept, F.size + risk.intercept))
    M[: F.size, : F.size] = risk.gram.block(F, F)
    np.einsum("ii->i", M)[: F.size] += np.maximum(ridge, _SHIFT * diagonal.max())
    if risk.intercept:
        M[-1, -1] = 0.0
    inverse = linalg.inv(M)
    own = inverse.diagonal()[: F.size]
    with np.errstate(divide="ignore"):
        found[F] += a[F] * (ridge - 1.0 / np.where(own > _SHIFT * np.abs(own).max(), own, 0.0))
    for start in range(0, bound.size, _CHUNK):
        part = bound[start : start + _CHUNK]
        k = np.ones((M.shape[0], part.size))
        k[: F.size] = risk.gram.block(F, part)
        found[part] += a[part] * np.einsum("ij,ij->j", k, inverse @ k)
    return found


def xi_alpha(result: Any) -> Array:
    """Tell which examples a support vector machine may misclassify if it is fitted without them.

    An example with r |a_i| + xi_i < 1 is certainly classified correctly by the machine without it. Here xi_i
    is the hinge loss of example i, and r is k(x_i, x_i) without an intercept [1]_. With an intercept, r is
    twice the difference of the largest and the least entry of the kernel matrix [2]_, and nothing is certain
    unless some coefficient is strictly within its bounds. The fraction of the returned examples is therefore
    an upper bound of the leave-one-out error. Its expectation bounds the expected error of the machine
    trained on one example less.

    Parameters
    ----------
    result : Result
        The result of a problem with a `KernelRisk`, `Hinge` and its `squared_norm`. The gap should be close
        to 0, because the theorem is about the minimiser.

    Returns
    -------
    ndarray of shape (m,)
        bool.

    Raises
    ------
    InvalidInputError
        If the loss is not `Hinge`, or `result` is not a `Result`.

    References
    ----------
    .. [1] T. S. Jaakkola, D. Haussler, "Probabilistic kernel regression models", AISTATS 1999,
       https://proceedings.mlr.press/r2/jaakkola99a.html.
    .. [2] T. Joachims, "Estimating the generalization performance of an SVM efficiently", ICML 2000,
       https://www.cs.cornell.edu/people/tj/publications/joachims_00a.pdf.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [3.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    >>> risk = cut.kernels.KernelRisk(X, y, cut.losses.Hinge(), cut.kernels.Linear())
    >>> result = cut.Problem(risk, risk.squared_norm(0.1)).solve(tol=1e-9)
    >>> cut.kernels.xi_alpha(result).tolist()
    [False, True, True, False]
    """
    risk, form = _machine_of(result, "xi_alpha")
    if form.curved or form.tube or risk.loss.variable != "margin":
        raise InvalidInputError(f"xi_alpha needs the loss Hinge(), got {risk.loss!r}.")
    gram, a = risk.gram, result.x[: risk.gram.n]
    if risk.intercept:
        parts = (gram.rows(np.arange(gram.n)[start : start + _CHUNK]) for start in range(0, gram.n, _CHUNK))
        least = min(float(part.min()) for part in parts)
        radius = np.full(gram.n, 2.0 * (float(gram.diagonal().max()) - least))
        if not _inside(form, a).any():
            return np.ones(gram.n, bool)
    else:
        radius = gram.diagonal()
    xi = risk.loss.value(risk.image(result.x), risk.y)
    return radius * np.abs(a) + xi >= 1.0


def _machine_of(result: Any, name: str) -> tuple[KernelRisk, DualForm]:
    """Return the risk and the dual form of the kernel machine of a result, or raise an error."""
    if not isinstance(result, Result) or result.certificate.problem is None:
        raise InvalidInputError(
            f"{name} needs the Result of a solve with its problem, got {type(result).__name__}; pass the "
            "problem when you load a result from a file."
        )
    return form_of(result.certificate.problem, name)[:2]


def _inside(form: DualForm, a: Array) -> Array:
    """Return a mask of the coefficients that are neither at a bound nor at a kink."""
    least = _ROUNDING * np.abs(a).max(initial=0.0)
    return (a > form.lower + least) & (a < form.upper - least) & ((np.abs(a) > least) | (form.tube == 0.0))
