"""The pages the documentation opens with run as written, and the reference knows every public name."""

import re
import textwrap
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

import cutplane as cut

DOCS = Path(__file__).parents[1] / "docs"
GUIDE = (
    "getting_started",
    "define_your_own",
    "choosing",
    "estimators",
    "boosting",
    "mkl",
    "graphical",
    "certificates",
    "statuses",
)

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="a source distribution has no docs")


def snippets(page):
    """Return the Python code blocks of a page, in order."""
    text = (DOCS / f"{page}.rst").read_text()
    blocks = re.findall(r"^( *)\.\. code-block:: python\n\n((?:\1   .*\n|\n)+)", text, re.MULTILINE)
    return [textwrap.dedent(block) for _, block in blocks]


def definitions(rows=slice(None)):
    """Return the names the snippets start from: real data, binary labels where a loss needs them."""
    X, target = (array[rows] for array in load_diabetes(return_X_y=True))
    X = StandardScaler().fit_transform(X)
    y = np.where(target > np.median(target), 1.0, -1.0)
    names = {"cut": cut, "np": np, "cp": cp, "X": X, "y": y, "A": X[:50, :5], "b": target[:50] / 100}
    n = 4
    M = np.arange(n * n).reshape(n, n) - 4.0
    return names | {"n": n, "c": (M + M.T).ravel()}


@pytest.fixture(autouse=True)
def _away(tmp_path, monkeypatch):
    """Run in an empty directory, without a display."""
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    yield
    plt.close("all")


def test_the_cheat_sheet_runs_as_written():
    names = definitions(slice(100))
    rng, n, x = np.random.default_rng(0), 5, cp.Variable(5)
    centre, normal = rng.uniform(0.0, 1.0, n), np.append(1.0, np.zeros(n - 1))
    f1, f2 = (
        cut.LinearRisk(names["X"][:, :n], names["y"], loss)
        for loss in (cut.losses.Hinge(), cut.losses.Logistic())
    )

    def f(x):
        return np.abs(x - centre).sum(), np.sign(x - centre)

    names |= {
        "n": n,
        "f": f,
        "f1": f1,
        "f2": f2,
        "A": np.eye(n),
        "normal": normal,
        "offset": 0.5,
        "variable": x,
    }
    names |= {"expression": cp.norm1(x - centre), "model": cp.Problem(cp.Minimize(cp.norm1(x - centre)))}
    names |= {
        "c": centre,
        "risk": cut.risk(dim=n)(f),
        "regularizer": cut.L2(1.0),
        "feasible_set": cut.Box(0, 1),
    }
    half = cut.separation_oracle(lambda x: [] if normal @ x <= 0.5 else [cut.HalfSpace(normal, 0.5)])
    names["oracle"] = half
    declare, combine, solve, read, own, check = snippets("cheat_sheet")
    for snippet in (declare, combine, solve, read, own):
        exec(snippet, names)
    exec(check, names | {"oracle": half})
    assert names["result"].status == "OPTIMAL"


def test_the_tour_runs_as_written_and_gives_what_cvxpy_gives(capsys):
    names = definitions()
    learning, built_in, own_loss, through_cvxpy, by_oracle, choice, steps, *rest = snippets("guide/tour")
    whole_path, boosted, many_kernels, inference, *_ = rest
    exec(learning, names)
    X, y, A, b, n, c = (names[name] for name in "XyAbnc")
    result = names["result"]
    w = cp.Variable(X.shape[1])
    r = y - X @ w
    pinball = cp.sum(cp.maximum(0.9 * r, -0.1 * r)) / len(y)
    assert result.status is cut.Status.OPTIMAL and result.certificate.verify().valid
    assert result.objective == pytest.approx(minimum(pinball + 0.005 * cp.sum_squares(w)), rel=1e-4)

    hinge = cp.sum(cp.pos(1 - cp.multiply(y, X @ w))) / len(y)
    assert value_of(built_in, names) == pytest.approx(minimum(hinge + 0.5e-4 * cp.sum_squares(w)), rel=1e-4)

    asymmetric = cp.sum(cp.maximum(-0.2 * (X @ w - y), X @ w - y)) / len(y)
    expected = minimum(asymmetric + 0.5e-3 * cp.sum_squares(w))
    assert value_of(own_loss, names) == pytest.approx(expected, rel=1e-3)

    v = cp.Variable(5)
    expected = minimum(cp.norm1(A @ v - b) + cp.norm_inf(v), [v >= 0])
    assert value_of(through_cvxpy, names) == pytest.approx(expected, rel=1e-4)

    V = cp.Variable((n, n), symmetric=True)
    expected = minimum(cp.sum(cp.multiply(c.reshape(n, n), V)), [V >> 0, cp.abs(V) <= 1])
    assert value_of(by_oracle, names) == pytest.approx(expected, rel=1e-4)

    table = value_of(choice, names)
    tried = [row for row in table.rows if row.backend != "ecos" or find_spec("ecos")]
    assert len(table.rows) == 8
    for row in tried:
        assert row.status == "OPTIMAL", row
        assert row.objective == pytest.approx(result.objective, rel=2e-4)

    capsys.readouterr()
    exec(steps, names)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [int(line[0]) for line in lines] == list(range(len(lines)))
    assert float(lines[-1][1]) <= result.objective <= float(lines[-1][2]) * (1 + 1e-4)

    exec(whole_path, names)
    assert all(each.status is cut.Status.OPTIMAL for each in names["path"])
    assert len(names["path"]) == 25

    ensemble = value_of(boosted, names)
    assert ensemble.status is cut.Status.TARGET and ensemble.gap_abs <= 1e-2

    fit = value_of(many_kernels, names)
    assert fit.status is cut.Status.OPTIMAL and fit.gap <= 1e-3 and fit.certificate.verify().valid

    model = cut.graphical.spin_glass(4, 4, field=0.5)
    cut.graphical.write_uai(model, "grid.uai")
    found = value_of(inference, names)
    assert found.status is cut.Status.OPTIMAL and found.gap <= 1e-6
    assert model.energy(found.labelling) == pytest.approx(model.brute_force()[1])


