"""Max-margin chains and conditional random fields on handwritten letters, certified to a gap of 1e-3.

Beside `BlockFrankWolfe`: cuts (`ProximalBundle`), and a bare loop of block-coordinate Frank-Wolfe in numba,
averaged, without a cache, that knows nothing of bundles and certificates; and the one-slack cutting-plane
algorithm that SVM-HMM runs (T. Joachims, T. Finley, C.-N. Yu, "Cutting-plane training of structural SVMs",
Machine Learning 77, 2009, doi:10.1007/s10994-009-5108-8), written anew here, with our decoder, until it has
our objective. Beside `LBFGS`: cuts. The letters are those of ``ocr/letters.data.gz`` in the folder that
CUTPLANE_DATA names.

Run as ``python benchmarks/structured.py [number of words ...]``, or, for trees in the place of chains, whose
compiled steps are compared with those of any `ExampleSum`, as ``... trees [number of words ...]``.
"""

import gzip
import os
import sys
import time
from pathlib import Path

import numpy as np
from numba import njit

import cutplane as cut
from cutplane.structured import ChainLogLikelihood, ChainRisk, ExampleSum, GraphRisk

FOLDER = Path(os.environ.get("CUTPLANE_DATA", Path(__file__).parents[2] / "shared" / "data"))
FILE = FOLDER / "ocr" / "letters.data.gz"
LAM, TOL = 1e-2, 1e-3


def load():
    """Return pixels, letters and the lengths of the words."""
    with gzip.open(FILE, "rt") as file:
        fields = [line.split("\t") for line in file]
    X = np.array([row[6:134] for row in fields], dtype=np.float64)
    y = np.array([ord(row[1]) - ord("a") for row in fields])
    ends = np.flatnonzero([row[2] == "-1" for row in fields]) + 1
    return X, y, np.diff(np.append(0, ends))


@njit(cache=True, nogil=True, fastmath=True)
def bare_epoch(X, y, starts, order, lam, E, T, Ei, Ti, offsets, E_mean, T_mean, k, table, back, labels):
    """Visit every word once: decode it, and step towards what was found; return the number of visits."""
    m, n, S = starts.size - 1, X.shape[1], T.shape[0]
    for i in order:
        start, end = starts[i], starts[i + 1]
        for t in range(start, end):
            for s in range(S):
                table[t - start, s] = 1.0 if s != y[t] else 0.0
            for j in range(n):
                if X[t, j] != 0.0:
                    for s in range(S):
                        table[t - start, s] += X[t, j] * E[j, s]
        for t in range(1, end - start):
            for s in range(S):
                best, where = -np.inf, 0
                for a in range(S):
                    if table[t - 1, a] + T[a, s] > best:
                        best, where = table[t - 1, a] + T[a, s], a
                table[t, s] += best
                back[t, s] = where
        labels[end - start - 1] = np.argmax(table[end - start - 1])
        for t in range(end - start - 1, 0, -1):
            labels[t - 1] = back[t, labels[t]]
        dE, dT, loss = -Ei[i], -Ti[i], 0.0  # the step, in the weights: towards -psi / (lam m)
        for t in range(start, end):
            s = labels[t - start]
            if s != y[t]:
                loss += 1.0 / m
                for j in range(n):
                    dE[j, s] -= X[t, j] / (lam * m)
                    dE[j, y[t]] += X[t, j] / (lam * m)
            if t > start:
                dT[labels[t - start - 1], s] -= 1.0 / (lam * m)
                dT[y[t - 1], y[t]] += 1.0 / (lam * m)
        slope = loss - offsets[i] - lam * ((E * dE).sum() + (T * dT).sum())
        square = lam * ((dE * dE).sum() + (dT * dT).sum())
        step = min(1.0, max(0.0, slope / square)) if square > 0.0 else 0.0
        E += step * dE
        T += step * dT
        Ei[i] += step * dE
        Ti[i] += step * dT
        offsets[i] += step * (loss - offsets[i])
        k += 1
        E_mean += 2.0 / (k + 2.0) * (E - E_mean)
        T_mean += 2.0 / (k + 2.0) * (T - T_mean)
    return k


