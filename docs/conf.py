"""Sphinx configuration."""

import re
import warnings

import cutplane

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
exclude_patterns = ["_build", "_templates"]
nitpicky = False
default_role = "py:obj"

html_theme = "pydata_sphinx_theme"
html_title = "cutplane"
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": False, "show_toc_level": 2}

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "show_memory": False,
    "min_reported_time": 1,
    "download_all_examples": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
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
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = line.split("``")
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[i] = "``".join(parts)


def setup(app):
    app.connect("autodoc-process-docstring", _adapt, priority=400)
