"""Files: what is damaged is named, what is written is whole."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.pieces.text import write_text


def problem(loss=None, regularizer=None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0.0, 1.0, -1.0)
    return cut.Problem(cut.LinearRisk(X, y, loss or cut.losses.Hinge()), regularizer or cut.L2(0.01))


@cut.separation_oracle
def sparse_walls(x):
    """{x : x_i + x_(i+1) <= 1 for all i}, in sparse rows."""
    rows = sparse.eye_array(x.size - 1, x.size) + sparse.eye_array(x.size - 1, x.size, k=1)
    rows = sparse.csr_array(rows)
    broken = np.flatnonzero(rows @ x > 1.0 + 1e-9)
    return cut.HalfSpaces(rows[broken], np.ones(broken.size))


def with_sparse_slopes():
    costs = cut.LinearObjective(-np.arange(1.0, 13.0))
    return cut.Problem(costs, feasible_set=cut.Box(0, 1) & sparse_walls)


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    return problem().solve(tol=1e-6).save(tmp_path_factory.mktemp("whole") / "run").read_bytes()


def cut_off(share):
    return lambda path, content: path.write_bytes(content[: int(share * len(content))])


def changed(**arrays):
    """Write the file with these arrays in place of its own, and without those that are None."""

    def write(path, content):
        path.write_bytes(content)
        with np.load(path) as file:
            all_arrays = {name: file[name] for name in file.files} | arrays
        np.savez(path, **{name: array for name, array in all_arrays.items() if array is not None})

    return write


def another_format(path, content):
    path.write_bytes(content)
    with np.load(path) as file:
        header = json.loads(str(file["header"])) | {"format": 0}
    changed(header=np.array(json.dumps(header)))(path, content)


def array(path, content):
    with path.open("wb") as file:
        np.save(file, np.arange(3.0))


REFUSED = {
    **{f"cut off at {share}": cut_off(share) for share in (0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.9999)},
    **{
        f"without {name}": changed(**{name: None})
        for name in ("header", "x", "slopes", "offsets", "queries", "points", "duals")
    },
    "other multipliers": changed(multipliers=np.ones(2)),
    "other x": changed(x=np.ones(5)),
    "nan slopes": changed(slopes=np.full((3, 3), np.nan)),
    "other points": changed(points=np.zeros((1, 7))),
    "blocks of text": changed(blocks=np.array("none")),
    "another format": another_format,
    "text": lambda path, content: path.write_text("iter lower upper\n"),
    "array": array,
    "other archive": lambda path, content: np.savez(path, a=np.arange(3.0)),
    "archive with a header": lambda path, content: np.savez(path, header=np.array("3")),
    "pickle": lambda path, content: np.savez(path, header=np.array([{"format": 3}], dtype=object)),
    "folder": lambda path, content: path.mkdir(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_damaged_or_foreign_is_named(name, content, tmp_path):
    path = tmp_path / "run.npz"
    REFUSED[name](path, content)
    with pytest.raises(cut.InvalidInputError) as caught:
        cut.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
@pytest.mark.parametrize("share", np.linspace(0.0, 1.0, 41).round(3).tolist())
def test_a_flipped_bit_is_named_or_harmless(content, share, mask, tmp_path):
    damaged = bytearray(content)
    damaged[min(int(share * len(content)), len(content) - 1)] ^= mask
    path = tmp_path / "run.npz"
    path.write_bytes(damaged)
    try:
        result = cut.load(path, problem())
    except cut.InvalidInputError as error:
        assert str(path) in str(error)
    else:
        assert result.certificate.verify().valid


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.npz"):
        cut.load(tmp_path / "nowhere.npz")


@pytest.mark.parametrize("name", ["run", "run.npz", "run.v2", "a b/run"])
def test_a_result_is_loaded_by_the_name_that_it_was_saved_by(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b").mkdir()
    result = problem().solve()
    file = result.save(name)
    assert file.name.endswith(".npz") and cut.load(name).objective == result.objective
    (tmp_path / "run").write_text("something else")
    assert cut.load(name).objective == result.objective
    model = cut.graphical.spin_glass(2, 2).map()
    model.save(name)
    assert cut.load(name, trusted=True).energy == model.energy
    file.rename(tmp_path / "renamed")
    assert cut.load(str(tmp_path / "renamed"), trusted=True).energy == model.energy


WRITER = """
    import sys
    import cutplane as cut

    result = cut.load(sys.argv[1])
    for _ in range(30):
        result.save(sys.argv[2])
