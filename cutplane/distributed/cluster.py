"""The shares of a risk: placed on workers, asked, and moved when workers join, die or fall behind."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, wait
from time import perf_counter
from typing import Any

import distributed
from dask.delayed import Delayed
from distributed import Client, Future, KilledWorker

from cutplane.distributed.blocks import Block
from cutplane.distributed.question import LOST, Placed, Question
from cutplane.distributed.share import PARTITION, Answer, Bundle, Request, Share, build
from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.risks.base import Risk
from cutplane.runtime.deadline import check_time, seconds_left

_LARGE = 1 << 18  # bytes: points of more go to a worker without a stop at the scheduler
_PATIENCE = 60.0  # seconds: a nanny starts a new worker in a few, a queueing system may need longer
_SLICE = 1.0  # seconds between two looks at the clock and at the workers
_LATE = 3.0  # how many times as long as half of the workers a straggler may take
_DEATHS = 4  # homes that a partition may lose before it has answered: one more than Dask allows a task
_ATTEMPTS = 20
_KILLER = (
    "killed each worker that it was given to, as happens when it does not fit into the memory of one; use "
    "more workers, or more memory for each."
)


class Cluster:
    """The partitions of a risk on the workers of a Dask cluster.

    It decides where each share lives, and tells Dask. A share that is lost is made anew from its source.
    """

    def __init__(self, client: Client, sources: Sequence[Any], weights: Sequence[float]):
        self._client = client
        self._check_open()
        homes = self._homes(sources)
        columns = zip(weights, sources, homes, strict=True)
        self.shares = [Placed(k, *column) for k, column in enumerate(columns)]
        self._bundles: dict[str, tuple[tuple[Any, ...], Any]] = {}
        self._coming: dict[int, tuple[str, Any]] = {}  # moves under way
        self._hung: dict[str, Question] = {}  # workers that were overtaken, and by what they are known to be
        self._threads = threads_of(client)
        self._seen = perf_counter()
        self._late = _LATE
        self._last: Any = None  # kept until the next is on its way: a release would delay that
        self._settle(spread(homes, self._threads))

    def ask(self, request: Request, which: Collection[int] | None = None) -> Answer:
        """Return the answer of all shares, or of some."""
        asked = [share for share in self.shares if which is None or share.number in which]
        if perf_counter() - self._seen > _SLICE:
            self._look()
        questions: list[Question] = []
        for _ in range(_ATTEMPTS):
            self._replace_lost(asked)
            questions.append(self._question(request, asked))
            found = self._await(questions, asked)
            if found is not None:
                self._last = questions
                for share in asked:
                    share.losses = 0
                if found.lost:
                    self._bundles.clear()
                return found
        raise OracleError(f"Partitions were lost {_ATTEMPTS} times in a row; see the logs of the workers.")

    def _await(self, questions: list[Question], asked: Sequence[Placed]) -> Answer | None:
        """Return the first answer; None if some of the shares are elsewhere, and must be asked there."""
        began, half = perf_counter(), None
        while questions:
            found = self._first(questions)
            if found is not None:
                return found
            check_time()
            self._check_open()
            self._look()
            if not questions or any(share.key not in questions[-1].shares for share in asked):
                return None
            busy, elapsed = self._busy(questions[-1]), perf_counter() - began
            if half is None and 2 * len(busy) <= len(questions[-1].workers):
                half = max(elapsed, _SLICE)
            if half is not None and busy and elapsed > self._late * half:
                self._overtake(busy, questions[-1])
        return None

    def _first(self, questions: list[Question]) -> Answer | None:
        """Wait a while for an answer; of those who wait, drop the ones that will get none."""
        patience = min(_SLICE, seconds_left())
        done, _ = wait([each.answer for each in questions], patience, return_when=FIRST_COMPLETED)
        for question in [each for each in questions if each.answer in done]:
            try:
                return question.answer.result()
            except CancelledError as error:
                self._check_open(error)
            except Exception as error:
                self._check_open(error)
                if question is questions[-1]:
                    raise self._failure(error) from error
            questions.remove(question)
        return None

    def _question(self, request: Request, asked: Sequence[Placed]) -> Question:
        shares: dict[str, list[Placed]] = {}
        for share in asked:
            shares.setdefault(share.home, []).append(share)  # type: ignore[arg-type]
        bundles = {home: self._bundle(home, own) for home, own in shares.items()}
        points = sum(getattr(recipe.source, "nbytes", 0) for recipe in request.recipes)
        sent: Any = request
        if points > _LARGE:
            lead = next(iter(bundles))
            sent = self._client.scatter(request, workers=[lead], hash=False, timeout=_timeout())
        return Question(self._client, sent, shares, bundles, self._threads)

    def _bundle(self, home: str, shares: Sequence[Placed]) -> Any:
        """Return the future of the shares on a worker; it is kept for the next question."""
        keys = tuple(share.key for share in shares)
        known = self._bundles.get(home)
        if known is None or known[0] != keys or known[1].status in LOST:
            futures = [share.future for share in shares]
            known = keys, self._client.submit(Bundle, futures, workers=[home], pure=False)
            self._bundles[home] = known
        return known[1]

    def _busy(self, question: Question) -> set[str]:
        """Return the workers that are at work for a question."""
        processing: Any = self._client.processing()
        return {worker for worker, keys in processing.items() if not question.keys.isdisjoint(keys)}

    def _overtake(self, late: set[str], question: Question) -> None:
        """Have others do what some workers are late with, which stay away until they are done with it.

        Each time the next straggler is given twice as long: a worker that is merely slow is left alone.
        """
        self._late *= 2.0
        self._hung |= dict.fromkeys(late, question)
        self._look()

    def _look(self) -> None:
        """See which workers there are; place shares that have no home, and let newcomers take some."""
        self._seen = perf_counter()
        there = self._await_workers()
        self._hung = {
            worker: question
            for worker, question in self._hung.items()
            if worker in there and not question.answer.done()
        }
        threads = {worker: count for worker, count in there.items() if worker not in self._hung} or there
        for number, (home, future) in list(self._coming.items()):
            if home not in threads or future.status in (*LOST, "error"):
                del self._coming[number]
            elif future.status == "finished":
                self.shares[number].home, self.shares[number].future = self._coming.pop(number)
        if threads == self._threads:
            return
        joined, self._threads = threads.keys() - self._threads, threads
        self._adopt([share for share in self.shares if share.home not in threads and not share.gone])
        homes = [self._coming.get(share.number, (share.home,))[0] for share in self.shares]
        self._bundles = {home: known for home, known in self._bundles.items() if home in threads}
        self._settle(spread(homes, threads, level=bool(joined)))

    def _adopt(self, moved: Sequence[Placed]) -> None:
        """Find the shares that a worker has handed to another one before it left."""
        held: Any = self._client.who_has([share.future for share in moved]) if moved else {}
        for share in moved:
            here = [worker for worker in held.get(share.future.key, ()) if worker in self._threads]
            share.home = here[0] if here else share.home

    def _settle(self, homes: Sequence[str]) -> None:
        """Have the shares made where they are to be; one that has a home serves there until then."""
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
        """Return the future of a share on that worker and no other; None if it is gone already."""
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
        if isinstance(source, Delayed):  # its tasks may be known to Dask already, so that no tie is strict
            source = client.compute(source, workers=[home], allow_other_workers=True)
        return client.submit(build, share.number, share.weight, source, workers=[home], pure=False)

    def _replace_lost(self, asked: Sequence[Placed]) -> None:
        """Place shares again whose workers died."""
        if not any(share.gone for share in asked):
            return
        self._look()
        for share in asked:
            if isinstance(share.source, Future) and share.source.status in LOST:
                raise OracleError(
                    f"Partition {share.number}, which was given as a future, was lost with its worker; give "
                    "a function or a Delayed instead, which can be computed again."
                )
            if share.gone:
                share.losses += 1
                self._place(share, share.home if share.home in self._threads else min(self._threads))

    def _await_workers(self) -> dict[str, int]:
        """Return the threads of each worker; raise `OracleError` if for long there is none."""
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
    """Return a worker for each share: its own, if there is one, else that with the fewest for each thread.

    With `level` shares leave their workers, until no move makes the most loaded one less loaded.
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
