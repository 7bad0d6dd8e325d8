"""Labellings read off a reparametrisation."""

from __future__ import annotations

import math

import numpy as np

from cutplane.graphical.sweeps.local_search import local_search
from cutplane.graphical.sweeps.reparametrization import Reparametrization
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock


def decode(reparametrization: Reparametrization, deadline: float = math.inf) -> Array:
    """Return a labelling of low energy.

    Variables take their states one after the other, each the one of least reparametrised cost given those
    before it; this is done forward and backward, both are improved by `local_search`, and the better one is
    returned (Kolmogorov 2006). States that were forbidden in the reparametrisation alone are still states of
    the model, and local search may come back to them.

    Parameters
    ----------
    reparametrization : Reparametrization
        The tighter its bound, the better the labelling; where they meet, the labelling is optimal.
    deadline : float, default inf
        The time, as `cutplane.runtime.clock.clock` tells it, after which it is left as good as it is.

    Returns
    -------
    ndarray of int64, shape (n_variables,)
        Its energy is inf only if neither way found a labelling that obeys the hard constraints.

    Examples
    --------
    >>> from cutplane.graphical import chain
    >>> from cutplane.graphical.sweeps.decoding import decode
    >>> from cutplane.graphical.sweeps.reparametrization import Reparametrization
    >>> rep = Reparametrization(chain([[0, 2], [1, 1], [2, 0]], [[0, 3], [3, 0]]))
    >>> rep.sweep(2), decode(rep).tolist()
    (3.0, [0, 0, 0])

    References
    ----------
    Kolmogorov (2006). Convergent tree-reweighted message passing for energy minimization. IEEE TPAMI 28(10).
    https://doi.org/10.1109/TPAMI.2006.200
    """
    model = reparametrization.model
    found = []
    for forward in (True, False):
        if not found or clock() <= deadline:
            found.append(local_search(model, reparametrization.greedy_labelling(forward), deadline))
    return found[int(np.argmin([model.energy(labelling) for labelling in found]))]
