"""Whatever masters, methods and warm starts answer, no bound is false and a status is given.

Each trial solves a problem whose optimum is known in rational arithmetic, with one part that lies, and
compares the bounds with the optimum.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from exact_problems import draw

import cutplane as cut
from cutplane.masters import MasterSolution, MasterStatus
from cutplane.masters.select import Backend, first_candidate

OFF = 1e-6


def randomly(rng, x, multipliers, before):
    return rng.standard_normal(x.size), rng.exponential(size=multipliers.size)


def permuted(rng, x, multipliers, before):
    return x[rng.permutation(x.size)], multipliers[rng.permutation(multipliers.size)]


def stale(rng, x, multipliers, before):
    return before if before is not None and before[1].size == multipliers.size else (x, multipliers)


def without_numbers(rng, x, multipliers, before):
    return np.full(x.size, np.nan), multipliers


def infinite(rng, x, multipliers, before):
    return x, np.where(rng.random(multipliers.size) < 0.5, np.inf, multipliers)


def slightly_wrong(rng, x, multipliers, before):
    return x + OFF * rng.standard_normal(x.size), multipliers + OFF * rng.standard_normal(multipliers.size)


def negative(rng, x, multipliers, before):
    return x, -multipliers


def of_another_shape(rng, x, multipliers, before):
    return x, multipliers[:-1]


LIES = [
    randomly,
    permuted,
    stale,
    without_numbers,
    infinite,
    slightly_wrong,
    negative,
    of_another_shape,
    MasterStatus.UNBOUNDED,
    MasterStatus.INFEASIBLE,
    MasterStatus.FAILED,
]


def master_that(lies, seed):
    """Return a class of masters that lie in half of their answers."""

    class Liar:
        name = "liar"

        def __init__(self, reduced):
            self.reduced, self.masters, self.before = reduced, {}, None
            self.rng = np.random.default_rng(seed)

        @staticmethod
        def refusal(reduced, stabilization):
            return None

        def solve(self, rows, stabilization=None, accuracy=0.0):
            kind = None if stabilization is None else type(stabilization)
            if kind not in self.masters:
                self.masters[kind] = first_candidate(self.reduced, kind, Backend()).build(self.reduced)
            answer = self.masters[kind].solve(rows, stabilization, accuracy)
            if answer.status is not MasterStatus.SOLVED or self.rng.random() < 0.5:
                return answer
            if isinstance(lies, MasterStatus):
                return MasterSolution(None, None, lies)
            honest = answer.x.copy(), answer.multipliers.copy()
            x, multipliers = lies(self.rng, *honest, self.before)
            self.before = honest
            return MasterSolution(x, multipliers)

    return Liar


@dataclass(frozen=True)
class Guessing(cut.methods.Method):
    """Queries random points and claims random multipliers; in the end it writes bounds."""

    seed: int = 0
    writes: bool = False

    def start(self, run):
        return np.random.default_rng(self.seed)

    def step(self, run, rng):
        run.certify(rng.exponential(size=run.n_cuts) * (rng.random(run.n_cuts) < 0.5))
        run.query(run.problem.into_simple_set(run.anchor.x + rng.standard_normal(run.problem.dim)))
        if self.writes:
            run.lower = run.upper
        return cut.methods.Step("guess", rng)


def assert_honest(drawn, solve):
    """Solve, and compare both bounds with the optimum and with the value at x."""
    minimiser = drawn.exact.minimiser()
    optimum = drawn.exact.objective(minimiser)
    try:
        result = solve()
    except cut.CutplaneError:
        return None
    assert isinstance(result.status, cut.Status)
    if np.isfinite(result.lower_bound):
        unit = 4 * drawn.exact.unit(minimiser)  # slopes of data are sums that were rounded
        assert Fraction(result.lower_bound) <= optimum + unit, (drawn.name, result)
    if result.x is not None and result.status == "OPTIMAL":
        noise = drawn.exact.noise(result.x) + 4 * drawn.exact.unit(minimiser)
        value = drawn.exact.objective(result.x)
        assert Fraction(result.objective) >= value - abs(value) / 10**12 - noise, (drawn.name, result)
    return result


@pytest.mark.parametrize(
    "method", [cut.BMRM(), cut.ProximalBundle(), cut.LevelBundle()], ids=lambda m: m.name
)
@pytest.mark.parametrize("lies", LIES, ids=lambda lies: getattr(lies, "__name__", str(lies)))
def test_masters(lies, method):
    solved = 0
    for seed in range(0, 18, 3):  # those whose data have the size of 1
        drawn = draw(seed)
        backend = master_that(lies, seed)
        result = assert_honest(
            drawn,
            lambda d=drawn, b=backend: d.problem.solve(method, b, tol=1e-6, max_iter=60, time_limit=5.0),
        )
        solved += result is not None
    assert solved > 0


@pytest.mark.parametrize("writes", [False, True])
def test_methods(writes):
    for seed in range(0, 60, 3):
        drawn = draw(seed)
        method = Guessing(seed, writes)
        assert_honest(drawn, lambda d=drawn, m=method: d.problem.solve(m, tol=1e-6, max_iter=25))


def forged(certificate, rng):
    """Return a certificate whose numbers were changed in one of several ways."""
    rows = len(certificate.offsets)
    ways = {
        "offsets": lambda: {"offsets": certificate.offsets + rng.exponential(size=rows)},
        "slopes": lambda: {"slopes": certificate.slopes + OFF * rng.standard_normal((rows, 1))},
        "multipliers": lambda: {"multipliers": rng.exponential(size=rows)},
        "bound": lambda: {"lower_bound": certificate.upper_bound + 1.0},
        "x": lambda: {"x": certificate.x + rng.standard_normal(certificate.x.size)},
        "value": lambda: {"upper_bound": certificate.lower_bound - 1.0, "risk_value": -1.0},
    }
    return replace(certificate, **ways[str(rng.choice([*ways]))]())


@pytest.mark.parametrize("same", [True, False])
def test_warm_starts(same):
    """From a forged result, of the same problem or of an equal one."""
    resumed = 0
    for seed in range(0, 90, 3):
        drawn, again, rng = draw(seed), draw(seed), np.random.default_rng(seed)
        first = drawn.problem.solve("proximal", tol=1e-2, max_iter=20)
        if first.certificate.standard is not None:
            continue
        start = replace(first, certificate=forged(first.certificate, rng))
        problem = (drawn if same else again).problem
        resumed += (
            assert_honest(
                again, lambda p=problem, s=start: p.solve("bmrm", tol=1e-6, warm_start=s, max_iter=60)
            )
            is not None
        )
    assert resumed > 0
