"""What the generators share: seeds, number types, noisy labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array


def as_generator(seed: Any) -> np.random.Generator:
    """Return a generator of random numbers, or raise `InvalidInputError`."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"seed must be an integer >= 0 or a numpy.random.Generator, got {seed!r}."
        ) from error


def as_real_type(dtype: Any) -> np.dtype[Any]:
    """Return float32 or float64 as a dtype, or raise `InvalidInputError`."""
    if dtype not in (np.float32, np.float64):
        raise InvalidInputError(f"dtype must be numpy.float64 or numpy.float32, got {dtype!r}.")
    return np.dtype(dtype)


def noisy_signs(scores: Array, noise: float, rng: np.random.Generator) -> Array:
    """Return the signs of the scores, each turned with probability `noise`."""
    return np.where((scores >= 0.0) ^ (rng.random(scores.size) < noise), 1.0, -1.0)
