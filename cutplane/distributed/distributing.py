"""Puts a risk on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from cutplane.distributed.risk import DistributedRisk
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import as_count, as_scalar
from cutplane.risks.base import ImagedRisk, Risk
from cutplane.runtime.extras import require_extra

_NEEDED = {"X", "y", "sample_weight", "normalize"}


def distribute(
    client: Any, risk: Any, n_parts: int | None = None, weights: Sequence[float] | None = None
) -> DistributedRisk:
    """Put a risk on the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
    risk : sequence, or LinearRisk
        A list with one entry for each partition: a function without arguments or a ``Delayed``, which is
        called on a worker, reads its part of the data and returns an `ImagedRisk`; or a ``Future`` of one. Or
        a list of risks in local memory. Or one `LinearRisk` in local memory, whose rows are shared out.
    n_parts : int, optional
        Number of partitions of a `LinearRisk`, at least 1; default: the threads of the cluster.
    weights : sequence of float, optional
        The factors weight_k > 0 of the partitions in a list; default 1.

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
    over its examples, and give each the weight 1/m; or let it return the mean over its m_k examples, and
    give it the weight m_k/m.

    A partition that was lost with its worker is made anew, by its function or from the local memory, and
    the images from their points; the run goes on with the same numbers. A ``Future`` can be recomputed only
    if it was computed, not if it was scattered.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> from distributed import Client
    >>> from cutplane.distributed import distribute
    >>> def load(first):
    ...     X = np.arange(first, first + 4.0).reshape(2, 2)
    ...     return cut.LinearRisk(X, [1.0, -1.0], cut.losses.Hinge(), normalize=False)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     f = distribute(client, [lambda: load(0.0), lambda: load(4.0)], weights=[0.25, 0.25])
    ...     value, slope = f.oracle(np.array([1.0, 0.0]))
    >>> value, slope.tolist()
    (2.75, [2.0, 2.25])
    """
    dask = require_extra("distributed", "distributed")
    from cutplane.distributed.cluster import Cluster, addresses

    if not isinstance(client, dask.Client) or client.asynchronous:
        raise InvalidInputError(f"client must be a distributed.Client, not asynchronous, got {client!r}.")
    if isinstance(risk, ImagedRisk):
        if weights is not None:
            raise InvalidInputError("weights are for a list of partitions; multiply a risk by its factor.")
        n_parts = len(addresses(client)) if n_parts is None else as_count("n_parts", n_parts)
        sources = split_rows(risk, n_parts)
    else:
        sources = _as_sources(risk, n_parts)
    factors = [1.0] * len(sources) if weights is None else _as_weights(weights, len(sources))
    return DistributedRisk(Cluster(client, sources, factors))


def _as_sources(parts: Any, n_parts: int | None) -> list[Any]:
    if isinstance(parts, Risk) or callable(parts) or not isinstance(parts, Iterable):
        raise InvalidInputError(f"A list of partitions or a LinearRisk is needed, got {parts!r}.")
    sources = list(parts)
    if not sources:
        raise InvalidInputError("The list of partitions is empty; give at least one.")
    local = [isinstance(source, ImagedRisk) for source in sources]
    if any(local) and not all(local):
        raise InvalidInputError(
            f"Partition {local.index(True)} is in local memory, partition {local.index(False)} is not; "
            "give a function, such as lambda: risk, for each."
        )
    if n_parts is not None and n_parts != len(sources):
        raise InvalidInputError(
            f"n_parts is {n_parts}, but {len(sources)} partitions were given; leave it out."
        )
    for k, source in enumerate(sources):
        lazy = (callable(source) and not isinstance(source, Risk)) or hasattr(source, "key")
        if not (isinstance(source, ImagedRisk) or lazy):
            raise InvalidInputError(
                f"Partition {k} must be a function without arguments, a Delayed, a Future or an ImagedRisk, "
                f"got {source!r}."
            )
    return sources


def _as_weights(weights: Sequence[float], n_parts: int) -> list[float]:
    if len(weights) != n_parts:
        raise InvalidInputError(f"weights must have one entry per partition, {n_parts}, got {len(weights)}.")
    return [
        as_scalar(f"weights[{k}]", weight, low=0.0, low_open=True, high=np.inf, high_open=True)
        for k, weight in enumerate(weights)
    ]


def split_rows(risk: Any, n_parts: int) -> list[ImagedRisk]:
    """Return risks of contiguous rows of nearly equal number, whose sum is the risk; CSC data are copied."""
    names = _parameters(risk)
    if not names >= _NEEDED:
        raise InvalidInputError(
            f"{risk!r} is not made of rows that can be shared out, as a LinearRisk is; give a list of "
            "partitions."
        )
    m = risk.X.shape[0]
    if n_parts > m:
        raise InvalidInputError(f"n_parts must be at most the number of examples, {m}, got {n_parts}.")
    one_block = {"blocks": 1} if "blocks" in names else {}
    edges = (np.arange(n_parts + 1) * m // n_parts).tolist()
    return [
        replace(
            risk,
            X=risk.X[start:end],
            y=risk.y[start:end],
            sample_weight=risk.weights[start:end],
            normalize=False,
            **one_block,
        )
        for start, end in pairwise(edges)
    ]


def _parameters(risk: Any) -> set[str]:
    return {field.name for field in fields(risk) if field.init} if is_dataclass(risk) else set()
