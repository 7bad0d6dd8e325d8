"""The master for linear programmes over large capped simplices, with a small entropy."""

from __future__ import annotations

import math

import numpy as np

from cutplane.masters.base import Level, MasterSolution, Prox, ReducedProblem, Rows, Stabilization
from cutplane.masters.entropy.dual import EntropyMaster
from cutplane.masters.entropy.minimiser import capped_form
from cutplane.masters.lp.highs import HighsMaster
from cutplane.regularizers.entropy import RelativeEntropy

_MANY = 2000  # coordinates from which it was faster than HiGHS in runs of boosting
_SHARE = 10.0  # what the entropy may cost, in units of the accuracy asked for
_FINE = 0.5  # the least cost of the entropy for which Newton's method pays, in units of max |slope| / dim
_ROUNDING = 1e-9  # caps that sum to 1 up to this leave one point


class SmoothedLP:
    """Solves linear reduced problems over a capped simplex of many coordinates.

    The simplex method moves most coordinates from one bound to the other in every round of column generation.
    With lam times the relative entropy to the uniform distribution, at most ``ln(dim cap)``, Newton's method
    moves all of them at once. lam is such that the entropy costs ten times the accuracy asked for: a tenth of
    the gap of the run. Where that is too small for Newton's method to pay, HiGHS takes over.

    Parameters
    ----------
    reduced : ReducedProblem

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> from cutplane.masters.base import ReducedProblem
    >>> from cutplane.masters.lp.smoothed_lp import SmoothedLP
    >>> from cutplane.regularizers import NoRegularizer
    >>> from cutplane.sets import CappedSimplex
    >>> signs = np.where(np.arange(4000) < 1000, -1.0, 1.0)
    >>> cuts = SimpleNamespace(
    ...     slopes=np.array([signs, -signs]), offsets=np.zeros(2), blocks=np.zeros(2, int), ids=np.arange(2)
    ... )
    >>> master = SmoothedLP(ReducedProblem(4000, 1, NoRegularizer(), CappedSimplex(1e-3, 4000)))
    >>> solution = master.solve(cuts, accuracy=1e-4)
    >>> abs(round(float(signs @ solution.x), 3))
    0.0
    """

    name = "smoothed_lp"
    exact = True

    def __init__(self, reduced: ReducedProblem):
        self._reduced = reduced
        uniform = RelativeEntropy(1.0 / reduced.dim)
        self._smooth = EntropyMaster(
            ReducedProblem(reduced.dim, reduced.n_blocks, uniform, reduced.simple_set)
        )
        self._entropy = math.log(min(_cap(reduced), 1.0) * reduced.dim)
        self._exact: HighsMaster | None = None

    @staticmethod
    def refusal(reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None) -> str | None:
        """Return None if the master accepts this kind of problem, else the reason why not, as a clause."""
        reason = HighsMaster.refusal(reduced, stabilization)
        if reason is not None:
            return reason
        cap = _cap(reduced)
        if reduced.regularizer.lam > 0.0 or not math.isfinite(cap):
            return "it is not linear over a capped simplex with one cap"
        if reduced.dim < _MANY or not cap * reduced.dim > 1.0 + _ROUNDING:
            return f"the capped simplex has fewer than {_MANY} coordinates, or one point"
        return None

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve; `accuracy` is a tenth of the error of the optimal value that may remain; 0: none."""
        size = float(np.abs(rows.slopes[-1:]).max(initial=0.0))  # the newest cut: the first may be flat
        if _SHARE * accuracy >= _FINE * size / self._reduced.dim and accuracy > 0.0:
            lam = 2.0 ** math.floor(math.log2(_SHARE * accuracy / self._entropy))
            solution = self._smooth.solve_at(rows, lam, accuracy)
            if solution.x is not None:
                return solution
        if self._exact is None:
            self._exact = HighsMaster(self._reduced)
        return self._exact.solve(rows, stabilization)


def _cap(reduced: ReducedProblem) -> float:
    """Return the cap of a set {0 <= x_j <= cap, sum x = 1}; inf if it is another set."""
    form = capped_form(reduced.simple_set, reduced.dim)
    if form is None or form.row_upper[0] != 1.0 or (form.upper != form.upper[0]).any():
        return math.inf
    return float(form.upper[0])
