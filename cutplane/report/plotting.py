"""Plots of runs, paths and comparisons; each plots into the given axes and returns them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array
from cutplane.runtime.extras import require_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cutplane.engine.history import History

_UPPER, _LOWER, _GAP = "#c1440e", "#1f5f8b", "#777777"
_ROOM = 3.0
"""Factor by which early bounds may enlarge the axis, because the last bounds must be legible."""
_MOST_LINES = 100
"""Largest number of coordinates that are drawn, because more cannot be distinguished."""
_MOST_LABELS = 10
"""Number of lines up to which there is a legend, because matplotlib has ten colours."""
_SMALLEST = 1e-16
"""Least relative gap that is drawn, because zero has no logarithm."""
_OVER = {
    "seconds": ("elapsed", 1e-6, "seconds"),
    "calls": ("oracle_calls", 1, "oracle calls"),
    "iterations": ("iteration", 1, "iterations"),
}
"""Column of the history, least number shown and label of the horizontal axis of a comparison."""
_STYLES = ("-", "--", ":", "-.")


def plot_bounds(history: History, ax: Axes | None = None) -> Axes:
    """Plot both bounds over the iterations, and the relative gap on a logarithmic axis on the right.

    Serious steps are marked on the upper bound. Bounds that are not finite are not drawn, and the first
    bounds may be outside of the axis limits.

    Parameters
    ----------
    history : History
    ax : matplotlib Axes, optional
        The axes to draw into; new axes by default.

    Returns
    -------
    matplotlib Axes
        The axes of the bounds.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import numpy as np, cutplane as cut
    >>> result = cut.Problem(cut.LinearObjective(np.ones(2)), feasible_set=cut.Box(-1, 1)).solve()
    >>> cut.plotting.plot_bounds(result.history).get_xlabel()
    'iteration'
    """
    axes = as_axes(ax)
    iterations = history.column("iteration")
    lower, upper, gap = (_finite(history.column(name)) for name in ("lower_bound", "upper_bound", "gap"))
    axes.fill_between(iterations, lower, upper, color=_GAP, alpha=0.15, linewidth=0)
    axes.plot(iterations, upper, color=_UPPER, label="upper bound")
    axes.plot(iterations, lower, color=_LOWER, label="lower bound")
    serious = history.column("step") == "serious"
    if serious.any():
        axes.plot(iterations[serious], upper[serious], ".", color=_UPPER, markersize=7, label="serious step")
    axes.set_xlabel("iteration")
    axes.set_ylabel("objective")
    axes.set_xlim(0, max(1, iterations.max(initial=1)))
    axes.locator_params("x", integer=True)
    _set_limits(axes, lower, upper)
    right = axes.twinx()
    right.plot(
        iterations, np.maximum(gap, _SMALLEST), color=_GAP, linewidth=1, linestyle="--", label="relative gap"
    )
    if np.isfinite(gap).any():
        right.set_yscale("log")
    right.set_ylabel("relative gap")
    lines = [*axes.get_lines(), *right.get_lines()]
    labels = [str(line.get_label()) for line in lines]
    axes.legend(
        lines, labels, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False, fontsize="small"
    )
    return axes


def plot_path(path: Any, ax: Axes | None = None) -> Axes:
    """Plot the coordinates of the best point over the weight of the regularizer.

    If there are more than 100 coordinates, the 100 that become largest are drawn, and the label of the axis
    says so.

    Parameters
    ----------
    path : Path
    ax : matplotlib Axes, optional
        The axes to draw into; new axes by default.

    Returns
    -------
    matplotlib Axes
    """
    found = [k for k, result in enumerate(path) if result.x is not None]
    coefficients = np.array([path[k].x for k in found]).reshape(len(found), -1)
    return plot_coordinates(path.lams[found], coefficients, ax, marker=".")


def plot_coordinates(lams: Array, coefficients: Array, ax: Axes | None = None, marker: str = "") -> Axes:
    """Plot coordinates over weights of the regularizer, straight from each weight to the next.

    Parameters
    ----------
    lams : ndarray of shape (K,)
    coefficients : ndarray of shape (K, dim)
    ax : matplotlib Axes, optional
        The axes to draw into; new axes by default.
    marker : str, default none
        Marker of each weight.

    Returns
    -------
    matplotlib Axes
    """
    axes = as_axes(ax)
    largest = np.argsort(-np.abs(coefficients).max(axis=0, initial=0.0), kind="stable")[:_MOST_LINES]
    few = len(largest) <= _MOST_LABELS
    for j in np.sort(largest):
        axes.plot(lams, coefficients[:, j], label=f"x[{j}]", marker=marker, linewidth=1.5 if few else 0.8)
    axes.axhline(0.0, color="black", linewidth=0.6, zorder=0)
    positive = lams[lams > 0]
    if positive.size:
        axes.set_xscale("symlog", linthresh=positive.min()) if positive.size < lams.size else axes.set_xscale(
            "log"
        )
    if lams.size > 1:
        axes.set_xlim(lams.min(), lams.max())
    axes.set_xlabel("weight of the regularizer, lam")
    dim = coefficients.shape[1]
    axes.set_ylabel(
        "coordinates of x" if dim <= _MOST_LINES else f"{_MOST_LINES} largest of {dim} coordinates of x"
    )
    if few and len(largest):
        axes.legend(frameon=False)
    return axes


def plot_comparison(comparison: Any, ax: Axes | None = None, by: str = "seconds") -> Axes:
    """Plot the certified relative gap of every run over time, calls or iterations, on logarithmic axes.

    With several methods and several backends, colours distinguish the methods and line styles the backends,
    or the other way round. A run that reached the tolerance ends with a dot, any other run with a cross; the
    thin line is the tolerance. Rows that failed are not drawn.

    Parameters
    ----------
    comparison : Comparison
    ax : matplotlib Axes, optional
        The axes to draw into; new axes by default.
    by : {"seconds", "calls", "iterations"}, default "seconds"
        The horizontal axis.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If `by` is none of these.
    """
    if by not in _OVER:
        raise InvalidInputError(f"by must be one of {', '.join(map(repr, _OVER))}, got {by!r}.")
    column, least, label = _OVER[by]
    axes = as_axes(ax, figsize=(9.0, max(4.5, 0.5 + 0.2 * len(comparison))))
    drawn = 0
    for row, colour, style in zip(comparison.rows, *_colours_and_styles(comparison), strict=True):
        if row.result is None:
            continue
        history = row.result.history
        spent = np.maximum(history.column(column), least)
        gap = _finite(history.column("gap"))
        known = np.isfinite(gap)
        if not known.any():
            continue
        gap = np.maximum(gap, _SMALLEST)
        drawn += 1
        axes.plot(spent[known], gap[known], style, color=colour, drawstyle="steps-post", label=row.label)
        end = "o" if row.status == "OPTIMAL" else "x"
        axes.plot(spent[known][-1], gap[known][-1], end, color=colour, markersize=5)
    if drawn:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.legend(
            loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, frameon=False, fontsize="small"
        )
    else:
        axes.text(0.5, 0.5, "no run has a certified gap", ha="center", va="center", transform=axes.transAxes)
    if drawn and comparison.tol > 0:
        axes.axhline(comparison.tol, color="black", linewidth=0.6, zorder=0)
    axes.set_xlabel(label)
    axes.set_ylabel("certified relative gap")
    return axes


def _colours_and_styles(comparison: Any) -> tuple[list[str], list[str]]:
    """Return a colour and a line style for each row: one for its method and the other for its backend.

    Colours distinguish methods or backends, whichever are more numerous.
    """
    columns = [[row.method for row in comparison.rows], [row.backend for row in comparison.rows]]
    coloured, styled = sorted(columns, key=lambda names: -len(set(names)))
    colours, styles = (list(dict.fromkeys(names)) for names in (coloured, styled))
    return (
        [f"C{colours.index(name) % 10}" for name in coloured],
        [_STYLES[styles.index(name) % len(_STYLES)] for name in styled],
    )


def as_axes(ax: Any, figsize: tuple[float, float] = (6.4, 4.4)) -> Any:
    """Return `ax`, or new axes."""
    if ax is not None:
        return ax
    pyplot = require_extra("matplotlib.pyplot", "plot")
    return pyplot.subplots(figsize=figsize, layout="constrained")[1]


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, np.nan)


def _set_limits(ax: Any, lower: Array, upper: Array) -> None:
    """Set the limits of the axis to all bounds, except early ones that would make the last ones illegible."""
    low, high = lower[np.isfinite(lower)], upper[np.isfinite(upper)]
    if not (low.size and high.size):
        return
    bottom, top = np.quantile(low, 0.1), np.quantile(high, 0.9)
    room = _ROOM * (top - bottom)
    bottom = low.min() if low.min() >= bottom - room else bottom
    top = high.max() if high.max() <= top + room else top
    margin = 0.05 * (top - bottom) or 0.05 * abs(top) or 1.0
    ax.set_ylim(bottom - margin, top + margin)
