"""Routines are interpreted until compiling them pays, with the same answers, and no clock counts it."""

import dataclasses
import importlib
import itertools
import json
import math
import os
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numba
import numpy as np
import pytest

import cutplane as cut
from cutplane.engine.history import History
from cutplane.exceptions import InvalidInputError
from cutplane.masters import active_set
from cutplane.runtime import compiling
from cutplane.runtime.clock import clock, compiled_seconds, go_on, stop
from cutplane.runtime.compiling import SUMS, compiling_at, routine
from cutplane.runtime.deadline import patient_until


class Pair(NamedTuple):
    first: float
    second: int


@pytest.fixture
def total(monkeypatch, tmp_path):
    """A routine that calls another, and that no cache has."""
    assert active_set.maximise  # imported before: its cache is the usual one
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @routine(fastmath=SUMS)
    def total(x, i, zero=0.0):
        return pair(x * 1.0, i, zero)

    return total


@routine
def pair(x, i, zero):
    s = 0.0
    for j in range(x.shape[0]):
        s += x[j]
    return Pair(1.0 / zero if i < 0 else s, i + x.shape[0])


def test_a_routine_is_interpreted_until_that_has_cost_a_share_of_compiling_it(total, monkeypatch):
    """A call takes a second, as does the compilation of a byte: the machine may be busy."""
    monkeypatch.setattr(compiling, "thread_time", itertools.count().__next__)
    monkeypatch.setattr(compiling._Pace, "seconds", 1e6)
    monkeypatch.setattr(compiling._Pace, "size", 1e6)
    x = np.arange(5.0)
    with compiling_at(10.0 / len(total.py_func.__code__.co_code)):
        answers = [total(x, 2)]
        assert not total.signatures
        while not total.signatures:
            answers.append(total(x, 2))
    assert 10 < len(answers) < 100
    for answer in answers:
        assert answer == Pair(10.0, 7) and type(answer) is Pair
        assert type(answer.first) is float and type(answer.second) is int


def test_threads_may_call_a_routine_while_one_compiles_it(total):
    x = np.arange(5.0)
    with compiling_at(0.01), ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda i: total(x, i), range(4_000)))
    assert total.signatures and answers == [Pair(10.0, 5 + i) for i in range(4_000)]


@pytest.mark.parametrize(
    ("share", "x"),
    [(0.0, np.ones(3)), (1e9, np.ones(3, np.float32)), (1.0, np.ones(10_000_000))],
    ids=["at once", "float32", "large"],
)
def test_a_routine_is_compiled_at_once_if_it_must_be(total, share, x):
    with compiling_at(share):
        assert total(x, 0).first == x.size
    assert total.signatures


@pytest.mark.parametrize(("left", "size", "compiled"), [(0.5, 5, 0), (5.0, 5, 1), (0.5, 10**7, 1)])
def test_what_is_compiled_after_the_time_limit_does_not_pay(total, monkeypatch, left, size, compiled):
    """Compiling takes two seconds, and interpreting a call with ten million elements ten."""
    monkeypatch.setattr(compiling._Pace, "expected", classmethod(lambda cls, size: 2.0))
    with compiling_at(1e-12), patient_until(time.perf_counter() + left):
        total(np.zeros(size), 2)
        assert len(total.signatures) == compiled
    with compiling_at(1e-12):
        total(np.arange(5.0), 2)
        assert len(total.signatures) == 1


