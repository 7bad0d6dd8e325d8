"""Whether the tests notice when the code that proves bounds is wrong: one small change at a time.

Run: python benchmarks/mutation.py --mutants 200 --seed 0 [--file proof/] [--whole] [--budget 20] [--list]

With ``--whole``, mutants are drawn from all files of the package with equal probability, and all tests can
kill them; without it, each file of the parts that make bounds gives the same number.

Each mutant is a change of one file in a copy of the package. The tests of its part of the package are run
once without a change: those that fail then are left out, and of the others it is noted which lines of the
files they run. A mutant meets the tests that run the changed line (those that run any line of the file, if
the line is compiled or runs on import), from quick to slow, as many as fit into ``--budget`` seconds. It is
*killed* at the first that fails, *survives* if none does, *times out* if they take much longer than without
it, and is *not reached* if there is none. All but the killed are listed: each is a test that is missing, or
a line that changes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parents[1]
PROOF, MASTERS = "proof/* laws/test_[elrt]*", "masters/* fuzz/test_fuzz"
PARTS = {
    "proof": ("*", f"{PROOF} engine/test_[bhopr]*"),
    "engine": ("bounds checks dual warm_start bundle evaluator", f"{PROOF} engine/* fuzz/test_fuzz"),
    "masters": ("conic/* least lp/highs* qp/dual_qp qp/prox* programme", f"{PROOF} {MASTERS}"),
    "risks": ("programmes", f"{PROOF} {MASTERS}"),
    "regularizers": ("base l2 l1 elastic_net entropy group quadratic", f"regularizers/* {MASTERS}"),
}
"""Of each folder the modules that make bounds, cuts, certificates and answers of masters, and their tests."""

SLOW = ("loose_backend", "long_life", "SCS", "ECOS")
"""Parts of the names of tests that take long and add little."""

Job = tuple[str, Mutant]
"""A file of the package, and a mutant of it."""


def main() -> int:
    options = _options()
    jobs = _sample(options)
    if options.list:
        for file, mutant in jobs:
            print(f"{file}:{mutant}")
        return 0
    print(f"{len(jobs)} mutants; a run without any comes first", flush=True)
    _preload()
    with tempfile.TemporaryDirectory() as folder:
        tree = _copy(Path(folder).resolve() / "tree")
        seconds, lines = _baseline(tree, jobs, options.whole)
        verdicts = []
        for job in jobs:
            tests = _tests(job, seconds, lines, options.budget)
            verdict = _verdict(tree, job, tests, options.budget) if tests else "not reached"
            verdicts.append((job[0], verdict))
            if verdict != "killed":
                print(f"{verdict} ({len(tests)} tests): cutplane/{job[0]}:{job[1]}", flush=True)
            if len(verdicts) % 20 == 0:
                print(f"# {len(verdicts)} of {len(jobs)}", flush=True)
    _report(verdicts)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--file", default="", help="only files of cutplane/ whose path contains this")
    parser.add_argument("--whole", action="store_true", help="draw from the whole package, use all tests")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of tests for a mutant")
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    return parser.parse_args()


def _sample(options: argparse.Namespace) -> list[Job]:
    """Draw the mutants: of the whole package, or one of each file in turn, until there are enough."""
    rng = random.Random(options.seed)
    if options.whole:
        paths = {
            path.relative_to(ROOT / "cutplane").as_posix(): path
            for path in sorted((ROOT / "cutplane").rglob("*.py"))
        }
        pool = [
            (name, mutant)
            for name, path in paths.items()
            if options.file in name
            for mutant in mutants(path.read_text())
        ]
        return sorted(
            rng.sample(pool, min(options.mutants, len(pool))), key=lambda job: (job[0], job[1].line)
        )
    piles = []
    for part, (patterns, _) in PARTS.items():
        for path in _found("cutplane", part, patterns):
            name = path.relative_to(ROOT / "cutplane").as_posix()
            if options.file in name:
                piles.append([(name, mutant) for mutant in mutants(path.read_text())])
                rng.shuffle(piles[-1])
    drawn: list[Job] = []
    while any(piles) and len(drawn) < options.mutants:
        drawn += [pile.pop() for pile in piles if pile]
    return sorted(drawn[: options.mutants], key=lambda job: (job[0], job[1].line))


def _found(root: str, folder: str, patterns: str) -> list[Path]:
    return [path for each in patterns.split() for path in sorted(ROOT.glob(f"{root}/{folder}/{each}.py"))]


def _copy(tree: Path) -> Path:
    """Copy what the tests need; the times of the files stay, so that compiled code is found in the cache."""
    for name in ("cutplane", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("*.pyc", ".hypothesis"))
    shutil.copy2(ROOT / "pyproject.toml", tree)
    return tree


def _preload() -> None:
    """Import what is slow to import, so that the processes forked later need not."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    import cvxpy
    import highspy
    import numba
    import scipy.linalg
    import scipy.optimize
    import scipy.sparse.linalg

    modules = (cvxpy, highspy, numba, scipy.linalg, scipy.optimize, scipy.sparse.linalg)
    cvxpy.installed_solvers()
    assert all(modules)


