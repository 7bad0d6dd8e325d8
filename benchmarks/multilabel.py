"""Sets of labels on yeast (Mulan): independent labels, pairs with an exact decoder, and relaxed ones.

The files are those of ``multilabel/`` in the folder that CUTPLANE_DATA names.
Run as ``python benchmarks/multilabel.py``.
"""

import time

import numpy as np
from sklearn.preprocessing import StandardScaler
from structured import FOLDER

from cutplane.datasets import read_multilabel_arff
from cutplane.estimators import MultilabelSVM

FILES = [FOLDER / "multilabel" / f"yeast-{part}.arff.gz" for part in ("train", "test")]
N_LABELS, TOL = 14, 1e-2


def main():
    if not all(file.exists() for file in FILES):
        print(f"no files {FILES}; set CUTPLANE_DATA to the folder that holds them")
        return
    (X, Y), (X_test, Y_test) = (read_multilabel_arff(file, N_LABELS) for file in FILES)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    runs = {
        "no pairs": MultilabelSVM(pairs=()),
        "all pairs, exact": MultilabelSVM(),
        "all pairs, relaxed": MultilabelSVM(decoder="outer"),
    }
    print(f"{'':<20}  alpha passes   CPU s  objective      gap  Hamming   sets")
    for name, model in runs.items():
        for alpha in (1e-1, 1e-2):
            began = time.process_time()
            model.set_params(alpha=alpha, tol=TOL, time_limit=120).fit(X, Y)
            seconds = time.process_time() - began
            found = model.predict(X_test)
            wrong, whole = np.mean(found != Y_test), np.mean((found == Y_test).all(axis=1))
            print(
                f"{name:<20} {alpha:6g} {model.result_.oracle_calls:6d} {seconds:7.2f} "
                f"{model.objective_:10.5f} {model.gap_:8.1e} {wrong:8.4f} {whole:6.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
