"""The partitions of a risk on a Dask cluster: each is placed on a worker, and again if the worker is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import CancelledError, wait
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from uuid import uuid4

import distributed
from dask.base import annotate
from dask.delayed import Delayed
from distributed import Client, Future, KilledWorker

from cutplane.distributed.share import (
    PARTITION,
    Block,
    Request,
    Share,
    ShareAnswer,
    ShareBundle,
    build,
    hand_over,
    serve,
    total,
)
from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.risks.base import Risk
from cutplane.runtime.deadline import check_time, seconds_left

FAN = 8
"""Number of workers to which a worker passes a request, because fewer make the tree deeper, and more load its
network links."""
_LARGE = 1 << 18
"""Bytes of points from which a request is sent to a worker directly, because the scheduler would copy it."""
_PATIENCE = 60.0
"""Seconds to wait for a worker, because a queueing system may need longer than Dask's nanny."""
_SLICE = 1.0
"""Seconds between two checks of the clock and the workers, because each costs a round trip."""
_DEATHS = 4
"""Number of workers that a partition may lose before it answers, because Dask allows one less per task."""
_ATTEMPTS = 20
"""Largest number of submissions of a request, because a request that loses more workers is faulty."""
_LOST = "cancelled", "lost"
_KILLER = (
    "killed each worker that it was given to, as happens when it does not fit into the memory of one; use "
    "more workers, or more memory for each."
)


@dataclass(eq=False)
class Placed:
    """The client's record of a share."""

    number: int
    weight: float
    source: Any
    home: str | None
    future: Any = None
    losses: int = 0

    @property
    def gone(self) -> bool:
        """Whether the client was informed that the data of the share are lost."""
        return self.future is None or self.future.status in _LOST

    @property
    def key(self) -> Any:
        """Dask's key of the share; None if it is lost."""
        return None if self.gone else self.future.key


@dataclass(eq=False)
class _Submission:
    """A submitted graph of tasks: its root, the future of its answer, and the keys of its shares."""

    root: Any
    answer: Any
    shares: set[Any]


