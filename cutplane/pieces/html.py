"""HTML tables for Jupyter."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


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
