"""Improving a labelling by changing one or two variables at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.sweeps.layout import make_layout
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock

_PASSES, _ROUNDS = 3, 3000
"""Only the rounding errors of costs that cancel could need as many."""


def local_search(model: FactorGraph, labelling: Any, deadline: float = math.inf) -> Array:
    """Return a labelling that no change of one variable improves, nor one of both variables of a pair.

    Iterated conditional modes (Besag 1986), then the best joint change of each pair, until neither helps. A
    labelling that breaks hard constraints is improved by their number first. The energy never rises.

    Parameters
    ----------
    model : GraphicalModel
    labelling : array_like of int, shape (n_variables,)
        Where to start.
    deadline : float, default inf
        The time, as `cutplane.runtime.clock.clock` tells it, after which it is left as good as it is.

    Returns
    -------
    ndarray of int64, shape (n_variables,)
        A new array.

    Examples
    --------
    >>> from cutplane.graphical import chain
    >>> from cutplane.graphical.sweeps.local_search import local_search
    >>> local_search(chain([[0, 1], [0, 0], [0, 0]], [[0, 2], [2, 0]]), [1, 1, 1]).tolist()
    [1, 1, 1]

    References
    ----------
    Besag (1986). On the statistical analysis of dirty pictures. Journal of the Royal Statistical Society B
    48(3). https://doi.org/10.1111/j.2517-6161.1986.tb01412.x
    """
    from cutplane.graphical.sweeps.local_search_kernels import improve

    start = model.energy(labelling)
    found = np.array(labelling, dtype=np.int64)
    layout = make_layout(
        model.cardinalities, model.unary_starts, model.scope_starts, model.scopes, model.table_starts
    )
    active, paired = np.ones((2, model.n_variables), dtype=bool)
    for _ in range(_ROUNDS):
        if clock() > deadline:
            break
        if improve(layout, model.strides, model.tables, model.unaries, found, active, paired, _PASSES):
            break
    return found if model.energy(found) <= start else np.array(labelling, dtype=np.int64)