class Cluster:
    """The partitions of a risk on the workers of a Dask cluster.

    It decides on which worker each share is, and informs Dask. A lost share is computed again from its
    source.
    """

    def __init__(self, client: Client, sources: Sequence[Any], weights: Sequence[float]):
        self._client = client
        self._check_open()
        homes = self._homes(sources)
        columns = zip(weights, sources, homes, strict=True)
        self.shares = [Placed(k, *column) for k, column in enumerate(columns)]
        self._bundles: dict[str, tuple[tuple[Any, ...], Any]] = {}
        self._coming: dict[int, tuple[str, Any]] = {}  # shares that are being computed on another worker
        self._threads = threads_of(client)
        self._seen = perf_counter()
        self._last: Any = None  # kept until the next submission, because a release would delay it
        self._settle(spread(homes, self._threads))

    def query(self, request: Request, which: Collection[int] | None = None) -> ShareAnswer:
        """Return the answer of all shares, or of the shares in `which`."""
        shares = [share for share in self.shares if which is None or share.number in which]
        if perf_counter() - self._seen > _SLICE:
            self._update()
        for _ in range(_ATTEMPTS):
            self._replace_lost(shares)
            submitted = self._submit(request, shares)
            found = self._await(submitted, shares)
            if found is not None:
                self._last = submitted
                for share in shares:
                    share.losses = 0
                if found.lost:
                    self._bundles.clear()
                return found
        raise OracleError(f"Partitions were lost {_ATTEMPTS} times in a row; see the logs of the workers.")

    def _await(self, submitted: _Submission, shares: Sequence[Placed]) -> ShareAnswer | None:
        """Return the answer; None if some of the shares are on other workers, and must be queried there."""
        while all(share.key in submitted.shares for share in shares):
            done, _ = wait([submitted.answer], min(_SLICE, seconds_left()))
            if done:
                try:
                    return submitted.answer.result()
                except CancelledError as error:
                    self._check_open(error)
                    return None
                except Exception as error:
                    self._check_open(error)
                    raise self._failure(error) from error
            check_time()
            self._check_open()
            self._update()
        return None

    def _submit(self, request: Request, shares: Sequence[Placed]) -> _Submission:
        """Submit a graph: the shares on each worker answer, and a tree over the workers adds their answers.

        The request is also passed through a tree, from the client to one worker, and from worker to worker.
        Each task is restricted to one worker. The client has a future only of the root, so that it receives
        one answer, and one short message for each other worker.
        """
        by_home: dict[Any, list[Placed]] = {}
        for share in shares:
            by_home.setdefault(share.home, []).append(share)
        bundles = {home: self._bundle(home, held) for home, held in by_home.items()}
        sent: Any = request
        if sum(getattr(recipe.source, "nbytes", 0) for recipe in request.recipes) > _LARGE:
            lead = next(iter(bundles))
            sent = self._client.scatter(request, workers=[lead], hash=False, timeout=_timeout())
        token = uuid4().hex
        graph: dict[Any, Any] = {}
        homes: dict[Any, str] = {}

        def add(kind: str, home: str, *task: Any) -> Any:
            key = f"{kind}-{token}", len(graph)
            graph[key], homes[key] = task, home
            return key

        requests, answers = [sent], []  # requests[k] is the request on worker k - 1
        for k, (home, bundle) in enumerate(bundles.items()):
            at = requests[(k - 1) // FAN + 1]
            if k == 0 or FAN * k + 1 < len(bundles):  # other workers fetch it from this one
                at = add("request", home, hand_over, at, bundle)
                requests.append(at)
            answers.append((home, at, add("serve", home, serve, at, bundle, self._threads[home])))
        while len(answers) > 1:
            parts = [answers[i : i + FAN] for i in range(0, len(answers), FAN)]
            answers = [
                (
                    part[0][0],
                    part[0][1],
                    add("total", part[0][0], total, part[0][1], [key for *_, key in part]),
                )
                for part in parts
            ]
        with annotate(workers=homes.__getitem__, allow_other_workers=False):
            root: Any = self._client.get(graph, [answers[0][2]], sync=False)[0]  # type: ignore[index]
        fetched: Any = self._client.gather(root, asynchronous=True)
        answer = asyncio.run_coroutine_threadsafe(fetched, self._client.loop.asyncio_loop)  # type: ignore[attr-defined]
        return _Submission(root, answer, {share.key for share in shares})

    def _bundle(self, home: str, shares: Sequence[Placed]) -> Any:
        """Return the future of the shares on a worker, which is stored for the next request."""
        keys = tuple(share.key for share in shares)
        known = self._bundles.get(home)
        if known is None or known[0] != keys or known[1].status in _LOST:
            futures = [share.future for share in shares]
            known = keys, self._client.submit(ShareBundle, futures, workers=[home], pure=False)
            self._bundles[home] = known
        return known[1]

    def _update(self) -> None:
        """Update the list of workers; place shares without a worker, and let new workers take some shares."""
        self._seen = perf_counter()
        threads = self._await_workers()
        for number, (home, future) in list(self._coming.items()):
            if home not in threads or future.status in (*_LOST, "error"):
                del self._coming[number]
            elif future.status == "finished":
                self.shares[number].home, self.shares[number].future = self._coming.pop(number)
        if threads == self._threads:
            return
        joined, self._threads = threads.keys() - self._threads, threads
        displaced = [share for share in self.shares if share.home not in threads and not share.gone]
        held: Any = self._client.who_has([share.future for share in displaced]) if displaced else {}
        for share in displaced:  # a retiring worker passes its shares to another worker
            here = [worker for worker in held.get(share.future.key, ()) if worker in threads]
            share.home = here[0] if here else share.home
        homes = [self._coming.get(share.number, (share.home,))[0] for share in self.shares]
        self._bundles = {home: known for home, known in self._bundles.items() if home in threads}
        self._settle(spread(homes, threads, level=bool(joined)))

    def _settle(self, homes: Sequence[str]) -> None:
        """Compute shares on their new workers; until then, they answer on their old workers, if any."""
        for share in self.shares:
            share.losses += share.future is not None and share.home not in self._threads
        for share, home in zip(self.shares, homes, strict=True):
            if share.future is None or share.home not in self._threads:
                self._coming.pop(share.number, None)
                self._place(share, home)
            elif home not in (share.home, self._coming.get(share.number, (None,))[0]):
                future = self._send(share, home)
                if future is not None:
                    self._coming[share.number] = home, future

    def _place(self, share: Placed, home: str) -> None:
        if share.losses >= _DEATHS:
            names = " or ".join(str(each.number) for each in self.shares if each.losses >= _DEATHS)
            raise OracleError(f"Partition {names} {_KILLER}")
        share.home, share.future = home, None
        share.future = self._send(share, home)

    def _send(self, share: Placed, home: str) -> Any:
        """Return the future of a share on a given worker; None if the worker has disappeared."""
        client, source = self._client, share.source
        if isinstance(source, Risk):
            made = Share(share.number, share.weight, source)
            try:
                return client.scatter(made, workers=[home], hash=False, timeout=_timeout())
            except (OSError, ValueError, TimeoutError):
                check_time()
                return None
        if isinstance(source, Block):
            source = source.made
        if isinstance(source, Delayed):  # Dask may have placed its tasks already: any worker is allowed
            source = client.compute(source, workers=[home], allow_other_workers=True)
        return client.submit(build, share.number, share.weight, source, workers=[home], pure=False)

    def _replace_lost(self, shares: Sequence[Placed]) -> None:
        """Place the shares of lost workers again."""
        if not any(share.gone for share in shares):
            return
        self._update()
        for share in shares:
            if isinstance(share.source, Future) and share.source.status in _LOST:
                raise OracleError(
                    f"Partition {share.number}, which was given as a future, was lost with its worker; give "
                    "a function or a Delayed instead, which can be computed again."
                )
            if share.gone:
                share.losses += 1
                self._place(share, share.home if share.home in self._threads else min(self._threads))

    def _await_workers(self) -> dict[str, int]:
        """Return the number of threads of each worker; raise `OracleError` if there is none for a minute."""
        began = perf_counter()
        while True:
            self._check_open()
            threads: Any = self._client.nthreads()
            if threads:
                return dict(threads)
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

    def _homes(self, sources: Sequence[Any]) -> list[str | None]:
        """Return the worker that holds the data of each partition; None for a partition without data yet."""
        inputs = [each.held if isinstance(each, Block) else distributed.futures_of(each) for each in sources]
        futures = [future for each in inputs for future in each]
        if not futures:
            return [None] * len(sources)
        distributed.wait(futures)
        held: Any = self._client.who_has(futures)
        places = [[worker for future in each for worker in held.get(future.key, ())] for each in inputs]
        return [max(set(each), key=each.count, default=None) for each in places]

    def _failure(self, error: Exception) -> OracleError:
        failed = [share.number for share in self.shares if share.future and share.future.status == "error"]
        number = getattr(error, PARTITION, failed[0] if failed else None)
        name = "A partition" if number is None else f"Partition {number}"
        if isinstance(error, KilledWorker):
            return OracleError(f"{name} {_KILLER}")
        return OracleError(f"{name} raised {type(error).__name__}: {error}")

    def _check_open(self, cause: BaseException | None = None) -> None:
        if self._client.status != "running":
            cause = cause or ConnectionError(f"the Dask client is {self._client.status}")
            raise OracleError(
                f"The Dask client of this risk is {self._client.status}, and its partitions are gone; "
                "distribute the data with an open client."
            ) from cause


def _timeout() -> float:
    return min(_PATIENCE, seconds_left())


def threads_of(client: Client) -> dict[str, int]:
    """Return the number of threads of each worker."""
    threads: Any = client.nthreads()
    if not threads:
        raise InvalidInputError(
            "The Dask cluster has no workers yet; call client.wait_for_workers(n) before."
        )
    return dict(threads)


def spread(homes: Sequence[str | None], threads: Mapping[str, int], level: bool = False) -> list[str]:
    """Return a worker for each share: its home if it still exists, otherwise the worker with the least load.

    A load is the number of shares per thread. With `level`, shares are taken from the worker with the largest
    load until this cannot reduce the largest load any more.
    """
    held: dict[str, list[int]] = {worker: [] for worker in threads}
    for k, home in enumerate(homes):
        if home in held:
            held[home].append(k)

    def load(worker: str, more: int = 0) -> float:
        return (len(held[worker]) + more) / threads[worker]

    def next_home() -> str:
        return min(threads, key=lambda worker: load(worker, 1))

    for k, home in enumerate(homes):
        if home not in held:
            held[next_home()].append(k)
    while level:
        most, least = max(threads, key=load), next_home()
        if load(least, 1) >= load(most):
            break
        held[least].append(held[most].pop())
    found = {k: worker for worker, shares in held.items() for k in shares}
    return [found[k] for k in range(len(homes))]
