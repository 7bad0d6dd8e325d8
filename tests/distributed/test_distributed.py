"""A risk on the workers of a Dask cluster against the same risk in local memory."""

import gc
import itertools
import os
import pickle
import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest
from clusters import cluster_of
from covering import covering
from scipy import sparse
from structured_risks import RISKS

import cutplane as cut
from cutplane.distributed import DistributedRisk, distribute
from cutplane.distributed.share import build
from cutplane.exceptions import InvalidInputError, MissingCapabilityError, OracleError
from cutplane.losses import Hinge, Logistic, Quantile, SquaredHinge
from cutplane.pieces.capabilities import Capability, offers
from cutplane.risks.base import ImagedRisk

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*:pytest.PytestUnraisableExceptionWarning"),
]

M, N = 600, 7
OCAS = cut.OCAS(second_cut=True)
LAYOUTS = {
    "C": lambda X: X,
    "F32": lambda X: np.asfortranarray(X, dtype=np.float32),
    "csr": sparse.csr_array,
    "csc32": lambda X: sparse.csc_array(X.astype(np.float32)),
}


@pytest.fixture
def mortal_client(request):
    with cluster_of(request.param) as (_, client):
        yield client


def instance(loss, m=M, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(m, N)), 2) * (rng.random((m, N)) < 0.6)
    y = X @ rng.normal(size=N) + rng.normal(size=m)
    return X, y if isinstance(loss, Quantile) else np.where(y > 0.0, 1.0, -1.0)


def local_risk(loss, layout="C", m=M):
    X, y = instance(loss, m)
    return cut.LinearRisk(LAYOUTS[layout](X), y, loss, sample_weight=1.0 + np.arange(m) % 3)


def sum_over(rows):
    """The sum of the hinge losses over some rows of the standard instance."""
    X, y = instance(Hinge())
    return cut.LinearRisk(X[rows], y[rows], Hinge(), normalize=False)


def same_oracle(remote, local):
    """Assert that both have the same values and subgradients."""
    for w in np.random.default_rng(1).normal(size=(2, local.dim)):
        value, slope = local.oracle(w)
        remote_value, remote_slope = remote.oracle(w)
        assert remote_value == pytest.approx(value, rel=1e-12)
        assert np.abs(remote_slope - slope).max() <= 1e-11 * np.abs(slope).max()
        if not isinstance(local, ImagedRisk):
            assert remote.cancelled(w) == pytest.approx(local.cancelled(w), rel=1e-9, abs=1e-12)


