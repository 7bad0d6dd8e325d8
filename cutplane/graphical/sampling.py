"""Sums over all labellings: the partition function, an upper bound of it, and samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.exact.clique_tree import CliqueTree
from cutplane.pieces.html import Shown
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock
from cutplane.status import Status

_CHUNK = 2**20
"""Number of uniform random numbers drawn at a time, because these are 8 MB."""


@dataclass(frozen=True, eq=False, repr=False)
class LogPartitionBound(Shown):
    r"""An estimate of an upper bound of :math:`\log \sum_x \exp(-E(x))`.

    Attributes
    ----------
    value : float
        The mean of `samples`, an unbiased estimate of an upper bound of the logarithm. The estimate itself
        may be smaller than the logarithm; see `standard_error`. inf if there is no sample, -inf if no
        labelling has finite energy.
    standard_error : float
        The standard deviation of the mean, estimated from the samples; inf if there are less than two.
    samples : ndarray of shape (m,)
        Fewer than requested if the run was stopped.
    labellings : ndarray of int, shape (m, n_variables)
        The labellings that minimise the perturbed energies. They are *not* samples of the model: low energies
        are frequent, but the distribution is different (Papandreou and Yuille 2011). If a perturbed model was
        not solved, the row is the best labelling found, or -1 if there is none.
    n_open : int
        The number of perturbed models that were not solved to the tolerance. Their samples are certified
        bounds, which are larger, so that the mean of `value` remains an upper bound.
    status : Status
        OPTIMAL if there are as many samples as requested; otherwise the reason why the run was stopped.
    """

    value: float
    standard_error: float
    samples: Array
    labellings: Array
    n_open: int
    status: Status

    def _shown(self) -> dict[str, Any]:
        return {
            "value": f"{self.value:.10g}",
            "standard error": f"{self.standard_error:.3g}",
            "samples": f"{self.samples.size}, of which {self.n_open} are not solved",
            "status": str(self.status),
        }


def log_partition(model: Any, max_entries: int) -> float:
    """Implement `GraphicalModel.log_partition`."""
    return _tree(model, max_entries, "log_partition_bound").log_partition()


def sample(model: Any, n: int, seed: Any, max_entries: int) -> Array:
    """Implement `GraphicalModel.sample`."""
    tree, rng = _tree(model, max_entries, "log_partition_bound(...).labellings"), np.random.default_rng(seed)
    rows = max(1, _CHUNK // max(1, model.n_variables))
    parts = [
        tree.sample(rng.random((min(rows, n - start), max(1, model.n_variables))))
        for start in range(0, n, rows)
    ]
    return np.concatenate(parts)


def _tree(model: Any, max_entries: int, instead: str) -> CliqueTree:
    try:
        return CliqueTree(model, max_entries=max_entries)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{error} Raise max_entries, now {max_entries} (8 bytes each), or use {instead}."
        ) from None


def log_partition_bound(
    model: Any, n_samples: int, seed: Any, tol: float, time_limit: float | None
) -> LogPartitionBound:
    """Implement `GraphicalModel.log_partition_bound`."""
    deadline = math.inf if time_limit is None else clock() + time_limit
    rng, status = np.random.default_rng(seed), Status.OPTIMAL
    several = np.isfinite(model.unaries)
    if several.size:
        counts = np.add.reduceat(several.astype(np.int64), model.unary_starts[:-1])
        several &= np.repeat(counts > 1, model.cardinalities)
    try:
        tree = CliqueTree(model, deadline=deadline)
    except (InvalidInputError, TimeoutError):
        tree = None
    samples: list[float] = []
    labellings: list[Array] = []
    n_open = 0
    try:
        while len(samples) < n_samples:
            left = None if time_limit is None else deadline - clock()
            if left is not None and left <= 0.0:
                status = Status.TIME_LIMIT
                break
            noise = np.where(several, rng.gumbel(size=several.size) - np.euler_gamma, 0.0)
            if tree is not None:
                labelling, above = tree.least(tree.unaries - noise[tree.kept])
                samples.append(-(tree.constant + above))
            else:
                found = model.with_unaries(model.unaries - noise).map(tol=tol, time_limit=left)
                if found.status is Status.INTERRUPTED:
                    raise KeyboardInterrupt
                n_open += found.status not in (Status.OPTIMAL, Status.INFEASIBLE)
                samples.append(-found.bound)
                labelling = found.labelling if found.energy < math.inf else None
            labellings.append(np.full(model.n_variables, -1) if labelling is None else labelling)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    values = np.array(samples)
    finite = values.size > 1 and bool(np.isfinite(values).all())
    return LogPartitionBound(
        value=float(values.mean()) if values.size else math.inf,
        standard_error=float(values.std(ddof=1) / math.sqrt(values.size)) if finite else math.inf,
        samples=read_only(values),
        labellings=read_only(
            np.array(labellings, dtype=np.int64).reshape(len(labellings), model.n_variables)
        ),
        n_open=n_open,
        status=status,
    )