def bare(risk, epochs=200):
    """Run the bare loop until the gap, looked at after each fifth epoch, is closed."""
    data = risk.sequences
    X, y, starts, S, n = data.X, data.labels.astype(np.int64), data.starts, data.n_states, data.n_features
    m, rng, best, k = len(data), np.random.default_rng(0), np.inf, 0
    E, T, E_mean, T_mean = np.zeros((n, S)), np.zeros((S, S)), np.zeros((n, S)), np.zeros((S, S))
    Ei, Ti, offsets = np.zeros((m, n, S)), np.zeros((m, S, S)), np.zeros(m)
    table, back = np.empty((data.longest, S)), np.empty((data.longest, S), dtype=np.int64)
    labels = np.empty(data.longest, dtype=np.int64)
    for epoch in range(1, epochs + 1):
        order = rng.permutation(m)
        known = E, T, Ei, Ti, offsets, E_mean, T_mean
        k = bare_epoch(X, y, starts, order, LAM, *known, k, table, back, labels)
        if epoch % 5 == 0 or epoch == epochs:
            w, mean = (np.append(a.T, b) for a, b in ((E, T), (E_mean, T_mean)))
            best = min(best, risk(mean) + 0.5 * LAM * mean @ mean)
            lower = offsets.sum() - 0.5 * LAM * w @ w
            if best - lower <= TOL * best:
                break
    return epoch + epoch // 5, best, (best - lower) / best


@njit(cache=True, nogil=True)
def solve_dual(gram, offsets, shares, lam, tol, most):
    """Maximise the dual of the cuts in the working set by pairs, to a gap; return its value."""
    slopes = offsets - gram @ shares / lam
    for _ in range(most):
        up = np.argmax(slopes)
        if slopes[up] - shares @ slopes <= tol:
            break
        down, best, step = up, 0.0, 0.0
        for j in range(shares.size):
            rise = slopes[up] - slopes[j]
            if shares[j] > 0.0 and rise > 0.0:
                curvature = max((gram[up, up] + gram[j, j] - 2.0 * gram[up, j]) / lam, 1e-300)
                far = min(shares[j], rise / curvature)
                gain = far * (rise - 0.5 * far * curvature)
                if gain > best:
                    down, best, step = j, gain, far
        if best <= 0.0:
            break
        shares[up] += step
        shares[down] = max(0.0, shares[down] - step)
        for j in range(shares.size):
            slopes[j] -= step * (gram[j, up] - gram[j, down]) / lam
    return shares @ offsets - shares @ gram @ shares / (2.0 * lam)


def one_slack(risk, target, most=5000, kept=50):
    """Run the one-slack algorithm until its best objective is the target; drop cuts of no use for long."""
    cuts, offsets = np.zeros((1, risk.dim)), np.zeros(1)  # the true labellings: no violation
    gram, shares, used = np.zeros((1, 1)), np.ones(1), np.zeros(1, dtype=np.int64)
    best, lower, quadratic = np.inf, 0.0, 0.0
    for passes in range(1, most + 1):
        w = -shares @ cuts / LAM
        value, slope = risk.oracle(w)
        best = min(best, value + 0.5 * LAM * w @ w)
        if best <= target:
            break
        began = time.process_time()
        keep = (shares > 0.0) | (passes - used <= kept)
        keep[0] = True
        cuts, offsets = np.vstack([cuts[keep], slope]), np.append(offsets[keep], value - slope @ w)
        shares, used = np.append(shares[keep], 0.0), np.append(used[keep], passes)
        grown = np.empty((len(cuts), len(cuts)))
        grown[:-1, :-1] = gram[np.ix_(keep, keep)]
        grown[-1] = grown[:, -1] = cuts @ slope
        gram = grown
        accuracy = 0.1 * max(TOL * best, best - lower)
        lower = max(lower, solve_dual(gram, offsets, shares, LAM, accuracy, 100_000))
        used[shares > 0.0] = passes
        quadratic += time.process_time() - began
    return passes, best, (best - lower) / best, f"{quadratic:.2f} s for the quadratic programmes"


