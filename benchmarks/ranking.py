"""Ranking and performance measures: evaluations and CPU seconds to a certified gap, and what they learn.

Pairs of documents of MQ2008 (LETOR 4.0; the first two parts to fit, the third to test): the mean hinge loss
of pairs, and that of pairs that cost the difference of their gains, with NDCG@10 beside LightGBM and XGBoost
where they are installed. Area under the ROC curve, F1 and the break-even point of precision and recall on a9a
and w8a, with F1 beside a hinge loss whose threshold is tuned. Then milliseconds of an evaluation from 10^4 to
10^6 examples. Compiled; every solve by "auto".

Run: python benchmarks/ranking.py [--parts ranking measures scaling]
"""

import argparse
import os
from pathlib import Path
from time import process_time

import numpy as np
from data import load
from scipy import sparse

import cutplane as cut
from cutplane.measures import FBeta, PrecisionRecallBreakEven, RocArea
from cutplane.runtime.compiling import compiling_at

TOL = 1e-3
TOP = 10
FOLDER = Path(os.environ.get("CUTPLANE_DATA", Path(__file__).parents[2] / "shared" / "data")) / "ranking"


def load_queries():
    """Return X, relevance and query ids to fit and to test with; None, with a line, if files are missing."""
    from sklearn.datasets import load_svmlight_files

    files = [FOLDER / f"MQ2008_S{part}.txt.gz" for part in (1, 2, 3)]
    if not all(file.exists() for file in files):
        print(f"no files {files[0]}, ...; set CUTPLANE_DATA to the folder that holds ranking/")
        return None
    found = load_svmlight_files([str(file) for file in files], query_id=True)
    first, second, test = [found[k : k + 3] for k in (0, 3, 6)]
    both = [
        sparse.vstack([first[0], second[0]]),
        *map(np.concatenate, zip(first[1:], second[1:], strict=True)),
    ]
    return [(X.toarray(), relevance, queries) for X, relevance, queries in (both, test)]


def ndcg(scores, relevance, queries):
    """Return the mean NDCG of the first documents, over the queries that have a relevant one."""
    found = []
    for query in np.unique(queries):
        mine = queries == query
        gains = 2.0 ** relevance[mine] - 1.0
        discounts = 1.0 / np.log2(2.0 + np.arange(gains.size)) * (np.arange(gains.size) < TOP)
        best = np.sort(gains)[::-1] @ discounts
        if best > 0.0:
            found.append(gains[np.argsort(-scores[mine], kind="stable")] @ discounts / best)
    return float(np.mean(found))


def solved(risk, regularizer, x0=None):
    """Return the result and its CPU seconds, of the faster of two solves."""
    seconds = []
    for _ in range(2):
        began = process_time()
        result = cut.Problem(risk, regularizer).solve(tol=TOL, x0=x0)
        seconds.append(process_time() - began)
    assert result.status is cut.Status.OPTIMAL, result
    return result, min(seconds)


def ranking():
    """Print what pairs of MQ2008 cost and learn, by weight, and the trees of others."""
    data = load_queries()
    if data is None:
        return
    (X, relevance, queries), test = data
    print("| MQ2008, 6,568 documents, 314 queries | evaluations | CPU s | objective | gap | NDCG@10 |")
    print("|---|---|---|---|---|---|")
    for cost in (None, "gain"):
        risk = cut.RankingRisk(X, relevance, queries, cost)
        for lam in (1.0, 1e-2, 1e-4):
            result, seconds = solved(risk, cut.L2(lam))
            label = f"pairs{'' if cost is None else ', cost gain'}, lam {lam:g}"
            row = f"{result.oracle_calls} | {seconds:.3f} | {result.objective:.5f} | {result.gap:.0e}"
            print(f"| {label} | {row} | {ndcg(test[0] @ result.x, *test[1:]):.4f} |", flush=True)
    others(X, relevance, queries, test)


def others(X, relevance, queries, test):
    """Print NDCG of rankers of other libraries, by their defaults."""
    edges = np.flatnonzero(np.diff(queries, prepend=-1, append=-1))  # each query is in consecutive rows
    sizes = np.diff(edges)
    try:
        from lightgbm import LGBMRanker
    except ImportError:
        print("| LightGBM: not installed |")
    else:
        began = process_time()
        model = LGBMRanker(verbose=-1).fit(X, relevance.astype(int), group=sizes)
        seconds = process_time() - began
        print(f"| LightGBM | | {seconds:.3f} | | | {ndcg(model.predict(test[0]), *test[1:]):.4f} |")
    try:
        from xgboost import XGBRanker
    except ImportError:
        print("| XGBoost: not installed |")
    else:
        began = process_time()
        model = XGBRanker().fit(X, relevance, group=sizes)
        seconds = process_time() - began
        print(f"| XGBoost | | {seconds:.3f} | | | {ndcg(model.predict(test[0]), *test[1:]):.4f} |")


