"""Sphinx configuration."""

import json
import re
import sys
import warnings
from importlib.metadata import files
from itertools import takewhile
from pathlib import Path

from docutils.nodes import raw, section

import cutplane

sys.path.insert(0, str(Path(__file__).parent))
from formulas import FORMULAS
from search_terms import TERMS

project = "cutplane"
author = "The cutplane developers"
copyright = "The cutplane developers"
version = release = cutplane.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "lessons", "**sg_execution_times.rst"]
nitpicky = False
default_role = "py:obj"

html_theme = "pydata_sphinx_theme"
html_title = "cutplane"
html_show_sourcelink = False
mathjax_path = "tex-svg.js"
"""One file that needs no fonts and no network, because pages are also read from the disk."""
_MATHJAX = next(file.locate() for file in files("sphinx-mathjax-offline") if file.name == mathjax_path)
mathjax3_config = {"options": {"enableMenu": False}}
html_static_path = ["_static", str(_MATHJAX)]
html_css_files = ["wide.css"]
html_js_files = ["names.js"]
html_sidebars = {"index": [], "cheat_sheet": [], "changelog": []}
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": {
        "guide/*": ["page-toc"],
        "guide/formulations": [],
        "guide/define_your_own": [],
    },
}

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": ["../examples", "lessons"],
    "gallery_dirs": ["gallery", "course"],
    "subsection_order": [
        *(
            f"../examples/{group}"
            for group in ("learning", "kernels", "engine", "structure", "separation", "labelling")
        ),
        "*",
    ],
    "backreferences_dir": "reference/generated/examples",
    "doc_module": ("cutplane",),
    "inspect_global_variables": False,
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "show_memory": False,
    "min_reported_time": 1,
    "download_all_examples": False,
    "remove_config_comments": True,
}
warnings.filterwarnings("ignore", message="Unknown section Optional Methods")


def _adapt(app, what, name, obj, options, lines):
    """Make docstrings fit for Sphinx: "Optional methods" become notes, and |x| is no substitution."""
    for i in range(len(lines) - 1):
        if lines[i] == "Optional methods" and re.fullmatch("-+", lines[i + 1]):
            end = next(
                (j - 1 for j in range(i + 2, len(lines)) if re.fullmatch("-{3,}", lines[j])), len(lines)
            )
            methods = [f"* ``{line}``" if line and line[0] != " " else line for line in lines[i + 2 : end]]
            lines[i:end] = [
                "Notes",
                "-----",
                "Optional methods, each of which is a capability:",
                "",
                *methods,
            ]
            break
    literal = 0
    for i, line in enumerate(lines):
        literal = literal if line else 0
        if not line.lstrip().startswith((">>>", "...", ".. math::")):
            parts = line.split("``")
            parts[literal::2] = [part.replace("|", r"\|") for part in parts[literal::2]]
            lines[i] = "``".join(parts)
            literal = (literal + len(parts) - 1) % 2


def _state_formula(app, what, name, obj, options, lines):
    """Put the formula of a piece below its first sentence, in place of the one in ASCII, if there is one."""
    if name in FORMULAS and not any(".. math::" in line for line in lines):
        start = lines.index("") if "" in lines else len(lines)
        indented = takewhile(lambda line: line.startswith("    "), lines[start + 1 :])
        lines[start : start + 1 + len(list(indented))] = ["", f".. math:: {FORMULAS[name]}", ""]


def _name_for_search(app, docname, source):
    """Put index entries on top of a page: the search lists main entries first."""
    if docname in TERMS:
        entries = ", ".join(f"! {term}" for term in TERMS[docname])
        source[0] = f".. index:: {entries}\n\n{source[0]}"


def _read_changelog(app, docname, source):
    """Show the changelog, which is Markdown, as a page with headings and lists."""
    if docname == "changelog":
        text = Path(app.srcdir, "..", "CHANGELOG.md").read_text()
        text = re.sub(r"`([^`]+)`", r"``\1``", text)
        text = re.sub(r"\[([^]]+)\]\((\S+)\)", r"`\1 <\2>`__", text)
        for mark, line in (("# ", "="), ("## ", "-"), ("### ", "~")):
            text = re.sub(rf"^{mark}(.*)$", rf"\1\n{line * 40}", text, flags=re.MULTILINE)
        source[0] = text


def _fold_solutions(app, doctree):
    """Fold what stands under the heading "Solutions" of a lesson, up to what the gallery adds below it."""
    for part in doctree.findall(section):
        if part[0].astext() == "Solutions":
            added = (k for k, node in enumerate(part) if re.search("sphx-glr-(timing|download)", str(node)))
            part.insert(next(added, len(part)), raw("", "</details>", format="html"))
            part.insert(1, raw("", "<details><summary>Show the solutions</summary>", format="html"))


def _fold_in_notebooks(app):
    """Fold the same heading in the notebooks."""
    for path in Path(app.srcdir, "course").glob("*.ipynb"):
        notebook = json.loads(path.read_text())
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown" and cell["source"][0].startswith("## Solutions"):
                cell["metadata"]["jp-MarkdownHeadingCollapsed"] = True
        path.write_text(json.dumps(notebook, indent=1) + "\n")


def setup(app):
    app.connect("source-read", _name_for_search)
    app.connect("source-read", _read_changelog)
    app.connect("autodoc-process-docstring", _adapt, priority=400)
    app.connect("autodoc-process-docstring", _state_formula, priority=410)
    app.connect("builder-inited", _fold_in_notebooks, priority=900)
    app.connect("doctree-read", _fold_solutions)
