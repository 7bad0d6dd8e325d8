"""See how a method works: a problem of one or two variables, or a section of a larger one, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cutplane.exceptions import InvalidInputError
from cutplane.report.explore import figure
from cutplane.report.explore.bundle_picture import panels
from cutplane.report.explore.explorer import Explorer
from cutplane.report.explore.recording import Recording, record, replay
from cutplane.report.explore.view import choose_view

if TYPE_CHECKING:
    from cutplane.methods.base import Method
    from cutplane.problem import Problem
    from cutplane.result import Result

__all__ = ["Explorer", "explore", "explore_result"]

_SMALLEST = 1e-16


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

    Drawn are the objective, the cuts and their maximum, the model; its minimiser, the query, the best point
    and its path; the multipliers of the reduced problem as bars on their cuts; both bounds and the certified
    gap; the feasible set and the half-spaces that separation oracles returned; and what the method says of
    itself: centre and prox term, level, line search, vertex. A method of your own is drawn like ours; it adds
    to the picture by ``run.mark("a word", x, y)``, an arrow from one point to another.

    In each frame the model is the one that was minimised: without the newest cut.

    Parameters
    ----------
    problem : Problem
        Of any dimension. Of more than two variables a section through the best point is drawn; points outside
        it are drawn at their projections, and cuts where they meet it.
    method : Method or str, default "auto"
        As in `Problem.solve`.
    methods : sequence of Method or str, optional
        Several, side by side, instead of `method`.
    along : array_like of shape (dim,) or (2, dim), optional
        One or two directions, which span the section. Default: all of one or two variables; else the two
        principal directions of the path.
    region : pair (low, high), or two such pairs, optional
        The part that is drawn, in the coordinates of the section. Default: where the method was.
    **options
        Passed to `Problem.iterate`; ``max_iter`` is 200 by default and less than 2,000.

    Returns
    -------
    Explorer
        A widget in Jupyter; ``save("cuts.html")`` writes a page that needs nothing else, ``plot()`` draws one
        frame.

    Raises
    ------
    InvalidInputError
        If `problem` is none, or `along` or `region` do not fit it.
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
    """Return a picture of what a result still knows of its run; see `Result.explore`."""
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
        gaps.append(
            figure.series("relative gap" + name, "gap", [max(one.gap, _SMALLEST) for one in records], place=k)
        )
        bounds.append(
            figure.series("lower bound" + name, "lower", [one.lower_bound for one in records], 6, place=k)
        )
        bounds.append(
            figure.series("upper bound" + name, "upper", [one.upper_bound for one in records], 6, place=k)
        )
    return Explorer(
        {
            "title": " and ".join(found.method for found in recordings),
            "counter": "iteration",
            "frames": frames,
            "panels": panels(recordings, view),
            "charts": [figure.chart("certified relative gap", gaps, True), figure.chart("bounds", bounds)],
        }
    )
