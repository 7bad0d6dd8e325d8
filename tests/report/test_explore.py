"""What the explorer records is what the run did, for every method and every kind of set."""

import json
import re

import cvxpy as cp
import numpy as np
import pytest

import cutplane as cut
from cutplane.exceptions import InvalidInputError, MissingExtraError
from cutplane.report.explore import recording
from cutplane.report.explore.figure import module
from cutplane.report.explore.recording import View, choose_view, outline, record

A, B = np.array([[3.0, 1.0], [1.0, 2.0], [-1.0, 1.0]]), np.array([1.0, -1.0, 0.5])
VARIABLE = cp.Variable(2)


class Absolute(cut.Risk):
    """sum_i |<a_i, x> - b_i|, in one block or one per row."""

    def __init__(self, A, b, blocks=1):
        self.A, self.b, self.dim, self.n_blocks = A, b, A.shape[1], blocks

    def oracle(self, x):
        r = self.A @ x - self.b
        rows = np.array_split(np.arange(len(r)), self.n_blocks)
        slopes = self.A * np.sign(r)[:, None]
        return np.array([np.abs(r[k]).sum() for k in rows]), np.array([slopes[k].sum(axis=0) for k in rows])


@cut.separation_oracle
def disk(x):
    length = np.linalg.norm(x)
    return [] if length <= 1.0 + 1e-9 else [cut.HalfSpace(x / length, 1.0)]


class Wander(cut.methods.Method):
    """Queries points of a sequence, and says where it came from: a method of a user's own."""

    def step(self, run, state):
        k = state or 0
        x = run.problem.into_simple_set(np.array([np.cos(k), np.sin(1.7 * k)]))
        run.mark("walk", run.anchor.x, x)
        run.query(x)
        run.reduced()
        return cut.methods.Step("walk", k + 1)


@pytest.mark.parametrize(
    "dim, box, options",
    [
        (1, cut.Box(-5.0, 5.0), {}),
        (2, cut.Box(-5.0, [5.0, 9.0]), {}),
        (2, cut.Box(-5.0, np.inf, dim=2), {}),
        (4, cut.Box(-3.0, 3.0), {}),
        (3, cut.Box(-3.0, 3.0), {"along": [[1.0, 1.0, 0.0]]}),
    ],
)
def test_a_box_is_drawn_where_the_run_stays_in_a_point_of_it(dim, box, options):
    at = cut.risk(dim=dim)(lambda x: (np.abs(x).sum(), np.sign(x)))
    problem = cut.Problem(at, cut.L2(1e-2), box)
    (panel,) = cut.explore(problem, cut.ProximalBundle(), tol=1e-8, **options).data["panels"]
    (edge,) = (one["items"][0] for one in panel["layers"] if one["type"] == "outside")
    low, _ = panel["window"][0]
    assert low < min(edge[::2] if len(edge) > 2 else edge)  # the side is inside the picture


SETS = {
    "whole": cut.WholeSpace(),
    "box": cut.Box(-1.0, 0.5, dim=2),
    "orthant": cut.NonnegativeOrthant(),
    "simplex": cut.Simplex(),
    "l1": cut.L1Ball(0.7),
    "l2": cut.L2Ball(0.7),
    "polyhedron": cut.Polyhedron(A, np.ones(3)),
    "oracle": cut.Box(-2.0, 2.0, dim=2) & disk,
    "cvxpy": cut.CvxpySet([cp.norm(VARIABLE) <= 0.8, VARIABLE[0] >= 0], VARIABLE),
}
SMOOTH = cut.LinearRisk(A, B, cut.losses.Squared())
METHODS = {
    "kelley": (cut.Kelley(), Absolute(A, B), cut.L2(0.1)),
    "bmrm, blocks": (cut.BMRM(), Absolute(A, B, 3), cut.L2(0.1)),
    "ocas": (cut.OCAS(), cut.LinearRisk(A, B, cut.losses.Absolute()), cut.L2(0.1)),
    "proximal": (cut.ProximalBundle(), Absolute(A, B), cut.L1(0.1)),
    "level": (cut.LevelBundle(), Absolute(A, B), cut.L2(0.1)),
    "frank-wolfe": (cut.FrankWolfe("exact"), SMOOTH, None),
    "accelerated": (cut.methods.AcceleratedGradient(), SMOOTH, None),
    "mirror": (cut.methods.MirrorDescent(), SMOOTH, None),
    "lbfgs": (cut.LBFGS(), SMOOTH, cut.L2(0.1)),
    "auto": ("auto", cut.LinearRisk(A, B, cut.losses.Absolute()), cut.L2(0.1)),
    "own": (Wander(), Absolute(A, B), cut.L2(0.1)),
}
CASES = [
    *(
        (name, {"frank-wolfe": "box", "mirror": "simplex", "accelerated": "box"}.get(name, "whole"))
        for name in METHODS
    ),
    *(("kelley", name) for name in SETS),
    *(("frank-wolfe", name) for name in ("simplex", "l1", "l2")),
    *(("proximal", name) for name in ("orthant", "oracle")),
]


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    monkeypatch.setattr(recording, "_POINTS", {1: (201, 21), 2: (21, 5)})


