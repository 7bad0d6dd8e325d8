"""A few random trials of the engine, of special problems, and of readers of files.

``benchmarks/fuzz.py`` and ``benchmarks/mutated_files.py`` do any number of them.
"""

from __future__ import annotations

import numpy as np
import pytest

from fuzz import special
from fuzz.families import run
from fuzz.mutated_files import FORMATS, trial

TRIALS = {"core": 60, "faults": 40, "forgeries": 15, "decomposition": 20, "cvxpy model": 20}
BATCH = 5
BATCHES = [(name, first) for name, count in TRIALS.items() for first in range(0, count, BATCH)]
SPECIAL = [
    (name, range(first, first + (4 if name == "mkl" else 10)))
    for name in ("boosting", "kernel_machine", "map_inference", "mkl")
    for first in (0, 10, 20)
]
SPECIAL += [
    ("map_inference", (39, 202, 324)),  # these once broke a promise
    ("mkl", (151, 175)),
]


@pytest.mark.every
@pytest.mark.parametrize(("name", "first"), BATCHES)
def test_no_promise_is_broken(name, first):
    broken = []
    for index in range(first, first + BATCH):
        _, outcome = run(0, index, name)
        broken += [f"--seed 0 --only {index} --family {name!r}: {failure}" for failure in outcome.failures]
    assert not broken, "\n".join(broken)


@pytest.mark.every
@pytest.mark.parametrize(("name", "seeds"), SPECIAL)
def test_no_promise_about_a_special_problem_is_broken(name, seeds):
    for seed in seeds:
        outcome = getattr(special, name)(np.random.default_rng(seed))
        assert not outcome.failures, (seed, outcome)


@pytest.mark.every
@pytest.mark.parametrize("name", FORMATS)
def test_a_file_is_refused_or_read_as_its_text_says(name, tmp_path):
    broken, outcomes = [], set()
    for number in range(150):
        outcome, words = trial(name, number, tmp_path)
        outcomes.add(outcome)
        broken += [f"--only {number} {name}: {words}"] * (outcome == "broken")
    assert not broken, "\n".join(broken)
    assert {"refused", "same"} <= outcomes
