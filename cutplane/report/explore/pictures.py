"""Pictures of boosting, kernel weights, labellings and chains, made of the shapes of `figure`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.history import State
from cutplane.exceptions import InvalidInputError
from cutplane.methods.kelley import Kelley
from cutplane.pieces.validation import Array, as_vector
from cutplane.problem import Problem
from cutplane.proof.evidence import dense
from cutplane.report.explore import figure
from cutplane.report.explore.bundle_picture import picture_of
from cutplane.report.explore.figure import Explorer
from cutplane.report.explore.recording import record
from cutplane.risks.sums import LinearObjective
from cutplane.sets.base import HalfSpace
from cutplane.sets.box import Box
from cutplane.sets.separation import separation_oracle

if TYPE_CHECKING:
    from cutplane.boosting.result import BoostingResult
    from cutplane.graphical.model import GraphicalModel
    from cutplane.mkl.problem import MKL
    from cutplane.structured.chain import ChainRisk

__all__ = ["kernel_weights", "labelling", "margins", "triangle", "viterbi"]

_ROUNDS = 200
"""Largest number of rounds that are shown, because a page with more curves would be large."""
_QUANTILES = 81
"""Number of points of a curve, because differences of 1/80 are hardly visible."""
_SIGHT = np.array([[0.9, -0.32, 0.0], [0.14, 0.36, 1.0]])
"""Images of the axes of a cube in the plane, by a parallel projection."""


def _explorer(
    title: str, counter: str, panel: dict[str, Any], charts: Sequence[dict[str, Any]], frames: int
) -> Explorer:
    shown = {"title": title, "counter": counter, "frames": frames, "panels": [panel], "charts": list(charts)}
    return Explorer(shown)


def _bounds(title: str, records: Sequence[Any], names: tuple[str, str]) -> dict[str, Any]:
    sides = [[getattr(one, f"{side}_bound") for one in records] for side in ("lower", "upper")]
    found = zip(names, ("lower", "upper"), sides, strict=True)
    return figure.chart(title, [figure.series(name, role, values, 6) for name, role, values in found])


def margins(result: BoostingResult) -> Explorer:
    """Show how rounds of boosting change the margins of the examples.

    The curve is the cumulative distribution of the margins; the soft margin is the mean of the share nu of
    smallest margins.

    Parameters
    ----------
    result : BoostingResult
        A result with its problem, that is, not loaded from a file.

    Raises
    ------
    InvalidInputError
        If the result has no problem.
    """
    problem = result.problem
    if problem is None:
        raise InvalidInputError("A result that was loaded from a file has no examples to show margins of.")
    chosen = np.unique(np.linspace(0, len(result.stages) - 1, min(_ROUNDS, len(result.stages))).astype(int))
    staged = [problem.y * scores for scores in result.staged_decision_function(problem.X)]
    levels = np.linspace(0.0, 1.0, _QUANTILES)
    curves = [np.quantile(staged[k], levels, method="inverted_cdf") for k in chosen]
    records = [result.history[min(k + 1, len(result.history) - 1)] for k in chosen]
    soft = [one.lower_bound for one in records]
    outliers = min(1.0, result.nu / problem.y.size)
    layers = [
        figure.layer("path", "faint", [[-1, outliers, 1, outliers]], "share nu / m"),
        figure.layer("path", "faint", [[0, 0, 0, 1]]),
        figure.until_next("path", "lower", enumerate([[s, 0, s, 1] for s in soft]), "soft margin"),
        figure.until_next(
            "path", "objective", enumerate([np.column_stack([c, levels]).ravel() for c in curves]), "margins"
        ),
    ]
    panel = figure.panel(
        "margins of the examples",
        layers,
        ((-1, 1), (0, 1)),
        ("margin", "share of the examples with at most this margin"),
        alt=f"The distribution of {problem.y.size} margins over {len(chosen)} rounds of boosting.",
        facts=[figure.fact("hypotheses", [int((result.stages[k] > 0).sum()) for k in chosen])],
    )
    chart = _bounds("soft margin and edge", records, ("soft margin", "edge"))
    return _explorer(f"Boosting by {result.method}", "round", panel, [chart], len(chosen))


def kernel_weights(mkl: MKL, method: Any = "auto", **options: Any) -> Explorer:
    """Show the weights of three kernels on a triangle; each trained machine gives a cut.

    Parameters
    ----------
    mkl : MKL
        With three kernels and norm 1.
    method : Method or str, default "auto"
        For example `Kelley` (SILP) or `LevelBundle`.
    **options
        As in `cutplane.explore`.

    Raises
    ------
    InvalidInputError
        If there are not three kernels, or the norm is not 1.
    """
    if mkl.bank.n_kernels != 3 or mkl.norm != 1.0:
        raise InvalidInputError(f"A triangle needs three kernels and norm 1, got {mkl!r}.")
    along = np.array([[-1.0, 1.0, 0.0], [-0.5, -0.5, 1.0]]) / np.sqrt([[2.0], [1.5]])
    chosen = mkl.automatic if method == "auto" else method
    recordings = [record(mkl.problem, chosen, {"x0": np.full(3, 1.0 / 3.0)} | options)]
    corners = (np.eye(3) - np.asarray(recordings[0].x)) @ along.T
    region = np.column_stack([corners.min(axis=0) - 0.35, corners.max(axis=0) + 0.35])
    drawn = picture_of(recordings, along, region)
    panel = drawn.data["panels"][0]
    names = [
        [*(corner + 0.13 * (corner - corners.mean(axis=0))), f"kernel {k}"]
        for k, corner in enumerate(corners)
    ]
    panel["layers"].append(figure.layer("text", "label", names))
    return Explorer(
        drawn.data
        | {"panels": [panel | {"ticks": False}], "title": f"Weights of kernels by {panel['title']}"}
    )


def triangle(costs: Any = (-1.0, -1.0, -1.0)) -> Explorer:
    """Show how the cycle inequalities of three binary variables cut off fractional vertices.

    The coordinates are the probabilities that the variables of a pair differ. Labellings are the corners of a
    tetrahedron, the marginal polytope; the local polytope is the cube around it.

    Parameters
    ----------
    costs : array_like of shape (3,), default (-1, -1, -1)
        Cost if the variables of a pair differ. By default it is cheaper that they differ, but only two of the
        three pairs can.
    """
    c = as_vector("costs", costs, 3)

    @separation_oracle
    def cycle_inequalities(x: Array) -> list[HalfSpace]:
        found = []
        for odd in [(0,), (1,), (2,), (0, 1, 2)]:
            normal = np.full(3, -1.0)
            normal[list(odd)] = 1.0
            if normal @ x > len(odd) - 1.0 + 1e-9:
                found.append(HalfSpace(normal, len(odd) - 1.0))
        return found[:1]

    problem = Problem(LinearObjective(c), feasible_set=Box(0.0, 1.0, dim=3) & cycle_inequalities)
    driver = problem.iterate(Kelley(), tol=1e-9)
    states = list(driver)
    bundle = driver.process.run.bundle  # pyright: ignore[reportAttributeAccessIssue]
    corners = np.array(list(product([0.0, 1.0], repeat=3)))
    labellings = corners[corners.sum(axis=1) % 2 == 0]
    edges = [_seen(a, b) for a, b in combinations(corners, 2) if np.abs(a - b).sum() == 1.0]
    faces = [_seen(*(labellings[k] for k in face)) for face in combinations(range(4), 3)]
    rows = np.flatnonzero(bundle.blocks < 0)
    cut_off = [
        _seen(*labellings[np.isclose(labellings @ bundle.slopes[k], -bundle.offsets[k])]) for k in rows
    ]
    born = [min(k for k, state in enumerate(states) if state.n_cuts > row) for row in rows]
    visits = [next((m.points[-1] for m in state.marks if m.kind == "model"), None) for state in states]
    points = [(k, _seen(x)) for k, x in enumerate(visits) if x is not None]
    layers = [
        figure.layer("path", "faint", edges, "local polytope"),
        figure.layer("path", "area", faces, "marginal polytope", closed=True),
        figure.layer("path", "wrong", cut_off, "cycle inequality", born=born, closed=True),
        figure.layer("points", "first", [_seen(x) for x in labellings], "labellings"),
        figure.until_next("points", "fractional", points, "optimum of the relaxation"),
        figure.layer(
            "text", "label", [[*(_SIGHT @ (1.18 * e)), f"pair {k + 1}"] for k, e in enumerate(np.eye(3))]
        ),
    ]
    seen = corners @ _SIGHT.T
    panel = figure.panel(
        "how often each pair disagrees",
        layers,
        np.column_stack([seen.min(axis=0) - 0.4, seen.max(axis=0) + 0.4]),
        ("", ""),
        equal=True,
        ticks=False,
        alt="A tetrahedron in a cube; a corner of the cube that is no labelling is cut off by a face of it.",
        captions=["before the first optimum"]
        + ["disagreements " + ", ".join(f"{v:.3g}" for v in x) for x in visits[1:] if x is not None],
    )
    chart = _bounds("bounds of the energy", states, ("bound of the relaxation", "best labelling"))
    return _explorer("A fractional vertex is cut off", "iteration", panel, [chart], len(states))


def _seen(*points: Array) -> list[float]:
    """Return the coordinates of points of the cube in the plane, as one list."""
    return (np.array(points) @ _SIGHT.T).ravel().tolist()


def viterbi(
    risk: ChainRisk, regularizer: Any, word: int = 0, method: Any = "auto", **options: Any
) -> Explorer:
    """Show loss-augmented decoding of one sequence while a chain is learnt.

    The oracle returns the labelling that violates the margin most, which gives a cut; at the end it is the
    true labelling, or close to it.

    Parameters
    ----------
    risk : ChainRisk
    regularizer : Regularizer
    word : int, default 0
        The sequence that is shown.
    method : Method or str, default "auto"
    **options
        As in `Problem.iterate`; ``max_iter`` is 60 by default.
    """
    from cutplane.structured.chain import decode

    sequences = risk.sequences
    start, stop = sequences.starts[word : word + 2]
    x, truth = np.asarray(dense(sequences.X[start:stop])), np.asarray(sequences.labels[start:stop])
    states, length = sequences.n_states, len(truth)
    wrong = 1.0 - np.eye(states)[truth]

    def emissions(w: Array) -> Array:
        return w[: states * x.shape[1]].reshape(states, -1)

    def decoded(w: Array, augmented: bool) -> Array:
        bonus = np.hstack([emissions(w), augmented * np.eye(states)]).ravel()
        return decode(np.concatenate([bonus, w[states * x.shape[1] :]]), [np.hstack([x, wrong])])[0]

    limits: dict[str, Any] = {"max_iter": 60}
    steps = list(Problem(risk, regularizer).iterate(method, **(limits | options)))
    points = [np.zeros(risk.dim) if step.x is None else step.x for step in steps]
    places = np.arange(length)

    def way(labels: Array, aside: float = 0.0) -> list[float]:
        return np.column_stack([places, labels + aside]).ravel().tolist()

    trellis = [[t, a, t + 1, b] for t in range(length - 1) for a in range(states) for b in range(states)]
    augmented, plain = ([decoded(w, kind) for w in points] for kind in (True, False))
    scores = [x @ emissions(w).T + wrong for w in points]
    shares = [(score - score.min()) / (np.ptp(score) or 1.0) for score in scores]
    bars = [
        [
            [t, s, round(float(share[t, s]) / 2, 2)]
            for t in range(length)
            for s in range(states)
            if share[t, s] > 0.02
        ]
        for share in shares
    ]
    layers = [
        figure.layer("path", "faint", trellis),
        figure.per_frame("bars", "bars", bars, "score of a label, with its loss", digits=2),
        figure.layer("path", "strong", [way(truth)], "truth"),
        figure.per_frame("path", "second", [[way(s, -0.06)] for s in augmented], "most violating labelling"),
        figure.per_frame("path", "third", [[way(s, 0.06)] for s in plain], "decoded labelling"),
    ]
    errors = [int((s != truth).sum()) for s in plain]
    panel = figure.panel(
        f"sequence {word}",
        layers,
        ((-0.5, length - 0.5), (-0.5, states - 0.2)),
        ("position", "label"),
        alt=f"A trellis of {length} positions and {states} labels, with the truth and two decoded paths.",
        facts=[figure.fact("wrong labels", errors)],
    )
    charts = [_bounds("bounds of the objective", steps, ("lower bound", "upper bound"))]
    return _explorer("Viterbi decoding with loss augmentation", "iteration", panel, charts, len(steps))


def labelling(
    model: GraphicalModel, shape: tuple[int, int], method: str = "auto", **options: Any
) -> Explorer:
    """Show the best labelling of a grid of binary variables, and its frustrated squares.

    An edge is attractive if equal labels cost less than different ones, otherwise repulsive. A square is
    frustrated if an odd number of its edges is repulsive, because no labelling then satisfies all four.

    Parameters
    ----------
    model : GraphicalModel
        The result of `cutplane.graphical.grid`.
    shape : pair of int
        Height and width.
    method : str, default "auto"
        As in `GraphicalModel.map`.
    **options
        Passed to `GraphicalModel.map`.

    Raises
    ------
    InvalidInputError
        If the model is not a grid of this shape with two states.
    """
    height, width = shape
    if (
        model.n_variables != height * width
        or set(model.cardinalities.tolist()) != {2}
        or not model.is_pairwise
    ):
        raise InvalidInputError(
            f"labelling needs a grid of {height} x {width} binary variables, got {model!r}."
        )
    factors = [model.factor(a) for a in range(model.n_factors)]
    sides = {variables: _attraction(table) for variables, table in factors}
    place = {u: [u % width, height - 1 - u // width] for u in range(height * width)}
    states: list[State] = []
    result = model.map(method, callback=states.append, **options)
    seen = [np.zeros(model.n_variables, dtype=int) if s.x is None else np.asarray(s.x) for s in states]
    seen = seen or [np.asarray(result.labelling)]

    def broken(x: Array) -> list[list[int]]:
        return [[*place[u], *place[v]] for (u, v), pull in sides.items() if pull * ((x[u] == x[v]) - 0.5) < 0]

    corners = [i * width + j for i in range(height - 1) for j in range(width - 1)]
    squares = [[u, u + 1, u + width + 1, u + width] for u in corners]
    frustrated = [
        [part for u in square for part in place[u]]
        for square in squares
        if np.prod([_between(sides, a, b) for a, b in zip(square, square[1:] + square[:1], strict=True)]) < 0
    ]
    both = [[*place[u], *place[v]] for u, v in sides]
    repelling = [[*place[u], *place[v]] for (u, v), pull in sides.items() if pull < 0]
    layers = [
        figure.layer("path", "area", frustrated, "frustrated squares", closed=True),
        figure.layer("path", "faint", both, "attracting edges"),
        figure.layer("path", "second", repelling, "repelling edges"),
        figure.per_frame("path", "wrong", [broken(x) for x in seen], "edges not satisfied"),
        *(
            figure.per_frame(
                "points",
                role,
                [[place[u] for u in np.flatnonzero(x == k).tolist()] for x in seen],
                f"label {k}",
            )
            for k, role in ((0, "off"), (1, "on"))
        ),
    ]
    panel = figure.panel(
        f"{height} x {width} variables",
        layers,
        ((-0.6, width - 0.4), (-0.6, height - 0.4)),
        ("", ""),
        equal=True,
        ticks=False,
        alt=f"A grid of {height} by {width} binary variables, {len(frustrated)} of its squares frustrated.",
        facts=[figure.fact("unsatisfied edges", [len(broken(x)) for x in seen])],
    )
    charts = [_bounds("bound and energy", states, ("bound", "energy"))] if states else []
    return _explorer(f"The best labelling of a grid by {method}", "iteration", panel, charts, len(seen))


def _attraction(table: Array) -> float:
    """Return the cost of different labels minus the cost of equal labels."""
    return float(table[0, 1] + table[1, 0] - table[0, 0] - table[1, 1])


def _between(sides: dict[tuple[int, ...], float], u: int, v: int) -> float:
    return float(np.sign(sides.get((u, v), sides.get((v, u), 0.0))))
