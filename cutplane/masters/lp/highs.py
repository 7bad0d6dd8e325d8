"""Linear programmes in a living HiGHS model."""

from __future__ import annotations

import numpy as np

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.masters.base import (
    HALF_SPACE,
    Level,
    MasterSolution,
    MasterStatus,
    Prox,
    ReducedProblem,
    Rows,
    Stabilization,
)
from cutplane.masters.lp.absolute_values import AbsoluteValues
from cutplane.masters.lp.highs_model import rerun
from cutplane.masters.lp.layouts import ColumnLayout, RowLayout, SingleCutLayout
from cutplane.masters.rows import (
    is_finite,
    objective_scale,
    row_factors,
    row_sizes,
    scaled,
    survivors,
)
from cutplane.pieces.capabilities import Capability, ask
from cutplane.pieces.validation import Array

_ORIENTATIONS = ("auto", "rows", "columns")
_FEW_VARIABLES = 100  # where columns were faster than rows in runs of cutting planes


class HighsMaster:
    """Solves linear reduced problems in one HiGHS model that grows and shrinks and keeps its basis.

    Parameters
    ----------
    reduced : ReducedProblem
        Regularizer and simple set have linear forms.
    orientation : {"auto", "rows", "columns"}, default "auto"
        Whether cuts are rows of the reduced problem (dual simplex) or columns of its dual (primal simplex).
        Columns are faster, up to twice, once there are several times more cuts than variables; rows, up to
        four times, where the variables outnumber the cuts. "auto" takes columns up to 100 variables.

    Raises
    ------
    MissingCapabilityError
        If a linear form is missing; the message names the piece.

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> from cutplane.masters.base import ReducedProblem
    >>> from cutplane.masters.lp.highs import HighsMaster
    >>> from cutplane.regularizers import NoRegularizer
    >>> from cutplane.sets import Box
    >>> master = HighsMaster(ReducedProblem(1, 1, NoRegularizer(), Box(-2, 5)))
    >>> cuts = SimpleNamespace(
    ...     slopes=np.array([[1.0], [-3.0]]), offsets=np.zeros(2), blocks=np.zeros(2, int), ids=np.arange(2)
    ... )
    >>> solution = master.solve(cuts)
    >>> solution.x.round(6).tolist(), solution.multipliers.round(6).tolist()
    ([0.0], [0.75, 0.25])
    """

    name = "highs"
    exact = True
    sparse = True

    def __init__(self, reduced: ReducedProblem, orientation: str = "auto"):
        reason = self.refusal(reduced, None)
        if reason is not None:
            raise MissingCapabilityError(f"HighsMaster cannot solve this reduced problem: {reason}.")
        if orientation not in _ORIENTATIONS:
            raise InvalidInputError(f"orientation must be 'auto', 'rows' or 'columns', got {orientation!r}.")
        regularizer, simple_set = (
            ask(piece, Capability.LINEAR_FORM, reduced.dim)
            for piece in (reduced.regularizer, reduced.simple_set)
        )
        form = regularizer.merge(simple_set, reduced.dim)
        if orientation == "auto":
            orientation = "columns" if form.n_columns <= _FEW_VARIABLES else "rows"
        self.reduced = reduced
        self.orientation = orientation
        self._values = AbsoluteValues.of(form)
        self._settled = False

    @staticmethod
    def refusal(reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None) -> str | None:
        """Return None if the reduced problem is a linear programme, else why not."""
        if stabilization is not None:
            return f"a {stabilization.__name__.lower()} term makes the reduced problem quadratic"
        for piece in (reduced.regularizer, reduced.simple_set):
            if ask(piece, Capability.LINEAR_FORM, reduced.dim) is None:
                return f"{piece!r} has no linear form"
        return None

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve; `stabilization` must be None, and `accuracy` is not used: a basis is exact."""
        if stabilization is not None:
            raise MissingCapabilityError(
                f"HighsMaster solves linear programmes only, not with {stabilization!r}."
            )
        if not is_finite(rows) or not self._follow(rows):
            self._settled = False
            return MasterSolution(None, None, MasterStatus.FAILED, "HiGHS: a row is not finite, or too large")
        status, message = rerun(self.model)
        if status is MasterStatus.SOLVED:
            found, own = self._layout.read(self.model), None
            if found.own is not None and found.reduced_costs is not None:
                own = self._values.multipliers(found.own / self._scale, found.reduced_costs / self._scale)
            x = self._values.point(found.u)[: self.reduced.dim]
            return MasterSolution(x, found.multipliers * self._factors / self._scale, set_multipliers=own)
        if self.orientation == "columns":
            return HighsMaster(self.reduced, "rows").solve(rows)
        return MasterSolution(None, None, status, message)

    def _follow(self, rows: Rows) -> bool:
        """Delete the rows that are gone from the model, append the new ones; tell whether HiGHS took them."""
        single = self._single_cuts(rows)
        if not self._settled or not np.array_equal(single, self._only_cuts):
            self._restart(rows, single)
        kept = survivors(self._known, rows.ids)
        if not kept.all():
            self._layout.remove(self.model, np.flatnonzero(~kept))
        new = slice(int(kept.sum()), None)
        slopes, offsets, blocks = rows.slopes[new], rows.offsets[new], rows.blocks[new]
        factors = row_factors(slopes, blocks, self._scale)
        self._factors = np.concatenate([self._factors[kept], factors])
        self._known = np.array(rows.ids)
        return not factors.size or self._layout.extend(
            self.model, self._values.columns(scaled(slopes, factors)), offsets * factors, blocks
        )

    def _single_cuts(self, rows: Rows) -> Array:
        """Return the ids of the cuts if every block has exactly one, else nothing."""
        cuts = rows.blocks != HALF_SPACE
        if self.orientation == "columns" or cuts.sum() != self.reduced.n_blocks:
            return np.empty(0, dtype=np.int64)
        each = np.unique(rows.blocks[cuts]).size == self.reduced.n_blocks
        return rows.ids[cuts] if each else np.empty(0, dtype=np.int64)

    def _restart(self, rows: Rows, single: Array) -> None:
        """Begin a new model, in the layout and the scale that the rows ask for."""
        form, n_blocks = self._values.form, self.reduced.n_blocks
        cuts = rows.slopes[rows.blocks != HALF_SPACE]
        self._layout: ColumnLayout | RowLayout
        if single.size:
            slope = np.ravel(cuts.sum(axis=0))
            self._layout = SingleCutLayout(form, np.ravel(self._values.columns(slope[np.newaxis])))
        else:
            kind = ColumnLayout if self.orientation == "columns" else RowLayout
            self._layout = kind(form, n_blocks)
        self._scale = objective_scale(rows.slopes, rows.offsets, rows.blocks)
        self._settled = bool(row_sizes(cuts).any())
        self._only_cuts = single.copy()
        self._known = np.empty(0, dtype=np.int64)
        self._factors = np.empty(0)
        self.model = self._layout.build(self._scale)
