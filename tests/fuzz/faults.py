"""Trials of damaged oracles: each must be named, or do no harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import cutplane as cut
from cutplane.status import Status
from fuzz import checks, choices, penalties, pieces, problems, regions
from fuzz.core import Refused, guarded, quiet
from fuzz.draws import Array, Rng, chance, dyadic, pick
from fuzz.outcome import Outcome
from fuzz.problems import Known

Answer = tuple[Any, Any]
Oracle = Callable[[Array], Answer]
Damage = Callable[[Oracle, Rng, int], Oracle]


def trial(rng: Rng) -> Outcome:
    """Solve a random problem whose oracle is damaged, by a random method."""
    name = str(rng.choice(choices.METHODS))
    known, honest = _undamaged(rng, name)
    fault = str(pick(rng, dict.fromkeys([*FAULTS, "half-space", "not convex"], 1.0)))
    queries: list[Array] = []
    problem, objective, slack = _damaged(rng, known, honest, fault, queries)
    family = f"{fault}/{name}/auto"
    tol = float(pick(rng, {1e-2: 1, 1e-4: 2, 1e-6: 2}))
    options = {"tol": tol, "max_iter": 100, "time_limit": 5.0}
    options |= {"x0": known.x} if chance(rng, 0.1) else {}
    status, failures = "", []
    with quiet():
        try:
            method = choices.method(rng, name)
            result = guarded(lambda: problem.solve(method, **options), 5.0)
            status = str(result.status)
            failures = _harm(known, result, objective, slack, queries, tol)
        except Refused:
            status = "REFUSED"
        except (cut.OracleError, cut.InvalidInputError) as error:
            status = type(error).__name__
        except Exception as error:
            status, failures = type(error).__name__, [checks.of_exception(error)]
    return Outcome(family, status, [f"{failure} [{known.name}; n={len(known.x)}]" for failure in failures])


def _undamaged(rng: Rng, name: str) -> tuple[Known, list[pieces.Block]]:
    """A problem with a known solution whose risk is the sum of the blocks."""
    n = int(rng.integers(1, 6))
    bare = name in choices.ITERATIVE or chance(rng, 0.4)
    x = dyadic(rng, n)
    if name == "ReducedGradient":
        x = np.abs(x) + 1.0 / 64.0
        x /= x.sum()
        region = regions.simplex(rng, x, 1.0)
    elif bare:
        region = (regions.l2_ball if chance(rng, 0.5) else regions.box)(rng, x, 1.0)
        if not region.bounded:
            region = regions.linf_ball(rng, x, 1.0)
    else:
        region = (regions.whole if chance(rng, 0.5) else regions.box)(rng, x, 1.0)
    penalty = (penalties.none if bare else penalties.l2)(rng, x, 1.0, 1.0)
    smooth = chance(rng, 0.8 if name in choices.ITERATIVE else 0.2)
    targets = [dyadic(rng, n) for _ in range(int(rng.integers(0, 3)))]
    targets.append(-(region.normal + penalty.subgradient) - sum(targets, np.zeros(n)))
    blocks = [pieces.block(rng, x, target, 1.0, 1.0, smooth, False) for target in targets]
    risk, _ = pieces.as_risk(rng, blocks, False)

    def value(z: Array) -> float:
        return sum(block(z)[0] for block in blocks)

    def terms(z: Array) -> float:
        return sum(block.terms(z) for block in blocks)

    known = problems.known("damaged", x, 1.0, 1.0, region, penalty, risk, value, terms, False, smooth)
    return known, blocks


def _at(call: int, answer: Callable[[Answer], Answer], ever_after: bool) -> Damage:
    def damage(oracle: Oracle, rng: Rng, n: int) -> Oracle:
        count = 0

        def damaged(x: Array) -> Answer:
            nonlocal count
            count += 1
            hit = count >= call if ever_after else count == call
            return answer(oracle(x)) if hit else oracle(x)

        return damaged

    return damage


def _raise(answer: Answer) -> Answer:
    raise ZeroDivisionError("the oracle has failed")


def _sometimes(answer: Callable[[Answer], Answer]) -> Damage:
    """The answer is damaged at a random call, or from there on."""

    def damage(oracle: Oracle, rng: Rng, n: int) -> Oracle:
        return _at(int(rng.integers(1, 7)), answer, chance(rng, 0.5))(oracle, rng, n)

    return damage


def _not_a_number(oracle: Oracle, rng: Rng, n: int) -> Oracle:
    bad = float(rng.choice([np.nan, np.inf, -np.inf]))
    if chance(rng, 0.5):
        return _sometimes(lambda answer: (bad, answer[1]))(oracle, rng, n)
    return _sometimes(lambda answer: (answer[0], answer[1] * bad))(oracle, rng, n)


def _shape(oracle: Oracle, rng: Rng, n: int) -> Oracle:
    wrong = [
        lambda answer: (answer[0], np.append(answer[1], 0.0)),
        lambda answer: (answer[0], answer[1][:-1]),
        lambda answer: (np.array([answer[0], answer[0]]), answer[1]),
        lambda answer: (answer[0], answer[1][np.newaxis, np.newaxis]),
        lambda answer: answer[0],
        lambda answer: (*answer, answer[0]),
    ]
    return _sometimes(wrong[int(rng.integers(len(wrong)))])(oracle, rng, n)


def _type(oracle: Oracle, rng: Rng, n: int) -> Oracle:
    wrong = [
        lambda answer: None,
        lambda answer: (None, answer[1]),
        lambda answer: (answer[0], None),
        lambda answer: ("high", answer[1]),
        lambda answer: (answer[0], ["a"] * len(answer[1])),
        lambda answer: (answer[0] + 1j, answer[1]),
        lambda answer: (answer[0], answer[1] + 1j),
    ]
    return _sometimes(wrong[int(rng.integers(len(wrong)))])(oracle, rng, n)


def _slopes(change: Callable[[Array, Rng], Array]) -> Damage:
    def damage(oracle: Oracle, rng: Rng, n: int) -> Oracle:
        def damaged(x: Array) -> Answer:
            value, slope = oracle(x)
            return value, change(slope, rng)

        return damaged

    return damage


def _one_coordinate(oracle: Oracle, rng: Rng, n: int) -> Oracle:
    j, factor = int(rng.integers(n)), float(rng.choice([-1.0, 0.0, 3.0]))
    scale = np.where(np.arange(n) == j, factor, 1.0)
    return _slopes(lambda slope, _: slope * scale)(oracle, rng, n)


def _constant(oracle: Oracle, rng: Rng, n: int) -> Oracle:
    shift = dyadic(rng, n)
    return _slopes(lambda slope, _: slope + shift)(oracle, rng, n)


def _values(change: Callable[[Rng], float]) -> Damage:
    def damage(oracle: Oracle, rng: Rng, n: int) -> Oracle:
        def damaged(x: Array) -> Answer:
            value, slope = oracle(x)
            return value + change(rng), slope

        return damaged

    return damage


def _mutates(oracle: Oracle, rng: Rng, n: int) -> Oracle:
    force = chance(rng, 0.5)

    def damaged(x: Array) -> Answer:
        answer = oracle(x)
        if force:
            x.flags.writeable = True
        x *= 0.5
        return answer

    return damaged


def _buffer(oracle: Oracle, rng: Rng, n: int) -> Oracle:
    slope = np.empty(n)

    def damaged(x: Array) -> Answer:
        value, slope[:] = oracle(x)
        return value, slope

    return damaged


FAULTS: dict[str, tuple[Damage, float, float]] = {
    "raises": (_sometimes(_raise), 0.0, 0.0),
    "not finite": (_not_a_number, 0.0, 0.0),
    "wrong shape": (_shape, 0.0, 0.0),
    "wrong type": (_type, 0.0, 0.0),
    "sign": (_slopes(lambda s, rng: -s), 0.0, 0.0),
    "one coordinate": (_one_coordinate, 0.0, 0.0),
    "slope x 2": (_slopes(lambda s, rng: 2.0 * s), 0.0, 0.0),
    "slope x 0": (_slopes(lambda s, rng: 0.0 * s), 0.0, 0.0),
    "slope + constant": (_constant, 0.0, 0.0),
    "slope noise 1e-3": (_slopes(lambda s, rng: s + 1e-3 * rng.normal(size=s.shape)), 0.0, 6e-3),
    "slope noise 1e-6": (_slopes(lambda s, rng: s + 1e-6 * rng.normal(size=s.shape)), 0.0, 6e-6),
    "value +-0.1": (_values(lambda rng: 0.1 * float(rng.choice([-1.0, 1.0]))), 0.25, 0.0),
    "value noise 1e-2": (_values(lambda rng: 1e-2 * rng.normal()), 6e-2, 0.0),
    "mutates": (_mutates, 0.0, 0.0),
    "buffer": (_buffer, 0.0, 0.0),
    "mini-batch": (None, 0.0, 0.0),
}
"""The damage, and how far answers may be off because of it: a constant, and per unit of distance."""


def _damaged(rng: Rng, known: Known, blocks: list[pieces.Block], fault: str, queries: list[Array]) -> tuple:
    """The damaged problem, the objective by whose minimum it is judged, and the errors allowed."""
    n, problem, objective = len(known.x), known.problem, known.value

    def honest(x: Array) -> Answer:
        queries.append(np.array(x))
        answers = [block(x) for block in blocks]
        return sum(value for value, _ in answers), sum(slope for _, slope in answers)

    oracle, feasible_set, slack = honest, problem.feasible_set, (0.0, 0.0)
    if fault == "mini-batch":
        parts = [*blocks, *blocks]

        def oracle(x: Array) -> Answer:
            queries.append(np.array(x))
            c = rng.multinomial(len(parts), np.full(len(parts), 1.0 / len(parts))) * 0.5
            answers = [part(x) for part in parts]
            values = sum(w * value for w, (value, _) in zip(c, answers, strict=True))
            return values, sum(w * slope for w, (_, slope) in zip(c, answers, strict=True))

        if len(blocks) == 1:
            oracle = _values(lambda rng: float(rng.normal()))(honest, rng, n)
    elif fault == "not convex":
        height = 4.0

        def oracle(x: Array) -> Answer:
            value, slope = honest(x)
            step = x - known.x
            bump = 1.0 + step @ step
            return value - height * np.log(bump), slope - 2.0 * height * step / bump

        def objective(x: Array) -> float:
            return known.value(x) - height * float(np.log(1.0 + np.sum((x - known.x) ** 2)))

    elif fault == "half-space":
        offset = float(rng.choice([0.0, 1.0, 3.0]))

        @cut.separation_oracle
        def nonsense(x: Array) -> Any:
            normal = np.ones(n) if np.linalg.norm(x) == 0.0 else x / np.linalg.norm(x)
            return None if np.sum(np.abs(x)) < 0.3 else cut.HalfSpace(normal, normal @ x + offset)

        feasible_set, slack = feasible_set & nonsense, (np.inf, np.inf)
    else:
        damage, *slack = FAULTS[fault]
        oracle = damage(honest, rng, n)
    risk = cut.OracleRisk(oracle, n)
    return cut.Problem(risk, problem.regularizer, feasible_set), objective, tuple(slack)


def _harm(
    known: Known, result: Any, objective: Callable[[Array], float], slack: tuple, queries: list, tol: float
) -> list[str]:
    """Say what is wrong with an answer that is called optimal, by more than the tolerance and the noise."""
    if result.status is not Status.OPTIMAL:
        return []
    reach = max((float(np.linalg.norm(query - known.x)) for query in queries), default=0.0)
    allowed = slack[0] + slack[1] * max(reach, 1.0) + 1e-9 + tol * abs(known.optimum)
    allowed += 1e-5 * known.terms(known.x)  # differences over a step of 1e-3 that an error of 1e-8 hides
    best = objective(known.x)
    failures = []
    if result.lower_bound > best + allowed:
        failures.append(
            f"wrong and OPTIMAL: lower bound {result.lower_bound:.6g}, optimum at most {best:.6g}"
        )
    separators = result.certificate.problem.separators
    if any(len(separator.separate(np.asarray(result.x))) for separator in separators):
        failures.append("wrong and OPTIMAL: x is outside, says the oracle")
    here = objective(np.asarray(result.x))
    if abs(result.objective - here) > allowed:
        failures.append(f"wrong and OPTIMAL: objective {result.objective:.6g} at x, where it is {here:.6g}")
    return failures[:1]
