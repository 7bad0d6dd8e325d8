"""Letters per fold: chains beside classifiers of single letters; crfsuite; and a pass over 10^6 positions.

Run as ``python benchmarks/letters.py folds 0 1 2``, ``... crfsuite 600 5500`` (words; with python-crfsuite
installed) or ``... scale``. The letters are those of `structured.py`.
"""

import gzip
import resource
import sys
import time
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from structured import FILE, LAM, TOL, load

import cutplane as cut
from cutplane.estimators import ChainCRF, ChainSSVM
from cutplane.structured import ChainLogLikelihood, ChainRisk

PER_LETTER = 1e-3  # the weight beside the mean over letters, of which a word has eight


def folds(chosen):
    """Train on all folds but one, and count the letters that are mistaken there."""
    X, y, lengths = load()
    with gzip.open(FILE, "rt") as file:
        of_letters = np.array([int(line.split("\t", 6)[5]) for line in file])
    starts = np.append(0, np.cumsum(lengths))
    words = [slice(a, b) for a, b in pairwise(starts)]
    print(f"{'fold':>4} {'':<22} {'test error':>10} {'CPU s':>7} {'gap':>8}")
    for fold in chosen:
        test = of_letters[starts[:-1]] == fold
        known, held_out = (
            ([X[w] for w, there in zip(words, part, strict=True) if there],
             [y[w] for w, there in zip(words, part, strict=True) if there])
            for part in (~test, test)
        )  # fmt: skip
        for model in (ChainSSVM(alpha=LAM, tol=TOL), ChainCRF(alpha=LAM, tol=TOL)):
            began = time.process_time()
            model.fit(*known)
            report(fold, type(model).__name__, 1.0 - model.score(*held_out), began, model.gap_)
        rows, labels, others = np.concatenate(known[0]), np.concatenate(known[1]), np.concatenate(held_out[0])
        for loss in (cut.losses.MulticlassHinge(), cut.losses.Softmax()):
            began = time.process_time()
            risk = cut.MulticlassRisk(rows, labels, loss, n_classes=26)
            result: Any = cut.Problem(risk, cut.L2(PER_LETTER)).solve(tol=TOL)
            found = (others @ result.x.reshape(risk.shape).T).argmax(axis=1)
            error = float(np.mean(found != np.concatenate(held_out[1])))
            report(fold, f"letters, {type(loss).__name__}", error, began, result.gap)


def report(fold, name, error, began, gap):
    print(f"{fold:4d} {name:<22} {error:10.4f} {time.process_time() - began:7.2f} {gap:8.1e}", flush=True)


def crfsuite(counts):
    """Compare with crfsuite's L-BFGS: the same model, the same objective, evaluated by us."""
    import pycrfsuite  # pyright: ignore[reportMissingImports]

    X, y, lengths = load()
    print(f"{'words':>6} {'':<10} {'CPU s':>7} {'objective':>10} {'above the bound':>15}")
    for words in counts:
        size = int(lengths[:words].sum())
        labels = np.unique(y[:size], return_inverse=True)[1]  # crfsuite knows no others
        risk = ChainLogLikelihood(X[:size], labels, lengths[:words])
        problem = cut.Problem(risk, cut.L2(LAM))
        problem.solve(max_iter=2)
        began = time.process_time()
        ours = problem.solve(tol=TOL)
        compare(words, "cutplane", time.process_time() - began, ours.objective, ours.lower_bound)
        trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
        trainer.set_params(
            {
                "c2": 0.5 * LAM * words,
                "feature.possible_states": True,
                "feature.possible_transitions": True,
            }
        )
        for part in np.split(np.arange(size), np.cumsum(lengths[:words])[:-1]):
            items = [{str(j): 1.0 for j in np.flatnonzero(X[t])} for t in part]
            trainer.append(pycrfsuite.ItemSequence(items), [str(label) for label in labels[part]])
        for epsilon in (1e-5, 1e-3, 3e-3):  # the first is its default
            trainer.set("epsilon", epsilon)
            began = time.process_time()
            trainer.train("/tmp/letters.crfsuite")
            seconds = time.process_time() - began
            objective = problem.objective(weights_of("/tmp/letters.crfsuite", risk.sequences))
            compare(words, f"crfsuite {epsilon:g}", seconds, objective, ours.lower_bound)


def weights_of(file, data):
    """Return the weights of a model of crfsuite as ours."""
    import pycrfsuite  # pyright: ignore[reportMissingImports]

    tagger = pycrfsuite.Tagger()
    tagger.open(file)
    known = tagger.info()
    E, T = np.zeros((data.n_states, data.n_features)), np.zeros((data.n_states, data.n_states))
    for (feature, label), value in known.state_features.items():
        E[int(label), int(feature)] = value
    for (a, b), value in known.transitions.items():
        T[int(a), int(b)] = value
    return np.append(E, T)


def compare(words, name, seconds, objective, bound):
    above = (objective - bound) / objective
    print(f"{words:6d} {name:<14} {seconds:7.2f} {objective:10.5f} {above:15.1e}", flush=True)


def scale():
    """Time one query of each risk on 10^6 positions with 10^6 sparse features, 20 in each row."""
    N, n, S, per_row = 10**6, 10**6, 9, 20
    rng = np.random.default_rng(0)
    indices = rng.integers(n, size=N * per_row, dtype=np.int32)
    X = sparse.csr_array(
        (np.ones(N * per_row, np.float32), indices, np.arange(0, N * per_row + 1, per_row, dtype=np.int32)),
        (N, n),
    )
    y, lengths = rng.integers(S, size=N), np.full(N // 20, 20)
    w = 0.1 * rng.standard_normal(S * (n + S))
    sizes = indices.nbytes * 2 / 2**30, w.nbytes / 2**30
    print("before: {:.2f} GiB, of which data {:.2f}, one vector {:.2f}".format(peak(), *sizes))
    for kind in (ChainRisk, ChainLogLikelihood):
        risk = kind(X, y, lengths, n_states=S)
        risk.oracle(w)
        began, cpu = time.perf_counter(), time.process_time()
        risk.oracle(w)
        print(
            f"{kind.__name__}: {time.perf_counter() - began:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
            f"peak {peak():.2f} GiB",
            flush=True,
        )


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main():
    kind, *numbers = sys.argv[1:] or ["folds"]
    if kind == "scale":
        scale()
    elif not FILE.exists():
        print(f"no file {FILE}; set CUTPLANE_DATA to the folder that holds ocr/letters.data.gz")
    elif kind == "crfsuite":
        crfsuite([int(number) for number in numbers or (600, 5500)])
    else:
        folds([int(number) for number in numbers or (0, 1, 2)])


if __name__ == "__main__":
    main()
