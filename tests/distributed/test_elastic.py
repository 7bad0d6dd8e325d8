"""Workers that join or die: the shares are placed again, and the answer stays the same."""

import os
import signal
import time
from collections import Counter
from functools import partial

import numpy as np
import pytest

import cutplane as cut
from cutplane.distributed import distribute
from cutplane.exceptions import OracleError

distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*:pytest.PytestUnraisableExceptionWarning"),
]

M, N, PARTS = 240, 5, 8


def part(k):
    rng = np.random.default_rng(k)
    X = rng.standard_normal((M // PARTS, N))
    y = np.where(X @ np.arange(1.0, N + 1) + rng.standard_normal(M // PARTS) > 0.0, 1.0, -1.0)
    return cut.LinearRisk(X, y, cut.losses.Hinge(), normalize=False)


LOCAL = sum((part(k) for k in range(1, PARTS)), part(0))


def shared(cluster, client):
    cluster.scale(2)
    wait_until(lambda: len(client.nthreads()) == 2)
    return distribute(client, [partial(part, k) for k in range(PARTS)])


def loads(risk):
    return sorted(Counter(share.home for share in risk._cluster.shares).values())


def check(risk, seed=0):
    """The same value and subgradient as in one process."""
    w = np.random.default_rng(seed).standard_normal(N)
    value, slope = risk.oracle(w)
    expected, steepest = LOCAL.oracle(w)
    assert value == pytest.approx(expected, rel=1e-12)
    assert np.abs(slope - steepest).max() <= 1e-10


def wait_until(true, seconds=60.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def pid_of(client, worker):
    return client.run(os.getpid, workers=[worker])[worker]


def test_shares_go_where_there_are_fewest_for_each_thread():
    from cutplane.distributed.cluster import spread

    threads = {"a": 1, "b": 3}
    assert Counter(spread([None] * 8, threads)) == {"a": 2, "b": 6}
    assert spread(["a", None, "gone", "a"], threads) == ["a", "b", "b", "a"]
    assert spread(["a"] * 4, threads) == ["a"] * 4  # data lie where they lie
    assert Counter(spread(["a"] * 4, threads, level=True)) == {"a": 1, "b": 3}
    assert spread(["b", "a"], dict.fromkeys("ab", 1), level=True) == ["b", "a"]
    rng = np.random.default_rng(0)
    for _ in range(50):
        threads = {str(k): int(rng.integers(1, 5)) for k in range(int(rng.integers(1, 6)))}
        homes = [str(k) for k in rng.integers(0, 8, int(rng.integers(1, 40)))]
        count = Counter(spread(homes, threads, level=True))
        assert count.keys() <= threads.keys()
        most = max(count[worker] / threads[worker] for worker in threads)
        assert min((count[worker] + 1) / threads[worker] for worker in threads) >= most


def test_a_worker_that_joins_takes_shares_and_one_that_dies_leaves_them(cluster):
    cluster, client = cluster
    risk = shared(cluster, client)
    check(risk)
    assert loads(risk) == [4, 4]
    cluster.scale(3)
    wait_until(lambda: (check(risk), loads(risk) == [2, 3, 3])[1])  # no question waits for the move
    check(risk, 1)
    z = risk.image(np.ones(N))
    value = risk.values(z)
    os.kill(pid_of(client, risk._cluster.shares[0].home), signal.SIGKILL)
    assert np.abs(risk.slopes(z) - LOCAL.oracle(np.ones(N))[1]).max() <= 1e-10  # its image was lost with it
    assert risk.values(z) == pytest.approx(value, rel=1e-12)
    wait_until(lambda: (check(risk, 2), loads(risk) == [2, 3, 3])[1])  # a nanny has started another


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["functions", "local memory"])
def test_a_solve_goes_on_where_a_worker_dies(cluster, kind):
    cluster, client = cluster
    risk = (
        shared(cluster, client)
        if kind == "functions"
        else distribute(client, [part(k) for k in range(PARTS)])
    )
    killed = []

    def kill_once(state):
        if state.iteration == 3:
            killed.append(pid_of(client, risk._cluster.shares[-1].home))
            os.kill(killed[0], signal.SIGKILL)

    expected = cut.Problem(LOCAL, cut.L2(1.0)).solve(cut.OCAS(), tol=1e-5)
    result = cut.Problem(risk, cut.L2(1.0)).solve(cut.OCAS(), tol=1e-5, callback=kill_once)
    assert len(killed) == 1 and len(result.history) == len(expected.history) > 4
    assert result.status is cut.Status.OPTIMAL and result.certificate.verify().valid
    assert np.abs(result.x - expected.x).max() <= 1e-8


@pytest.mark.slow
def test_a_partition_that_kills_its_workers(cluster):
    _, client = cluster
    with pytest.raises(OracleError, match=r"Partition (0 or )?1 killed each worker that it was given to"):
        distribute(client, [partial(part, 0), lambda: os._exit(1)])
