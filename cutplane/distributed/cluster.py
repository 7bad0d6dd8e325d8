"""The shares of a risk: placed on workers, queried by a graph of tasks, placed again when workers change."""

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
"""Workers to which one hands a request, and whose answers it adds, because this keeps the tree and the load
of each link low."""
_LARGE = 1 << 18
"""Bytes of points from which a request is sent to a worker directly, because the scheduler copies it."""
_PATIENCE = 60.0
"""Seconds to wait for a worker, because a queueing system may need longer than a nanny."""
_SLICE = 1.0
"""Seconds between two checks of the clock and the workers, because each costs a round trip."""
_DEATHS = 4
"""Workers that a partition may lose before it has answered, because Dask allows a task one less."""
_ATTEMPTS = 20
"""Times that a question is submitted, because workers may disappear each time; more of it means a fault."""
_LOST = "cancelled", "lost"
_KILLER = (
    "killed each worker that it was given to, as happens when it does not fit into the memory of one; use "
    "more workers, or more memory for each."
)


@dataclass(eq=False)
class Placed:
    """A share, as the client sees it."""

    number: int
    weight: float
    source: Any
    home: str | None
    future: Any = None
    losses: int = 0

    @property
    def gone(self) -> bool:
        """Whether the client has heard that its data are lost."""
        return self.future is None or self.future.status in _LOST

    @property
    def key(self) -> Any:
        """Dask's key of it; None if it is gone."""
        return None if self.gone else self.future.key


@dataclass(eq=False)
class _Question:
    """A graph of tasks under way: its root, the answer that it will have, and the keys of its shares."""

    root: Any
    answer: Any
    shares: set[Any]


class Cluster:
    """The partitions of a risk on the workers of a Dask cluster.

    It decides where each share lives, and tells Dask. A share that is lost is made again from its source.
    """

    def __init__(self, client: Client, sources: Sequence[Any], weights: Sequence[float]):
        self._client = client
        self._check_open()
        homes = self._homes(sources)
        columns = zip(weights, sources, homes, strict=True)
        self.shares = [Placed(k, *column) for k, column in enumerate(columns)]
        self._bundles: dict[str, tuple[tuple[Any, ...], Any]] = {}
        self._coming: dict[int, tuple[str, Any]] = {}  # shares that are made on another worker
        self._threads = threads_of(client)
        self._seen = perf_counter()
        self._last: Any = None  # kept until the next is on its way, because a release would delay that
        self._settle(spread(homes, self._threads))

    def ask(self, request: Request, which: Collection[int] | None = None) -> ShareAnswer:
        """Return the answer of all shares, or of some."""
        asked = [share for share in self.shares if which is None or share.number in which]
        if perf_counter() - self._seen > _SLICE:
            self._update()
        for _ in range(_ATTEMPTS):
            self._replace_lost(asked)
            question = self._question(request, asked)
            found = self._await(question, asked)
            if found is not None:
                self._last = question
                for share in asked:
                    share.losses = 0
                if found.lost:
                    self._bundles.clear()
                return found
        raise OracleError(f"Partitions were lost {_ATTEMPTS} times in a row; see the logs of the workers.")

    def _await(self, question: _Question, asked: Sequence[Placed]) -> ShareAnswer | None:
        """Return the answer; None if some of the shares are elsewhere, and must be queried there."""
        while all(share.key in question.shares for share in asked):
            done, _ = wait([question.answer], min(_SLICE, seconds_left()))
            if done:
                try:
                    return question.answer.result()
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

    def _question(self, request: Request, asked: Sequence[Placed]) -> _Question:
        """Submit a graph: the shares on each worker answer, and a tree over the workers adds their answers.

        The request goes down a tree too, from the client to one worker, and from worker to worker. Each task
        is tied to a worker. The client holds the root alone, so that it receives one answer, and for each
        other worker one short message.
        """
        shares: dict[Any, list[Placed]] = {}
        for share in asked:
            shares.setdefault(share.home, []).append(share)
        bundles = {home: self._bundle(home, held) for home, held in shares.items()}
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

        asks, answers = [sent], []  # asks[k] is the request on worker k - 1
        for k, (home, bundle) in enumerate(bundles.items()):
            ask = asks[(k - 1) // FAN + 1]
            if k == 0 or FAN * k + 1 < len(bundles):  # others fetch it from here
                ask = add("ask", home, hand_over, ask, bundle)
                asks.append(ask)
            answers.append((home, ask, add("serve", home, serve, ask, bundle, self._threads[home])))
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
        return _Question(root, answer, {share.key for share in asked})

    def _bundle(self, home: str, shares: Sequence[Placed]) -> Any:
        """Return the future of the shares on a worker; it is kept for the next question."""
        keys = tuple(share.key for share in shares)
        known = self._bundles.get(home)
        if known is None or known[0] != keys or known[1].status in _LOST:
            futures = [share.future for share in shares]
            known = keys, self._client.submit(ShareBundle, futures, workers=[home], pure=False)
            self._bundles[home] = known
        return known[1]

    def _update(self) -> None:
        """Query the workers; place shares that have no home, and let new workers take some."""
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
        for share in displaced:  # a worker that retires hands its shares to another one
            here = [worker for worker in held.get(share.future.key, ()) if worker in threads]
            share.home = here[0] if here else share.home
        homes = [self._coming.get(share.number, (share.home,))[0] for share in self.shares]
        self._bundles = {home: known for home, known in self._bundles.items() if home in threads}
        self._settle(spread(homes, threads, level=bool(joined)))

    def _settle(self, homes: Sequence[str]) -> None:
        """Have the shares made at their new homes; a share that has a home serves there until then."""
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
        """Return the future of a share on that worker and no other; None if the worker is gone already."""
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
        if isinstance(source, Delayed):  # Dask may have its tasks already, so that no tie is strict
            source = client.compute(source, workers=[home], allow_other_workers=True)
        return client.submit(build, share.number, share.weight, source, workers=[home], pure=False)

    def _replace_lost(self, asked: Sequence[Placed]) -> None:
        """Place shares again whose workers died."""
        if not any(share.gone for share in asked):
            return
        self._update()
        for share in asked:
            if isinstance(share.source, Future) and share.source.status in _LOST:
                raise OracleError(
                    f"Partition {share.number}, which was given as a future, was lost with its worker; give "
                    "a function or a Delayed instead, which can be computed again."
                )
            if share.gone:
                share.losses += 1
                self._place(share, share.home if share.home in self._threads else min(self._threads))

    def _await_workers(self) -> dict[str, int]:
        """Return the threads of each worker; raise `OracleError` if there is none for long."""
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
        """Return the worker that holds the data of each partition already, None for those not yet there."""
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
    """Return a worker for each share: its home, if that is there, else the one with fewest for each thread.

    With `level` shares change their workers, until no change makes the most loaded one less loaded.
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