def snippet_with(name):
    (snippet,) = [snippet for snippet in snippets("guide/tour") if name in snippet]
    return snippet


def test_optimal_values_of_other_problems_are_risks():
    rng = np.random.default_rng(0)
    x, y, h = cp.Variable(2), cp.Variable(3), cp.Parameter(4)
    q, W, T = rng.uniform(1, 2, 3), rng.uniform(0.2, 1, (4, 3)), rng.uniform(0.2, 1, (4, 2))
    h1, h2, p, c = rng.uniform(1, 3, 4), rng.uniform(2, 6, 4), np.array([0.3, 0.7]), np.array([0.5, 0.7])
    costs, weights = rng.uniform(1, 5, (2, 4)), rng.uniform(1, 2, (2, 4))
    subproblems = [
        cut.decomposition.LinearSubproblem(c_k, [w], row_upper=[4.0], upper=1.0, integrality=True)
        for c_k, w in zip(costs, weights, strict=True)
    ]
    names = {"cut": cut, "cp": cp, "x": x, "y": y, "h": h, "q": q, "W": W, "T": T}
    names |= {"h1": h1, "h2": h2, "p": p, "c": c, "A": np.hstack([np.eye(4), np.eye(4)]), "b": np.ones(4)}
    names["subproblems"] = subproblems
    exec(snippet_with("ValueFunction"), names)
    second = [cp.Variable(3, nonneg=True) for _ in range(2)]
    rows = [W @ y_s >= h_s - T @ x for y_s, h_s in zip(second, (h1, h2), strict=True)]
    expected = minimum(c @ x + p[0] * q @ second[0] + p[1] * q @ second[1], [*rows, x >= 0, x <= 10])
    assert names["first_stage"].status == "OPTIMAL"
    assert names["first_stage"].objective == pytest.approx(expected, rel=1e-4)
    dual = names["dual"]
    assert dual.status == "OPTIMAL" and dual.certificate.verify().valid
    assert sum(dual.primal) == pytest.approx(np.ones(4), abs=1e-3)


def test_gradients_come_from_torch():
    torch = pytest.importorskip("torch")
    M = np.random.default_rng(0).standard_normal((30, 20))
    result = eval(snippet_with("autodiff_risk").strip(), {"cut": cut, "torch": torch, "M": torch.tensor(M)})
    w = cp.Variable(20)
    assert result.objective == pytest.approx(
        minimum(cp.log_sum_exp(M @ w) + 0.05 * cp.sum_squares(w)), rel=1e-4
    )


def test_rankings_and_measures_run_as_written():
    names = definitions(slice(60))
    names |= {"relevance": np.digitize(np.arange(60) * 7 % 60, [20, 40]), "groups": np.arange(60) // 12}
    ranking, measure = snippet_with("RankingRisk").strip().split("; ")
    result = eval(ranking, names)
    X, relevance, groups = (names[name] for name in ("X", "relevance", "groups"))
    i, j = np.nonzero((groups[:, np.newaxis] == groups) & (relevance[:, np.newaxis] < relevance))
    w = cp.Variable(X.shape[1])
    expected = cp.sum(cp.pos(1 + (X[i] - X[j]) @ w)) / i.size + 0.005 * cp.sum_squares(w)
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    assert result.objective == pytest.approx(minimum(expected), rel=1e-4)
    assert eval(measure, names)(np.zeros(X.shape[1])) == pytest.approx(1.0)
    assert cut.Problem(eval(measure, names), cut.L2(1e-2)).solve().status == "OPTIMAL"


def minimum(expression, constraints=()):
    return cp.Problem(cp.Minimize(expression), list(constraints)).solve(solver=cp.CLARABEL)


def value_of(snippet, names):
    """Run a snippet; return the value of its last line, or the objective if that is a result."""
    *before, last = snippet.strip().split("\n")
    exec("\n".join(before), names)
    value = eval(last, names)
    return value.objective if isinstance(value, cut.Result) else value


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow if page == "mkl" else ()) for page in GUIDE]
)
def test_the_guide_runs_as_written(page, capsys):
    names = definitions(slice(150))
    exec(snippets("guide/tour")[0], names)
    exec("from cutplane.pieces.lines import Line\nlams = [1.0, 0.1]", names)
    for snippet in snippets(f"guide/{page}"):
        exec(snippet, names)


PACKAGES = "decomposition estimators graphical losses measures methods regularizers sets testing".split()


@pytest.mark.parametrize("package", ["", *PACKAGES])
def test_the_reference_lists_every_public_name(package):
    module = import_module(f"cutplane.{package}".strip("."))
    pages = [page.read_text() for page in (DOCS / "reference").glob("*.rst")]
    listed = {name for page in pages for name in re.findall(r"^   (?:\w+\.)*(\w+)$", page, re.MULTILINE)}
    public = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    documented = {
        name for name in public if getattr(getattr(module, name), "__module__", "").startswith("cutplane")
    }
    missing = documented - listed - {"Intersection"}
    assert documented and not missing, f"add {missing} to a page of docs/reference"
