"""What a method did on a problem, iteration by iteration."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.bundle import AGGREGATE
from cutplane.engine.history import Mark, State
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.parameters import short_repr
from cutplane.pieces.validation import Array, as_count
from cutplane.proof.evidence import dense

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.history import Record
    from cutplane.problem import Problem
    from cutplane.result import Result

MOST_FRAMES = 2000
"""A page of more would be larger than a page should be."""
_ITERATIONS = 200
_USED = 1e-9
"""Multipliers below are those of an interior point method's idle cuts."""


@dataclass(frozen=True, eq=False)
class Frame:
    """One iteration.

    Attributes
    ----------
    record : Record
    x : ndarray of shape (dim,) or None
        The best feasible point.
    marks : tuple of Mark
        What the method did.
    weights : dict of int to float
        The multipliers of the rows in use, in the reduced problem of this iteration.
    """

    record: Record
    x: Array | None = None
    marks: tuple[Mark, ...] = ()
    weights: dict[int, float] = field(default_factory=dict)


@dataclass(eq=False)
class Recording:
    """All rows that a run ever had, and its frames.

    Attributes
    ----------
    problem : Problem
    method : str
    slopes, offsets, blocks : list
        Of each row, in order; block -1 is a half-space.
    born, died : list of int
        The first frame that has the row, and the first one that has it no more.
    origins : list of ndarray or None
        The query that gave each row.
    frames : list of Frame
    """

    problem: Declaration
    method: str
    slopes: list[Array] = field(default_factory=list)
    offsets: list[float] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    born: list[int] = field(default_factory=list)
    died: list[int | None] = field(default_factory=list)
    origins: list[Array | None] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)

    @property
    def x(self) -> Array | None:
        """The best point at the end."""
        return self.frames[-1].x

    def add(self, frame: int, slope: Any, offset: Any, block: Any, origin: Array | None) -> None:
        """Add a row that is there from this frame on."""
        self.slopes.append(np.array(dense(slope)).ravel())
        self.offsets.append(float(offset))
        self.blocks.append(int(block))
        self.born.append(frame)
        self.died.append(None)
        self.origins.append(origin)

    def alive(self, frame: int) -> list[int]:
        """Return the rows of a frame."""
        return [
            row
            for row, (born, died) in enumerate(zip(self.born, self.died, strict=True))
            if born <= frame and (died is None or frame < died)
        ]

    def model(self, frame: int, x: Array) -> float:
        """Return the model of the risk at x: the sum over the blocks of the largest cut."""
        largest = np.full(self.problem.risk.n_blocks, -np.inf)
        for row in self.alive(frame):
            if (block := self.blocks[row]) >= 0:
                largest[block] = max(largest[block], self.slopes[row] @ x + self.offsets[row])
        return float(largest.sum())


def record(problem: Problem, method: Any, options: dict[str, Any]) -> Recording:
    """Run a method, and record every iteration."""
    most = as_count("max_iter", options.pop("max_iter", _ITERATIONS))
    if most >= MOST_FRAMES:
        raise InvalidInputError(
            f"A picture has at most {MOST_FRAMES} frames: max_iter must be less, got {most}."
        )
    given = copy(problem)
    given.as_given = True  # the cuts of the run are in its variables
    driver = given.iterate(method, max_iter=most, **options)
    run = driver.process.run  # pyright: ignore[reportAttributeAccessIssue]
    found, rows = (
        Recording(problem, short_repr(run.method) if is_dataclass(run.method) else repr(run.method)),
        {},
    )
    for state in driver:
        _take(found, state, run.bundle, rows)
    return found


def _take(found: Recording, state: State, bundle: Any, rows: dict[int, int]) -> None:
    """Add a frame, and the rows that the bundle has won and lost since the last one."""
    here, ids = len(found.frames), bundle.ids.tolist()
    for index in np.flatnonzero(bundle.ids > max(rows, default=-1)).tolist():
        rows[ids[index]] = len(found.slopes)
        query = int(bundle.queries[index])
        origin = None if query == AGGREGATE else bundle.points.get(query)
        found.add(here, bundle.slopes[[index]], bundle.offsets[index], bundle.blocks[index], origin)
    for lost in rows.keys() - set(ids):
        row = rows[lost]
        found.died[row] = here if found.died[row] is None else found.died[row]
    weights = bundle.weights
    used = np.flatnonzero(weights > _USED * weights.max(initial=0.0)).tolist()
    found.frames.append(
        Frame(state.record, state.x, state.marks, {rows[ids[k]]: float(weights[k]) for k in used})
    )


def replay(result: Result) -> Recording:
    """Read what a result still knows: the cuts it kept, in order, the bounds, and the final multipliers."""
    certificate = result.certificate
    if certificate.problem is None:
        raise InvalidInputError("This result was loaded from a file: use cutplane.explore(problem).")
    records = list(result.history)
    records = [records[k] for k in _spread(len(records))]
    found = Recording(certificate.problem, result.method)
    order = np.argsort(certificate.queries, kind="stable")
    born = np.searchsorted([one.n_cuts for one in records], np.arange(len(order)), side="right")
    for place, row in enumerate(order.tolist()):
        origin = certificate.points.get(int(certificate.queries[row]))
        frame = min(int(born[place]), len(records) - 1)
        found.add(frame, certificate.slopes[[row]], certificate.offsets[row], certificate.blocks[row], origin)
    weights = certificate.multipliers[order]
    last = {row: float(weights[row]) for row in np.flatnonzero(weights > 0.0).tolist()}
    found.frames = [Frame(one) for one in records[:-1]]
    found.frames.append(Frame(records[-1], result.x, (), last))
    return found


def _spread(count: int) -> Iterable[int]:
    return np.unique(np.linspace(0, count - 1, min(count, MOST_FRAMES)).astype(int)).tolist()
