"""What users see: one-line reprs, HTML in notebooks, log lines, the progress display, plots."""

import io
import math
import re
import sys
from html.parser import HTMLParser

import cvxpy as cp
import doors
import matplotlib
import numpy as np
import pytest
import rich
import scipy.sparse as sp
from formulations import data, formulation

import cutplane as cut
from cutplane.engine.driver import HEADER, format_line, progress_display
from cutplane.engine.history import History, Record, State
from cutplane.exceptions import MissingExtraError
from cutplane.report import plotting
from cutplane.report.compare import compare
from cutplane.runtime.extras import require_extra
from cutplane.testing import check_risk, check_set

matplotlib.use("Agg")
from matplotlib import pyplot as plt

X, Y = data()
x_cvxpy = cp.Variable(6, name="x")
PIECES = [
    *(made for door in doors.PIECES if isinstance(made := door.make(**door.arguments), doors.KINDS)),
    cut.LinearRisk(sp.csr_array(X), Y, cut.losses.Hinge(), blocks=3),
    cut.risk(dim=6)(lambda x: (0.0, x)),
    0.5 * cut.LinearRisk(X, Y, cut.losses.Logistic()) + cut.LinearObjective(np.ones(6)),
    cut.CvxpyRisk(cp.norm1(x_cvxpy - 1), x_cvxpy),
    cut.L1(0.1, weights=np.arange(500.0)),
    cut.CvxpyRegularizer(cp.norm_inf(x_cvxpy), x_cvxpy, 0.3),
    cut.Box(-1, np.arange(500.0)),
    cut.CvxpySet([x_cvxpy >= 0, cp.norm(x_cvxpy) <= 1], x_cvxpy),
    cut.Box(-1, 1, dim=6) & cut.L2Ball(1.0) & cut.separation_oracle(lambda x: []),
    cut.Backend("osqp", {"eps_abs": 1e-6}),
    *(cut.BMRM(), cut.OCAS(), cut.Kelley(), cut.ProximalBundle(), cut.LevelBundle()),
]
HINGE = cut.LinearRisk(X, Y, cut.losses.Hinge())


@pytest.fixture(scope="module")
def solved():
    return formulation("hinge, L2")[0].solve(cut.ProximalBundle(), tol=1e-6)


@pytest.fixture(autouse=True)
def no_windows(monkeypatch):
    def show(*_, **__):
        raise AssertionError("plt.show() was called")

    monkeypatch.setattr(plt, "show", show)
    yield
    plt.close("all")


