"""A figure as a page that needs nothing else."""

from __future__ import annotations

import html
import json
from functools import cache
from pathlib import Path
from typing import Any

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>html {{ color-scheme: light dark; }} body {{ margin: 0; }}</style>
</head>
<body>
<main id="figure"></main>
<script type="application/json" id="data">{data}</script>
<script type="module">
{script}
render(document.getElementById("figure"), JSON.parse(document.getElementById("data").textContent), true);
</script>
</body>
</html>
"""


_FIT = (
    "const inside = this.contentDocument.body;"
    "new ResizeObserver(() => this.style.height = inside.offsetHeight + 4 + 'px').observe(inside)"
)
"""The frame is as high as its page, whatever its width becomes."""


@cache
def script() -> str:
    """Return the module that draws: ``render(element, data)``."""
    return Path(__file__).with_name("explorer.js").read_text(encoding="utf-8")


def page(figure: dict[str, Any]) -> str:
    """Return the page of a figure."""
    data = json.dumps(figure, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return _PAGE.format(title=html.escape(figure["title"]), data=data, script=script())


def frame(figure: dict[str, Any], height: int) -> str:
    """Return the page in a frame of its own, for a notebook; it starts with the last picture."""
    source = html.escape(page({"start": figure["frames"] - 1} | figure), quote=True)
    name = html.escape(figure["title"], quote=True)
    return (
        f'<iframe srcdoc="{source}" title="{name}" width="100%" height="{height}" '
        f'style="border: 0" onload="{_FIT}"></iframe>'
    )