HALVES = slice(None, M // 3), slice(M // 3, None)


@pytest.mark.parametrize(
    ("loss", "layout", "n_parts"), covering([Hinge(), Logistic(), Quantile(0.3)], LAYOUTS, [1, 3]), ids=str
)
def test_value_and_subgradient(client, loss, layout, n_parts):
    local = local_risk(loss, layout)
    remote = distribute(client, local, n_parts)
    assert (remote.dim, remote.n_partitions) == (N, n_parts)
    assert remote.infima == pytest.approx(local.infima, rel=1e-12)
    same_oracle(remote, local)


def test_passes_the_checks_of_a_risk(client):
    assert cut.testing.check_risk(distribute(client, local_risk(Hinge(), m=40), 2), n_points=2)


PROBLEMS = {
    "hinge": (Hinge(), cut.L2(1e-2), None),
    "squared hinge": (SquaredHinge(), cut.L2(1e-2), None),
    "hinge, box": (Hinge(), None, cut.Box(-0.3, 0.3)),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_ocas_takes_the_same_way(client, name):
    loss, regularizer, feasible_set = PROBLEMS[name]
    local = local_risk(loss)
    results, ways = [], []
    for risk in (local, distribute(client, local, 3)):
        way = []
        problem = cut.Problem(risk, regularizer, feasible_set)
        results.append(problem.solve(OCAS, tol=1e-3, callback=lambda state, way=way: way.append(state.x)))
        ways.append(np.array(way))
    assert results[0].status is results[1].status is cut.Status.OPTIMAL
    assert results[1].certificate.verify().valid
    if name == "hinge, box":  # a rounding error may lead to another vertex of the reduced problem
        assert abs(results[0].objective - results[1].objective) <= 1e-3 * results[0].objective
    else:
        assert ways[0].shape == ways[1].shape
        assert np.abs(ways[0] - ways[1]).max() <= 1e-8


def test_lines_are_searched_on_sums_and_multiples(client):
    local = local_risk(Hinge())
    other = cut.LinearObjective(np.linspace(-0.1, 0.1, N))
    results = [
        cut.Problem(2.0 * risk + other, cut.L2(0.1)).solve(OCAS, tol=1e-3)
        for risk in (local, distribute(client, local, 2))
    ]
    assert len(results[0].history) == len(results[1].history)
    assert np.abs(results[0].x - results[1].x).max() <= 1e-8


@pytest.mark.parametrize(("loss", "m"), [(Hinge(), M), (Quantile(0.7), 60_000)], ids=repr)
def test_few_round_trips(client, loss, m):
    risk = distribute(client, local_risk(loss, m=m))
    asked = Counter()
    query = risk._cluster.query

    def counting(request, which=None):
        asked[request.method.__name__] += 1
        return query(request, which)

    risk._cluster.query = counting
    result = cut.Problem(risk, cut.L2(1e-2)).solve(OCAS, tol=1e-5)
    iterations = len(result.history) - 1
    assert iterations > 3
    assert sum(asked.values()) <= 3 + 8 * iterations
    assert asked["estimate"] + asked["pieces"] + asked["sample"] <= 5 * iterations


@contextmanager
def messages_to(client):
    """The messages that a client is sent: those of the scheduler, and answers that it fetches."""
    seen = []
    handlers, gather = dict(client._stream_handlers), client._gather_remote

    def listening(kind):
        def handle(**message):
            seen.append((kind, len(pickle.dumps(message))))
            return handlers[kind](**message)

        return handle

    async def fetch(*arguments, **options):
        found = await gather(*arguments, **options)
        seen.append(("answer", len(pickle.dumps(found))))
        return found

    client._stream_handlers.update({kind: listening(kind) for kind in handlers})
    client._gather_remote = fetch
    try:
        yield seen
    finally:
        client._stream_handlers.update(handlers)
        client._gather_remote = gather


def test_the_client_receives_one_answer_however_many_shares_there_are():
    received = {}
    X, y = instance(Hinge())
    w = np.linspace(-1.0, 1.0, N)
    for workers, threads, shares in [(1, 1, 1), (2, 3, 40)]:
        with cluster_of(workers, threads_per_worker=threads, processes=False) as (_, client):
            risk = distribute(client, cut.LinearRisk(X, y, Hinge()), shares)
            assert risk.n_partitions == shares
            risk.oracle(w)
            with messages_to(client) as seen:
                z, end = risk.image(w), risk.image(-w)
                risk.values(z), risk.slopes(z), risk.line(z, end)(0.5)
            received[shares] = sorted(seen)
    few, many = received[1], received[40]
    assert [kind for kind, _ in few].count("answer") == [kind for kind, _ in many].count("answer") == 3
    more = len(many) - len(few)
    assert more <= 3  # one short message for the second worker, and none for threads and shares
    assert sum(size for _, size in many) <= sum(size for _, size in few) + 300 * (1 + more)


def test_a_request_is_sent_to_each_worker_once(client):
    risk = distribute(client, local_risk(Hinge()), 16)
    lead, other = sorted({share.home for share in risk._cluster.shares})

    def fetched(dask_worker):
        log = dask_worker.transfer_incoming_log if hasattr(dask_worker, "transfer_incoming_log") else ()
        return sum(str(key).startswith("('request") for each in log for key in each["keys"])

    before = client.run(fetched)
    for step in range(3):
        risk.oracle(np.full(N, float(step)))
    after = client.run(fetched)
    assert sum(after.values()) - sum(before.values()) == 3
    assert set(after) == {lead, other}


def test_images_are_freed(client):
    risk = distribute(client, local_risk(Hinge()), 2)
    cut.Problem(risk, cut.L2(1e-2)).solve(OCAS, tol=1e-2)
    gc.collect()
    z = risk.image(np.ones(N))
    risk.values(z)
    shares = [share.future for share in risk._cluster.shares]
    held = client.gather(client.map(lambda share: list(share.images), shares, pure=False))
    assert held == [[z.key]] * len(shares)


def test_partitions_are_spread_and_end_with_the_risk(client):
    risk = distribute(client, local_risk(Hinge()), 4)
    futures = [share.future for share in risk._cluster.shares]
    places = client.who_has(futures)
    assert sorted(Counter(places.values()).values()) == [2, 2]
    keys = [future.key for future in futures]
    del risk, futures
    gc.collect()
    deadline = time.monotonic() + 10.0
    while any(key in held for held in client.has_what().values() for key in keys):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_dask_sees_of_a_partition():
    risk = local_risk(Hinge(), "csr")
    data = risk.X.data.nbytes + risk.X.indices.nbytes
    share = build(3, 2.0, lambda: 0.5 * risk + risk)
    assert data < share.__sizeof__() < 2 * data
    share.images[0] = None
    copy = pickle.loads(pickle.dumps(share))
    assert copy.images == {} and copy.describe() == share.describe()
    assert (copy.describe().number, copy.describe().dim) == (3, N)


@pytest.mark.parametrize("kind", ["functions", "delayed", "futures", "risks"])
def test_lists_of_partitions(client, kind):
    make = {
        "functions": lambda rows: lambda: sum_over(rows),
        "delayed": dask.delayed(sum_over),
        "futures": lambda rows: client.submit(sum_over, rows),
        "risks": sum_over,
    }[kind]
    risk = distribute(client, [make(rows) for rows in HALVES], weights=[1.0 / M, 2.0 / M])
    same_oracle(risk, 1.0 / M * sum_over(HALVES[0]) + 2.0 / M * sum_over(HALVES[1]))
    assert "2 partitions" in repr(risk) and not offers(risk, Capability.CVXPY)


def kill_workers(client, futures):
    """Kill every worker that holds one of the futures."""
    addresses = {address for held in client.who_has(futures).values() for address in held}
    for pid in client.run(os.getpid, workers=list(addresses)).values():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("mortal_client", [1], indirect=True)
def test_a_scattered_future_cannot_be_computed_again(mortal_client):
    (future,) = mortal_client.scatter([sum_over(slice(None))], hash=False)
    risk = distribute(mortal_client, [future])
    kill_workers(mortal_client, [future, *[share.future for share in risk._cluster.shares]])
    with pytest.raises(
        OracleError, match="Partition 0, which was given as a future, was lost with its worker"
    ):
        risk.oracle(np.ones(N))


class Slow(ImagedRisk):
    """Half the squared distance to 1; from the third image on it takes its time, then fails."""

    dim = 3
    infima = np.zeros(1)

    def __init__(self, seconds=0.0, fails_at=99):
        self.seconds, self.fails_at, self.count = seconds, fails_at, 0

    def image(self, x):
        self.count += 1
        if self.count >= 3:
            time.sleep(self.seconds)
        if self.count >= self.fails_at:
            raise RuntimeError("the disk is full")
        return x

    def values(self, z):
        return 0.5 * (z - 1.0) @ (z - 1.0)

    def slopes(self, z):
        return z - 1.0

    def line(self, z0, z1):
        return cut.lines.Line(
            lambda t: (self.values(z0 + t * (z1 - z0)), self.slopes(z0 + t * (z1 - z0)) @ (z1 - z0))
        )


def test_an_exception_names_the_partition_and_keeps_the_result(client):
    risk = distribute(client, [Slow, lambda: Slow(fails_at=3)])
    with pytest.raises(OracleError, match="Partition 1 raised RuntimeError: the disk is full") as caught:
        cut.Problem(risk, cut.L2(1.0)).solve(OCAS, tol=1e-9)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert caught.value.result is not None and np.isfinite(caught.value.result.objective)


def test_ctrl_c_returns_the_best_point_so_far(client):
    risk = distribute(client, [lambda: Slow(seconds=1.0)])
    began = []

    def interrupt_later(state):
        if state.iteration == 1:
            timer.start()
            began.append(time.monotonic())

    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    result = cut.Problem(risk, cut.L2(1.0)).solve(cut.BMRM(), tol=1e-12, callback=interrupt_later)
    timer.cancel()
    assert result.status is cut.Status.INTERRUPTED and "keyboard" in result.reason
    assert np.isfinite(result.objective)
    assert time.monotonic() - began[0] < 0.9


def test_a_closed_client(client):
    with distributed.Client(client.scheduler.address, set_as_default=False) as own:
        risk = distribute(own, local_risk(Hinge()), 2)
        problem = cut.Problem(risk, cut.L2(1e-2))

        def close(state):
            if state.iteration == 2:
                own.close()

        with pytest.raises(OracleError, match="The Dask client of this risk is closed") as caught:
            problem.solve(OCAS, tol=1e-9, callback=close)
    assert np.isfinite(caught.value.result.objective)
    with pytest.raises(OracleError, match="distribute the data with an open client"):
        problem.solve()
    again = cut.Problem(distribute(client, local_risk(Hinge()), 2), problem.regularizer)
    assert again.solve(OCAS, tol=1e-3, warm_start=caught.value.result).status is cut.Status.OPTIMAL


def test_partitions_that_cannot_be_made(client):
    def missing():
        raise FileNotFoundError("part-1.npz")

    with pytest.raises(OracleError, match=r"Partition 1 raised FileNotFoundError: part-1\.npz"):
        distribute(client, [Slow, missing])
    with pytest.raises(OracleError, match="must be a risk, such as a LinearRisk, got 3"):
        distribute(client, [lambda: 3])
    with pytest.raises(
        InvalidInputError, match=f"Partition 1, Linear.* has dimension {N}, but partition 0, .* 3;"
    ):
        distribute(client, [Slow, lambda: sum_over(HALVES[0])])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "list of partitions is empty"),
        ((3,), "A list of partitions or a LinearRisk is needed, got 3"),
        ((Slow,), "A list of partitions or a LinearRisk is needed"),
        (([Slow, None],), "Partition 1 must be a function"),
        (([3],), "Partition 0 must be a function without arguments, a Delayed, a Future or a risk, got 3"),
        (([Slow], 2), "n_parts is 2, but 1 partitions were given"),
        (([Slow], None, [1.0, 2.0]), "weights must have one entry per partition, 1, got 2"),
        (([Slow], None, [0.0]), r"weights\[0\] must be in \(0, inf\), got 0"),
        ((Slow(), 1), "has no method 'split' that shares out its examples"),
        ((sum_over(HALVES[0]), 0), "n_parts must be at least 1"),
        ((sum_over(HALVES[0]), 1, [1.0]), "multiply a risk by its factor"),
    ],
)
def test_wrong_arguments(client, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        distribute(client, *arguments)


def test_a_client_is_needed():
    with pytest.raises(InvalidInputError, match=r"client must be a distributed\.Client"):
        distribute(None, local_risk(Hinge()))


def test_the_wrong_dimension_is_seen_before_anything_is_sent(client):
    risk = distribute(client, local_risk(Hinge()), 1)
    assert isinstance(risk, DistributedRisk)
    with pytest.raises(InvalidInputError, match=rf"x must have shape \({N},\), got \(2,\)"):
        risk.image(np.zeros(2))


@contextmanager
def losing_its_worker():
    """A risk, and a callback that takes the only worker of its cluster away at the third iteration."""
    risk = local_risk(Hinge())
    with cluster_of(1, processes=False) as (cluster, client):

        def leave(state):
            if state.iteration == 2:
                cluster.scale(0)
                while client.nthreads():
                    time.sleep(0.05)

        yield distribute(client, risk), leave


def test_without_workers_there_is_an_error_with_the_best_point(monkeypatch):
    monkeypatch.setattr("cutplane.distributed.cluster._PATIENCE", 1.5)
    with losing_its_worker() as (risk, leave):
        began = time.perf_counter()
        with pytest.raises(OracleError, match=r"no workers for 1\.5 s") as caught:
            cut.Problem(risk, cut.L2(1e-4)).solve(OCAS, tol=1e-9, callback=leave)
        assert time.perf_counter() - began < 15.0
    result = caught.value.result
    assert result.x is not None and np.isfinite(result.objective)
    assert len(result.history) >= 3


def test_a_time_limit_holds_without_workers():
    with losing_its_worker() as (risk, leave):
        began = time.perf_counter()
        result = cut.Problem(risk, cut.L2(1e-4)).solve(OCAS, tol=1e-9, callback=leave, time_limit=4.0)
        assert time.perf_counter() - began < 8.0
    assert result.status is cut.Status.TIME_LIMIT
    assert result.x is not None and result.history[-1].step == "stop"


def test_a_time_limit_holds_through_a_slow_partition(client):
    risk = distribute(client, [lambda: Slow(seconds=10.0)])
    loop = cut.Problem(risk, cut.L2(1.0)).iterate(cut.BMRM(), tol=1e-12, time_limit=1.5)
    began = time.perf_counter()
    states = list(loop)
    assert loop.result().status is cut.Status.TIME_LIMIT and len(states) >= 2
    assert time.perf_counter() - began < 5.0


class Sums(cut.Risk):
    """A user's risk, by its oracle: sum_i c_i max(0, |w - a_i| - 1), which splits its points."""

    infima = np.zeros(1)

    def __init__(self, points):
        self.points, self.dim = points, points.shape[1]

    def oracle(self, x):
        away = x - self.points
        norms = np.linalg.norm(away, axis=1)
        out = norms > 1.0
        return float((norms[out] - 1.0).sum()), (away[out] / norms[out, None]).sum(axis=0)

    def split(self, n_parts):
        return [Sums(part) for part in np.array_split(self.points, min(n_parts, len(self.points)))]


def sequences(seed=0, m=23):
    """Ragged sequences; the first is as long as all others."""
    rng = np.random.default_rng(seed)
    lengths = np.append(rng.integers(1, 9, m - 1), 1)
    lengths[0] = lengths[1:].sum()
    X = rng.standard_normal((lengths.sum(), 4))
    return X, rng.integers(0, 3, lengths.sum()), lengths, 0.5 + rng.random(m)


def of_digits(decoder="exact"):
    """Multiclass examples by their joint feature, loss and decoder."""
    rng = np.random.default_rng(1)
    X, Y = list(rng.standard_normal((30, 2))), rng.integers(0, 3, 30).tolist()
    return cut.StructuredRisk(
        X,
        Y,
        lambda x, y: (2 * y + np.arange(2), x),
        lambda truth, y: float(truth != y),
        lambda x, truth, w: int(np.argmax(w.reshape(3, 2) @ x + (np.arange(3) != truth))),
        decoder=decoder,
        sample_weight=1.0 + np.arange(30) % 2,
        dim=6,
    )


def of_chains(kind, **options):
    X, y, lengths, weights = sequences()
    return kind(X, y, lengths, n_states=4, sample_weight=weights, **options)


SUMS = {
    "chains": lambda: of_chains(cut.structured.ChainRisk),
    "chains, share": lambda: of_chains(cut.structured.ChainRisk, loss="share"),
    "likelihood": lambda: of_chains(cut.structured.ChainLogLikelihood),
    "structured": of_digits,
    "inner": lambda: of_digits("inner"),
    "levels": lambda: cut.OrdinalRisk(instance(Hinge())[0], np.arange(M) % 3),
    "classes, absent in parts": lambda: cut.MulticlassRisk(
        instance(Hinge())[0], np.sort(np.arange(M) % 4), intercept=True
    ),
    "user's": lambda: Sums(np.random.default_rng(5).standard_normal((40, 3)) * 2.0),
    **{
        name: RISKS[name]
        for name in ("trees", "graphs", "labels, compared", "alignments", "hierarchy", "sum")
    },
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_over_examples(client, name):
    local = SUMS[name]()
    parts = local.split(7)
    assert 1 < len(parts) <= 7 and len(local.split(10_000)) > 7
    remote = distribute(client, local, 7)
    assert (remote.dim, remote.n_partitions, remote.exact, remote.smooth) == (
        local.dim,
        len(parts),
        local.exact,
        local.smooth,
    )
    assert isinstance(remote, ImagedRisk) is isinstance(local, ImagedRisk)
    same_oracle(remote, local)


@pytest.mark.parametrize("name", ["chains", "likelihood", "user's", "trees", "sum"])
def test_sums_are_solved_with_the_same_certificate(client, name):
    local = SUMS[name]()
    results = [cut.Problem(risk, cut.L2(0.1)).solve(tol=1e-3) for risk in (local, distribute(client, local))]
    assert results[1].status is cut.Status.OPTIMAL and results[1].certificate.verify().valid
    assert abs(results[0].objective - results[1].objective) <= 2e-3 * results[0].objective


def test_block_steps_stay_with_the_client(client):
    remote = cut.Problem(distribute(client, SUMS["chains"]()), cut.L2(0.1))
    with pytest.raises(MissingCapabilityError, match=r"Use ProximalBundle\(\), which takes risks on workers"):
        remote.solve(cut.BlockFrankWolfe())


def test_uneven_shares_of_sequences(client):
    X, y, lengths, _ = sequences()
    ends = np.append(0, np.cumsum(lengths))
    cuts = [0, 1, 19, len(lengths)]
    parts = [(X[ends[a] : ends[b]], y[ends[a] : ends[b]], lengths[a:b]) for a, b in itertools.pairwise(cuts)]

    def load(X, y, lengths):
        return cut.structured.ChainLogLikelihood(X, y, lengths, n_states=3, normalize=False)

    remote = distribute(client, [lambda part=part: load(*part) for part in parts], weights=1.0 / len(lengths))
    same_oracle(remote, cut.structured.ChainLogLikelihood(X, y, lengths, n_states=3))


def test_what_cancels_between_partitions_is_charged(client):
    slope = np.full(N, 1e8)
    terms = [cut.LinearObjective(slope), cut.LinearObjective(-slope), sum_over(slice(None))]
    remote, local = distribute(client, terms), terms[0] + terms[1] + terms[2]
    w = np.linspace(0.1, 1.0, N)
    z = remote.image(w)
    assert remote.cancelled(z) == pytest.approx(local.cancelled(local.image(w)), rel=1e-6)
    assert remote.values(z) == pytest.approx(terms[2].oracle(w)[0], rel=1e-5)


def test_risks_that_have_a_domain_are_refused(client):
    with pytest.raises(OracleError, match="is finite on a domain only"):
        distribute(client, [lambda: with_domain()])


def with_domain():
    risk = Sums(np.zeros((1, 2)))
    risk.domain = cut.Box(0.0, 1.0)
    return risk