def report(words, name, passes, seconds, objective, gap, status=""):
    print(
        f"{words:6d} {name:<28} {passes:6d} {seconds:8.2f} {objective:10.5f} {gap:9.1e} {status}", flush=True
    )


class General(GraphRisk):
    """Trees that are known one by one, by their decoder and their pieces."""

    def block_ascent(self, quadratic, multipliers=None):
        """Return the steps of any sum over examples."""
        return ExampleSum.block_ascent(self, quadratic, multipliers)


def trees(counts):
    """Compare block steps of trees: each letter of a word is joined to a random one before it."""
    X, y, lengths = load()
    rng = np.random.default_rng(0)
    for words in counts:
        parts = [np.split(part[: lengths[:words].sum()], np.cumsum(lengths[:words])[:-1]) for part in (X, y)]
        edges = [
            np.stack([rng.integers(0, np.arange(1, n)), np.arange(1, n)], axis=1) for n in lengths[:words]
        ]
        for kind in (GraphRisk, General):
            problem = cut.Problem(kind(*parts, edges, n_states=26), cut.L2(LAM))
            problem.solve(cut.BlockFrankWolfe(), tol=TOL, max_iter=2)
            began = time.process_time()
            result = problem.solve(cut.BlockFrankWolfe(), tol=TOL, time_limit=240)
            seconds = time.process_time() - began
            report(
                words,
                kind.__name__,
                result.oracle_calls,
                seconds,
                result.objective,
                result.gap,
                result.status,
            )


def main():
    if not FILE.exists():
        print(f"no file {FILE}; set CUTPLANE_DATA to the folder that holds ocr/letters.data.gz")
        return
    print(f"{'words':>6} {'':<28} {'passes':>6} {'CPU s':>8} {'objective':>10} {'gap':>9}")
    if sys.argv[1:2] == ["trees"]:
        trees(map(int, sys.argv[2:] or ("300",)))
        return
    X, y, lengths = load()
    for words in map(int, sys.argv[1:] or ("600", "5500")):
        size = int(lengths[:words].sum())
        parts = X[:size], y[:size], lengths[:words]
        margin, likelihood = ChainRisk(*parts, n_states=26), ChainLogLikelihood(*parts, n_states=26)
        runs = [
            (margin, cut.BlockFrankWolfe()),
            (margin, cut.ProximalBundle()),
            (likelihood, cut.LBFGS()),
            (likelihood, cut.ProximalBundle()),
        ]
        solved = []
        for risk, method in runs:
            problem = cut.Problem(risk, cut.L2(LAM))
            problem.solve(method, tol=TOL, max_iter=2)  # what is compiled is not measured
            began = time.process_time()
            result = problem.solve(method, tol=TOL, max_iter=1000)
            seconds = time.process_time() - began
            solved.append(result.objective)
            name = f"{type(risk).__name__} {method.name}"
            report(words, name, result.oracle_calls, seconds, result.objective, result.gap, result.status)
        one_slack(margin, solved[0], most=3)
        began = time.process_time()
        passes, objective, gap, status = one_slack(margin, solved[0])
        seconds = time.process_time() - began
        report(words, "one-slack cutting planes", passes, seconds, objective, gap, status)
        bare(margin, 1)
        began = time.process_time()
        passes, objective, gap = bare(margin)
        report(words, "bare block-coordinate loop", passes, time.process_time() - began, objective, gap)


if __name__ == "__main__":
    main()