def test_what_is_in_the_cache_is_not_interpreted(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def double(x):
        return 2.0 * x[0]

    with compiling_at(0.0):
        routine(double)(np.ones(1))
    with compiling_at(math.inf):
        loaded, new = routine(double), routine(double)
        assert loaded(np.ones(1)) == 2.0 and loaded.signatures
        assert new(np.ones(1, np.int64)) == 2.0 and not new.signatures


def test_a_cache_with_types_that_are_gone_is_written_again(monkeypatch, tmp_path):
    """As after an upgrade that moves a class: numba reads the types of an index before its age."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    older = types.ModuleType("older_version")
    older.Moved = NamedTuple("Moved", [("first", float)])
    older.Moved.__module__ = "older_version"
    sys.modules["older_version"] = older

    def first(pair):
        return pair[0]

    with compiling_at(0.0):
        assert routine(first)(older.Moved(1.0)) == 1.0
        del sys.modules["older_version"]
        again = routine(first)
        assert again(Pair(2.0, 3)) == 2.0 and again.signatures
        assert routine(first)(Pair(4.0, 3)) == 4.0


CALLEES = {
    "routine": "@routine\ndef inner(x):\n    return {factor} * x\n",
    "jitted": "@njit(cache=True)\ndef inner(x):\n    return {factor} * x\n",
    "overload": "def inner(x):\n    ...\n\n\n@overload(inner)\n"
    "def _inner(x):\n    return lambda x: {factor} * x\n",
}


@pytest.mark.parametrize("kind", CALLEES)
def test_a_routine_is_compiled_again_if_one_that_it_calls_has_changed(kind, monkeypatch, tmp_path):
    """As after an upgrade that mends a routine in another file, or a constant."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    header = "from numba import njit\nfrom numba.extending import overload\n\n"
    header += "from cutplane.runtime.compiling import routine\n\n"
    (tmp_path / "caller.py").write_text(
        f"{header}from callee import SHIFT, inner\n\n\n@routine\ndef outer(x):\n    return inner(x) + SHIFT\n"
    )
    answers = []
    for factor, shift in ((2.0, 1.0), (3.0, 1.0), (3.0, 10.0), (3.0, 10.0)):
        (tmp_path / "callee.py").write_text(
            f"{header}SHIFT = {shift}\n\n\n" + CALLEES[kind].format(factor=factor)
        )
        for name in ("caller", "callee"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        compiling.source_hash.cache_clear()
        with compiling_at(0.0):
            outer = importlib.import_module("caller").outer
            answers.append(outer(5.0))
    assert answers == [11.0, 16.0, 25.0, 25.0]
    assert sum(outer.stats.cache_hits.values()) == 1


def test_an_interpreted_routine_divides_by_zero_as_a_compiled_one_does(total):
    answers = []
    for share in (math.inf, 0.0):
        with compiling_at(share):
            answers.append(total(np.ones(2), -1).first)
    assert answers == [math.inf, math.inf]


def test_what_is_compiled_otherwise_is_called_as_it_is(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @routine
    def twice(x):
        return doubled(x)

    with compiling_at(math.inf):
        assert twice(2.0) == 4.0 and not twice.signatures and doubled.signatures


@numba.njit
def doubled(x):
    return 2.0 * x


def test_another_function_stands_for_one_that_cannot_be_interpreted(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @routine(plain=max)
    def larger(x, y):
        raise AssertionError

    with compiling_at(math.inf):
        assert larger(2.0, 3.0) == 3.0


def test_the_environment_may_be_wrong(monkeypatch):
    monkeypatch.setenv("CUTPLANE_COMPILE", "sometimes")
    with pytest.raises(InvalidInputError, match="CUTPLANE_COMPILE must be 'always' or 'never'"):
        compiling._share()


def test_the_clock_stands_still_until_it_goes_on_as_often_as_it_was_stopped():
    began, seconds, wall = clock(), compiled_seconds(), time.perf_counter()
    stop()
    stop()
    time.sleep(0.05)
    go_on()
    stopped = clock()
    time.sleep(0.05)
    assert clock() == stopped and stopped - began < 0.05
    go_on()
    assert 0.1 <= compiled_seconds() - seconds <= time.perf_counter() - wall
    assert clock() >= stopped and clock() - began < 0.05
    time.sleep(0.05)
    assert clock() - stopped >= 0.05


def test_compiling_is_said_and_counts_against_no_limit(total):
    @cut.risk(dim=2)
    def compiled_when_first_asked(w):
        with compiling_at(0.0):
            total(w, 0)
        return np.abs(w - 1.0).sum(), np.sign(w - 1.0)

    began = time.perf_counter()
    result = cut.Problem(compiled_when_first_asked, cut.L2(1.0)).solve(time_limit=30.0)
    wall = time.perf_counter() - began
    last = result.history[-1]
    assert 0.05 < last.compiled <= wall - last.elapsed
    assert sum(record.oracle_seconds for record in result.history) <= last.elapsed
    noticed = last._replace(compiled=2.123)
    said = dataclasses.replace(result, history=History([noticed]))
    assert "after 2.1 of compiling" in repr(said) and "of compiling" in said._repr_html_()


SOLVE = """
import json
import numpy as np
import cutplane as cut
from cutplane.runtime import compiling

X = np.random.default_rng(0).normal(size=(100, 3))

@cut.risk(dim=3)
def absolute(w):
    r = X @ w - 1.0
    return np.abs(r).mean(), X.T @ np.sign(r) / 100

result = cut.Problem(absolute, cut.L2(1e-2)).solve(tol=1e-6)
policies = compiling._policies.values()
print(json.dumps({
    "status": result.status, "objective": result.objective,
    "misses": sum(sum(policy.dispatcher.stats.cache_misses.values()) for policy in policies),
    "interpreted": sum(policy.seconds for policy in policies),
}))
"""


def in_a_new_process(cache, *arguments):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "CUTPLANE_COMPILE": ""}
    run = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.slow
def test_after_a_warm_up_nothing_is_compiled_or_interpreted(tmp_path):
    cold = json.loads(in_a_new_process(tmp_path, "-c", SOLVE))
    assert cold["status"] == "OPTIMAL" and cold["interpreted"] > 0.0
    assert in_a_new_process(tmp_path, "-m", "cutplane.warmup", "engine").startswith("engine")
    warm = json.loads(in_a_new_process(tmp_path, "-c", SOLVE))
    assert warm["status"] == "OPTIMAL" and warm["interpreted"] == warm["misses"] == 0
    assert warm["objective"] == pytest.approx(cold["objective"], rel=2e-6)


EVERY = """
import importlib, pkgutil
import cutplane
from cutplane.runtime import compiling
from cutplane.warmup import warm_up

warm_up()
for module in pkgutil.walk_packages(cutplane.__path__, "cutplane."):
    importlib.import_module(module.name)
policies = compiling._policies
stack, reached = [policy for policy in policies.values() if policy.dispatcher.signatures], set()
while stack:
    policy = stack.pop()
    if policy not in reached:
        reached.add(policy)
        stack += compiling._called(policy.source).values()
print([policy.source.__qualname__ for policy in policies.values() if policy not in reached])
"""


@pytest.mark.slow
def test_the_warm_up_reaches_every_routine(tmp_path):
    assert in_a_new_process(tmp_path, "-c", EVERY).splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("argument", "code", "words"), [("--help", 0, "one of engine"), ("x", 2, "no part 'x'")]
)
def test_the_warm_up_names_its_parts(argument, code, words):
    command = [sys.executable, "-m", "cutplane.warmup", argument]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == code and words in " ".join((found.stdout + found.stderr).split())
