"""The shares of a risk as futures: placed on the workers, asked, and made again when a worker is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import CancelledError
from time import perf_counter
from typing import Any

import distributed
from dask.delayed import Delayed
from distributed import Client, Future, KilledWorker

from cutplane.distributed.share import PARTITION, Request, build, serve
from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.validation import Array
from cutplane.risks.base import ImagedRisk
from cutplane.runtime.deadline import check_time, seconds_left

_LARGE = 1 << 18
_PATIENCE = 60.0  # seconds: a nanny starts a new worker in a few, a queueing system may need longer
_SLICE = 1.0  # seconds between two looks at the clock and at the workers, while answers are waited for
_ATTEMPTS = 20
_LOST = "cancelled", "lost"


class Cluster:
    """The partitions of a risk on the workers of a Dask cluster, one share for each thread.

    What can be computed is left to Dask to compute anew when a worker is lost; what was sent from here is
    sent again.
    """

    def __init__(self, client: Client, sources: Sequence[Any], weights: Sequence[float]):
        self._client = client
        self._sources = sources
        self._weights = weights
        self._check_open()
        workers = addresses(client)
        shares = _share_out(self._homes(), workers)
        self._numbers = [numbers for numbers in shares if numbers]
        used = [worker for worker, numbers in zip(workers, shares, strict=True) if numbers]
        self._futures = [
            self._place(numbers, worker) for numbers, worker in zip(self._numbers, used, strict=True)
        ]
        self._tasks: list[Any] = []  # kept until the next are on their way: a release would delay those

    def __len__(self) -> int:
        return len(self._futures)

    def ask(self, which: Sequence[int], request: Request, points: Sequence[Array]) -> list[Any]:
        """Return the answers of some shares, in their order: one task each."""
        for _ in range(_ATTEMPTS):
            self._check_open()
            tasks: list[Any] = []
            try:
                tasks = self._tasks = self._submit(which, request, points)
                return self._gather(tasks)
            except (CancelledError, TimeoutError) as error:
                self._check_open(error)
                self._await_workers()
                self._replace_lost()
            except OracleError:
                raise
            except Exception as error:
                self._check_open(error)
                raise self._failure(which, tasks, error) from error
        raise OracleError(f"Partitions were lost {_ATTEMPTS} times in a row; see the logs of the workers.")

    def _gather(self, tasks: list[Any]) -> list[Any]:
        """Wait for the answers, as long as there are workers, or hope of new ones."""
        answers: Any = self._client.gather(tasks, asynchronous=True)
        waiting = asyncio.run_coroutine_threadsafe(answers, self._client.loop.asyncio_loop)  # type: ignore[attr-defined]
        while True:
            try:
                return waiting.result(min(_SLICE, seconds_left()))
            except TimeoutError:
                check_time()
                if waiting.done() or any(task.status in _LOST for task in (*tasks, *self._futures)):
                    raise
                self._check_open()
                self._await_workers()

    def _await_workers(self) -> None:
        """Wait until there is a worker; raise `OracleError` if for long there is none."""
        began = perf_counter()
        while not self._client.nthreads():
            check_time()
            if perf_counter() - began > _PATIENCE:
                raise OracleError(
                    f"The Dask cluster has had no workers for {_PATIENCE:g} s; start some, and go on with "
                    "solve(warm_start=error.result)."
                ) from ConnectionError("no workers")
            try:
                self._client.wait_for_workers(1, timeout=min(_SLICE, seconds_left()))
            except TimeoutError:
                self._check_open()

    def _submit(self, which: Sequence[int], request: Request, points: Sequence[Array]) -> list[Any]:
        large = sum(point.nbytes for point in points) > _LARGE
        patience = min(_PATIENCE, seconds_left())
        sent = [self._client.scatter(x, hash=False, timeout=patience) for x in points] if large else points
        columns = [[argument] * len(which) for argument in (request, *sent)]
        return self._client.map(serve, [self._futures[i] for i in which], *columns, pure=False)

    def _homes(self) -> list[str | None]:
        """Return the worker that holds each partition already, None for those that are to be made."""
        futures = [source for source in self._sources if isinstance(source, Future)]
        if not futures:
            return [None] * len(self._sources)
        distributed.wait(futures)
        held: Any = self._client.who_has(futures)
        places = {key: next(iter(workers), None) for key, workers in held.items()}
        return [places.get(getattr(source, "key", None)) for source in self._sources]

    def _place(self, numbers: Sequence[int], worker: str) -> Any:
        """Send a share to the worker, or have it made wherever Dask sees fit.

        A task that is tied to a worker, however loosely, might never run once all workers have been lost.
        """
        client = self._client
        sources, weights = [self._sources[k] for k in numbers], [self._weights[k] for k in numbers]
        if isinstance(sources[0], ImagedRisk):
            return client.scatter(build(numbers, weights, *sources), workers=[worker], hash=False)
        inputs = [client.compute(source) if isinstance(source, Delayed) else source for source in sources]
        return client.submit(build, numbers, weights, *inputs, pure=False)

    def _replace_lost(self) -> None:
        for k, source in enumerate(self._sources):
            if isinstance(source, Future) and source.status in _LOST:
                raise OracleError(
                    f"Partition {k}, which was given as a future, was lost with its worker; give a function "
                    "or a Delayed instead, which can be computed again."
                )
        lost = [i for i, future in enumerate(self._futures) if future.status in _LOST]
        if lost:
            workers = addresses(self._client)
            for i in lost:
                self._futures[i] = self._place(self._numbers[i], workers[i % len(workers)])

    def _failure(self, which: Sequence[int], tasks: Sequence[Any], error: Exception) -> OracleError:
        failed = [self._numbers[i] for i, task in zip(which, tasks, strict=False) if task.status == "error"]
        numbers = [getattr(error, PARTITION)] if hasattr(error, PARTITION) else (failed or self._numbers)[0]
        name = f"Partition {', '.join(map(str, numbers))}"
        if isinstance(error, KilledWorker):
            return OracleError(
                f"{name} killed each worker that it was given to, as happens when it does not fit into the "
                "memory of one; use more workers, or more memory for each."
            )
        return OracleError(f"{name} raised {type(error).__name__}: {error}")

    def _check_open(self, cause: Exception | None = None) -> None:
        if self._client.status != "running":
            cause = cause or ConnectionError(f"the Dask client is {self._client.status}")
            raise OracleError(
                f"The Dask client of this risk is {self._client.status}, and its partitions are gone; "
                "distribute the data with an open client."
            ) from cause


def addresses(client: Client) -> list[str]:
    """Return the address of each worker once per thread, one thread of every worker after the other."""
    threads: Any = client.nthreads()
    if not threads:
        raise InvalidInputError(
            "The Dask cluster has no workers yet; call client.wait_for_workers(n) before."
        )
    return [worker for turn in range(max(threads.values())) for worker in threads if turn < threads[worker]]


def _share_out(homes: Sequence[str | None], workers: Sequence[str]) -> list[list[int]]:
    """Return the partitions of each thread: as many for each, where they are not at home elsewhere."""
    shares: list[list[int]] = [[] for _ in workers]
    for k, home in enumerate(homes):
        own = [share for share, worker in zip(shares, workers, strict=True) if worker == home]
        min(own or shares, key=len).append(k)
    return shares
