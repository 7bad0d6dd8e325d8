"""The solutions that an oracle may return beside its cuts, and their averages."""

from __future__ import annotations

from copy import copy
from functools import reduce
from operator import add
from typing import Any

from cutplane.exceptions import OracleError


def own(solution: Any) -> Any:
    """Return a copy, since an oracle may use its memory again; of a tuple, copies of its entries."""
    return tuple(map(own, solution)) if isinstance(solution, tuple) else copy(solution)


def per_block(solution: Any, n_blocks: int, name: str) -> tuple[Any, ...]:
    """Return what an oracle gave as its solution as a tuple with an entry per block."""
    if n_blocks == 1:
        return (own(solution),)
    if solution is None:
        return (None,) * n_blocks
    if not hasattr(solution, "__len__") or len(solution) != n_blocks:
        raise OracleError(
            f"The solution of {name}, the third thing it returns, must be a sequence of {n_blocks}, one for "
            f"each block, got {type(solution).__name__}."
        )
    return tuple(own(one) for one in solution)


def average(solutions: list[Any], weights: list[float]) -> Any:
    """Return the sum of weights times solutions; None if there is none, or one of them is None.

    Solutions are arrays, sparse arrays, numbers, or any other objects with ``a + b`` and ``a * number``; of
    tuples, the entries are averaged.
    """
    if not solutions or any(solution is None for solution in solutions):
        return None
    if isinstance(solutions[0], tuple):
        return tuple(average(list(part), weights) for part in zip(*solutions, strict=True))
    return reduce(add, [one * weight for one, weight in zip(solutions, weights, strict=True)])
