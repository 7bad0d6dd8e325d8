"""HTML tables for Jupyter."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np


class Shown:
    """Something with a table of facts, which are printed and shown in Jupyter."""

    def _shown(self) -> dict[str, Any]:
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = self._shown()
        width = max(map(len, facts), default=0)
        return "\n".join([type(self).__name__, *(f"  {name:<{width}} {facts[name]}" for name in facts)])

    def _repr_html_(self) -> str:
        return table(self._shown())


def table(facts: Mapping[str, Any]) -> str:
    """Return a two-column table: a name and a value per row."""
    cell = "style='text-align:left'"
    rows = "".join(
        f"<tr><th {cell}>{html.escape(name)}</th><td {cell}>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table>{rows}</table>"


def grid(header: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """Return a table with a header and a caption; line breaks in the cells are kept."""

    def line(tag: str, cells: Sequence[Any]) -> str:
        style = "style='text-align:left; white-space:pre-wrap'"
        return (
            "<tr>" + "".join(f"<{tag} {style}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"
        )

    head = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{head}{line('th', header)}{''.join(line('td', row) for row in rows)}</table>"


def sparkline(values: Any, label: str, floor: float = 1e-16) -> str:
    """Return a small chart of positive numbers, logarithmic, as inline SVG; "" for less than two numbers.

    Numbers that are not finite are omitted.
    """
    heights = np.log10(np.maximum(np.asarray(values, dtype=np.float64), floor))
    shown = np.flatnonzero(np.isfinite(heights))
    if shown.size < 2:
        return ""
    low, high = heights[shown].min(), heights[shown].max()
    x = 2.0 + 196.0 * (shown - shown[0]) / (shown[-1] - shown[0])
    y = 2.0 + 36.0 * (high - heights[shown]) / ((high - low) or 1.0)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    text = f"{label}: from {10.0 ** heights[shown[0]]:.2g} to {10.0 ** heights[shown[-1]]:.2g}"
    return (
        f'<svg role="img" aria-label="{html.escape(text, quote=True)}" width="200" height="40">'
        f"<title>{html.escape(text)}</title>"
        f'<polyline points="{points}" fill="none" stroke="#0072b2" stroke-width="1.5"/></svg>'
    )
