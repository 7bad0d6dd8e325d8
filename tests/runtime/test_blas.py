"""BLAS has one thread within a solve, but for the oracles of the user, and its own number afterwards."""

import threading
import time

import numpy as np
import pytest

import cutplane as cut
from cutplane.runtime import threads as threads_module
from cutplane.runtime.threads import (
    get_threads,
    one_blas_thread,
    run_chunks,
    set_threads,
    usual_blas_threads,
)


class Library:
    """What threadpoolctl says of a library: which thread may set its number is the library's own affair."""

    num_threads = 2

    def set_num_threads(self, number):
        self.num_threads = number


LIBRARIES = [Library(), Library()]


def threads():
    return {library.num_threads for library in LIBRARIES}


@pytest.fixture(autouse=True)
def two_libraries(monkeypatch):
    assert all(library.num_threads >= 1 for library in threads_module._libraries())
    monkeypatch.setattr(threads_module, "_libraries", lambda: LIBRARIES)


def test_contexts_nest_and_end():
    with one_blas_thread():
        assert threads() == {1}
        with one_blas_thread():
            with usual_blas_threads():
                assert threads() == {2}
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == {2}
    with usual_blas_threads():
        assert threads() == {2}


def test_the_thread_that_limits_also_restores_whichever_leaves_last():
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with one_blas_thread(), usual_blas_threads():
            inside.set()
            leave.wait(10.0)

    other = threading.Thread(target=stay)
    with one_blas_thread():
        other.start()
        assert inside.wait(10.0)
    assert threads() == {2}
    leave.set()
    other.join()
    assert threads() == {2}


def test_errors_restore_the_number():
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert threads() == {2}


def test_threads_of_ours_have_one_each():
    before = get_threads()
    set_threads(2)
    try:
        assert run_chunks(lambda _: threads(), range(4)) == [{1}] * 4
    finally:
        set_threads(before)
    assert threads() == {2}


@pytest.mark.parametrize("seconds", [0.0, 1e-3])
def test_a_solve_limits_blas_and_leaves_it_to_slow_oracles_of_the_user(seconds):
    seen, between = [], []

    @cut.risk(dim=3)
    def distance(x):
        seen.append(threads())
        time.sleep(seconds)
        return np.abs(x - 1.0).sum(), np.sign(x - 1.0)

    class Watched(cut.L2):
        def value(self, x):
            between.append(threads())
            return super().value(x)

    cut.Problem(distance, Watched(0.1)).solve()
    assert seen[0] == {2}
    assert all(each == {2} for each in seen) if seconds else {1} in seen
    assert between and {1} in between
    assert threads() == {2}
