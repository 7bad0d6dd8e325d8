"""Each lesson runs; the check of each exercise passes on the solution and fails on wrong answers."""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

LESSONS = Path(__file__).parents[1] / "docs" / "lessons"

pytestmark = pytest.mark.skipif(not LESSONS.is_dir(), reason="a source distribution has no docs")


def _hinge_without_mean(w, X, y):
    return -X.T @ (y * (y * (X @ w) < 1.0))


def _not_the_largest(slopes, offsets, low, high):
    return max(min(a * low + b, a * high + b) for a, b in zip(slopes, offsets, strict=True))


def _first_side(x, radius):
    return (x, 0.5 * radius * np.linalg.norm(x)) if np.linalg.norm(x) > radius else None


def _last_breakpoint(z, d, q, p):
    return max(0.0, -(p - d[z < 1.0].sum() / len(z)) / q)


WRONG = {
    ("1", 1): [
        lambda w, X, y: None,
        _hinge_without_mean,
        lambda w, X, y: -_hinge_without_mean(w, X, y) / len(y),
    ],
    ("1", 2): [_not_the_largest, lambda a, b, low, high: (a * (low + high) / 2 + b).max()],
    ("2", 1): [lambda a, b, low, high: low, lambda a, b, low, high: (low + high) / 2],
    ("2", 2): [lambda lower, upper: upper - lower, lambda lower, upper: (upper - lower) / max(1e-12, upper)],
    ("3", 1): [lambda a, b, c, nu: c - a, lambda a, b, c, nu: c - nu * a, lambda a, b, c, nu: c],
    ("3", 2): [
        lambda a, b, c, level: c,
        lambda a, b, c, level: c - (a @ c + b - level) / (a @ a) * a,
        lambda a, b, c, level: c - max(0.0, a @ c + b - level) * a,
    ],
    ("4", 1): [lambda alpha, A, b: b @ alpha, lambda alpha, A, b: b @ alpha - np.abs(alpha @ A).max()],
    ("4", 2): [lambda v, lam: v.min(), lambda v, lam: -lam * np.log(np.exp(-v).sum())],
    ("5", 1): [
        lambda k, z, d: -2.0 * np.mean(d * (z + k * d < 1.0)),
        lambda k, z, d: -np.mean(d * np.maximum(0.0, 1.0 - z - k * d)),
    ],
    ("5", 2): [_last_breakpoint, lambda z, d, q, p: 1.0, lambda z, d, q, p: 0.0],
    ("6", 1): [
        lambda margins, d: (int(margins.sum(axis=1).argmax()), float((margins @ d).max())),
        lambda margins, d: (int(np.abs(margins @ d).argmin()), float((margins @ d).max())),
    ],
    ("6", 2): [lambda d, margins, nu: (margins @ d).max(), lambda d, margins, nu: (margins @ d).mean()],
    ("7", 1): [_first_side, lambda x, radius: (x, radius), lambda x, radius: None],
    ("7", 2): [lambda chosen, tail, head, n: None, lambda chosen, tail, head, n: np.arange(n) < n // 2],
    ("8", 1): [
        lambda x, demand, p: (x - 3.0 * p @ np.minimum(x, demand), 1.0 - 3.0 * p[demand < x].sum()),
        lambda x, demand, p: (x - 3.0 * p @ np.minimum(x, demand), 1.0),
    ],
    ("8", 2): [
        lambda u, c, A, b: (u @ b + np.minimum(c, 0.0).sum(), b),
        lambda u, c, A, b: (u @ b + np.minimum(c - A.T @ u, 0.0).sum(), A @ (c < A.T @ u) - b),
    ],
}


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("lesson", sorted(LESSONS.glob("*.py")), ids=lambda path: path.stem)
def test_a_lesson_runs_and_its_exercises_tell_right_from_wrong(lesson, capsys):
    plt.switch_backend("Agg")
    names = runpy.run_path(str(lesson))  # its last cells check the solutions
    plt.close("all")
    checks = [name for name in names if name.startswith("check_")]
    assert checks == ["check_1", "check_2"]
    for k in (1, 2):
        check, wrong = names[f"check_{k}"], WRONG[lesson.stem[0], k]
        check(names[f"solution_{k}"])
        for answer in [lambda *arguments: None, *wrong]:
            with pytest.raises(AssertionError):
                check(answer)
