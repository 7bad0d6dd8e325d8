"""Pages of the guide that are tests; the pages that errors and formulas belong to."""

import doctest
import pickle
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

import cutplane as cut
from cutplane import exceptions

GUIDE = Path(__file__).parent.parent / "docs" / "guide"

pytestmark = pytest.mark.skipif(not GUIDE.is_dir(), reason="a source distribution has no docs")


PAGES = [
    "extend.rst",
    "decomposition.rst",
    "explorer.rst",
    "kernels.rst",
    "ranking_and_measures.rst",
    "structured.rst",
]


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_is_what_happens(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, attempted = doctest.testfile(str(GUIDE / page), module_relative=False)
    assert attempted
    assert not failed


def _shown(text, kind):
    """Return the blocks of a kind in a page of Markdown."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_first_screen_runs_when_pasted_and_prints_what_is_below_it(capsys):
    readme = (GUIDE.parents[1] / "README.md").read_text()
    landing = (GUIDE.parent / "index.rst").read_text()
    assert landing.count(".. literalinclude:: ../README.md") == 2 and "code-block:: python" not in landing
    code, printed = _shown(readme, "python"), _shown(readme, "text")
    assert len(code) == len(printed) == 1 and readme.index("```python") < 300
    exec(code[0], {})
    said, expected = capsys.readouterr().out.split(), printed[0].split()
    assert len(said) == len(expected)
    for one, other in zip(said, expected, strict=True):  # within the gap, because rounding may change a step
        assert one == other or float(one) == pytest.approx(float(other), rel=1e-3)


def test_the_files_and_tables_that_contributing_names_exist():
    root = GUIDE.parents[1]
    text = (root / "CONTRIBUTING.md").read_text()
    files = re.findall(r"`([\w/]+\.(?:py|rst))`", text)
    tables = re.findall(r"`([A-Z]+)` in `(tests/[\w/]+\.py)`", text)
    assert len(files) > 20 and len(tables) > 5
    assert [name for name in files if not any((root / top / name).exists() for top in ("", "cutplane"))] == []
    assert [name for name, file in tables if f"\n{name} " not in f"\n{(root / file).read_text()}"] == []


@pytest.mark.parametrize("name", [name for name in vars(exceptions) if name.endswith("Error")])
def test_an_error_names_a_page_that_exists(name, monkeypatch):
    kind = getattr(exceptions, name)
    page, _, anchor = kind.page.partition("#")
    titles = re.findall(
        r"^(\S.*)\n[-=~]{3,}$", (GUIDE.parent / page).with_suffix(".rst").read_text(), re.MULTILINE
    )
    assert not anchor or anchor in [title.lower().replace(" ", "-") for title in titles]
    monkeypatch.setenv("CUTPLANE_DOCS", "https://docs.example/")
    error = kind("the message")
    assert str(error) == "the message"
    assert error.__notes__ == [f"See https://docs.example/{kind.page}"]
    assert pickle.loads(pickle.dumps(error)).__notes__ == error.__notes__


def _resolved(name):
    value = cut
    for k, part in enumerate(name.split(".")[1:], 2):
        value = getattr(value, part, None) or import_module(".".join(name.split(".")[:k]))
    return value


def test_the_changelog_has_versions_headings_and_short_bullets():
    lines = (GUIDE.parents[1] / "CHANGELOG.md").read_text().splitlines()
    headings = [line for line in lines if line.startswith("## ")]
    assert headings[0] == "## Unreleased" and f"## {cut.__version__}" in headings
    kinds = {line for line in lines if line.startswith("### ")}
    assert kinds <= {"### Added", "### Changed", "### Fixed", "### Removed"}
    words = [line for line in lines[lines.index(headings[0]) :] if line and not line.startswith("#")]
    assert all(line.startswith("- ") or len(line) < 20 for line in words)
    assert all(len(line.split()) <= 45 for line in words)


def test_every_term_of_the_search_names_a_page_and_is_found():
    sys.path.insert(0, str(GUIDE.parent))
    terms = import_module("search_terms").TERMS
    sys.path.pop(0)
    for page, found in terms.items():
        assert all(re.fullmatch(r"[a-z0-9 -]+", term) for term in found), page
        folder, _, name = page.rpartition("/")
        if folder == "reference/generated":
            assert _resolved(name).__doc__
        else:
            assert list((GUIDE.parent / folder.replace("course", "lessons")).glob(f"{name}.*")), page


def test_every_loss_regularizer_and_set_has_a_formula(monkeypatch):
    monkeypatch.syspath_prepend(GUIDE.parent)
    formulas = import_module("formulas").FORMULAS
    assert all(_resolved(name).__doc__ for name in formulas)
    named = {name.rpartition(".")[2] for name in formulas} | {"FeasibleSet", "Intersection"}
    bases = cut.losses.ScalarLoss, cut.Regularizer, cut.FeasibleSet
    for package in (cut.losses, cut.regularizers, cut.sets):
        classes = {name for name in package.__all__ if isinstance(getattr(package, name), type)}
        missing = {name for name in classes if issubclass(getattr(package, name), bases)} - named
        assert not missing, f"add {missing} to FORMULAS of docs/formulas.py"
