"""The rows of a certificate, asked for again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from cutplane.engine.bundle import TRIVIAL
from cutplane.engine.slopes import dense
from cutplane.engine.tolerances import CANCELLED, REACH, RECOMPUTED, ROUNDING
from cutplane.masters.base import HALF_SPACE
from cutplane.masters.rows import row_sizes
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array
from cutplane.sets.base import size_of

if TYPE_CHECKING:
    from cutplane.engine.certificate import Certificate
    from cutplane.engine.evaluator import Evaluator


class _Answer(NamedTuple):
    slopes: Any
    offsets: Array
    blocks: Array
    sizes: Array
    """Of the terms that the offsets are sums of."""
    marks: Array
    """Products of the slopes with a probe, by which equal ones are found."""
    noise: Array
    """What rounding may have added to the offsets, as far as the risk says."""
    doubt: float | None = None
    """How far above the offset the highest one may be, of a dual cut; a lower one is right too."""


class Recomputed:
    """Asks the oracles again for rows of a certificate: each query point once.

    Parameters
    ----------
    certificate : Certificate
    evaluator : Evaluator
    """

    def __init__(self, certificate: Certificate, evaluator: Evaluator):
        self.certificate = certificate
        self.evaluator = evaluator
        self._probe = np.random.default_rng(0).random(certificate.slopes.shape[1])
        self._sizes = row_sizes(certificate.slopes)
        self._size = float(np.maximum(certificate.multipliers, 0.0) @ self._sizes)
        self._steepest = float(self._sizes[certificate.multipliers > 0.0].max(initial=0.0))
        self._reach = self._distance()
        self.offsets = np.array(certificate.offsets)
        """The recorded offsets, or those of now where they are lower."""
        self._slopes: dict[int, Array] = {}
        self._close: set[int] = set()
        self._cuts: dict[int, _Answer] = {}
        self._half_spaces: dict[int, _Answer] = {}

    def _distance(self) -> float:
        """Return how far from zero solutions may be, inf if that is not known.

        Last bits of a value are worth as much as those of a slope over this distance.
        """
        certificate, problem = self.certificate, self.evaluator.problem
        largest = size_of(problem.simple_set, problem.dim)
        if np.isfinite(largest) or certificate.x is None or not problem.regularizer.lam > 0.0:
            return largest or np.inf
        return REACH * float(np.abs(certificate.x).max()) or np.inf

    def complaint(self, row: int) -> str | None:
        """Return what is wrong with a row, in words; None if the oracle gives it again."""
        certificate = self.certificate
        block, query = int(certificate.blocks[row]), int(certificate.queries[row])
        if not HALF_SPACE <= block < self.evaluator.risk.n_blocks:
            return f"the risk has no block {block}"
        slope, offset = dense(certificate.slopes[[row]])[0], float(certificate.offsets[row])
        if query == TRIVIAL:
            wrong = block == HALF_SPACE or slope.any() or offset > self.evaluator.risk.infima[block]
            return f"the known infimum of block {block} is not {offset:.6g}" if wrong else None
        if query not in certificate.points and query not in certificate.duals:
            return f"query {query} has no point, so that its answer cannot be asked for again"
        known = [offers(self.evaluator.risk, kind) for kind in (Capability.DUAL_CUT, Capability.CVXPY)]
        if query in certificate.duals and not any(known):
            return f"the risk gives no cut for the multipliers of query {query}"
        answer = self._half_space_answer(query) if block == HALF_SPACE else self._cut_answer(query)
        if answer is None:
            return f"query {query} has no point, so that its half-spaces cannot be asked for again"
        sizes = np.minimum(answer.sizes, self._size_of(slope, offset, query))
        above = offset - answer.offsets
        above = np.abs(above) if answer.doubt is None else above - answer.doubt
        same = above <= RECOMPUTED * sizes + answer.noise
        marks = np.abs(answer.marks - slope @ self._probe)
        share = float(certificate.multipliers[row])
        steepest = max(self._sizes[row], self._size / share if share > 0.0 else 0.0)
        tolerance = RECOMPUTED * steepest
        last_bits, last_bit = ROUNDING * sizes / self._reach, ROUNDING * self._sizes.max()
        same &= marks <= np.maximum(max(tolerance, last_bit) * self._probe.sum(), last_bits)
        candidates = np.flatnonzero(same & (answer.blocks == block))
        apart = np.abs(dense(answer.slopes[candidates]) - slope)
        farthest = apart.max(axis=1, initial=0.0)
        if (equal := candidates[farthest <= tolerance]).size:
            self.offsets[row] = min(offset, answer.offsets[equal].max() + (answer.doubt or 0.0))
            return None
        close = (farthest <= last_bit) | (apart.sum(axis=1) <= last_bits[candidates])
        if not close.any():
            return f"the oracle gives another answer at query {query} than the one recorded"
        nearest = candidates[close][apart[close].sum(axis=1).argmin()]
        self._slopes[row] = dense(answer.slopes[[nearest]])[0]
        if np.abs(self._slopes[row] - slope).max() <= ROUNDING * self._steepest:
            self._close.add(row)
        self.offsets[row] = answer.offsets[nearest]
        return None

    def slopes(self, recorded: bool = False) -> Any:
        """Return the slopes of now where they differ from the recorded ones, which last bits may decide.

        With `recorded`, only where they differ by more than the last bits of the steepest slope in use.
        """
        slopes = self.certificate.slopes
        changed = self._slopes.keys() - self._close if recorded else self._slopes.keys()
        if not changed:
            return slopes
        slopes = slopes.tolil() if sparse.issparse(slopes) else slopes.copy()
        for row in changed:
            slopes[row] = self._slopes[row]
        return sparse.csr_array(slopes) if sparse.issparse(slopes) else slopes

    def _size_of(self, slope: Array, offset: float, query: int) -> float:
        """Return the size of the terms that the offset of a recorded row is the sum of."""
        x = self.certificate.points.get(query)
        if query in self.certificate.duals or x is None:
            return float(_sizes_of_dual(slope[np.newaxis], np.array([offset]), self.certificate)[0])
        return abs(float(slope @ x) + offset) + float(np.abs(slope) @ np.abs(x)) + abs(offset)

    def _cut_answer(self, query: int) -> _Answer:
        if query not in self._cuts:
            certificate, evaluator = self.certificate, self.evaluator
            if query in certificate.duals:
                extent = 0.0 if certificate.x is None else float(np.abs(certificate.x).max())
                known = extent, float(self._sizes.max()), float(np.abs(certificate.offsets).max())
                slopes, offsets = evaluator.dual_cut(certificate.duals[query], *known)
                blocks = np.arange(offsets.size)
                sizes, noise = _sizes_of_dual(slopes, offsets, certificate), np.zeros(offsets.size)
            else:
                x = certificate.points[query]
                point = evaluator.point(x)
                slopes, offsets, found = evaluator.cuts(point)
                blocks = np.array(found)
                sizes = np.abs(point.values[blocks]) + np.abs(slopes) @ np.abs(x)
                cancelled = np.broadcast_to(evaluator.cancelled(point), point.values.shape)
                noise = CANCELLED * cancelled[blocks]
            doubt = evaluator.doubt if query in certificate.duals else None
            self._cuts[query] = _Answer(slopes, offsets, blocks, sizes, slopes @ self._probe, noise, doubt)
        return self._cuts[query]

    def _half_space_answer(self, query: int) -> _Answer | None:
        point = self.certificate.points.get(query)
        if point is None:
            return None
        if query not in self._half_spaces:
            found = self.evaluator.separate(point)
            marks = found.normals @ self._probe
            blocks = np.full(len(found), HALF_SPACE)
            self._half_spaces[query] = _Answer(
                found.normals, -found.offsets, blocks, found.sizes(point), marks, np.zeros(len(found))
            )
        return self._half_spaces[query]


def _sizes_of_dual(slopes: Array, offsets: Array, certificate: Certificate) -> Array:
    x = certificate.x if certificate.x is not None else np.zeros(slopes.shape[1])
    return np.abs(offsets) + np.abs(slopes) @ np.abs(x)
