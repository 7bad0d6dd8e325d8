"""The master for linear programmes over large capped simplices, with a small entropy."""

from __future__ import annotations

import math

import numpy as np

from cutplane.masters.base import Level, MasterSolution, Prox, ReducedProblem, Rows, Stabilization
from cutplane.masters.entropy.dual import EntropyMaster
from cutplane.masters.lp.highs import HighsMaster
from cutplane.regularizers.entropy import RelativeEntropy
from cutplane.sets.simplex import CappedSimplex

_MANY = 2000
_SHARE = 10.0
_FINE = 0.5


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
        cap: float = getattr(reduced.simple_set, "cap")  # noqa: B009
        self._entropy = math.log(min(cap, 1.0) * reduced.dim)
        self._exact: HighsMaster | None = None

    @staticmethod
    def refusal(reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None) -> str | None:
        """Return None if the master accepts this kind of problem, else the reason why not, as a clause."""
        reason = HighsMaster.refusal(reduced, stabilization)
        if reason is not None:
            return reason
        simple = reduced.simple_set
        if reduced.regularizer.lam > 0.0 or not isinstance(simple, CappedSimplex) or np.ndim(simple.cap):
            return "it is not linear over a capped simplex with one cap"
        if reduced.dim < _MANY or not simple.cap * reduced.dim > 1.0 + 1e-9:
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
