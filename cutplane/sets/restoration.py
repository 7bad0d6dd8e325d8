"""Feasibility restoration: points that a solver left slightly outside, moved in up to the last bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array

_BITS = 2.0**-48
"""A violation below this share of the terms of a row is what rounding leaves of them."""
_ROUNDS = 30
"""A row or two change sides in each round; more means that the point is not close."""
_MANY = 500
"""The most rows corrected at once: the least-squares problem has this many equations."""
_CYCLES = 200
"""Cyclic projections halve the violation in a few cycles, unless the sets are almost tangent."""


def restore_by_rows(form: LinearForm, x: Array) -> Array:
    """Return x moved by the least change that ends the violation of rows and bounds, where a few moves do."""
    moved = x
    for number in range(_ROUNDS):
        moved = np.clip(moved, form.lower, form.upper)
        values = form.rows @ moved
        excess = np.maximum(values - form.row_upper, 0.0) + np.minimum(values - form.row_lower, 0.0)
        bits = _BITS * (form.sizes @ np.abs(moved))
        outside = np.abs(excess) > bits
        if not outside.any():
            return moved
        if number == 0:  # the rows that hold with equality move together
            slack = np.minimum(form.row_upper - values, values - form.row_lower)
            outside |= np.abs(slack) <= np.abs(excess).max()
        violated = np.flatnonzero(outside)
        if violated.size > _MANY:
            return x
        rows = form.rows[violated].toarray()
        free = (moved > form.lower) & (moved < form.upper)
        step = np.linalg.lstsq(rows * free, excess[violated])[0]
        if not step.any():
            step = np.linalg.lstsq(rows, excess[violated])[0]
        moved = moved - step
    return moved


def restore_by_cycles(moves: Sequence[Callable[[Array], Array]], violation: Callable, x: Array) -> Array:
    """Return x after cyclic projections on sets that meet, until it violates none but by rounding."""
    for _ in range(_CYCLES):
        for move in moves:
            x = move(x)
        if violation(x) <= _BITS * float(np.abs(x).max()):
            break
    return x
