"""A question to the shares as a graph of tasks: down a tree of workers, and the answers up another."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from dask.base import annotate
from distributed import Client

from cutplane.distributed.share import hand_over, serve, total

FAN = 8
"""A worker hands a request to as many, and adds up as many answers: few hops, few vectors on a link."""

LOST = "cancelled", "lost"


@dataclass
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
        """Whether its data are nowhere any more, as far as this client has been told."""
        return self.future is None or self.future.status in LOST

    @property
    def key(self) -> Any:
        """By which Dask knows it; None if it is gone."""
        return None if self.gone else self.future.key


class Question:
    """One graph of tasks: the shares on each worker answer, and a tree over the workers adds up.

    The request goes down a tree like that, from the client to one worker, and from worker to worker. Each
    task is tied to a worker. The client holds nothing but the root, so that it is sent one answer; of other
    tasks it hears one short message for each worker.
    """

    def __init__(
        self,
        client: Client,
        request: Any,
        shares: Mapping[str, Sequence[Placed]],
        bundles: Mapping[str, Any],
        threads: Mapping[str, int],
    ):
        token = uuid4().hex
        graph: dict[Any, Any] = {}
        homes: dict[Any, str] = {}

        def add(kind: str, home: str, *task: Any) -> Any:
            key = f"{kind}-{token}", len(graph)
            graph[key], homes[key] = task, home
            return key

        asks, answers = [request], []  # asks[k] is what worker k - 1 has been handed
        for k, (home, bundle) in enumerate(bundles.items()):
            ask = asks[(k - 1) // FAN + 1]
            if k == 0 or FAN * k + 1 < len(bundles):  # others fetch it from here
                ask = add("ask", home, hand_over, ask, bundle)
                asks.append(ask)
            answers.append((home, ask, add("serve", home, serve, ask, bundle, threads[home])))
        while len(answers) > 1:
            parts = [answers[i : i + FAN] for i in range(0, len(answers), FAN)]
            firsts = [(home, ask) for (home, ask, _), *_ in parts]
            keys = [[key for *_, key in part] for part in parts]
            answers = [
                (home, ask, add("total", home, total, ask, own))
                for (home, ask), own in zip(firsts, keys, strict=True)
            ]
        with annotate(workers=homes.__getitem__, allow_other_workers=False):
            self.root: Any = client.get(graph, [answers[0][2]], sync=False)[0]  # type: ignore[index]
        fetched: Any = client.gather(self.root, asynchronous=True)
        self.answer = asyncio.run_coroutine_threadsafe(fetched, client.loop.asyncio_loop)  # type: ignore[attr-defined]
        self.workers = set(bundles)
        self.shares = {share.key for each in shares.values() for share in each}
        self.keys = {*graph, *self.shares, *(bundle.key for bundle in bundles.values())}
