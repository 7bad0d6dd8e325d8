"""The data sets of the benchmarks of linear machines."""

import os
from pathlib import Path

import numpy as np
from scipy import sparse

from cutplane.datasets import planted_dense, planted_text

NAMES = ("sparse", "dense", "a9a", "w8a")
HEADINGS = {
    "sparse": "planted text 20,000 x 50,000, density 0.15%",
    "dense": "planted dense 100,000 x 50",
    "a9a": "a9a 32,560 x 122, density 11%",
    "w8a": "w8a 49,749 x 300, density 3.9%",
}
FOLDER = Path(os.environ.get("CUTPLANE_DATA", Path(__file__).parents[2] / "shared" / "data")) / "libsvm"
HAS_FILES = (FOLDER.parent / "uci").exists()
SETS = {  # name: the class against the rest
    "breast-cancer-wisc-diag": 1, "breast-cancer-wisc-prog": 1, "conn-bench-sonar-mines-rocks": 1,
    "ionosphere": 1, "molec-biol-splice": 2, "pima": 1, "statlog-german-credit": 1, "statlog-heart": 1,
    "waveform": 0,
}  # fmt: skip


def load(name, dtype=np.float64, quick=False):
    """Return X and y, or None, with a line that says so, if the file is not there; `quick`: a tenth of it."""
    part = 10 if quick else 1
    if name == "sparse":
        return planted_text(20_000 // part, 50_000 // part, 0.0015 * part, dtype=dtype)
    if name == "dense":
        return planted_dense(100_000 // part, 50, dtype=dtype)
    if not (FOLDER / name).exists():
        print(f"{name}: no file {FOLDER / name}; set CUTPLANE_DATA to the folder that holds libsvm/{name}")
        return None
    from sklearn.datasets import load_svmlight_file

    X, labels = load_svmlight_file(str(FOLDER / name), dtype=dtype)
    indices, indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # liblinear takes no other
    X = sparse.csr_array((X.data, indices, indptr), shape=X.shape)
    return X[::part], np.where(labels[::part] > 0, 1.0, -1.0)


def real(name):
    """Return X and labels of a file."""
    table = np.loadtxt(FOLDER.parent / "uci" / f"{name}.csv", delimiter=",")
    return np.ascontiguousarray(table[:, :-1]), np.where(table[:, -1] == SETS[name], 1.0, -1.0)


def load_all(names, dtype=np.float64, quick=False):
    """Yield name, X and y of the sets that are there."""
    for name in names:
        data = load(name, dtype, quick)
        if data is not None:
            yield name, *data
