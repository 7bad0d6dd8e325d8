"""Pages of the guide that are tests."""

import doctest
from pathlib import Path

import pytest

GUIDE = Path(__file__).parent.parent / "docs" / "guide"


PAGES = ["extend.rst", "decomposition.rst", "kernels.rst", "ranking_and_measures.rst", "structured.rst"]


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_is_what_happens(page):
    failed, attempted = doctest.testfile(str(GUIDE / page), module_relative=False)
    assert attempted
    assert not failed