class Table(HTMLParser):
    """The cells of an HTML table; fails on tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cells = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag in ("td", "th", "caption"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th", "caption"):
            self.cells[-1] += data


def html_of(item):
    return Table(item._repr_html_()).cells


# ---------------------------------------------------------------- reprs


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: type(piece).__name__)
def test_pieces_have_a_short_repr_on_one_line(piece):
    text = repr(piece)
    assert "\n" not in text and len(text) <= 200
    assert " object at 0x" not in text and "array(" not in text


def test_problem_shows_its_pieces():
    problem = cut.Problem(HINGE, cut.L2(0.1), cut.CvxpySet([x_cvxpy <= 1], x_cvxpy))
    for piece in (problem.risk, problem.regularizer, problem.feasible_set):
        assert repr(piece) in repr(problem)
        assert repr(piece) in html_of(problem)  # "<=" was escaped, and comes back
    assert "6" in html_of(problem)


def test_result_shows_status_bounds_and_reason(solved):
    text = repr(solved)
    assert text.startswith("Result\n") and "OPTIMAL" in text and f"{solved.objective:.10g}" in text
    assert "what to do" not in text
    cells = html_of(solved)
    assert {"status", "OPTIMAL", "objective", f"{solved.objective:.10g}", solved.reason} <= set(cells)


def test_an_unfinished_result_says_what_to_do():
    result = formulation("hinge, L2")[0].solve(cut.BMRM(), max_iter=1)
    assert result.status.remedy in repr(result)
    assert result.status.remedy in html_of(result)


def test_certificate_history_path_state_and_comparison(solved):
    assert re.fullmatch(
        r"Certificate\(\S+ <= optimum <= \S+, \d+ of \d+ cuts in use\)", repr(solved.certificate)
    )
    assert repr(solved.history) == f"History({solved.n_iter} iterations, lower {solved.lower_bound:.6g}, " + (
        f"upper {solved.objective:.6g}, gap {solved.gap:.2g})"
    )
    assert repr(History([])) == "History(empty)"
    path = formulation("hinge, L2")[0].path([1.0, 0.1])
    assert repr(path).startswith("Path(2 weights from 1 to 0.1, ")
    state = next(iter(formulation("hinge, L2")[0].iterate()))
    assert repr(state).startswith("State(iteration 0, start, lower ")
    assert state.gap == state.record.gap
    comparison = compare(formulation("hinge, L2")[0], [cut.BMRM()], max_iter=3)
    assert "BMRM" in repr(comparison)


def test_tables_in_a_notebook(solved):
    rows = len(solved.history)
    assert len(solved.history.to_frame()) == rows
    assert solved.history.to_frame()["gap"].iloc[-1] == solved.gap
    path = formulation("hinge, L2")[0].path([1.0, 0.1])
    assert list(path.to_frame()["lam"]) == [1.0, 0.1]
    for item, columns in (
        (solved.history, {"lower_bound", "gap", "step"}),
        (path, {"lam", "objective", "status"}),
    ):
        assert columns <= set(html_of(item))
    long = History([record(i, -1.0, 1.0) for i in range(2000)])
    assert len(html_of(long)) < 2000


def test_reports_list_every_check_with_the_numbers():
    clean = check_risk(HINGE)
    assert repr(clean).count("\n  ok ") + repr(clean).count("\n  not tested ") == len(clean.checks)
    wrong = check_risk(cut.risk(dim=6)(lambda x: (float(x @ x), -2.0 * x)), raise_on_failure=False)
    text = repr(wrong)
    assert f"fails {len(wrong.failures)} of {len(wrong.checks)} checks" in text.split("\n")[0]
    for check in wrong.failures:
        assert f"FAILED      {check.name}" in text and check.detail in text and check.remedy in text
        assert {check.name, check.explanation, "FAILED"} <= set(html_of(wrong))
        assert "x = [" in check.explanation
    assert "Box" in html_of(check_set(cut.Box(0, 1), 2))[0]


# ---------------------------------------------------------------- log and progress


def record(iteration, lower, upper, step="cut", note=""):
    return Record(
        iteration, lower, upper, iteration + 1, step, iteration, 0, 0.1, 0.2, 0.3, 0.05 * iteration, note
    )


@pytest.mark.parametrize(
    "bounds",
    [(-math.inf, math.inf), (-math.inf, 1.0), (-1e300, 1e300), (-123456.789012345, 1e-300), (0.0, 0.0)],
)
@pytest.mark.parametrize("iteration", [0, 99_999])
def test_log_lines_stay_under_their_header(bounds, iteration):
    line = format_line(State(record(iteration, *bounds), None))
    for name in ("iter", "lower", "upper", "gap"):
        end = re.search(rf"\b{name}\b", HEADER).end()
        assert line[end - 1] != " " and line[end] == " "
    assert line.index("cut") == HEADER.index("step")


def test_log_writes_a_header_and_every_nth_line():
    stream = io.StringIO()
    result = formulation("hinge, L2")[0].solve(callback=cut.Log(every=3, stream=stream), tol=1e-6)
    header, *lines = stream.getvalue().splitlines()
    assert header == HEADER
    assert [int(line.split()[0]) for line in lines] == list(range(0, result.n_iter + 1, 3))
    assert "!" in format_line(State(record(3, 0.0, 1.0, note="osqp failed"), None))


def test_log_goes_to_the_present_standard_output(capsys):
    result = formulation("hinge, L2")[0].solve(log=True)
    out = capsys.readouterr().out
    assert len(out.splitlines()) == result.n_iter + 2 and "ascent" in out


@pytest.mark.parametrize("name", ["hinge, L2", "ball by separation"])
def test_progress_display_ends_and_leaves_no_trace_in_the_result(name, capsys):
    problem, _ = formulation(name)
    shown, silent = problem.solve(progress=True), problem.solve()
    assert shown.objective == silent.objective and shown.n_iter == silent.n_iter
    capsys.readouterr()


def test_progress_in_a_notebook_asks_for_widgets_beforehand(monkeypatch):
    monkeypatch.setattr(rich.get_console(), "is_jupyter", True)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(cut.MissingExtraError, match="notebook"):
        formulation("hinge, L2")[0].solve(progress=True)


def test_progress_bar_shows_the_gap_in_decades(capsys):
    with progress_display(True) as display:
        for lower, upper, done in [
            (-math.inf, math.inf, 0.0),
            (0.0, 1.0, 0.0),
            (0.999, 1.0, 3.0),
            (1.0, 1.0, 12.0),
        ]:
            display(State(record(1, lower, upper), None))
            (task,) = display._progress.tasks
            assert task.completed == pytest.approx(done)
            assert "iteration 1" in task.fields["line"] and "2 cuts" in task.fields["line"]
    capsys.readouterr()


# ---------------------------------------------------------------- plots


def lines_of(ax):
    return {line.get_label(): line for line in ax.get_lines()}


def test_plot_of_the_bounds(solved):
    axes = plt.figure().add_subplot()
    assert solved.plot(ax=axes) is axes
    lines = lines_of(axes)
    np.testing.assert_array_equal(lines["upper bound"].get_ydata(), solved.history.column("upper_bound"))
    lower = solved.history.column("lower_bound")
    np.testing.assert_array_equal(
        lines["lower bound"].get_ydata(), np.where(np.isfinite(lower), lower, np.nan)
    )
    serious = [record.iteration for record in solved.history if record.step == "serious"]
    np.testing.assert_array_equal(lines["serious step"].get_xdata(), serious)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("iteration", "objective")
    low, high = axes.get_ylim()
    assert low < solved.lower_bound <= solved.objective < high
    (gap_axes,) = [other for other in axes.figure.axes if other is not axes]
    assert gap_axes.get_yscale() == "log" and gap_axes.get_ylabel() == "relative gap"


def test_plots_make_their_own_axes(solved):
    assert solved.plot().figure is plt.gcf()
    assert len({id(solved.plot().figure) for _ in range(2)}) == 2


@pytest.mark.parametrize(
    "records",
    [
        [],
        [record(0, -math.inf, math.inf)],
        [record(0, -math.inf, 5.0), record(1, -math.inf, 4.0)],
        [record(0, 1.0, 1.0)],
        [record(0, -1e9, 1e9), *(record(i, 1.0, 1.0) for i in range(1, 30))],
        [record(0, 0.0, 0.0), record(1, 0.0, 0.0)],
    ],
    ids=["empty", "nothing known", "no lower bound", "one record", "far off at first", "all zero"],
)
def test_plots_of_degenerate_histories(records):
    ax = plotting.plot_bounds(History(records))
    ax.figure.canvas.draw()
    assert all(math.isfinite(limit) for limit in (*ax.get_xlim(), *ax.get_ylim()))
    if len(records) == 30:
        assert ax.get_ylim()[1] < 10.0  # the first bounds do not hide the others


@pytest.mark.parametrize("max_iter", [1, 2, 3, 12])
def test_a_short_run_is_plotted_whole_with_ticks_at_iterations(max_iter):
    problem = cut.Problem(cut.LinearRisk(X, Y, cut.losses.Hinge()), cut.L2(1e-2))
    history = problem.solve(cut.BMRM(), tol=1e-9, max_iter=max_iter).history
    ax = plotting.plot_bounds(history)
    ax.figure.canvas.draw()
    low, high = ax.get_xlim()
    assert all(tick == round(tick) for tick in ax.get_xticks() if low <= tick <= high)
    bottom, top = ax.get_ylim()
    upper, lower = history.column("upper_bound"), history.column("lower_bound")
    assert bottom < lower[np.isfinite(lower)].min() and upper.max() < top


def test_plot_of_a_path():
    path = formulation("hinge, L2")[0].path([1.0, 0.1, 0.01])
    axes = plt.figure().add_subplot()
    assert path.plot(ax=axes) is axes
    lines = lines_of(axes)
    for j in range(6):
        np.testing.assert_array_equal(lines[f"x[{j}]"].get_ydata(), path.coefficients[:, j])
        np.testing.assert_array_equal(lines[f"x[{j}]"].get_xdata(), [1.0, 0.1, 0.01])
    assert axes.get_xscale() == "log" and "lam" in axes.get_xlabel()


def test_plot_of_a_path_down_to_zero_and_of_many_coordinates():
    problem = cut.Problem(cut.LinearRisk(X, Y, cut.losses.Hinge()), cut.L2(1.0), cut.Box(-1, 1))
    ax = problem.path([0.1, 0.01, 0.0]).plot()
    assert ax.get_xscale() == "symlog" and ax.get_xlim() == (0.0, 0.1)
    ax.figure.canvas.draw()
    wide = cut.Problem(cut.LinearObjective(np.arange(150.0)), cut.L2(1.0))
    ax = wide.path([1.0, 0.5]).plot()
    assert ax.get_ylabel() == "100 largest of 150 coordinates of x"
    drawn = {label for label in lines_of(ax) if label.startswith("x[")}
    assert drawn == {f"x[{j}]" for j in range(50, 150)} and ax.get_legend() is None
    assert wide.path([1.0]).plot().get_lines()


def test_plot_of_a_comparison():
    problem, _ = formulation("hinge, L2")
    comparison = compare(problem, [cut.BMRM(), cut.OCAS()], ["auto", "nonsense"], tol=1e-5)
    axes = plt.figure().add_subplot()
    assert comparison.plot(ax=axes) is axes
    drawn = [row for row in comparison.rows if row.result is not None]
    assert {row.label for row in drawn} < set(lines_of(axes))
    line = lines_of(axes)[drawn[0].label]
    assert line.get_ydata()[-1] == drawn[0].gap <= 1e-5
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_xlabel()) == ("log", "log", "seconds")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [row.label for row in drawn]


def test_plot_of_a_comparison_without_a_gap():
    comparison = compare(cut.Problem(cut.LinearObjective([1.0])), [cut.Kelley()])
    assert comparison.plot().texts[0].get_text() == "no run has a certified gap"


# ---------------------------------------------------------------- missing extras


@pytest.mark.parametrize(
    ("module", "extra", "use"),
    [
        ("matplotlib.pyplot", "plot", lambda result: result.plot()),
        ("pandas", "tables", lambda result: result.history.to_frame()),
        ("rich.progress", "progress", lambda result: formulation("hinge, L2")[0].solve(progress=True)),
    ],
)
def test_a_missing_extra_is_named(module, extra, use, solved, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf'pip install "cutplane\[{extra}\]"') as caught:
        use(solved)
    assert isinstance(caught.value, ImportError)


def test_without_pandas_notebooks_fall_back_to_text(solved, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    path = formulation("hinge, L2")[0].path([1.0])
    assert solved.history._repr_html_() is None and path._repr_html_() is None
    assert "BMRM" in compare(formulation("hinge, L2")[0], [cut.BMRM()], max_iter=2)._repr_html_()


def test_an_error_inside_an_installed_package_is_not_hidden(tmp_path, monkeypatch):
    (tmp_path / "broken_extra.py").write_text("import a_module_it_needs")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_module_it_needs") as caught:
        require_extra("broken_extra", "plot")
    assert not isinstance(caught.value, MissingExtraError)


def test_formulas():
    hinge = cut.LinearRisk(X, Y, cut.losses.Hinge())
    ends = {
        cut.Problem(
            hinge, cut.L2(1e-2)
        ): r"\max(0,\, 1 - y_i \langle a_i, x\rangle) + \frac{0.01}{2} \lVert x \rVert_2^2",
        cut.Problem(hinge, None, cut.Simplex()): r"subject to} \quad x \ge 0,\; \textstyle\sum_j x_j = 1",
        cut.Problem(
            hinge @ np.eye(6), cut.L1(2.0) @ np.eye(6)
        ): r"\langle a_i, A x\rangle) + 2 \, \lVert D x \rVert_1",
    }
    for problem, end in ends.items():
        assert problem.formula().endswith(end)
        assert problem._repr_latex_() == rf"$\displaystyle {problem.formula()}$"
        assert problem._repr_html_().startswith("<p>$")

    class Mine_Alone(cut.Risk):
        dim = 2

        def oracle(self, x):
            return 0.0, x

    assert cut.Problem(Mine_Alone()).formula() == r"\min_{x \in \mathbb{R}^{2}} \; \mathrm{Mine\_Alone}(x)"


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: type(piece).__name__)
def test_every_piece_says_a_formula_with_balanced_braces(piece):
    if not hasattr(piece, "formula"):
        assert not isinstance(piece, cut.Risk | cut.Regularizer | cut.FeasibleSet | cut.losses.ScalarLoss)
        return
    depth, found = 0, piece.formula()
    for mark in found.replace(r"\{", "").replace(r"\}", ""):
        depth += (mark == "{") - (mark == "}")
        assert depth >= 0
    assert depth == 0 and found.count(r"\left") == found.count(r"\right") - found.count(r"\rightarrow")


def test_certificates_and_histories_are_shown(solved):
    assert "rows in use" in solved.certificate._repr_html_()
    assert "rows asked for again" in solved.certificate.verify()._repr_html_()
    assert solved.history.sparkline.startswith(
        '<svg role="img" aria-label="relative gap over the iterations: from '
    )
    assert solved.history.sparkline in solved._repr_html_()
    assert History([]).sparkline == ""


def test_comparisons_over_calls_and_iterations():
    table = compare(formulation("hinge, L2")[0], methods=[cut.BMRM(), cut.OCAS()], tol=1e-2)
    for by, label in (("seconds", "seconds"), ("calls", "oracle calls"), ("iterations", "iterations")):
        axes = table.plot(by=by)
        assert axes.get_xlabel() == label
    calls = table[0].result.history.column("oracle_calls")
    assert table.plot(by="calls").get_lines()[0].get_xdata()[-1] == calls[-1]
    with pytest.raises(cut.InvalidInputError, match="by must be one of"):
        table.plot(by="cost")
