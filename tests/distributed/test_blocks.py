"""Dask arrays, dataframes and Parquet files: read where they lie, with the answers of one process."""

import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.distributed import blocks, distribute
from cutplane.estimators import LinearClassifier, LinearRegressor, LinearSVC, LinearSVR
from cutplane.exceptions import InvalidInputError, OracleError

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

PROCESSES = False
M, N = 90, 4
rng = np.random.default_rng(0)
X = rng.standard_normal((M, N)) * (rng.random((M, N)) < 0.7)
SCORES = X @ np.array([1.0, -1.0, 2.0, 0.0]) + 0.5 * rng.standard_normal(M)
LABELS = np.where(SCORES > 0.4, "yes", "no")
THREE = np.digitize(SCORES, [-0.7, 0.7])
WEIGHTS = 0.5 + rng.random(M)


def make(X, y):
    return cut.LinearRisk(X, y, cut.losses.Absolute(), normalize=False)


def same(remote, X=X, y=SCORES):
    local = cut.LinearRisk(X, y, cut.losses.Absolute())
    w = np.linspace(-1.0, 1.0, N)
    assert remote.oracle(w)[0] == pytest.approx(local.oracle(w)[0], rel=1e-12)
    assert np.abs(remote.oracle(w)[1] - local.oracle(w)[1]).max() <= 1e-12


KINDS = {
    "dense": lambda: da.from_array(X, chunks=(20, N)),
    "columns": lambda: da.from_array(X, chunks=(35, 3)),
    "float32": lambda: da.from_array(X.astype(np.float32), chunks=(20, N)).astype(np.float32),
    "sparse": lambda: da.from_array(X, chunks=(20, N)).map_blocks(sparse.csr_array, dtype=float),
    "unknown": lambda: da.from_array(np.vstack([X, 9 + 0 * X]), chunks=(20, N))[np.arange(2 * M) < M],
}


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_arrays(client, kind):
    x, y = KINDS[kind](), da.from_array(SCORES, chunks=30)
    if kind == "unknown":
        keep = da.from_array(np.arange(2 * M) < M, chunks=20)
        x = da.from_array(np.vstack([X, 9 + 0 * X]), chunks=(20, N))[keep]
        y = da.from_array(np.append(SCORES, SCORES), chunks=20)[keep]
    remote = distribute(client, blocks(make, x, y), weights=1.0 / M)
    assert remote.n_partitions == (3 if kind == "columns" else 5)  # blocks without rows are left out
    same(remote, X.astype(np.float32) if kind == "float32" else X)


def test_persisted_blocks_are_read_where_they_lie(client):
    workers = sorted(client.nthreads())
    x, y = da.from_array(X, chunks=(10, N)), da.from_array(SCORES, chunks=10)
    x, y = client.persist([x, y], workers=[workers[1]])
    distributed.wait([x, y])
    remote = distribute(client, blocks(make, x, y), weights=1.0 / M)
    assert {share.home for share in remote._cluster.shares} == {workers[1]}

    def shared(dask_worker):
        parts = [part for part in dask_worker.data.values() if isinstance(part, np.ndarray)]
        held = [each.risk.X for each in dask_worker.data.values() if hasattr(each, "risk")]
        return len(held), sum(any(np.shares_memory(X, part) for part in parts) for X in held)

    assert client.run(shared)[workers[1]] == (9, 9)  # and no copy is made
    derived = distribute(client, blocks(make, (2.0 * x).map_blocks(sparse.csr_array), y), weights=1.0 / M)
    assert {share.home for share in derived._cluster.shares} == {workers[1]}
    del x, y
    same(remote)
    same(derived, 2.0 * X)