def problem_of(name, of):
    method, risk, regularizer = METHODS[name]
    return cut.Problem(risk, regularizer, SETS[of]), method


@pytest.mark.parametrize(("name", "of"), CASES)
def test_a_recording_is_what_the_run_did_and_what_the_page_holds(name, of, tmp_path):
    problem, method = problem_of(name, of)
    options = {"tol": 1e-5, "max_iter": 12} | ({"max_cuts": 5} if name == "kelley" else {})
    states = list(problem.iterate(method, **options))
    found = record(problem, method, dict(options))
    for k, (state, frame) in enumerate(zip(states, found.frames, strict=True)):
        assert (frame.record.lower_bound, frame.record.upper_bound) == (state.lower_bound, state.upper_bound)
        assert len(found.alive(k)) == state.n_cuts
    rng = np.random.default_rng(0)
    for x in rng.uniform(-1.0, 1.0, (40, 2)):
        x = problem.into_simple_set(x)
        value = np.sum(problem.risk.oracle(x)[0])
        models = [found.model(k, x) for k in range(len(found.frames))]
        assert models[-1] <= value + 1e-7 * max(1.0, abs(value))  # every cut is below the risk
        if not any(died for died in found.died):
            assert np.all(np.diff(models) >= 0.0)  # more cuts, higher maximum
    for row, origin in enumerate(found.origins):
        if (
            origin is not None and found.blocks[row] == -1
        ):  # a half-space cuts off the query that it came from
            assert found.slopes[row] @ origin + found.offsets[row] > 0.0
    for frame in found.frames[1:]:
        per_block = np.zeros(problem.risk.n_blocks)
        for row, weight in frame.weights.items():
            if found.blocks[row] >= 0:
                per_block[found.blocks[row]] += weight
        assert not frame.weights or per_block == pytest.approx(1.0, abs=1e-6)
        for mark in frame.marks:
            assert all(point.shape == (2,) for point in mark.points)
    page_holds(found, problem, cut.explore(problem, method, **options), tmp_path / "cuts.html")


def numbers(chart):
    """Return the first series; what is not finite there is inf, signs of lower bounds being turned."""
    sign = -1.0 if chart["series"][0]["role"] == "lower" else 1.0
    return [np.inf if value is None else sign * value for value in chart["series"][0]["values"]]


def drawn(data, kind, role=None):
    return [one for one in data["panels"][0]["layers"] if one["type"] == kind and role in (None, one["role"])]


def page_holds(found, problem, picture, path):
    text = picture.save(path).read_text()
    assert len(text) < 300_000
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text))
    assert not addresses and "import(" not in text and "fetch(" not in text
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])
    assert data == json.loads(json.dumps(picture.data))
    gaps, bounds = data["charts"]
    assert numbers(gaps) == pytest.approx([max(f.record.gap, 1e-16) for f in found.frames], rel=1e-3)
    assert numbers(bounds) == pytest.approx([-f.record.lower_bound for f in found.frames], rel=1e-5)
    (model,) = drawn(data, "model")
    assert np.allclose(model["slopes"], found.slopes, rtol=1e-4, atol=1e-8)
    centre = np.mean(data["panels"][0]["window"], axis=1)
    middle = np.array(found.slopes) @ centre + found.offsets
    assert np.allclose(model["middle"], middle, rtol=1e-4, atol=1e-6)
    (contours,) = drawn(data, "contours")
    n = data["panels"][0]["grid"]
    (x0, _), (_, y1) = data["panels"][0]["window"]
    corner = np.array([x0, y1])  # the last of the first n: x runs slowest
    assert contours["values"][n - 1] == pytest.approx(problem.objective(corner), rel=1e-3)


