"""A few files with random mistakes; ``benchmarks/mutated_files.py`` reads any number of them."""

from __future__ import annotations

import pytest

from fuzz.mutated_files import FORMATS, trial

COUNT = 150


@pytest.mark.every
@pytest.mark.parametrize("name", FORMATS)
def test_a_file_is_refused_or_read_as_its_text_says(name, tmp_path):
    broken, outcomes = [], set()
    for number in range(COUNT):
        outcome, words = trial(name, number, tmp_path)
        outcomes.add(outcome)
        broken += [f"--only {number} {name}: {words}"] * (outcome == "broken")
    assert not broken, "\n".join(broken)
    assert {"refused", "same"} <= outcomes