def test_wrong_collections(client):
    x = da.from_array(X, chunks=(20, N))
    for arguments, message in [
        ((3, x), "make must be a function"),
        ((make,), "at least one collection"),
        ((make, X), "data must be Dask arrays or dataframes, got ndarray"),
        ((make, x, x[:50]), "the same number of rows, got 90 and 50"),
        ((make, x, da.from_array(SCORES, chunks=9)[da.from_array(SCORES > 0, chunks=9)]), "as many blocks"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            blocks(*arguments)
    with pytest.raises(InvalidInputError, match="All partitions are empty"):
        distribute(client, [lambda: None])
    with pytest.raises(OracleError, match=r"Partition 1 raised InvalidInputError: .*finite"):
        distribute(client, blocks(make, da.where(x == x[30, 0], np.nan, x), x[:, 0]))


MODELS = {
    "hinge": (LinearClassifier("hinge", alpha=0.1), LABELS),
    "balanced": (LinearClassifier("logistic", alpha=0.1, class_weight="balanced"), LABELS),
    "one against the rest": (LinearClassifier("squared_hinge", alpha=0.1), THREE),
    "joint": (LinearClassifier("softmax", alpha=0.1), THREE),
    "weights of classes": (LinearSVC(C=0.1, class_weight={0: 2.0, 1: 1.0, 2: 0.5}), THREE),
    "squared": (LinearRegressor("squared", alpha=0.1), SCORES),
    "l1": (LinearRegressor("squared", penalty="l1", alpha=0.1), SCORES),
    "no intercept": (LinearRegressor("huber", alpha=0.1, fit_intercept=False), SCORES),
    "svr": (LinearSVR(C=0.1, epsilon=0.1, regularize_intercept=True), SCORES),
}


WEIGHTED = "balanced", "joint", "squared"


@pytest.mark.parametrize(
    ("name", "weighted"), [*((name, False) for name in MODELS), *((name, True) for name in WEIGHTED)]
)
def test_estimators_fit_dask_arrays(client, name, weighted):
    model, y = MODELS[name]
    model.set_params(tol=1e-5)
    x, targets = da.from_array(X, chunks=(25, N)), da.from_array(y, chunks=30)
    local = model.fit(X, y, WEIGHTS if weighted else None)
    objective, coef, intercept = local.objective_, local.coef_, local.intercept_
    model.fit(x, targets, da.from_array(WEIGHTS, chunks=45) if weighted else None)
    assert model.objective_ == pytest.approx(objective, rel=2e-5)
    assert model.gap_ <= 1e-5 and model.n_features_in_ == N
    assert np.abs(model.coef_ - coef).max() <= 0.03 and np.abs(model.intercept_ - intercept).max() <= 0.03
    assert model.coef_.shape == coef.shape
    assert (np.asarray(model.predict(X)).shape) == (M,)


def test_what_estimators_refuse(client):
    x, y = da.from_array(X, chunks=(25, N)), da.from_array(LABELS, chunks=25)
    with pytest.raises(InvalidInputError, match="y and sample_weight must also be Dask collections"):
        LinearClassifier().fit(x, LABELS)
    with pytest.raises(InvalidInputError, match=r"got dimensions \[1, 1\]"):
        LinearClassifier().fit(y, y)
    with pytest.raises(InvalidInputError, match="at least 2 classes"):
        LinearClassifier().fit(x, da.zeros(M, chunks=25))
    with pytest.raises(InvalidInputError, match="zero for every example"):
        LinearRegressor().fit(x, x[:, 0], da.zeros(M, chunks=25))
    model = LinearClassifier("hinge", alpha=0.1, warm_start=True).fit(X, LABELS)
    first = model.result_
    assert model.fit(x, y).result_ is not first
    assert model.fit(X, LABELS).objective_ == pytest.approx(first.objective, rel=2e-3)


def test_a_client_is_needed_for_collections(monkeypatch):
    def none():
        raise ValueError("No global client found and no address provided")

    monkeypatch.setattr(distributed, "get_client", none)
    with pytest.raises(InvalidInputError, match=r"create a distributed\.Client first"):
        LinearClassifier().fit(da.ones((4, 2)), da.ones(4))


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_dataframes_and_parquet_files(client, tmp_path):
    pytest.importorskip("pyarrow")
    dd = pytest.importorskip("dask.dataframe")
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(N)]).assign(score=SCORES, label=LABELS)
    whole = dd.from_pandas(frame, npartitions=4)
    whole.to_parquet(tmp_path)
    for data in (whole, dd.read_parquet(tmp_path)):
        columns = list(frame.columns[:N])
        kept = data[data["x0"] < 9.0]

        def of_frame(part, columns=columns):
            return make(part[columns].to_numpy(), part["score"].to_numpy())

        same(distribute(client, blocks(of_frame, kept), weights=1.0 / len(kept)))
        model = LinearClassifier("hinge", alpha=0.1, tol=1e-6)
        expected = model.fit(frame[columns], LABELS).objective_
        model.fit(data[columns], data["label"])
        assert model.objective_ == pytest.approx(expected, rel=3e-6)
        assert model.feature_names_in_.tolist() == columns and model.classes_.tolist() == ["no", "yes"]
    files = sorted(tmp_path.glob("*.parquet"))

    def read(path):
        return of_frame(pd.read_parquet(path))

    same(distribute(client, [lambda path=path: read(path) for path in files], weights=1.0 / M))
