"""scikit-learn's liblinear on the mean-loss problem, at the fastest setting that reaches a given objective.

liblinear has no certificate, and its stopping rule is no bound on the error. So it is given, by search
outside the clock, the fewest iterations (with a tolerance too small to matter) and the loosest tolerance
whose solutions are good enough, and is timed at the faster of the two.
"""

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

TINY = 1e-10
MANY = 10_000_000


@dataclass(frozen=True)
class Setting:
    """What LinearSVC is given, and whether the goal was reached with it."""

    max_iter: int
    tol: float
    reached: bool
    seconds: float

    def __str__(self):
        return f"tol={self.tol:.2g}" if self.max_iter == MANY else f"max_iter={self.max_iter}"


def fit(X, y, lam, max_iter, tol):
    """Return the weights of LinearSVC for the mean hinge loss, and the seconds from raw data to weights."""
    from sklearn.svm import LinearSVC

    start = perf_counter()
    C = 1.0 / (lam * X.shape[0])
    machine = LinearSVC(
        loss="hinge", dual=True, fit_intercept=False, C=C, max_iter=max_iter, tol=tol, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.fit(X, y)
    return machine.coef_.ravel(), perf_counter() - start


def objective(X, y, w, lam):
    """Return the mean hinge loss plus lam / 2 times the squared norm, in float64."""
    return float(np.maximum(0.0, 1.0 - y * (X @ w)).mean() + 0.5 * lam * (w @ w))


def fastest(X, y, lam, goal, cap):
    """Return the faster of the two settings that reach `goal`; `cap` is the most seconds of one fit."""

    def attempt(max_iter, tol):
        w, seconds = fit(X, y, lam, max_iter, tol)
        return Setting(max_iter, tol, objective(X, y, w, lam) <= goal, seconds)

    few, setting = 0, attempt(1, TINY)
    while not setting.reached:
        few = setting.max_iter
        growth = min(2.0, cap / max(setting.seconds, 1e-9))
        if growth < 1.1:
            return setting
        setting = attempt(max(few + 1, int(growth * few)), TINY)
    while setting.max_iter - few > max(1, 0.03 * few):
        middle = attempt((few + setting.max_iter) // 2, TINY)
        if middle.reached:
            setting = middle
        else:
            few = middle.max_iter
    fewest, tight, factor = setting, 10.0, 4.0
    while not attempt(4 * fewest.max_iter, tight).reached:
        tight /= factor
        if tight < 1e-9:
            return fewest
    for factor in (2.0, 2.0**0.5):
        if attempt(4 * fewest.max_iter, factor * tight).reached:
            tight *= factor
    loosest = attempt(MANY, tight)
    return loosest if loosest.reached and loosest.seconds < fewest.seconds else fewest


class Memory:
    """What was found outside the clock, kept in a JSON file if one is given, so that it is found once."""

    def __init__(self, file=None):
        self.file = Path(file) if file else None
        self.found = json.loads(self.file.read_text()) if self.file and self.file.exists() else {}

    def __call__(self, key, find):
        """Return what is known for `key`; if nothing is, `find` it: a dict of numbers."""
        if key not in self.found:
            self.found[key] = find()
            if self.file:
                self.file.write_text(json.dumps(self.found, indent=1))
        return self.found[key]


def best_known(X, y, lam, ours, seconds):
    """Return the least objective of `ours` and of a long run of liblinear of about `seconds`."""
    w, elapsed = fit(X, y, lam, 10, TINY)
    iterations = int(np.clip(10 * seconds / elapsed, 20, 20_000))
    w, _ = fit(X, y, lam, iterations, 1e-6)
    return min(ours, objective(X, y, w, lam))
