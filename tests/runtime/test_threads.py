import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

from cutplane.exceptions import InvalidInputError
from cutplane.runtime import threads
from cutplane.runtime.deadline import limited_to, seconds_left
from cutplane.runtime.threads import get_threads, run_chunks, set_threads


@pytest.fixture(autouse=True)
def four_threads():
    before = get_threads()
    set_threads(4)
    yield
    set_threads(before)


def nap(chunk=None):
    time.sleep(0.002)
    return threading.get_ident()


def meeting(n):
    """A function that returns when n threads are in it."""
    barrier = threading.Barrier(n)

    def wait(chunk=None):
        barrier.wait(30.0)
        return threading.get_ident()

    return wait


@pytest.mark.parametrize("n_threads", [1, 2, 4])
@pytest.mark.parametrize("n_chunks", [0, 1, 2, 5, 40])
def test_answers_come_in_the_order_of_the_chunks(n_threads, n_chunks):
    set_threads(n_threads)
    assert run_chunks(lambda k: nap(k) and k * k, range(n_chunks)) == [k * k for k in range(n_chunks)]


@pytest.mark.parametrize("n", [1, 3, 4, 2])
def test_as_many_threads_work_at_once_as_are_set(n):
    set_threads(n)
    assert len(set(run_chunks(meeting(n), range(12)))) == n


def test_the_caller_works_too_and_alone_on_a_single_chunk():
    caller = threading.get_ident()
    assert run_chunks(nap, [0]) == [caller]
    assert caller in run_chunks(meeting(4), range(4))


def test_sleeping_threads_are_not_waited_for():
    """All the crew sleeps in one call; another call is done by its caller alone meanwhile."""
    begun, woken = threading.Barrier(5), threading.Event()

    def sleep(chunk):
        begun.wait(30.0)
        assert woken.wait(30.0)

    sleeper = threading.Thread(target=run_chunks, args=(sleep, range(4)))
    sleeper.start()
    begun.wait(30.0)
    assert run_chunks(nap, range(5)) == [threading.get_ident()] * 5
    woken.set()
    sleeper.join(30.0)
    assert not sleeper.is_alive()


def test_calls_within_calls_and_from_many_threads():
    def inner(k):
        return sum(run_chunks(lambda j: nap(j) and j + k, range(3)))

    answers = {}
    callers = [
        threading.Thread(target=lambda c=c: answers.update({c: run_chunks(inner, range(c, c + 6))}))
        for c in range(8)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30.0)
    assert answers == {c: [3 + 3 * k for k in range(c, c + 6)] for c in range(8)}


def test_a_helper_wakes_no_further_threads():
    caller = threading.get_ident()
    meet = meeting(2)
    answers = run_chunks(
        lambda k: (meet(), set(run_chunks(nap, range(20)))), range(2)
    )  # two threads are idle
    assert len({outer for outer, _ in answers}) == 2
    assert all(inner == {outer} for outer, inner in answers if outer != caller)


@pytest.mark.parametrize("fails_at", [0, 7, 19])
def test_an_error_in_any_thread_reaches_the_caller_after_all_have_stopped(fails_at):
    working, begun, failed = [], [], threading.Event()

    def fail(k):
        begun.append(k)
        working.append(k)
        if k == fails_at:
            failed.set()
            raise ZeroDivisionError(k)
        if k > fails_at:
            failed.wait(30.0)
        time.sleep(0.05)
        working.remove(k)

    with pytest.raises(ZeroDivisionError, match=str(fails_at)):
        run_chunks(fail, range(20))
    assert working == [fails_at] and len(begun) <= fails_at + 4
    assert run_chunks(abs, range(20)) == list(range(20))


def test_an_idle_thread_keeps_no_data():
    class Data:
        def __init__(self):
            self.meet = meeting(2)

        def wait(self, chunk):
            return self.meet()

    data = Data()
    assert len(set(run_chunks(data.wait, range(8)))) > 1
    reference = weakref.ref(data)
    del data
    deadline = time.monotonic() + 30.0
    while reference() is not None and time.monotonic() < deadline:  # a late thread may still look at the call
        time.sleep(0.01)
        gc.collect()
    assert reference() is None


def test_few_threads_are_started_whatever_calls_them():
    callers = [threading.Thread(target=run_chunks, args=(nap, range(20))) for _ in range(10)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sum(thread.name == "cutplane" for thread in threading.enumerate()) <= 3


def run(code, **environment):
    answer = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | environment,
    )
    return answer.stdout.split(), answer.stderr


def test_a_forked_process_starts_its_own_threads():
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    code = """
import os, threading
from cutplane.runtime.threads import run_chunks, set_threads
set_threads(3)
def count_threads():
    meeting = threading.Barrier(3)
    return len(set(run_chunks(lambda k: meeting.wait(20.0) and None or threading.get_ident(), range(12))))
assert count_threads() == 3
pid = os.fork()
used = count_threads()
if pid == 0:
    os._exit(used)
print(used, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert run(code) == (["3", "3"], "")


def test_it_works_while_the_interpreter_shuts_down():
    code = """
import threading, time
from cutplane.runtime.threads import run_chunks, set_threads
set_threads(3)
def late():
    time.sleep(0.2)
    print(sum(run_chunks(abs, range(10))))
threading.Thread(target=late).start()
"""
    assert run(code) == (["45"], "")


def test_the_default_is_the_variable_or_else_the_cores(monkeypatch):
    code = "from cutplane.runtime.threads import get_threads; print(get_threads())"
    assert run(code, CUTPLANE_NUM_THREADS="5") == (["5"], "")
    for wrong in ("0", "many", "-1", "1.5", ""):
        monkeypatch.setattr(threads, "_n_threads", None)
        monkeypatch.setenv(threads.VARIABLE, wrong)
        message = f"CUTPLANE_NUM_THREADS must be a positive integer, got {wrong!r}"
        with pytest.raises(InvalidInputError, match=message):
            get_threads()
    without = {name: value for name, value in os.environ.items() if name != threads.VARIABLE}
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=without)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert int(answer.stdout) == cores


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", True, None])
def test_set_threads_refuses(wrong):
    with pytest.raises(InvalidInputError, match="the number of threads must be"):
        set_threads(wrong)
    assert get_threads() == 4


def test_integers_of_numpy_are_integers():
    set_threads(np.int64(2))
    assert get_threads() == 2 and type(get_threads()) is int


def test_all_threads_have_the_deadline_of_the_caller():
    meet = meeting(4)
    with limited_to(60.0):
        assert max(run_chunks(lambda chunk: meet() and seconds_left(), range(4))) <= 60.0
