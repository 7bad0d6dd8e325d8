"""One frame of a figure, drawn by matplotlib, for print and where no script runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.runtime.extras import require_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BLUE, _SKY, _PURPLE, _ORANGE, _SOFT = "#0072b2", "#56b4e9", "#a8548a", "#b37400", "#6b6b6b"
_RED, _GREEN = "#d55e00", "#00795a"
_ROLES = {
    _BLUE: "lower first area",
    _RED: "upper newest minimiser second wrong fractional",
    _GREEN: "prox third",
    _PURPLE: "level vertex mark",
    _ORANGE: "search",
    "#c8c8c8": "faint",
}
_COLOURS = {role: colour for colour, roles in _ROLES.items() for role in roles.split()}
_DASHES = {"lower": (0, (8, 3)), "upper": "-.", "prox": "-.", "second": "--", "third": ":"}
_SIGNS = dict(best="D", minimiser="x", prox="s", level="s", second="s", third="^", fractional="*")
_BAR = 0.12
"""Height of the largest bar, relative to the panel, because bars should not hide the cuts."""


def draw(data: dict[str, Any], frame: int) -> Figure:
    """Return a matplotlib figure of one frame: its panels side by side."""
    pyplot = require_extra("matplotlib.pyplot", "plot")
    panels = data["panels"]
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(5.6 * len(panels), 4.8), layout="constrained", squeeze=False
    )
    for ax, panel in zip(axes[0], panels, strict=True):
        ax.set(xlim=panel["window"][0], ylim=panel["window"][1], title=panel["title"])
        labels = panel["labels"]
        ax.set_xlabel(labels[0])
        ax.set_ylabel(labels[1] if len(labels) > 1 else "")
        if panel.get("equal"):
            ax.set_aspect("equal")
        if panel.get("ticks") is False:
            ax.set_axis_off()
        for layer in panel["layers"]:
            _layer(ax, panel, layer, frame)
    handles = {
        label: handle for ax in axes[0] for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    if handles:
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=3 * len(panels),
            frameon=False,
            fontsize="small",
        )
    figure.suptitle(f"{data['counter']} {frame}", fontsize="medium")
    return figure


def _present(layer: dict[str, Any], frame: int) -> np.ndarray:
    """Return whether each item is present in a frame."""
    born = np.array(layer["born"])
    if layer.get("brief"):
        return born == frame
    died = np.array([np.inf if one is None else one for one in layer.get("died", [None] * len(born))])
    return (born <= frame) & (frame < died)


def _layer(ax: Any, panel: dict[str, Any], layer: dict[str, Any], frame: int) -> None:
    kind, role, items = layer["type"], layer["role"], layer["items"]
    if "born" in layer and kind != "model":
        items = [item for item, here in zip(items, _present(layer, frame), strict=True) if here]
    colour = _COLOURS.get(role, "#1a1a1a")
    look = {"color": colour, "linestyle": _DASHES.get(role, "-"), "linewidth": 1.4}
    name = layer.get("name")
    if kind == "model":
        _model(ax, panel, layer, frame)
    elif kind == "contours":
        values = np.array(layer["values"], dtype=float).reshape(panel["grid"], -1).T
        ax.contour(*_axes(panel), values, layer["levels"], colors=_SOFT, linewidths=0.7)
    elif kind == "path":
        for k, item in enumerate(items):
            points = np.array(item, dtype=float).reshape(-1, 2)
            points = np.vstack([points, points[:1]]) if layer.get("closed") else points
            ax.plot(*points.T, **look, label=name if k == 0 else None)
    elif kind == "points" and items:
        ax.plot(*np.array(items, dtype=float).T, _SIGNS.get(role, "o"), color=colour, label=name, zorder=4)
    elif kind == "levels":
        for k, item in enumerate(items):
            if item is not None:
                ax.axhline(item, **look, label=name if k == 0 else None)
    elif kind == "arrows":
        for item in items:
            ax.annotate("", item[2:], item[:2], arrowprops={"arrowstyle": "->", "color": colour})
    elif kind == "bars":
        _bars(ax, panel, items)
    elif kind == "text":
        for x, y, said in items:
            ax.text(x, y, said, ha="center", va="center", color=colour, zorder=5)
    elif kind == "outside":
        for item in items:
            _outside(ax, panel, item)


def _axes(panel: dict[str, Any]) -> list[np.ndarray]:
    return [np.linspace(low, high, panel["grid"]) for low, high in panel["window"]]


def _outside(ax: Any, panel: dict[str, Any], item: list[float]) -> None:
    if len(item) == 2:
        for side in ((panel["window"][0][0], item[0]), (item[1], panel["window"][0][1])):
            ax.axvspan(*side, color=_SOFT, alpha=0.15, linewidth=0)
    else:
        points = np.array(item, dtype=float).reshape(-1, 2)
        ax.plot(*np.vstack([points, points[:1]]).T, color=_SOFT, linewidth=1.2)


def _bars(ax: Any, panel: dict[str, Any], items: list[Any]) -> None:
    (left, right), (low, high) = panel["window"]
    for x, y, share in items:
        ax.bar(x, _BAR * (high - low) * share, 0.015 * (right - left), y, color=_ORANGE, alpha=0.85, zorder=3)


def _model(ax: Any, panel: dict[str, Any], layer: dict[str, Any], frame: int) -> None:
    """Draw cuts, model, half-spaces and multipliers."""
    now, before = _present(layer, frame), _present(layer, frame - 1)
    slopes = np.array(layer["slopes"], dtype=float)
    centre = np.mean(panel["window"][: slopes.shape[1]], axis=1)
    offsets = np.array(layer["middle"], dtype=float) - slopes @ centre
    blocks = np.array(layer.get("blocks", np.zeros(len(offsets))), dtype=int)
    axes = _axes(panel)
    grid = np.stack(np.meshgrid(*axes[: slopes.shape[1]], indexing="ij"), -1).reshape(-1, slopes.shape[1])
    extra = np.array(layer["extra"], dtype=float) if "extra" in layer else 0.0
    total = np.zeros(len(grid)) + extra
    for block in range(blocks.max(initial=0) + 1):
        rows = before & (blocks == block)
        total += (slopes[rows] @ grid.T + offsets[rows, None]).max(axis=0) if rows.any() else -np.inf
    newest = now & ~before
    flat = slopes.shape[1] == 1
    if flat:
        for row in np.flatnonzero(now & (blocks >= 0)):
            look = {"color": _COLOURS["newest"]} if newest[row] else {"color": _SKY, "linewidth": 0.8}
            ax.plot(grid[:, 0], slopes[row] @ grid.T + offsets[row] + extra, **look)
    for normal, offset in zip(slopes[now & (blocks < 0)], offsets[now & (blocks < 0)], strict=True):
        foot = -offset * normal / (normal @ normal)
        if flat:
            ax.axvline(foot[0], color=_PURPLE, linewidth=1)
        else:
            ax.axline(foot, foot + np.array([-normal[1], normal[0]]), color=_PURPLE, linewidth=1)
    if np.isfinite(total).any():
        if flat:
            ax.plot(grid[:, 0], total, color=_BLUE, linestyle="--", label="model")
        else:
            ax.contour(
                *axes, total.reshape(panel["grid"], -1).T, 12, colors=_BLUE, linewidths=0.9, linestyles="--"
            )
    at = [(row, point) for row, point in enumerate(layer["at"]) if point is not None and now[row]]
    floor = panel["window"][1][0]
    placed = {row: [*point, floor][:2] for row, point in at}
    for row, point in placed.items():
        ax.plot(
            *point, "o", color=_COLOURS["newest"] if newest[row] else _SOFT, markersize=3.5, clip_on=False
        )
    weights = next(filter(None, reversed(layer["weights"][: frame + 1])), [])
    pairs = [
        (int(row), share) for row, share in zip(weights[::2], weights[1::2], strict=True) if row in placed
    ]
    most = max(weights[1::2], default=1.0)
    _bars(ax, panel, [[*placed[row], share / most] for row, share in pairs])