def test_marks_of_methods_are_drawn_users_own_too():
    roles = {"proximal": "prox", "level": "level", "ocas": "search", "kelley": "minimiser"}
    for name, role in roles.items():
        problem, method = problem_of(name, "box")
        data = cut.explore(problem, method, tol=1e-6).data
        assert any(one["role"] == role for one in data["panels"][0]["layers"]), name
    (walk,) = drawn(cut.explore(*problem_of("own", "box"), max_iter=5).data, "arrows", "mark")
    assert walk["name"] == "walk" and walk["born"] == [1, 2, 3, 4, 5]
    assert walk["items"][1] == pytest.approx([*walk["items"][1][:2], 0.5, 0.5], abs=0.5)
    (vertex,) = drawn(cut.explore(*problem_of("frank-wolfe", "l1"), max_iter=3).data, "arrows", "vertex")
    assert np.abs(np.array(vertex["items"])[:, 2:]).sum(axis=1) == pytest.approx(0.7)  # vertices of the ball


def square(of, window=((-2.0, 2.0), (-2.0, 2.0))):
    return outline(
        cut.Problem(Absolute(A, B), feasible_set=SETS[of]),
        View(np.zeros(2), np.eye(2), np.array(window), ("", "")),
        cut.Problem(Absolute(A, B), feasible_set=SETS[of]).into_simple_set(np.array([0.1, 0.1])),
    )


def area(points):
    x, y = points.T
    return 0.5 * abs(x @ np.roll(y, -1) - y @ np.roll(x, -1))


def test_outlines_of_sets():
    assert square("whole") is None
    areas = {"box": 2.25, "orthant": 4.0, "simplex": 0.0, "l1": 0.98, "l2": 0.49 * np.pi, "oracle": np.pi}
    for of, expected in areas.items():
        assert area(square(of)) == pytest.approx(expected, rel=0.005, abs=1e-6), of
    corners = square("simplex")
    assert corners.min(axis=0) == pytest.approx([0, 0]) and corners.max(axis=0) == pytest.approx([1, 1])


def test_one_variable():
    @cut.risk(dim=1)
    def distance(x):
        return abs(x[0] - 1.0), np.sign(x - 1.0)

    problem = cut.Problem(distance, cut.L2(0.2), cut.Box(-3.0, 4.0))
    data = cut.explore(problem, cut.ProximalBundle(), tol=1e-6).data
    (curve,) = drawn(data, "path", "objective")
    x, y = np.array(curve["items"][0]).reshape(-1, 2).T
    assert y == pytest.approx(np.abs(x - 1.0) + 0.1 * x**2, abs=1e-3)
    (outside,) = drawn(data, "outside")
    assert outside["items"] == [[-3.0, 4.0]]
    (model,) = drawn(data, "model")
    assert any(steady and len(steady) == 3 for steady in model["stabilised"])
    best = drawn(data, "points", "best")[0]
    assert best["items"][-1] == pytest.approx([1.0, 0.1], abs=1e-3)