def f1(scores, y, threshold=0.0):
    """Return F1 of the examples that score more than the threshold."""
    chosen = scores > threshold
    return 2.0 * (chosen & (y > 0.0)).sum() / (chosen.sum() + (y > 0.0).sum())


def measures():
    """Print the cost of each measure, and what F1 gains over a tuned threshold."""
    kinds = {"ROC area": RocArea(), "F1": FBeta(), "break-even": PrecisionRecallBreakEven()}
    print("| data | measure | lam | evaluations | CPU s | objective | gap |\n|" + "---|" * 7)
    learnt = []
    for name in ("a9a", "w8a"):
        data = load(name)
        if data is None:
            continue
        X, y = data
        for label, measure in kinds.items():
            risk = cut.MeasureRisk(X, y, measure)
            for lam in (1e-3, 1e-5):
                result, seconds = solved(risk, cut.L2(lam))
                row = f"{result.oracle_calls} | {seconds:.3f} | {result.objective:.5f} | {result.gap:.0e}"
                print(f"| {name} | {label} | {lam:g} | {row} |", flush=True)
        learnt.append((name, *thresholds(X, y)))
    print("\n| F1 on a third held out | trained for F1 | hinge | hinge, tuned threshold |\n|---|---|---|---|")
    for name, *cells in learnt:
        print(f"| {name} | " + " | ".join(f"{cell:.4f}" for cell in cells) + " |")


def thresholds(X, y):
    """Return the best F1 on held-out examples, over weights, of F1 training, of a hinge loss, and tuned."""
    fit = np.arange(y.size) % 3 < 2
    free = np.append(np.ones(X.shape[1]), 0.0)
    start = np.append(np.zeros(X.shape[1]), 1.0)
    rows = []
    for lam in (1e-3, 1e-5, 1e-7):
        regularizer = cut.L2(lam, weights=free)
        trained = solved(cut.MeasureRisk(X[fit], y[fit], FBeta(), intercept=True), regularizer, start)[0].x
        hinge = cut.LinearRisk(X[fit], y[fit], cut.losses.Hinge(), intercept=True)
        plain = solved(hinge, regularizer, start)[0].x
        scores = X @ plain[:-1] + plain[-1]
        tuned = max(
            np.quantile(scores[fit], np.arange(1, 400) / 400), key=lambda t: f1(scores[fit], y[fit], t)
        )
        rows.append(
            (
                f1(X[~fit] @ trained[:-1] + trained[-1], y[~fit]),
                f1(scores[~fit], y[~fit]),
                f1(scores[~fit], y[~fit], tuned),
            )
        )
    return np.max(rows, axis=0)


def scaling():
    """Print milliseconds of a value and a subgradient against the number of examples of 20 features."""
    print("| examples | pairs, queries of 100, 3 levels | ROC area | F1 | of a hinge loss |")
    print("|---|---|---|---|---|")
    for m in (10_000, 100_000, 1_000_000):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((m, 20))
        y = np.where(X[:, 0] + rng.standard_normal(m) > 1.0, 1.0, -1.0)
        risks = [
            cut.RankingRisk(X, rng.integers(0, 3, m), np.arange(m) // 100),
            cut.MeasureRisk(X, y, RocArea()),
            cut.MeasureRisk(X, y, FBeta()),
            cut.LinearRisk(X, y, cut.losses.Hinge()),
        ]
        w = rng.standard_normal(20)
        cells = []
        for risk in risks:
            risk.oracle(w)
            seconds = []
            for _ in range(5):
                began = process_time()
                risk.oracle(w)
                seconds.append(process_time() - began)
            cells.append(f"{1e3 * min(seconds):.1f}")
        print(f"| {m:,} | " + " | ".join(cells) + " |", flush=True)


PARTS = {"ranking": ranking, "measures": measures, "scaling": scaling}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    with compiling_at(0.0):
        for part in parser.parse_args().parts:
            PARTS[part]()
            print()
