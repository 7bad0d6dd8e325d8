"""The shapes that every picture is made of, as plain JSON.

A figure has panels, charts and frames. A panel has axes and layers. A layer is a list of items of one type,
which may be there in some frames only: from ``born`` until before ``died``; of a ``brief`` layer, in that one
alone. The script draws any figure, and knows nothing of where it comes from. The role of a layer says how it
looks: colour, kind of line, marker.

=============  =====================================================================================
type           an item
=============  =====================================================================================
``path``       x0, y0, x1, y1, ...: a line; with ``closed`` a polygon
``points``     x, y
``arrows``     x0, y0, x1, y1
``levels``     y: a line from side to side
``bars``       x, y, share: a bar that stands at (x, y), of so large a share of the largest one
``text``       x, y, text
``contours``   none: ``values`` on the grid of the panel, drawn at its ``levels``
``outside``    a polygon: all but it is shaded
``model``      none: rows of a bundle, from which cuts, model, cells and half-spaces are drawn
=============  =====================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Layer = dict[str, Any]


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
    """Return a layer; `name` is its entry in the legend, and ``digits`` those kept of its numbers."""
    made: Layer = {"type": kind, "role": role, "items": plain(list(items), more.pop("digits", 4))}
    made |= {"name": name} if name else {}
    made |= {"born": list(born)} if born is not None else {}
    made |= {"died": list(died)} if died is not None else {}
    return made | more


def in_frame(kind: str, role: str, items: Iterable[tuple[int, Any]], name: str = "", **more: Any) -> Layer:
    """Return a layer of items that are there in one frame each: pairs (frame, item)."""
    pairs = list(items)
    frames = [frame for frame, _ in pairs]
    return layer(kind, role, (item for _, item in pairs), name, born=frames, **more) | {"brief": True}


def until_next(kind: str, role: str, items: Iterable[tuple[int, Any]], name: str = "", **more: Any) -> Layer:
    """Return a layer of items that are each there until the next one: pairs (frame, item)."""
    pairs = list(items)
    born = [frame for frame, _ in pairs]
    return layer(kind, role, (item for _, item in pairs), name, born=born, died=[*born[1:], None], **more)


def per_frame(kind: str, role: str, frames: Iterable[Iterable[Any]], name: str = "", **more: Any) -> Layer:
    """Return a layer of the items of each frame; one that stays from a frame to the next is held once."""
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

    Further entries are ``alt`` (what is seen, in words), ``facts`` and ``steps`` (what is said of each
    frame), ``equal`` (both axes have one scale), ``ticks`` (false for none), and ``grid`` of contours.
    """
    return {"title": title, "layers": list(layers), "window": plain(window, 6), "labels": list(labels)} | more


def chart(title: str, series: Iterable[dict[str, Any]], log: bool = False) -> dict[str, Any]:
    """Return a chart over all frames, through which the present one is marked; see `series`."""
    return {"title": title, "series": list(series), "log": log}


def series(name: str, role: str, values: Any, digits: int = 4, place: int = 0) -> dict[str, Any]:
    """Return a line of a chart: a value per frame; `place` tells lines of one role apart."""
    return {"name": name, "role": role, "values": plain(values, digits)} | ({"place": place} if place else {})


def fact(name: str, values: Any, digits: int = 6) -> dict[str, Any]:
    """Return a number that is said of each frame."""
    return {"name": name, "values": plain(values, digits)}


def words(said: Sequence[str]) -> dict[str, Any]:
    """Return what is said of each frame, each word once."""
    known = list(dict.fromkeys(said))
    place = {word: k for k, word in enumerate(known)}
    return {"words": known, "at": [place[word] for word in said]}


def plain(value: Any, digits: int) -> Any:
    """Return numbers, in whatever nesting, with so many digits; None for those that are not finite."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        return _rounded(value, digits) if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [plain(entry, digits) for entry in value]
    return value


def _rounded(value: float, digits: int) -> float | int:
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e6 else short