def test_sections_of_larger_problems():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 6))
    problem = cut.Problem(Absolute(X, X @ np.arange(6.0)), cut.L2(0.1))
    result = problem.solve(cut.BMRM(), tol=1e-6)
    u = np.zeros((2, 6))
    u[0, 0], u[1, :2] = 2.0, [1.0, 3.0]  # Gram-Schmidt makes them the first two axes
    data = cut.explore(problem, cut.BMRM(), tol=1e-6, along=u, region=[(-1, 1), (-2, 2)]).data
    (contours,), n = drawn(data, "contours"), data["panels"][0]["grid"]
    values = np.array(contours["values"]).reshape(n, n)
    x = result.x.copy()
    x[:2] += [-1.0, 2.0]
    assert values[0, -1] == pytest.approx(problem.objective(x), rel=1e-3)
    assert values[n // 2, n // 2] == pytest.approx(result.objective, rel=1e-2)
    (model,) = drawn(data, "model")
    middle = np.array(model["middle"]).max() + problem.regularizer.value(result.x)
    assert middle <= result.objective * (1 + 1e-4)
    assert middle >= result.objective * (1 - 1e-2)  # the model touches the objective at the best point
    line = cut.explore(problem, cut.BMRM(), tol=1e-6, along=u[0]).data
    assert drawn(line, "path", "objective") and not drawn(line, "contours")
    principal = choose_view([record(problem, cut.BMRM(), {"tol": 1e-6})], None, None)
    assert principal.directions @ principal.directions.T == pytest.approx(np.eye(2), abs=1e-9)


def test_a_result_shows_what_it_kept():
    problem, _ = problem_of("kelley", "box")
    result = problem.solve(cut.Kelley(), tol=1e-6)
    data, full = result.explore().data, cut.explore(problem, cut.Kelley(), tol=1e-6).data
    assert data["frames"] == full["frames"] == len(result.history)
    assert data["charts"] == full["charts"]
    kept, all_of_it = drawn(data, "model")[0], drawn(full, "model")[0]
    assert kept["slopes"] == all_of_it["slopes"] and kept["born"] == all_of_it["born"]
    assert sum(kept["weights"][-1][1::2]) == pytest.approx(1.0, abs=1e-3)


def test_the_window_of_a_line_is_an_interval():
    problem, method = problem_of("kelley", "box")
    view = choose_view([record(problem, method, {"tol": 1e-6})], np.array([1.0, 1.0]), None)
    assert view.window.shape == (1, 2)


def test_two_methods_share_a_view():
    problem, _ = problem_of("kelley", "box")
    picture = cut.explore(problem, methods=[cut.Kelley(), "proximal"], tol=1e-6)
    left, right = picture.data["panels"]
    assert left["window"] == right["window"] and left["title"] == "Kelley()" != right["title"]
    assert all(
        len(one["values"]) == picture.frames for chart in picture.data["charts"] for one in chart["series"]
    )


def test_refusals():
    problem, _ = problem_of("kelley", "box")
    wrong = [
        {"along": np.zeros(2)},
        {"along": np.ones((2, 2))},
        {"along": np.ones(3)},
        {"region": (1, 0)},
        {"region": [(0, 1)]},
        {"max_iter": 5000},
    ]
    for options in wrong:
        with pytest.raises(InvalidInputError, match=next(iter(options))):
            cut.explore(problem, cut.Kelley(), **options)
    with pytest.raises(TypeError, match="solve has no option 'verbose'"):
        cut.explore(problem, cut.Kelley(), verbose=True)


def test_displays():
    plt = pytest.importorskip("matplotlib.pyplot")
    for name, of in (("level", "box"), ("kelley", "oracle")):
        picture = cut.explore(*problem_of(name, of), tol=1e-4)
        drawing = picture.plot(3)
        assert drawing.axes[0].get_title() == repr(METHODS[name][0]).split("(")[0] + "()"
        plt.close(drawing)
    data, _ = picture._repr_mimebundle_()
    assert data["text/html"].startswith("<iframe srcdoc=") and "&lt;script" in data["text/html"]
    assert data["text/plain"] == repr(picture) == f"Explorer(Kelley(), {picture.frames} frames)"
    try:
        import anywidget  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(MissingExtraError, match=r"cutplane\[notebook\]"):
            picture.widget  # noqa: B018
    else:
        assert "application/vnd.jupyter.widget-view+json" in data and picture.widget.figure == picture.data


def test_the_widget_exports_one_thing():  # JupyterLab would call an exported `render` with other arguments
    lines = [line for line in module().splitlines() if line.startswith("export")]
    assert len(lines) == 1 and lines[0].startswith("export default")


def constant(dim):
    return cut.risk(dim=dim)(lambda x: (1.0, np.zeros(dim)))


def logarithm(x):
    if x[0] <= 0.0:
        raise ValueError("outside the domain")
    return x[0] - np.log(x[0]), 1.0 - 1.0 / x


NOWHERE = cut.separation_oracle(lambda x: [cut.HalfSpace(np.ones(2), -10.0)])
ODD = {
    "constant": (cut.Problem(constant(1)), "auto"),
    "constant, three variables": (cut.Problem(constant(3), cut.L2(1.0)), "auto"),
    "a point": (cut.Problem(cut.LinearObjective(np.ones(2)), None, cut.Box(1, 1)), cut.Kelley()),
    "a segment": (cut.Problem(cut.LinearObjective(np.ones(2)), None, cut.Box([0, 1], 1)), cut.Kelley()),
    "no value outside": (cut.Problem(cut.risk(dim=1)(logarithm), None, cut.Box(0.05, 4)), cut.Kelley()),
    "no point": (cut.Problem(cut.LinearObjective(np.ones(2)), None, cut.Box(0, 1) & NOWHERE), cut.Kelley()),
    "no bound": (cut.Problem(cut.LinearObjective(np.ones(2))), cut.ProximalBundle()),
    "far away": (cut.Problem(1e9 * Absolute(A, 1e6 * B), None, cut.Box(-1e8, 1e8)), cut.Kelley()),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_problems_have_a_picture(name, tmp_path):
    problem, method = ODD[name]
    picture = cut.explore(problem, method)
    window = np.array(picture.data["panels"][0]["window"])
    assert np.isfinite(window).all() and (window[:, 0] < window[:, 1]).all()
    json.loads(json.dumps(picture.data, allow_nan=False))


def test_only_problems_are_explored():
    with pytest.raises(cut.InvalidInputError, match=r"problem must be a cutplane\.Problem, got"):
        cut.explore(np.eye(2))
