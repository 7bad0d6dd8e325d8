"""What multiple kernel learning returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.certificate import Certificate, Verification
from cutplane.pieces.validation import Array
from cutplane.result import BaseResult
from cutplane.runtime.extras import require_extra

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from cutplane.mkl.problem import MKL

_SHOWN = 3


@dataclass(frozen=True, eq=False, repr=False)
class MKLResult(BaseResult):
    """Weights of the kernels, the predictor that goes with them, and how far both are from the best.

    Attributes
    ----------
    weights : ndarray of shape (n_kernels,)
        beta.
    coefficients : ndarray of shape (m,)
        a: the predictor is ``sum_k beta_k / rho_k^2 sum_i a_i K_k(x_i, .) + intercept``.
    intercept : float
    objective : float
        Of weights and predictor: an upper bound of the optimum.
    lower_bound : float
        Certified.
    gap, gap_abs : float
    status : Status
        OPTIMAL only if the gap is within the tolerance.
    reason : str
    history : History
    certificate : Certificate
        Of the problem over the weights; each cut comes from coefficients. The machine at the end was trained
        for its point, so that its upper bound may differ a little from `objective`.
    method : str
    mkl : MKL
        The problem.
    """

    weights: Array
    coefficients: Array
    intercept: float
    objective: float
    lower_bound: float
    certificate: Certificate
    mkl: MKL = field(repr=False)

    @property
    def x(self) -> Array:
        """The weights."""
        return self.weights

    @property
    def selected(self) -> Array:
        """The kernels with weight, the largest first."""
        order = np.argsort(-self.weights, kind="stable")
        return order[self.weights[order] > 0.0]

    def verify(self, mkl: MKL | None = None) -> Verification:
        """Recompute both bounds from the kernels alone.

        The upper bound is the objective of the weights, whose feasibility is checked, with the predictor of
        `coefficients` and `intercept`: the sum of the kernels is formed anew. The lower bound is the larger
        one of that of `coefficients`, whose feasibility in the dual is checked, and that of the certificate,
        each of whose cuts is computed again from its coefficients. That the kernels are positive
        semidefinite is tested as far as `PrecomputedKernels` says, and not again.

        Parameters
        ----------
        mkl : MKL, optional
            The problem; by default the one that the result refers to.

        Returns
        -------
        Verification
            ``n_checked`` counts the cuts that were computed again.
        """
        from cutplane.mkl.verification import verify

        return verify(self, self.mkl if mkl is None else mkl)

    def predict(self, Z: Any) -> Array:
        """Return the predictions for new points, shape (n,); kernels without weight are not evaluated.

        Parameters
        ----------
        Z : array_like of shape (n, n_features)
            Or what the bank's `predict` takes: for `PrecomputedKernels` the values of the kernels between new
            points and training points, shape (n_kernels, n, m).
        """
        return self.mkl.bank.predict(Z, self.weights, self.coefficients) + self.intercept

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with the kernels that have weight (needs the extra ``tables``)."""
        pd = require_extra("pandas", "tables")
        chosen = self.selected
        names = [self.mkl.bank.names[k] for k in chosen]
        return pd.DataFrame({"kernel": names, "weight": self.weights[chosen]}, index=chosen)

    def plot_weights(self, ax: Axes | None = None, most: int = 20) -> Axes:
        """Plot the largest weights as bars and return the axes (needs the extra ``plot``).

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Drawn into; new axes by default.
        most : int, default 20
            Number of kernels shown at most.
        """
        from cutplane.mkl.plotting import plot_weights

        chosen = self.selected[:most]
        return plot_weights([self.mkl.bank.names[k] for k in chosen], self.weights[chosen], ax=ax)

    def _facts(self) -> dict[str, Any]:
        chosen = self.selected
        largest = ", ".join(f"{self.mkl.bank.names[k]}: {self.weights[k]:.3g}" for k in chosen[:_SHOWN])
        return {
            "objective": f"{self.objective:.10g}",
            "lower bound": f"{self.lower_bound:.10g}",
            "gap": f"{self.gap:.3g}",
            "kernels": f"{chosen.size} of {self.weights.size} have weight ({largest})",
            "iterations": f"{self.n_iter} ({self.oracle_calls} kernel machines)",
            "method": self.method,
            **self._seconds("kernel machines"),
        }
