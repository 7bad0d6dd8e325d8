"""Plots of kernel weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.report.plotting import as_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_weights(names: Sequence[str], weights: Array, ax: Any = None) -> Axes:
    """Plot weights as horizontal bars, the first one at the top, and return the axes.

    Parameters
    ----------
    names : sequence of str
    weights : ndarray of the same length
    ax : matplotlib Axes, optional
        Drawn into; new axes by default.
    """
    ax = as_axes(ax)
    places = np.arange(len(names))
    ax.barh(places, weights)
    ax.set_yticks(places, names)
    ax.invert_yaxis()
    ax.set_xlabel("weight")
    return ax
