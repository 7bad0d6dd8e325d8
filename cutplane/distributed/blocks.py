"""Partitions from the blocks of Dask collections, which are read where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.runtime.extras import require_extra


@dataclass(frozen=True, eq=False)
class Block:
    """The risk of a block, a Delayed, and the futures that it is made from, which tell where the block is."""

    made: Any
    held: Sequence[Any]


def blocks(make: Callable[..., Any], *data: Any) -> list[Block]:
    """Return a partition for each block of rows of Dask collections, for `distribute`.

    Parameters
    ----------
    make : callable
        ``make(*parts)`` returns the risk of one block of each collection: a NumPy array, whatever else the
        blocks of an array are, such as scipy.sparse, or a pandas dataframe or series. It is called on the
        worker that holds the block, or is to compute it; for blocks without rows it is not.
    *data : dask.array.Array, or Dask dataframe or series
        At least one. Arrays that have several blocks of columns are rechunked, and arrays of known lengths
        are rechunked as the first of them. Of several dataframes those after the first must be series.
        Nothing is computed yet.

    Returns
    -------
    list of Block
        They keep what was persisted.

    Raises
    ------
    InvalidInputError
        If there are no data, something is no Dask array or dataframe, or the numbers of rows or of blocks
        differ.

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
    """Return the partitions of one frame of all columns: files are read alike for all of them."""
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
    """Return the futures that a block depends on, or is: its graph knows only their keys."""
    if not futures:
        return []
    tasks = dict(part.dask).values()
    needed = [part.key, *(key for task in tasks for key in getattr(task, "dependencies", ()))]
    return [futures[key] for key in dict.fromkeys(needed) if key in futures]


def _known(data: Any) -> bool:
    """Whether it is an array whose blocks have known numbers of rows."""
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
