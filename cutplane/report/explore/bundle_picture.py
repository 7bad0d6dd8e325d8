"""Pictures of runs, a frame per iteration: function, cuts, model, bounds, path, and marks of the method."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array
from cutplane.report.explore import figure
from cutplane.report.explore.figure import Explorer
from cutplane.report.explore.recording import Recording, View, choose_view, outline, record, replay, sample

if TYPE_CHECKING:
    from cutplane.methods.base import Method
    from cutplane.problem import Problem
    from cutplane.result import Result

_SMALLEST = 1e-16
"""Least relative gap that is drawn, because zero has no logarithm."""
_ROLES = {
    "model": ("points", "minimiser", "minimiser of the model"),
    "prox": ("path", "prox", "prox centre and its minimiser"),
    "level": ("path", "level", "projection on the level set"),
    "search": ("path", "search", "line search"),
    "vertex": ("arrows", "vertex", "towards the vertex"),
}
"""Shape, role and name of each kind of mark; other kinds are drawn as arrows."""
_LEVELS = 14
"""Number of contours of the objective, because more would hide the marks and fewer the shape."""
_FLAT = 1e-12
"""Range of values, relative to the values, that counts as zero, because it may be a rounding error."""
_BELOW = 0.45
"""Height of the picture below the least value, relative to the range of values, because this shows the
cuts."""


def explore(
    problem: Problem,
    method: Method | str = "auto",
    *,
    methods: Sequence[Method | str] | None = None,
    along: Any = None,
    region: Any = None,
    **options: Any,
) -> Explorer:
    """Run a method, and return a picture of every iteration to step through.

    The picture shows

    * the objective, the cuts, and the model (their maximum), without the newest cut, as the method minimised
      it;
    * the minimiser of the model, the query, the best point and its path;
    * the multipliers of the reduced problem, as bars on their cuts;
    * both bounds and the certified gap;
    * the feasible set, and the half-spaces that separation oracles returned;
    * the marks of the method, for example centre and prox term, level, line search, vertex.

    A user's method is drawn in the same way; call ``run.mark("a word", x, y)`` in it to add an arrow from x
    to y.

    Parameters
    ----------
    problem : Problem
        Of any dimension. With more than two variables, a section through the best point is drawn: cuts are
        restricted to it, and points are projected on it.
    method : Method or str, default "auto"
        As in `Problem.solve`.
    methods : sequence of Method or str, optional
        Several methods, drawn side by side, instead of `method`.
    along : array_like of shape (dim,) or (2, dim), optional
        One or two directions, which span the section. Default: the axes of one or two variables, or the two
        principal directions of the path of more.
    region : pair (low, high), or two such pairs, optional
        The window, in the coordinates of the section. Default: around the points of the method.
    **options
        Passed to `Problem.iterate`; ``max_iter`` is 200 by default and less than 2,000.

    Returns
    -------
    Explorer
        A widget in Jupyter; ``save("cuts.html")`` writes one self-contained page, ``plot()`` draws one frame.

    Raises
    ------
    InvalidInputError
        If `problem` is not a `Problem`, or `along` or `region` do not fit it.
    MissingCapabilityError
        If a piece of the problem lacks what a method needs.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> @cut.risk(dim=1)
    ... def distance(x):
    ...     return abs(x[0] - 1.0), np.sign(x - 1.0)
    >>> picture = cut.explore(cut.Problem(distance, cut.L2(0.5)), cut.BMRM(), tol=1e-6)
    >>> picture
    Explorer(BMRM(), 3 frames)
    """
    from cutplane.problem import Problem

    if not isinstance(problem, Problem):
        raise InvalidInputError(f"problem must be a cutplane.Problem, got {type(problem).__name__}.")
    chosen = [method] if methods is None else list(methods)
    return picture_of([record(problem, one, dict(options)) for one in chosen], along, region)


def explore_result(result: Result, along: Any = None, region: Any = None) -> Explorer:
    """Return a picture of the run of a result; see `Result.explore`."""
    return picture_of([replay(result)], along, region)


def picture_of(recordings: list[Recording], along: Any, region: Any) -> Explorer:
    """Return the picture of recordings of one problem, side by side."""
    view = choose_view(recordings, along, region)
    frames = max(len(found.frames) for found in recordings)
    for found in recordings:
        found.frames += found.frames[-1:] * (frames - len(found.frames))
    bounds, gaps = [], []
    for k, found in enumerate(recordings):
        name = f", {found.method}" if len(recordings) > 1 else ""
        records = [frame.record for frame in found.frames]
        gap = [max(one.gap, _SMALLEST) for one in records]
        gaps.append(figure.series("relative gap" + name, "gap", gap, place=k))
        for side in ("lower", "upper"):
            values = [getattr(one, f"{side}_bound") for one in records]
            bounds.append(figure.series(f"{side} bound{name}", side, values, 6, place=k))
    return Explorer(
        {
            "title": " and ".join(found.method for found in recordings),
            "counter": "iteration",
            "frames": frames,
            "panels": _panels(recordings, view),
            "charts": [figure.chart("certified relative gap", gaps, True), figure.chart("bounds", bounds)],
        }
    )


def _panels(recordings: list[Recording], view: View) -> list[dict[str, Any]]:
    """Return a panel per recording, all with the same view of the same problem."""
    problem = recordings[0].problem
    count, values, extra = sample(problem, view)
    best = min(recordings, key=lambda found: found.frames[-1].record.upper_bound)
    inside = best.x if best.x is not None else view.origin
    edge = outline(problem, view, inside)
    return [_panel(found, view, count, values, extra, edge, k) for k, found in enumerate(recordings)]


def _panel(
    found: Recording, view: View, count: int, values: Array, extra: Array, edge: Array | None, place: int
) -> dict[str, Any]:
    last = found.frames[-1].record
    least = float(
        np.nanmin([last.lower_bound if np.isfinite(last.lower_bound) else np.nan, np.nanmin(values)])
    )
    top = float(np.nanmax(values))
    height = top - least
    if height <= _FLAT * abs(top):
        height = max(abs(top), 1.0)
    if view.k == 1:
        window = [view.window[0], (least - _BELOW * height, top + 0.05 * height)]
        labels = (*view.labels, "objective")
        layers = _line(view, count, values, edge, found)
    else:
        window, labels = list(view.window), view.labels
        layers = _plane(values, edge, least, height)
    layers.append(_model(found, view, extra))
    layers += _path(found, view, values)
    layers += _marks(found, view)
    return figure.panel(
        found.method,
        layers,
        window,
        labels,
        equal=view.k == 2,
        grid=count,
        alt=f"The objective over a {'line' if view.k == 1 else 'plane'}, with the cuts of {found.method} and "
        f"their maximum, the model. After {last.iteration} iterations the optimum is in "
        f"[{last.lower_bound:.6g}, {last.upper_bound:.6g}].",
        steps=figure.words([frame.record.step for frame in found.frames]),
        facts=[
            {"name": "lower bound", "chart": [1, 2 * place]},
            {"name": "upper bound", "chart": [1, 2 * place + 1]},
            figure.fact("cuts", [frame.record.n_cuts for frame in found.frames]),
        ],
    )


def _line(view: View, count: int, values: Array, edge: Array | None, found: Recording) -> list[figure.Layer]:
    """Return the layers of function, feasible interval and both bounds over a line."""
    layers = []
    if edge is not None:
        low, high = edge.ravel().tolist()
        layers.append(figure.layer("outside", "outside", [[low, high]], "outside the set"))
    bounds = [(frame.record.lower_bound, frame.record.upper_bound) for frame in found.frames]
    for side, (role, name) in enumerate((("lower", "lower bound"), ("upper", "upper bound"))):
        changes = _changes([bound[side] for bound in bounds])
        layers.append(figure.until_next("levels", role, changes, name, digits=7))
    curve = np.column_stack([view.axes(count)[0], values])
    return [*layers, figure.layer("path", "objective", [curve.ravel()], "objective", digits=5)]


def _plane(values: Array, edge: Array | None, least: float, height: float) -> list[figure.Layer]:
    """Return the layers of contours, closer to each other near the minimum, and of the feasible set."""
    levels = figure.plain(least + height * np.linspace(0.04, 1.0, _LEVELS) ** 2, 5)
    contours = {"values": figure.plain(values, 4), "levels": levels}
    layers = [figure.layer("contours", "objective", [], "contours of the objective", **contours)]
    if edge is None:
        return layers
    return [*layers, figure.layer("outside", "outside", [edge.ravel()], "outside the set")]


def _changes(values: list[Any]) -> list[tuple[int, Any]]:
    """Return (frame, value) for each frame in which the value changes."""
    before = [object(), *values[:-1]]
    return [(k, value) for k, (value, old) in enumerate(zip(values, before, strict=True)) if value != old]


def _model(found: Recording, view: View, extra: Array) -> figure.Layer:
    """Return the layer of rows in the coordinates of the view, and of the changes of their multipliers."""
    slopes = np.array(found.slopes).reshape(-1, found.problem.dim)
    centre = view.at(view.window.mean(axis=1))
    origins = [None if one is None else figure.plain(view.coordinates(one), 4) for one in found.origins]
    steps = [mark.value for frame in found.frames for mark in frame.marks if mark.kind == "level"]
    stabilised = [_stabilised(frame.marks, view) for frame in found.frames]
    pairs = [chain.from_iterable(frame.weights.items()) for frame in found.frames]
    weights = [figure.plain(list(each), 3) for each in pairs]
    more = {
        "slopes": figure.plain(slopes @ view.directions.T, 5),
        "middle": figure.plain(np.array(found.offsets) + slopes @ centre, 6),
        "at": origins,
        "weights": [one if k == 0 or one != weights[k - 1] else 0 for k, one in enumerate(weights)],
    }
    if len(set(found.blocks)) > 1 or any(found.blocks):
        more["blocks"] = found.blocks
    if extra.any():
        more["extra"] = figure.plain(extra, 4)
    if any(stabilised) or steps:
        more["stabilised"] = stabilised
    died = found.died if any(one is not None for one in found.died) else None
    return figure.layer("model", "model", [], "model", born=found.born, died=died, **more)


def _stabilised(marks: Any, view: View) -> list[float] | None:
    """Return the last prox term of a frame (centre, weight, minimum in the view), or its last level."""
    for mark in reversed(marks):
        if mark.kind == "prox":
            centre, weight = mark.points[0], mark.value
            u = view.coordinates(centre)
            away = float(np.sum((centre - view.at(u)) ** 2))
            return figure.plain([*u, weight, 0.5 * weight * away], 6)
        if mark.kind == "level":
            return figure.plain([mark.value], 6)
    return None


def _path(found: Recording, view: View, values: Array) -> list[figure.Layer]:
    """Return the layer of the best point of each frame, and in a plane of the path to it."""
    best = [None if frame.x is None else tuple(frame.x.tolist()) for frame in found.frames]
    moves = [(k, np.array(x)) for k, x in _changes(best) if x is not None]
    points = [(k, view.coordinates(x)) for k, x in moves]
    if view.k == 1:
        heights = [found.frames[k].record.upper_bound for k, _ in points]
        placed = [(k, [u[0], height]) for (k, u), height in zip(points, heights, strict=True)]
        return [figure.until_next("points", "best", placed, "best point", digits=5)]
    steps = [[*before, *after] for (_, before), (_, after) in pairwise(points)]
    path = figure.layer("path", "path", steps, "path of the best point", born=[k for k, _ in points[1:]])
    return [*([path] if steps else []), figure.until_next("points", "best", points, "best point")]


def _marks(found: Recording, view: View) -> list[figure.Layer]:
    """Return a layer for each kind of mark of the method."""
    kinds = dict.fromkeys(mark.kind for frame in found.frames for mark in frame.marks)
    layers = []
    for kind in kinds:
        shape, role, name = _ROLES.get(kind, ("arrows", "mark", kind))
        items = [
            (k, [part for point in mark.points for part in _placed(found, view, k, point)])
            for k, frame in enumerate(found.frames)
            for mark in frame.marks
            if mark.kind == kind and mark.points
        ]
        if shape == "arrows":
            items = [(k, [*item[:2], *item[-2:]]) for k, item in items if len(item) > 2]
        if items:
            layers.append(figure.in_frame(shape, role, items, name))
            if role in ("prox", "level"):
                centres = [(k, item[:2]) for k, item in items]
                layers.append(figure.in_frame("points", role, centres))
    return layers


def _placed(found: Recording, view: View, frame: int, x: Array) -> list[float]:
    """Return the coordinates of a point; over a line, the second one is the model of the frame there."""
    u = view.coordinates(x).tolist()
    if view.k == 2:
        return u
    model = found.model(max(frame - 1, 0), x) + found.problem.active_regularizer.value(x)
    return [*u, model]
