"""Partitions of a risk: from a list, from a risk in local memory, or from the blocks of Dask collections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from cutplane.distributed.risk import DistributedRisk
from cutplane.distributed.share import Block
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.capabilities import Capability, ability
from cutplane.pieces.validation import as_count, as_positive
from cutplane.risks.base import Risk
from cutplane.runtime.extras import require_extra

_SPARE = 4
"""Number of partitions per thread, because loads are then equal up to a quarter when workers join or die."""


def blocks(make: Callable[..., Any], *data: Any) -> list[Block]:
    """Return a partition for each block of rows of Dask collections, for `distribute`.

    Parameters
    ----------
    make : callable
        ``make(*parts)`` returns the risk of one block of each collection: a NumPy array, another array such
        as scipy.sparse, or a pandas dataframe or series. It is called on the worker that has or computes the
        block, and not for blocks without rows.
    *data : dask.array.Array, or Dask dataframe or series
        At least one. Arrays with several blocks of columns are rechunked. Arrays of known lengths are
        rechunked like the first of them. After the first dataframe, all must be series. Nothing is computed
        yet.

    Returns
    -------
    list of Block
        Persisted collections stay persisted.

    Raises
    ------
    InvalidInputError
        If there are no data, if an argument is neither a Dask array nor a dataframe, or if the numbers of
        rows or of blocks differ.

    Examples
    --------
    >>> import dask.array as da, numpy as np, cutplane as cut
    >>> from cutplane.distributed import blocks, distribute
    >>> from distributed import Client
    >>> X, y = da.ones((6, 2), chunks=(2, 1)), da.ones(6, chunks=3)
    >>> def make(X, y):
    ...     return cut.LinearRisk(X, y, cut.losses.Squared(), normalize=False)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     f = distribute(client, blocks(make, X, y), weights=1.0 / len(X))
    ...     f
    ...     f.oracle(np.ones(2))[1].tolist()
    DistributedRisk(3 partitions, the first LinearRisk(Squared(), 2 x 2 dense float64))
    [1.0, 1.0]
    """
    dask = require_extra("dask", "distributed")
    if not callable(make):
        raise InvalidInputError(
            f"make must be a function of blocks that returns a risk, got {type(make).__name__}."
        )
    for each in data:
        if not dask.is_dask_collection(each) or not hasattr(each, "to_delayed"):
            raise InvalidInputError(f"data must be Dask arrays or dataframes, got {type(each).__name__}.")
    if len(data) > 1 and not any(hasattr(each, "chunks") for each in data):
        return _of_frames(make, *data)
    rows = next((each.chunks[0] for each in data if _known(each)), None)
    columns = [_parts(each, rows) for each in data]
    if not columns or len({len(column) for column in columns}) > 1:
        raise InvalidInputError(
            f"data must be at least one collection, and all must have as many blocks of rows, got "
            f"{[len(column) for column in columns]}."
        )
    made = dask.delayed(partial(_nonempty, make), pure=False)
    futures_of = require_extra("distributed", "distributed").futures_of
    futures = {future.key: future for each in data for future in futures_of(each)}
    return [
        Block(made(*parts), [future for part in parts for future in _held(part, futures)])
        for parts in zip(*columns, strict=True)
    ]


def _of_frames(make: Callable[..., Any], first: Any, *series: Any) -> list[Block]:
    """Return the partitions of one frame with all columns, because a file is then read only once."""
    if any(each.ndim != 1 for each in series):
        raise InvalidInputError("After the first dataframe all data must be series, one column each.")
    names = [f"cutplane_{k}" for k in range(len(series) + 1)]
    whole = first.to_frame(name=names[0]) if first.ndim == 1 else first
    whole = whole.assign(**dict(zip(names[1:], series, strict=True)))
    return blocks(partial(_apart, make, names, first.ndim == 1), whole)


def _apart(make: Callable[..., Any], names: Sequence[str], single: bool, part: Any) -> Any:
    first = part[names[0]] if single else part.drop(columns=names[1:])
    return make(first, *[part[name] for name in names[1:]])


def _held(part: Any, futures: Mapping[Any, Any]) -> list[Any]:
    """Return the futures that a block needs: the block, or its dependencies if the graph has only keys."""
    if not futures:
        return []
    tasks = dict(part.dask).values()
    needed = [part.key, *(key for task in tasks for key in getattr(task, "dependencies", ()))]
    return [futures[key] for key in dict.fromkeys(needed) if key in futures]


def _known(data: Any) -> bool:
    """Return whether the data are an array and the numbers of rows of its blocks are known."""
    return hasattr(data, "chunks") and not np.isnan(data.chunks[0]).any()


def _parts(data: Any, rows: tuple[int, ...] | None) -> list[Any]:
    """Return the blocks of rows."""
    if not hasattr(data, "chunks"):
        return list(data.to_delayed())
    if max(data.numblocks[1:], default=1) > 1:
        data = data.rechunk(dict.fromkeys(range(1, data.ndim), -1))
    if _known(data) and data.chunks[0] != rows:
        assert rows is not None
        if sum(rows) != len(data):
            raise InvalidInputError(
                f"data must have the same number of rows, got {sum(rows)} and {len(data)}."
            )
        data = data.rechunk({0: rows})
    return list(data.to_delayed().ravel())


def _nonempty(make: Callable[..., Any], *parts: Any) -> Any:
    return make(*parts) if parts[0].shape[0] else None


def distribute(
    client: Any, risk: Any, n_parts: int | None = None, weights: float | Sequence[float] | None = None
) -> DistributedRisk:
    """Put a risk on the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
    risk : sequence, or Risk
        One of three:

        * a list with an entry for each partition: a function without arguments or a ``Delayed``, which reads
          its part of the data on a worker and returns a risk, or None if there are no examples; or a
          ``Future`` of a risk. `blocks` makes such a list from Dask arrays and dataframes.
        * a list of risks in local memory.
        * one risk in local memory that can `split` its examples, such as `LinearRisk`, `StructuredRisk` and
          the risks of chains, graphs, sets of labels and alignments, or a sum or a linear image of these.
    n_parts : int, optional
        Largest number of partitions of one risk in local memory, at least 1; default: four per thread of the
        cluster.
    weights : float, or sequence of float, optional
        The factors weight_k > 0 of the partitions in a list, or one for all; default 1.

    Returns
    -------
    DistributedRisk
        ``f(x) = sum_k weight_k f_k(x)``, which is used as any risk.

    Raises
    ------
    InvalidInputError
        If there is no partition, an entry is of the wrong kind, a weight is not positive, the dimensions
        differ, or the cluster has no workers.
    OracleError
        If a partition cannot be made; the message names it, and the exception is the cause.
    MissingExtraError
        If Dask is not installed.

    Notes
    -----
    For the mean over all m examples, each function returns ``LinearRisk(..., normalize=False)``, the sum over
    its examples, and ``weights=1/m``; or it returns the mean over its m_k examples, and has the weight m_k/m.

    If a worker is lost, its partitions are computed again, by their functions or from local memory, with
    their images, and the run continues. A lost ``Future`` can be computed again only if it was the result of
    a task, and not of ``scatter``.

    To distribute your own risk, implement ``split(n_parts)``, which returns a list of at most `n_parts` risks
    whose sum is the risk. If all parts are an `ImagedRisk`, the result is one, too; otherwise it has only an
    oracle.

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
                f"{risk!r} has no method 'split' that shares out its examples, as a LinearRisk has; "
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
