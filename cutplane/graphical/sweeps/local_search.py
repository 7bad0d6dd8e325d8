"""Improving a labelling by changing one or two variables at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.graphical.model import GraphicalModel
from cutplane.graphical.sweeps.layout import make_layout
from cutplane.validation import Array


def local_search(model: GraphicalModel, labelling: Any) -> Array:
    """Return a labelling that no change of one variable improves, nor one of both variables of a pair.

    Iterated conditional modes (Besag 1986), then the best joint change of each pair, until neither helps. A
    labelling that breaks hard constraints is improved by their number first. The energy never rises.

    Parameters
    ----------
    model : GraphicalModel
    labelling : array_like of int, shape (n_variables,)
        Where to start.

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
    improve(layout, model.strides, model.tables, model.unaries, found)
    return found if model.energy(found) <= start else np.array(labelling, dtype=np.int64)
