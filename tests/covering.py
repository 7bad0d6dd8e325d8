"""Few combinations of parameters in which every two values meet."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any


def covering(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return rows, one value of each axis in each: any two values of two axes are in one of the rows."""
    values = [list(axis) for axis in axes]
    rows = [frozenset(combinations(enumerate(row), 2)) for row in product(*(range(len(v)) for v in values))]
    missing, chosen = frozenset().union(*rows), []
    while missing:
        best = max(rows, key=lambda row: len(row & missing))
        missing -= best
        chosen.append(
            tuple(values[axis][k] for axis, k in sorted({place for pair in best for place in pair}))
        )
    return chosen
