"""The form of a problem for linear predictors: examples, losses, and a diagonal quadratic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy import sparse

from cutplane.engine.costs import cost_of_epoch
from cutplane.engine.declaration import Declaration, remembered
from cutplane.exceptions import MissingCapabilityError
from cutplane.losses.base import ScalarLoss, pieces_of
from cutplane.pieces.capabilities import Capability, ask, offers, require
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.risks.matrix import unsigned

if TYPE_CHECKING:
    from cutplane.risks.data import Data


class LinearPredictor(Protocol):
    """sum_i c_i l(<x_i, w> + b, y_i), as returned by ``risk.linear_predictor()``; for example `LinearRisk`.

    Attributes
    ----------
    X : ndarray or sparse array of shape (m, n)
    y, weights : ndarray of shape (m,)
    loss : ScalarLoss
    intercept : bool
        Whether the last coordinate of the risk is b.
    data : Data
        The passes over X.
    dim, n_blocks : int
    """

    X: Any
    y: Array
    weights: Array
    loss: ScalarLoss
    intercept: bool
    dim: int
    n_blocks: int

    @property
    def data(self) -> Data:
        """The passes over X."""
        ...


def predictions(risk: LinearPredictor, x: Array) -> Array:
    """Return the predictions of a point, shape (m,), by one pass."""
    n = risk.X.shape[1]
    z = risk.data.times(x[:n])
    return z + x[n] if risk.intercept else z


def as_rows(X: Any) -> tuple[Array, Array, Array, Array]:
    """Return a C-ordered array or a CSR matrix for compiled passes: an array, data, indices, indptr.

    The arrays are read-only. The arrays of the other layout are empty, so that one routine handles both.
    """
    if not sparse.issparse(X):
        none = unsigned(np.empty(0, np.int32))
        return read_only(X), read_only(np.empty(0, X.dtype)), none, none
    none = read_only(np.empty((0, 0), X.dtype))
    return none, read_only(X.data), unsigned(X.indices), unsigned(X.indptr)


@dataclass(frozen=True, eq=False)
class Regularized:
    """A risk of linear predictions with a diagonal quadratic of positive weights; a bias may have none."""

    risk: LinearPredictor
    quadratic: DiagonalQuadratic

    @property
    def cost_of_epoch(self) -> float:
        """Nanoseconds of an epoch of dual coordinate ascent."""
        return cost_of_epoch(self.size, pieces_of(self.risk.loss) is None)

    @property
    def size(self) -> tuple[int, int, float]:
        """The numbers of examples, of features, and of entries stored."""
        m, n = self.risk.X.shape
        return m, n, m * self.risk.data.row_entries


@remembered
def quadratic_of(problem: Declaration) -> DiagonalQuadratic | None:
    """Return the regularizer if it is a diagonal quadratic and there is no set, otherwise None."""
    return (
        ask(problem.active_regularizer, Capability.QUADRATIC, problem.dim)
        if problem.is_unconstrained
        else None
    )


@remembered
def predictor_of(problem: Declaration) -> LinearPredictor | None:
    """Return the linear predictor of the risk, or None."""
    return ask(problem.risk, Capability.LINEAR_PREDICTOR)


@remembered
def regularized(problem: Declaration) -> Regularized | None:
    """Return the risk and its quadratic, if multipliers of the examples give cuts; otherwise None."""
    predictor, quadratic = predictor_of(problem), quadratic_of(problem)
    if predictor is None or quadratic is None or not offers(problem.risk, Capability.DUAL_CUT):
        return None
    n = predictor.X.shape[1]
    return Regularized(predictor, quadratic) if n and quadratic.weights[:n].all() else None


def require_regularized(problem: Declaration, method: str) -> Regularized:
    """Return the risk and its quadratic; raise `MissingCapabilityError` if the problem has another form."""
    remedy = "Use LinearRisk, with a loss that has a conjugate, or Portfolio()."
    for capability in (Capability.LINEAR_PREDICTOR, Capability.DUAL_CUT):
        require(problem.risk, capability, method, remedy)
    found = regularized(problem)
    if found is None:
        raise MissingCapabilityError(
            f"{method} needs a diagonal quadratic with positive weights on all features, such as L2(0.1), "
            f"and no feasible set; got {problem.regularizer!r} over {problem.simple_set!r}. Use Portfolio()."
        )
    return found
