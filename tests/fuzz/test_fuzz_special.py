"""Some random trials of the special problems, and those that once broke a promise."""

from __future__ import annotations

import numpy as np
import pytest

from fuzz import special

BATCH = 10


@pytest.mark.every
@pytest.mark.parametrize("first", range(0, 30, BATCH))
@pytest.mark.parametrize("name", ["boosting", "kernel_machine", "map_inference", "mkl"])
def test_no_promise_is_broken(name, first):
    for seed in range(first, first + (BATCH if name != "mkl" else 4)):
        outcome = getattr(special, name)(np.random.default_rng(seed))
        assert not outcome.failures, (seed, outcome)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("map_inference", 39),
        ("map_inference", 202),
        ("map_inference", 324),
        ("mkl", 151),
        ("mkl", 175),
    ],
)
def test_a_promise_that_was_broken_is_kept(name, seed):
    outcome = getattr(special, name)(np.random.default_rng(seed))
    assert not outcome.failures, outcome