"""


def test_processes_that_save_to_one_file_all_succeed(content, tmp_path):
    source = tmp_path / "source.npz"
    source.write_bytes(content)
    target = tmp_path / "run.npz"
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(source), str(target)]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for writer in writers:
        assert writer.wait(120) == 0, writer.stderr.read()
        writer.stderr.close()
    assert cut.load(target, problem()).certificate.verify().valid
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run.npz", "source.npz"]


def test_an_error_names_the_path_of_the_user(tmp_path):
    path = tmp_path / "missing" / "model.uai"
    with pytest.raises(FileNotFoundError, match=r"missing/model\.uai'$"):
        write_text(["text"], path)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("there", [False, True])
def test_a_full_disk_leaves_what_was_there(there, error, tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    first, second = problem().solve(tol=0.1), problem().solve(tol=1e-6)
    if there:
        first.save(path)

    def full(file, **arrays):
        (file if hasattr(file, "write") else open(file, "wb")).write(b"PK\x03\x04 half of it")
        raise error

    monkeypatch.setattr("cutplane.engine.storage.np.savez", full)
    with pytest.raises(type(error)):
        second.save(path)
    monkeypatch.undo()
    assert [file.name for file in tmp_path.iterdir()] == (["run.npz"] if there else [])
    if there:
        assert cut.load(path).objective == first.objective


RUNS = {
    "dense": (problem, {"method": cut.BMRM()}),
    "duals": (problem, {"method": cut.Portfolio()}),
    "aggregates": (problem, {"method": cut.BMRM(), "max_cuts": 5, "max_iter": 40}),
    "sparse": (with_sparse_slopes, {}),
    "nothing": (problem, {"method": cut.BMRM(), "max_iter": 0}),
    "small": (lambda: problem(cut.losses.Squared(), cut.L2(1e9)), {}),
}


def equal(a, b):
    if sparse.issparse(a):
        return sparse.issparse(b) and a.shape == b.shape and equal(a.toarray(), b.toarray())
    return np.array_equal(a, b)


@pytest.mark.parametrize("name", RUNS)
def test_a_result_comes_back_as_it_was(name, tmp_path):
    make, options = RUNS[name]
    declared = make()
    result = declared.solve(tol=1e-8, **options)
    loaded = cut.load(result.save(tmp_path / "run"), declared)
    old, new = result.certificate, loaded.certificate
    for field in ("slopes", "offsets", "blocks", "queries", "multipliers", "x"):
        assert equal(getattr(old, field), getattr(new, field)), field
    for field in ("lower_bound", "upper_bound", "risk_value", "scale"):
        assert getattr(old, field) == getattr(new, field), field
    for origins in ("points", "duals"):
        one, other = getattr(old, origins), getattr(new, origins)
        assert list(one) == list(other)
        assert all(np.array_equal(one[key], other[key]) for key in one)
    for field in ("status", "reason", "method", "backend", "max_cuts", "gap", "gap_abs", "oracle_calls"):
        assert getattr(result, field) == getattr(loaded, field), field
    assert list(loaded.history) == list(result.history)
    assert sparse.issparse(new.slopes) == (name == "sparse")
    assert new.duals or name != "duals"
    assert new.verify() == old.verify()
    assert new.verify().valid


@pytest.mark.parametrize("max_iter", [1, 3, 10])
@pytest.mark.parametrize("name", ["dense", "duals", "aggregates", "sparse"])
def test_a_resumed_run_starts_from_the_bounds_that_were_saved(name, max_iter, tmp_path):
    make, options = RUNS[name]
    part = make().solve(tol=1e-10, **options | {"max_iter": max_iter})
    loaded = cut.load(part.save(tmp_path / "run"))
    resumed = make().solve(tol=1e-10, warm_start=loaded, **options | {"max_iter": 0})
    assert resumed.lower_bound >= part.lower_bound - 1e-12 * abs(part.lower_bound)
    assert resumed.objective <= part.objective + 1e-12 * abs(part.objective)
    assert resumed.certificate.verify().valid


def over(dim=4, seed=0, blocks=1, rows=60):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(rows, dim)), np.where(rng.random(rows) > 0.5, 1.0, -1.0)
    return cut.LinearRisk(X, y, cut.losses.Hinge(), blocks=blocks)


@cut.risk(dim=4)
def norm(x):
    return float(np.abs(x).sum()), np.sign(x)


@pytest.mark.parametrize(
    "other, named",
    [
        (lambda: cut.Problem(over(5), cut.L2(0.01)), "dimension 5"),
        (lambda: cut.Problem(over(blocks=3), cut.L2(0.01)), "blocks 3"),
        (lambda: cut.Problem(over(rows=61), cut.L2(0.01)), r"shape \(61, 4\)"),
        (lambda: problem(cut.losses.SquaredHinge()), "SquaredHinge"),
        (lambda: problem(None, cut.L1(0.01)), "regularizer L1"),
        (lambda: problem(None, cut.L2(0.02)), "lam=0.02"),
        (lambda: cut.Problem(over(), cut.L2(0.01), cut.Box(-1, 1)), "feasible set Box"),
        (lambda: cut.Problem(norm, cut.L2(0.01)), "risk norm"),
    ],
)
def test_a_result_of_other_pieces_is_refused(other, named, tmp_path):
    file = problem().solve(tol=1e-3).save(tmp_path / "run")
    with pytest.raises(
        cut.InvalidInputError, match=f"run.npz .*the problem has the .*{named}.* was saved with"
    ):
        cut.load(file, other())
    again = cut.load(cut.load(file, problem()).save(tmp_path / "again"))
    assert not again.certificate.verify(other()).valid
    assert again.certificate.verify(problem()).valid


def test_results_of_cvxpy_pieces_fit_another_process(tmp_path):
    def declared():
        w, s = cp.Variable((2, 2)), cp.Variable()  # with names that are counted
        risk = cut.CvxpyRisk(cp.sum_squares(w - s - 1.0), [w, s])
        return cut.Problem(risk, cut.L2(0.1) + cut.CvxpyRegularizer(cp.norm1(w), [w, s]), cut.Box(-1, 1))

    file = declared().solve(tol=1e-3, time_limit=5).save(tmp_path / "run")
    assert cut.load(file, declared()).certificate.verify().valid


def test_the_file_is_as_the_guide_says(tmp_path):
    """The table of arrays in the guide names those of a file, and the number of the format."""
    page = (Path(__file__).parents[2] / "docs" / "guide" / "certificates.rst").read_text(encoding="utf-8")
    table = page[page.index("The file of a result") : page.index(".. _probes:")]
    rows = re.findall(r"^   \* - (``.*)$", table, re.MULTILINE)
    told = {name for row in rows for name in re.findall("``([a-z_]+)``", row)} - {
        "solutions_k",
        "solution_keys_k",
    }
    problem = cut.Problem(cut.LinearObjective([1.0, -2.0]), feasible_set=cut.Box(0, 1))
    path = problem.solve(cut.Kelley()).save(tmp_path / "run.npz")
    with np.load(path) as file:
        assert set(file.files) == told
        assert f"``format`` ({json.loads(str(file['header']))['format']})" in table


def test_objects_whose_classes_have_moved_since_are_read(tmp_path, monkeypatch):
    """As saved when certificates were in engine/."""
    from cutplane.mkl import MKL

    rng = np.random.default_rng(0)
    kernels = [X @ X.T for X in rng.standard_normal((3, 12, 2))]
    result = MKL(kernels, np.sign(rng.standard_normal(12))).solve(tol=1e-3)
    kind = type(result.certificate)
    with monkeypatch.context() as before:
        before.setattr(kind, "__module__", "cutplane.engine.certificate")
        before.setitem(sys.modules, "cutplane.engine.certificate", sys.modules["cutplane.proof.certificate"])
        file = result.save(tmp_path / "old")
    assert b"cutplane.engine.certificate" in file.read_bytes()
    assert cut.load(file, trusted=True).certificate.lower_bound == result.certificate.lower_bound
