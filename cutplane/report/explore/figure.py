"""Figures: shapes in JSON, which a script draws in notebooks and pages, and matplotlib draws for print.

A figure has panels, charts and frames. A panel has axes and layers. A layer is a list of items of one type.
An item is shown in the frames ``born``, ..., ``died - 1``; an item of a ``brief`` layer only in ``born``. The
role of a layer determines its colour, line style and marker.

=============  =====================================================================================
type           an item
=============  =====================================================================================
``path``       x0, y0, x1, y1, ...: a line; with ``closed`` a polygon
``points``     x, y
``arrows``     x0, y0, x1, y1
``levels``     y: a line from side to side
``bars``       x, y, share: a bar at (x, y), whose height is this share of the largest height
``text``       x, y, text
``contours``   none: ``values`` on the grid of the panel, drawn at its ``levels``
``outside``    a polygon, outside of which the panel is shaded
``model``      none: the script draws cuts, model, cells and half-spaces from rows of a bundle
=============  =====================================================================================
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import MissingExtraError
from cutplane.runtime.extras import require_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Layer = dict[str, Any]

_HEIGHTS = 680, 840
"""Heights in pixels of a frame with one panel and with several, needed because the page reports its height
late."""
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
"""Script that gives the frame the height of its page, because the height depends on the width."""


@dataclass(frozen=True, eq=False, repr=False)
class Explorer:
    """The figure that `explore` returns: a widget in Jupyter, and a page in a frame elsewhere.

    Buttons (back, play, next) and a slider select the iteration. Arrow keys, Home, End, the space bar, a
    swipe, and dragging in the charts do the same.

    Attributes
    ----------
    data : dict
        The figure as plain JSON: panels of layers, and charts; see `cutplane.report.explore.figure`.
    """

    data: dict[str, Any]

    @property
    def frames(self) -> int:
        """The number of frames."""
        return self.data["frames"]

    @cached_property
    def widget(self) -> Any:
        """The widget (needs the extra ``notebook``)."""
        return _widget_class()(figure=self.data)

    def save(self, path: str | Path) -> Path:
        """Write a self-contained HTML file, which needs neither a network nor Python.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        Path
            The path of the file.
        """
        path = Path(path)
        path.write_text(page(self.data), encoding="utf-8")
        return path

    def plot(self, iteration: int = -1) -> Figure:
        """Draw one frame and return the figure (needs the extra ``plot``).

        Parameters
        ----------
        iteration : int, default -1
            The frame, counted from the end if it is negative.
        """
        from cutplane.report.explore.still import draw

        return draw(self.data, range(self.frames)[iteration])

    def _repr_html_(self) -> str:
        source = html.escape(page({"start": self.frames - 1} | self.data), quote=True)
        name = html.escape(self.data["title"], quote=True)
        return (
            f'<iframe srcdoc="{source}" title="{name}" width="100%" '
            f'height="{_HEIGHTS[len(self.data["panels"]) > 1]}" style="border: 0" onload="{_FIT}"></iframe>'
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        try:
            bundle = self.widget._repr_mimebundle_(include=include, exclude=exclude)
        except MissingExtraError:
            bundle = None
        data, extra = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return data | {"text/html": self._repr_html_(), "text/plain": repr(self)}, extra

    def __repr__(self) -> str:
        return f"Explorer({self.data['title']}, {self.frames} frames)"


@cache
def script() -> str:
    """Return the JavaScript module that draws figures, by its ``render(element, data)``."""
    return Path(__file__).with_name("explorer.js").read_text(encoding="utf-8")


def page(figure: dict[str, Any]) -> str:
    """Return a figure as a self-contained HTML page."""
    data = json.dumps(figure, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return _PAGE.format(title=html.escape(figure["title"]), data=data, script=script())


def module() -> str:
    """Return the script with only a default export, because a notebook would call an exported `render`."""
    default = "\nexport default { render: ({ model, el }) => render(el, model.get('figure')) };\n"
    return script().replace("export function", "function") + default


@cache
def _widget_class() -> Any:
    anywidget = require_extra("anywidget", "notebook")
    traitlets = require_extra("traitlets", "notebook")

    class ExplorerWidget(anywidget.AnyWidget):
        _esm = module()
        figure = traitlets.Dict().tag(sync=True)

    return ExplorerWidget


def layer(
    kind: str,
    role: str,
    items: Iterable[Any],
    name: str = "",
    *,
    born: Sequence[int] | None = None,
    died: Sequence[int | None] | None = None,
    **more: Any,
) -> Layer:
    """Return a layer; `name` is its entry in the legend, ``digits`` the number of significant digits."""
    made: Layer = {"type": kind, "role": role, "items": plain(list(items), more.pop("digits", 4))}
    made |= {"name": name} if name else {}
    made |= {"born": list(born)} if born is not None else {}
    made |= {"died": list(died)} if died is not None else {}
    return made | more


def in_frame(kind: str, role: str, items: Iterable[tuple[int, Any]], name: str = "", **more: Any) -> Layer:
    """Return a layer of pairs (frame, item), each item shown in one frame."""
    pairs = list(items)
    frames = [frame for frame, _ in pairs]
    return layer(kind, role, (item for _, item in pairs), name, born=frames, **more) | {"brief": True}


def until_next(kind: str, role: str, items: Iterable[tuple[int, Any]], name: str = "", **more: Any) -> Layer:
    """Return a layer of pairs (frame, item), each item shown until the next item."""
    pairs = list(items)
    born = [frame for frame, _ in pairs]
    return layer(kind, role, (item for _, item in pairs), name, born=born, died=[*born[1:], None], **more)


def per_frame(kind: str, role: str, frames: Iterable[Iterable[Any]], name: str = "", **more: Any) -> Layer:
    """Return a layer of lists of items, one list per frame; an item in consecutive frames is stored once."""
    items: list[Any] = []
    born: list[int] = []
    died: list[int | None] = []
    here: dict[str, int] = {}
    for k, there in enumerate(frames):
        now = {repr(item): item for item in there}
        for key in [key for key in here if key not in now]:
            died[here.pop(key)] = k
        for key, item in now.items():
            if key not in here:
                here[key] = len(items)
                items.append(item)
                born.append(k)
                died.append(None)
    return layer(kind, role, items, name, born=born, died=died, **more)


def panel(
    title: str, layers: Iterable[Layer], window: Any, labels: Sequence[str], **more: Any
) -> dict[str, Any]:
    """Return a panel; `window` is ((x low, x high), (y low, y high)).

    Further entries are ``alt`` (a description in words), ``facts`` and ``steps`` (numbers and words of each
    frame), ``equal`` (both axes have the same scale), ``ticks`` (false for none), and ``grid`` (of contours).
    """
    return {"title": title, "layers": list(layers), "window": plain(window, 6), "labels": list(labels)} | more


def chart(title: str, series: Iterable[dict[str, Any]], log: bool = False) -> dict[str, Any]:
    """Return a chart of `series` over all frames, in which the current frame is marked."""
    return {"title": title, "series": list(series), "log": log}


def series(name: str, role: str, values: Any, digits: int = 4, place: int = 0) -> dict[str, Any]:
    """Return a line of a chart, a value per frame; `place` is its number among lines with the same role."""
    return {"name": name, "role": role, "values": plain(values, digits)} | ({"place": place} if place else {})


def fact(name: str, values: Any, digits: int = 6) -> dict[str, Any]:
    """Return a fact of a panel: a number for each frame."""
    return {"name": name, "values": plain(values, digits)}


def words(said: Sequence[str]) -> dict[str, Any]:
    """Return the words of the frames; equal words are stored once."""
    known = list(dict.fromkeys(said))
    place = {word: k for k, word in enumerate(known)}
    return {"words": known, "at": [place[word] for word in said]}


def plain(value: Any, digits: int) -> Any:
    """Return nested lists of numbers rounded to significant digits; None for numbers that are not finite."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        short = float(f"{value:.{digits}g}")
        return (
            None if not math.isfinite(value) else int(short) if short % 1 == 0 and abs(short) < 1e6 else short
        )
    if isinstance(value, list | tuple):
        return [plain(entry, digits) for entry in value]
    return value
