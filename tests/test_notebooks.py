"""A lesson as a notebook, generated as the documentation does it, runs in a real kernel."""

import json
from pathlib import Path

import pytest

LESSONS = Path(__file__).parents[1] / "docs" / "lessons"

pytestmark = pytest.mark.skipif(not LESSONS.is_dir(), reason="a source distribution has no docs")


def test_the_notebook_of_a_lesson_is_clean_and_runs_in_a_kernel(tmp_path, monkeypatch):
    pytest.importorskip("sphinx_gallery", reason="needs the extra docs")
    nbclient = pytest.importorskip("nbclient", reason="needs the extra docs")
    pytest.importorskip("ipykernel", reason="needs the extra docs")
    import nbformat
    from sphinx_gallery.gen_gallery import DEFAULT_GALLERY_CONF
    from sphinx_gallery.notebook import jupyter_notebook
    from sphinx_gallery.py_source_parser import split_code_and_text_blocks

    monkeypatch.delenv("MPLBACKEND", raising=False)  # the kernel chooses its own
    lesson = LESSONS / "1_subgradients_and_cuts.py"
    _, blocks = split_code_and_text_blocks(str(lesson))
    written = json.dumps(jupyter_notebook(blocks, DEFAULT_GALLERY_CONF, str(tmp_path)))
    notebook = nbformat.reads(written, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) > 10 and not any(cell.outputs for cell in code)
    assert any(r"\begin{align}" in cell.source for cell in notebook.cells)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in code for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    assert any("<iframe" in output.get("data", {}).get("text/html", "") for output in outputs)
