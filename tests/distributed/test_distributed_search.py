"""The searches along a line that is spread over partitions, against a search that sees it whole."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from scipy.special import expit

from cutplane.distributed import search
from cutplane.distributed.search import (
    Summary,
    add_estimates,
    add_replies,
    estimate,
    search_pieces,
    search_probes,
    slopes_at,
    summarise,
)
from cutplane.pieces.lines import NO_KINKS, Line, PiecewiseLinear, quadratic_line


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(search, "FEW", 32)


def random_part(rng, kind, size):
    """A derivative with kinks in general position, with ties, or far apart; flat, steep or curved."""
    kinks = np.abs(rng.normal(size=size)) + 1e-9
    if kind == "ties":
        kinks = np.ceil(3.0 * kinks)
    if kind == "one place":
        kinks = np.where(rng.random(size) < 0.9, 0.5, kinks)
    if kind == "scales":
        kinks = 10.0 ** rng.uniform(-9.0, 9.0, size)
    if kind == "sorted":
        kinks = np.sort(kinks)
    jumps = rng.exponential(size=size) ** (4 if kind == "steep" else 1)
    bends = rng.random(size) if kind == "curved" else None
    return PiecewiseLinear(-float(jumps.sum()) * rng.uniform(0.0, 1.0), 0.0, kinks, jumps, bends)


def summed(replies, probes):
    """Replies put together in pairs; each is short, however many it stands for."""
    while len(replies) > 1:
        pairs = zip(replies[::2], replies[1::2], strict=False)
        replies = [*[add_replies(*pair, probes) for pair in pairs], *replies[len(replies) & ~1 :]]
    size = replies[0].kinks.size if isinstance(replies[0], PiecewiseLinear) else replies[0].points.size
    assert size <= (search.FEW if isinstance(replies[0], PiecewiseLinear) else 2 * 64 + 4)
    return replies[0]


KINDS = ["general", "ties", "one place", "scales", "sorted", "steep", "curved"]


@pytest.mark.parametrize("guess", ["good", "low", "high", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_pieces_against_the_whole(few, kind, guess):
    rng = np.random.default_rng(KINDS.index(kind))
    for trial in range(8):
        size = int(rng.choice([0, 5, 300, 3000])) if trial else 3000
        parts = [random_part(rng, kind, size) for _ in range(int(rng.integers(1, 5)))]
        rest = PiecewiseLinear(-0.1, float(rng.choice([0.01, 10.0])), NO_KINKS, NO_KINKS)
        limit = float(rng.choice([0.7, np.inf]))
        total = reduce(add, [*parts, rest])
        rounds = []

        def ask(low, high, probes, parts=parts, rounds=rounds):
            rounds.append((low, high))
            return summed([summarise(part.between(low, high), probes) for part in parts], probes)

        first = reduce(add_estimates, [estimate(part) for part in parts])
        assert first[0].kinks.size <= 32
        if guess != "good":
            shift, deviation = {"low": (1e9, 1e-9), "high": (-1e9, 1e-9), "none": (0.0, 1e9)}[guess]
            first = PiecewiseLinear(first[0].slope + shift, 0.0, NO_KINKS, NO_KINKS), deviation
        t = search_pieces(first, ask, rest, limit)
        slope = total.between(t, t).slope
        before = total.between(t * (1.0 - 1e-9), t * (1.0 - 1e-9)).slope
        size = abs(total.slope) + total.slope_jumps.sum() + 1.0
        assert 0.0 <= t <= limit
        assert t == limit or slope >= -1e-12 * size, (trial, t)
        assert t == 0.0 or before <= 1e-12 * size, (trial, t)
        assert len(rounds) <= 14


def test_a_million_kinks_take_three_rounds():
    rng = np.random.default_rng(0)
    parts = [random_part(rng, "general", 100_000) for _ in range(10)]
    first = reduce(add_estimates, [estimate(part) for part in parts])
    assert first[0].kinks.size <= search.FEW
    rounds = []

    def ask(low, high, probes):
        rounds.append((low, high))
        return summed([summarise(part.between(low, high), probes) for part in parts], probes)

    t = search_pieces(first, ask, quadratic_line(0.0, 0.0, 1.0).derivative, np.inf)
    total = reduce(add, parts)
    points = np.array([t * (1.0 - 1e-12), t])
    before, after = slopes_at(total, points) + points
    assert before < 0.0 <= after + 1e-9
    assert len(rounds) <= 3


def test_a_summary_holds_the_exact_slopes():
    part = random_part(np.random.default_rng(1), "curved", 20_000).between(0.2, 3.0)
    probes = np.array([0.25, 1.0])
    summary = summarise(part, probes)
    assert isinstance(summary, Summary)
    assert np.isin([0.2, 0.25, 1.0], summary.points).all()
    direct = [part.between(t, t).slope for t in summary.points]
    assert summary.lower == pytest.approx(direct, rel=1e-10, abs=1e-7)
    assert summary.upper is summary.lower


def test_sums_of_estimates_and_replies_hold():
    rng = np.random.default_rng(2)
    parts = [random_part(rng, "curved", size).between(0.0, 3.0) for size in (20_000, 9_000, 700, 20_000)]
    whole = reduce(add, parts)
    probes = np.array([0.5, 1.5])
    reply = summed([summarise(part, probes) for part in parts], probes)
    direct = slopes_at(whole, reply.points)
    room = 1e-9 * np.abs(direct).max()
    assert (reply.lower <= direct + room).all() and (direct <= reply.upper + room).all()
    exact = np.isin(reply.points, probes)
    assert exact.sum() == 2 and np.abs(reply.upper - reply.lower)[exact].max() <= room
    copy, deviation = reduce(add_estimates, [(part, 0.0) for part in parts])
    points = np.linspace(0.0, 2.9, 50)
    assert 0.0 < np.abs(slopes_at(copy, points) - slopes_at(whole, points)).max() <= deviation
    assert copy.kinks.size <= search.FEW and copy.slope_jumps.min() >= 0.0
    assert slopes_at(copy, np.array([3.0])) == pytest.approx(slopes_at(whole, np.array([3.0])), rel=1e-9)


SMOOTH = {
    "logistic": (lambda t: (np.logaddexp(0, 3 - t) + 0.1 * t, 0.1 - expit(3 - t)), np.inf, 3 + np.log(9)),
    "logistic, cut off": (lambda t: (np.logaddexp(0, 3 - t) + 0.1 * t, 0.1 - expit(3 - t)), 1.0, 1.0),
    "at the start": (lambda t: (t * t + t, 2 * t + 1), np.inf, 0.0),
    "exponential": (lambda t: (np.exp(t) - 20 * t, np.exp(t) - 20), np.inf, np.log(20)),
    "steep": (lambda t: (np.exp(1e3 * t) - 1e9 * t, 1e3 * np.exp(1e3 * t) - 1e9), 9.0, np.log(1e6) / 1e3),
    "far": (lambda t: (np.cosh(t / 1e6 - 5), np.sinh(t / 1e6 - 5)), np.inf, 5e6),
    "near": (lambda t: (0.5 * (1e7 * t - 1) ** 2, 1e7 * (1e7 * t - 1)), 1.0, 1e-7),
    "barrier": (
        lambda t: (-np.log(2 - t) - 4 * t, 1 / (2 - t) - 4) if t < 2 else (np.inf, np.nan),
        np.inf,
        1.75,
    ),
    "infinite slope at 0": (
        lambda t: (t * np.log(t), np.log(t) + 1) if t else (0.0, -np.inf),
        1.0,
        np.exp(-1),
    ),
    "kink": (lambda t: (abs(t - 0.3), 1.0 if t >= 0.3 else -1.0), np.inf, 0.3),
    "falling": (lambda t: (-t, -1.0), 5.0, 5.0),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_probes_find_the_minimiser(name):
    function, limit, expected = SMOOTH[name]
    rounds = []

    def sample(points):
        rounds.append(points.size)
        with np.errstate(over="ignore"):
            return np.array([function(t) for t in points.tolist()], dtype=float).T

    t = search_probes(sample, quadratic_line(0.0, 0.0, 0.0), limit)
    assert t == pytest.approx(expected, rel=1e-7, abs=0.0)
    assert len(rounds) <= (40 if name == "kink" else 20) and max(rounds) <= 4


def test_probes_take_few_rounds_on_logistic_losses():
    rng = np.random.default_rng(3)
    rounds = []
    for _ in range(100):
        start, step = rng.normal(size=100), rng.normal(size=100) * 10.0 ** rng.uniform(-1, 1) - 0.1
        rest = quadratic_line(0.0, 0.0, 10.0 ** rng.uniform(-3, 0))
        rounds.append(0)

        def sample(points, start=start, step=step):
            rounds[-1] += 1
            z = start + points[:, np.newaxis] * step
            return np.array([np.logaddexp(0.0, z).mean(axis=1), (expit(z) * step).mean(axis=1)])

        t = search_probes(sample, rest, np.inf)
        slope = sample(np.array([t]))[1, 0] + rest(t)[1]
        assert t == 0.0 or abs(slope) <= 1e-7 * np.abs(step).mean()
    assert np.mean(rounds) <= 6.0 and max(rounds) <= 12


def test_a_line_with_a_search_of_its_own_in_sums_and_multiples():
    calls = []

    def own(rest, limit):
        calls.append(limit)
        return (rest + quadratic_line(0.0, -1.0, 1.0))(0.0)[1]

    line = 2.0 * Line(lambda t: (0.0, 0.0), search=own) + quadratic_line(0.0, -4.0, 0.0)
    assert line.search(quadratic_line(0.0, 6.0, 0.0), 3.0) == pytest.approx(0.5 * (-4.0 + 6.0) - 1.0)
    assert (quadratic_line(0.0, 1.0, 0.0) + line).search is not None and calls == [3.0]
