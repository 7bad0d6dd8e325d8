"""The families of trials, and how often each is drawn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fuzz import core, decomposed, faults, forgeries, models, special
from fuzz.outcome import Outcome

Trial = Callable[[np.random.Generator], Outcome]

FAMILIES: dict[str, tuple[float, Trial]] = {
    "core": (12.0, core.trial),
    "faults": (3.0, faults.trial),
    "forgeries": (2.0, forgeries.trial),
    "decomposition": (0.5, decomposed.trial),
    "cvxpy model": (0.7, models.trial),
    "boosting": (0.5, special.boosting),
    "mkl": (0.5, special.mkl),
    "kernel machine": (0.5, special.kernel_machine),
    "MAP": (0.5, special.map_inference),
}


def family_of(seed: int, index: int) -> str:
    """Return the family that is drawn for a trial."""
    names = list(FAMILIES)
    weights = np.array([FAMILIES[name][0] for name in names])
    return names[int(np.random.default_rng([seed, index, 1]).choice(len(names), p=weights / weights.sum()))]


def run(seed: int, index: int, only: str | None = None) -> tuple[str, Outcome]:
    """Do one trial, of the family `only` or of one drawn at random; the same numbers give the same trial."""
    name = only or family_of(seed, index)
    return name, FAMILIES[name][1](np.random.default_rng([seed, index]))
