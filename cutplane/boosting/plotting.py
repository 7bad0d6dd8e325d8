"""Plots of margins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.report.plotting import as_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_margins(margins: Mapping[str, Array], soft_margin: float | None = None, ax: Any = None) -> Axes:
    """Plot the share of examples whose margin is at most a value, and return the axes.

    Parameters
    ----------
    margins : mapping of str to ndarray of shape (m,)
        A curve for each label.
    soft_margin : float, optional
        Drawn as a vertical line.
    ax : matplotlib Axes, optional
        Drawn into; new axes by default.
    """
    ax = as_axes(ax)
    for label, values in margins.items():
        ax.ecdf(np.asarray(values), label=label or None)
    if soft_margin is not None:
        ax.axvline(soft_margin, color="0.5", linestyle="--", linewidth=1.0, label="soft margin")
    ax.set_xlabel("margin")
    ax.set_ylabel("share of examples")
    if ax.get_legend_handles_labels()[1]:
        ax.legend()
    return ax
