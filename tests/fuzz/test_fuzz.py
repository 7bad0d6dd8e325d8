"""A few random trials of the engine; ``benchmarks/fuzz.py`` does any number of them."""

from __future__ import annotations

import pytest

from fuzz.families import run

TRIALS = {"core": 60, "faults": 40, "forgeries": 15, "decomposition": 20, "cvxpy model": 20}
BATCH = 5
BATCHES = [(name, first) for name, count in TRIALS.items() for first in range(0, count, BATCH)]


@pytest.mark.every
@pytest.mark.parametrize(("name", "first"), BATCHES)
def test_no_promise_is_broken(name, first):
    broken = []
    for index in range(first, first + BATCH):
        _, outcome = run(0, index, name)
        broken += [f"--seed 0 --only {index} --family {name!r}: {failure}" for failure in outcome.failures]
    assert not broken, "\n".join(broken)
