"""Random problems with known optima, damaged oracles and forged certificates, by the hundred thousand.

Run: python benchmarks/fuzz.py --trials 100000 --seed 0 --jobs 2 [--family NAME] [--only INDEX] [--seconds S]

Each trial is made from (seed, index) alone: ``--seed 0 --only 1234`` repeats number 1234. A trial that takes
longer than ``--patience`` seconds is recorded as a hang, one whose process dies as a crash.

STALLED counts the solves that gave up although a proof of the tolerance exists and float64 can hold it; those
without a known proof are UNCERTIFIED, those that ask for more digits than there are ROUNDING, and those of
gradient methods on a risk with kinks NOT SMOOTH.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing as mp
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

WARMING = 40
"""Trials of a worker in which code may be compiled: it has more patience with them."""
COLUMNS = ("trials", "OPTIMAL", "STALLED", "REFUSED", "other", "broken", "late", "ms")


@dataclass(frozen=True)
class Done:
    """A trial that has come to an end, somehow."""

    index: int
    name: str
    family: str
    status: str
    failures: list[str]
    seconds: float


@dataclass
class Worker:
    """A process that does one trial after the other."""

    process: Any
    pipe: Connection
    index: int = -1
    count: int = 0
    since: float = field(default_factory=time.perf_counter)


def main() -> int:
    options = _options()
    if options.only is not None:
        return _one(options)
    began = time.perf_counter()
    done = []
    for trial in _all(options):
        done.append(trial)
        for failure in trial.failures:
            print(
                f"--seed {options.seed} --only {trial.index} --family {trial.name!r}: "
                f"{trial.family}: {failure}",
                flush=True,
            )
        if len(done) % 5000 == 0:
            print(f"# {len(done)} trials, {time.perf_counter() - began:.0f} s", flush=True)
    _report(done)
    print(f"{len(done)} trials in {time.perf_counter() - began:.0f} s")
    return int(any(trial.failures for trial in done))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="index of the first trial")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--family", help="do trials of this family only")
    parser.add_argument(
        "--only", type=int, help="do this trial alone, and show the traceback of an exception"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no trial after this time")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds after which a trial hangs")
    return parser.parse_args()


def _one(options: argparse.Namespace) -> int:
    import traceback

    from fuzz import checks, families

    describe = checks.of_exception

    def loudly(error: BaseException) -> str:
        traceback.print_exception(error)
        return describe(error)

    checks.of_exception = loudly
    faulthandler.dump_traceback_later(options.patience)
    name, outcome = families.run(options.seed, options.only, options.family)
    faulthandler.cancel_dump_traceback_later()
    print(name, outcome.family, outcome.status, *outcome.failures, sep="\n  ")
    return int(bool(outcome.failures))


def _all(options: argparse.Namespace) -> Iterator[Done]:
    """Yield the trials of all workers as they come to an end; a worker that hangs or dies is replaced."""
    end = time.perf_counter() + options.seconds
    indices = range(options.first, options.first + options.trials)
    todo = takewhile(lambda _: time.perf_counter() < end, indices)
    workers = [_start(options) for _ in range(max(1, options.jobs))]
    while workers:
        ready = wait([worker.pipe for worker in workers], timeout=1.0)
        for worker in list(workers):
            patience = options.patience * (5.0 if worker.count < WARMING else 1.0)
            late = time.perf_counter() - worker.since > patience
            answer = None
            if worker.pipe in ready:
                try:
                    answer = worker.pipe.recv()
                except (EOFError, OSError):
                    late = True
            if answer is not None and worker.index >= 0:
                yield Done(worker.index, *answer, time.perf_counter() - worker.since)
            elif late:
                hangs = worker.process.is_alive() and worker.pipe not in ready
                worker.process.kill()
                worker.process.join()
                loss = "hang" if hangs else f"crash, exit code {worker.process.exitcode}"
                workers.remove(worker)
                if worker.index < 0:
                    raise RuntimeError(f"A worker could not start: {loss}.")
                name = options.family or _family(options.seed, worker.index)
                status = loss.split(",")[0].upper()
                yield Done(worker.index, name, "lost/-/-", status, [loss], options.patience)
                workers.append(_start(options))
                continue
            if answer is not None:
                worker.index, worker.since = next(todo, -1), time.perf_counter()
                worker.count += 1
                worker.pipe.send(worker.index)
                if worker.index < 0:
                    workers.remove(worker)
                    worker.process.join()


def _family(seed: int, index: int) -> str:
    from fuzz.families import family_of

    return family_of(seed, index)


def _start(options: argparse.Namespace) -> Worker:
    mine, theirs = mp.get_context("spawn").Pipe()
    process = mp.get_context("spawn").Process(
        target=_work, args=(theirs, options.seed, options.family), daemon=True
    )
    process.start()
    theirs.close()
    return Worker(process, mine)


def _work(pipe: Connection, seed: int, family: str | None) -> None:
    """Do the trials asked for; one that takes too long is done again: it may have compiled something."""
    from fuzz import families

    faulthandler.enable()
    pipe.send("ready")
    while (index := pipe.recv()) >= 0:
        try:
            name, outcome = families.run(seed, index, family)
            if outcome.status == "OVER TIME":
                name, outcome = families.run(seed, index, family)
            pipe.send((name, *outcome))
        except Exception as error:
            place = error.__traceback__
            while place.tb_next:
                place = place.tb_next
            where = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
            text = f"the trial itself: {type(error).__name__} in {where}: {error}"
            pipe.send(("trial", "trial/-/-", "BROKEN TRIAL", [text]))


def _report(done: list[Done]) -> None:
    keys = {
        "family": lambda trial: trial.name,
        "way or fault": lambda trial: f"{trial.name}: {trial.family.split('/')[0]}",
        "method (core)": lambda trial: trial.family.split("/")[1] if trial.name == "core" else None,
        "backend (core)": lambda trial: trial.family.split("/")[2] if trial.name == "core" else None,
    }
    for title, key in keys.items():
        groups = defaultdict(list)
        for trial in done:
            groups[key(trial)].append(trial)
        _table(title, {name: group for name, group in sorted(groups.items(), key=str) if name is not None})
    _matrix([trial for trial in done if trial.name == "faults"])
    kinds = Counter(failure.split(":")[0] for trial in done for failure in trial.failures)
    print("\nbroken promises: " + (", ".join(f"{kind} {n}" for kind, n in kinds.most_common()) or "none"))
    statuses = Counter(trial.status for trial in done)
    print("statuses: " + ", ".join(f"{status} {n}" for status, n in statuses.most_common()))


def _table(title: str, groups: dict[str, list[Done]]) -> None:
    if not groups:
        return
    print(f"\n{title:<34}" + "".join(f"{column:>9}" for column in COLUMNS))
    for name, group in groups.items():
        statuses = Counter(trial.status for trial in group)
        asked = max(1, len(group) - statuses["REFUSED"])
        known = ("OPTIMAL", "STALLED", "REFUSED")
        row = [
            f"{len(group)}",
            f"{100.0 * statuses['OPTIMAL'] / asked:.1f}%",
            f"{100.0 * statuses['STALLED'] / asked:.2f}%",
            f"{statuses['REFUSED']}",
            f"{sum(n for status, n in statuses.items() if status not in known)}",
            f"{sum(bool(trial.failures) for trial in group)}",
            f"{statuses['OVER TIME'] + statuses['HANG']}",
            f"{1e3 * sum(trial.seconds for trial in group) / len(group):.1f}",
        ]
        print(f"{name:<34}" + "".join(f"{cell:>9}" for cell in row))


def _matrix(done: list[Done]) -> None:
    """Faults by methods: trials in which the damage was neither named nor harmless, of all."""
    if not done:
        return
    cells = defaultdict(lambda: [0, 0])
    for trial in done:
        fault, method = trial.family.split("/")[:2]
        if trial.status != "REFUSED":
            cells[fault, method][0] += bool(trial.failures)
            cells[fault, method][1] += 1
    methods = sorted({method for _, method in cells})
    print(f"\n{'fault':<20}" + "".join(f"{method[:12]:>14}" for method in methods))
    for fault in sorted({fault for fault, _ in cells}):
        row = ("/".join(map(str, cells[fault, method])) for method in methods)
        print(f"{fault:<20}" + "".join(f"{cell:>14}" for cell in row))


if __name__ == "__main__":
    sys.exit(main())
