"""The recipe for conda-forge names the version and the dependencies of pyproject.toml."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RECIPE = (ROOT / "docs" / "conda" / "meta.yaml").read_text()


def listed(section):
    """Return the entries of a list of the recipe, without spaces."""
    found = re.search(rf"^ +{section}:\n((?: +- .*\n)+)", RECIPE, re.MULTILINE)
    assert found is not None
    return {line.split("- ", 1)[1].replace(" ", "") for line in found[1].splitlines()}


def test_the_recipe_has_the_version_of_the_project():
    assert f'version = "{PROJECT["project"]["version"]}"' in RECIPE


def test_the_recipe_has_the_dependencies_of_the_project():
    project = PROJECT["project"]
    assert listed("run") == {f"python{project['requires-python']}", *project["dependencies"]}
    assert {*PROJECT["build-system"]["requires"]} <= listed("host")


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "cutplane" / "py.typed").exists()
