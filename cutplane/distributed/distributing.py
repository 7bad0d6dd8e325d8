"""Puts a risk on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

from cutplane.distributed.blocks import Block
from cutplane.distributed.risk import DistributedRisk
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.capabilities import Capability, ability
from cutplane.pieces.validation import as_count, as_positive
from cutplane.risks.base import Risk
from cutplane.runtime.extras import require_extra

_SPARE = 4
"""Partitions for each thread: when workers join or die, the loads can be level to a quarter."""


def distribute(
    client: Any, risk: Any, n_parts: int | None = None, weights: float | Sequence[float] | None = None
) -> DistributedRisk:
    """Put a risk on the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
    risk : sequence, or Risk
        A list with one entry for each partition: a function without arguments or a ``Delayed``, which is
        called on a worker, reads its part of the data and returns a risk, or None if there are no examples;
        or a ``Future`` of one. `blocks` makes such a list from Dask arrays and dataframes. Or a list of risks
        in local memory. Or one risk in local memory that is a sum over examples and can `split` it, such as
        `LinearRisk`, `StructuredRisk` and those of chains, graphs, sets of labels and alignments, or is a sum
        or a linear image of such risks.
    n_parts : int, optional
        Most partitions of one risk in local memory, at least 1; default: four for each thread of the cluster.
    weights : float, or sequence of float, optional
        The factors weight_k > 0 of the partitions in a list, or one for all; default 1.

    Returns
    -------
    DistributedRisk
        ``f(x) = sum_k weight_k f_k(x)``, to be used as any risk.

    Raises
    ------
    InvalidInputError
        If there is no partition, an entry is of the wrong kind, a weight is not positive, the dimensions
        differ, or the cluster has no workers.
    OracleError
        If a partition cannot be made; the message says which, and the exception is its cause.
    MissingExtraError
        If Dask is not installed.

    Notes
    -----
    For the mean over all m examples let each function return ``LinearRisk(..., normalize=False)``, the sum
    over its examples, with ``weights=1/m``; or let it return the mean over its m_k examples, and give it the
    weight m_k/m.

    A partition that was lost with its worker is made anew, by its function or from the local memory, and
    the images from their points; the run goes on. A ``Future`` can be recomputed only if it was computed, not
    if it was scattered.

    A risk of one's own that is a sum over examples has a method ``split(n_parts)``, which returns a list of
    at most as many risks, whose sum it is. If all parts are an `ImagedRisk`, so is the result; else it is
    known by its oracle.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> from distributed import Client
    >>> from cutplane.distributed import distribute
    >>> def load(first):
    ...     X = np.arange(first, first + 4.0).reshape(2, 2)
    ...     return cut.LinearRisk(X, [1.0, -1.0], cut.losses.Hinge(), normalize=False)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     f = distribute(client, [lambda: load(0.0), lambda: load(4.0)], weights=0.25)
    ...     value, slope = f.oracle(np.array([1.0, 0.0]))
    >>> value, slope.tolist()
    (2.75, [2.0, 2.25])
    """
    dask = require_extra("distributed", "distributed")
    from cutplane.distributed.cluster import Cluster, threads_of

    if not isinstance(client, dask.Client) or client.asynchronous:
        raise InvalidInputError(f"client must be a distributed.Client, not asynchronous, got {client!r}.")
    if isinstance(risk, Risk):
        if weights is not None:
            raise InvalidInputError("weights are for a list of partitions; multiply a risk by its factor.")
        split = ability(risk, Capability.SPLIT)
        if split is None:
            raise InvalidInputError(
                f"{risk!r} has no method 'split' that shares out its examples, as that of a LinearRisk does; "
                "give a list of partitions."
            )
        most = _SPARE * sum(threads_of(client).values()) if n_parts is None else as_count("n_parts", n_parts)
        sources = _as_sources(split(most), None)
    else:
        sources = _as_sources(risk, n_parts)
    return DistributedRisk.of(Cluster(client, sources, _as_weights(weights, len(sources))))


def _as_sources(parts: Any, n_parts: int | None) -> list[Any]:
    if callable(parts) or not isinstance(parts, Iterable):
        raise InvalidInputError(f"A list of partitions or a LinearRisk is needed, got {parts!r}.")
    sources = list(parts)
    if not sources:
        raise InvalidInputError("The list of partitions is empty; give at least one.")
    if n_parts is not None and n_parts != len(sources):
        raise InvalidInputError(
            f"n_parts is {n_parts}, but {len(sources)} partitions were given; leave it out."
        )
    for k, source in enumerate(sources):
        if not (isinstance(source, Risk | Block) or callable(source) or hasattr(source, "key")):
            raise InvalidInputError(
                f"Partition {k} must be a function without arguments, a Delayed, a Future or a risk, got "
                f"{source!r}."
            )
    return sources


def _as_weights(weights: Any, n_parts: int) -> list[float]:
    if weights is None or isinstance(weights, Real):
        weights = [1.0 if weights is None else weights] * n_parts
    if len(weights) != n_parts:
        raise InvalidInputError(f"weights must have one entry per partition, {n_parts}, got {len(weights)}.")
    return [as_positive(f"weights[{k}]", weight) for k, weight in enumerate(weights)]