class Baseline:
    """A plugin of pytest that notes how long each test takes, and which lines of some files it runs."""

    def __init__(self, tree: Path, files: set[str]):
        self.files = {f"{tree}/cutplane/{file}": file for file in files}
        self.seconds: dict[str, float] = defaultdict(float)
        self.lines: dict[str, set[str]] = defaultdict(set)
        self.failed: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leave slow tests out."""
        items[:] = [item for item in items if not any(part in item.nodeid for part in SLOW)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Any:
        """Note the lines that a test runs."""
        seen = self.lines[item.nodeid]

        def enter(frame: Any, _: str, __: Any) -> Any:
            file = self.files.get(frame.f_code.co_filename)
            if file is None:
                return None

            def note(frame: Any, event: str, _: Any) -> Any:
                if event == "line":
                    seen.add(f"{file}:{frame.f_lineno}")
                return note

            return note

        threading.settrace(enter)
        sys.settrace(enter)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note how long a test took, and whether it failed."""
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.add(report.nodeid)


class Chosen:
    """A plugin of pytest that runs some tests, in this order."""

    def __init__(self, tests: list[str]):
        self.place = {name: k for k, name in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Choose the tests, and their order."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self.place), key=lambda item: self.place[item.nodeid]
        )


def _pytest(tree: Path, paths: list[str], plugin: Any) -> int:
    """Run tests of a tree in this process, in silence."""
    os.chdir(tree)
    sys.path.insert(0, str(tree))
    sys.dont_write_bytecode = True
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    stop = ["-x"] if isinstance(plugin, Chosen) else []
    flags = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-m", "not slow", "--tb=no", *stop]
    flags.append("--continue-on-collection-errors")  # tests of the documentation find none in the copy
    return int(pytest.main([*flags, *paths], plugins=[plugin]))


def _baseline(tree: Path, jobs: list[Job], whole: bool) -> tuple[dict[str, float], dict[str, set[str]]]:
    """Run the tests without a mutant; return the seconds and the lines of those that pass."""
    notes, files = tree / "notes.json", {file for file, _ in jobs}
    patterns = " ".join(tests for part, (_, tests) in PARTS.items() if any(f.startswith(part) for f in files))
    found = sorted((ROOT / "tests").rglob("test_*.py")) if whole else _found("tests", ".", patterns)
    paths = list(dict.fromkeys(str(path.relative_to(ROOT)) for path in found))
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        try:
            seen = Baseline(tree, files)
            _pytest(tree, paths, seen)
            lines = {name: sorted(found) for name, found in seen.lines.items()}
            notes.write_text(json.dumps([seen.seconds, lines, sorted(seen.failed)]))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    seconds, lines, failed = json.loads(notes.read_text())
    passed = {name: t for name, t in seconds.items() if name not in failed}
    taken = time.perf_counter() - began
    print(f"{len(passed)} tests pass, in {taken:.0f} s; these fail:", *(failed or ["none"]), flush=True)
    return passed, {name: set(found) for name, found in lines.items()}


def _tests(job: Job, seconds: dict[str, float], lines: dict[str, set[str]], budget: float) -> list[str]:
    """Return the tests that run the changed line, the quickest first; those of the file, if none does."""
    file, mutant = job
    found = [name for name in seconds if f"{file}:{mutant.line}" in lines[name]]
    if not found:
        found = [name for name in seconds if any(line.startswith(f"{file}:") for line in lines[name])]
    found.sort(key=seconds.__getitem__)
    spent = list(accumulate(seconds[name] for name in found))
    return [name for name, so_far in zip(found, spent, strict=True) if so_far <= budget] or found[:1]


def _verdict(tree: Path, job: Job, tests: list[str], budget: float) -> str:
    """Test a mutant in a process, which an alarm ends."""
    path, kept = tree / "cutplane" / job[0], tree / "kept"
    shutil.copy2(path, kept)
    path.write_text(job[1].source)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(int(6.0 * budget + 60.0))
            code = _pytest(tree, list(dict.fromkeys(name.split("::")[0] for name in tests)), Chosen(tests))
        finally:
            os._exit(code)
    _, state = os.waitpid(child, 0)
    shutil.copy2(kept, path)
    code = os.waitstatus_to_exitcode(state)
    return {0: "survived", -signal.SIGALRM: "timed out"}.get(code, "killed")


def _report(verdicts: list[tuple[str, str]]) -> None:
    counts: dict[str, Counter] = defaultdict(Counter)
    for file, verdict in verdicts:
        counts[file][verdict] += 1
        counts["all"][verdict] += 1
    columns = ("killed", "timed out", "survived", "not reached")
    print(f"\n{'file':<32}" + "".join(f"{column:>13}" for column in columns) + f"{'killed':>11}")
    for file, count in counts.items():
        share = 100.0 * (count["killed"] + count["timed out"]) / sum(count.values())
        print(f"{file:<32}" + "".join(f"{count[column]:>13}" for column in columns) + f"{share:>10.0f}%")


if __name__ == "__main__":
    sys.exit(main())
