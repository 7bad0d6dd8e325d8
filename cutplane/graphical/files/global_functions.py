"""Cost functions of many variables that a file defines by a keyword, such as "all different"."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from itertools import combinations
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np

from cutplane.graphical.files.builder import Automaton, ModelBuilder

COMPARATORS: dict[str, Callable[[float, float], float]] = {
    "==": lambda total, to: abs(to - total),
    "<=": lambda total, to: max(0.0, total - to),
    "<": lambda total, to: max(0.0, total - to + 1),
    "!=": lambda total, to: float(total == to),
    ">": lambda total, to: max(0.0, to - total + 1),
    ">=": lambda total, to: max(0.0, to - total),
}
"""The amount by which a sum of integers violates a comparison."""


class Parameters(Protocol):
    """The parameters of a cost function, in the order of its keyword."""

    def choice(self, what: str, words: Sequence[str]) -> str:
        """Read one of some words."""
        ...

    def cost(self, what: str) -> float:
        """Read a number."""
        ...

    def count(self, what: str) -> int:
        """Read an integer."""
        ...

    def rows(self, what: str, kinds: str) -> list[Any]:
        """Read a list of rows, with an integer for each "i" and a number for each "c" in `kinds`.

        A row of one integer is that integer.
        """
        ...

    def halves(self) -> tuple[Sequence[int], Sequence[int]]:
        """Read two lists of variables of the scope."""
        ...

    def fail(self, reason: str) -> NoReturn:
        """Raise an error that names the file and the line."""
        ...


class FunctionRequest(NamedTuple):
    """A cost function that a file defines by a keyword.

    Attributes
    ----------
    builder : ModelBuilder
        The model to which it is added.
    scope : tuple of int
    given : Parameters
    limited : callable
        Returns a cost, or inf if the file forbids such a large cost.
    """

    builder: ModelBuilder
    scope: tuple[int, ...]
    given: Parameters
    limited: Callable[[float], float]

    @property
    def values(self) -> range:
        """The states that some of the variables have."""
        return range(max(self.builder.shape(self.scope), default=0))

    def add(
        self,
        step: Callable[[int, Any, int], Hashable],
        end: Callable[[Any], float],
        scope: Sequence[int] | None = None,
        start: Hashable = 0,
    ) -> None:
        """Add a function of the final state of a deterministic automaton."""
        self.builder.add_automaton(
            self.scope if scope is None else scope,
            Automaton({start: 0.0}, lambda i, s, x: [(step(i, s, x), 0.0)], lambda s: self.limited(end(s))),
        )

    def add_pair(self, u: int, v: int, cost: Callable[[int, int], float]) -> None:
        """Add a function of two variables."""
        n, m = self.builder.shape((u, v))
        table = [[self.limited(cost(x, y)) for y in range(m)] for x in range(n)]
        self.builder.add((u, v), np.array(table))

    def add_counts(
        self,
        bounds: Sequence[tuple[int, int, int]],
        penalty: Callable[[float], float],
        scope: Sequence[int] | None = None,
    ) -> None:
        """Penalise each value whose number of occurrences is outside its bounds."""
        for value, low, high in bounds:
            self.add(
                lambda _, count, x, value=value: count + (x == value),
                lambda count, low=low, high=high: penalty(max(low - count, count - high, 0)),
                scope,
            )

    def add_same(self, first: Sequence[int], second: Sequence[int], cost: Callable[[int], float]) -> None:
        """Penalise each value by the difference of its numbers of occurrences in two lists of variables."""
        n = len(first)
        if len(second) != n or len({*first, *second}) != 2 * n:
            self.given.fail("the two lists must have the same number of variables, without repetitions")
        for value in self.values:
            self.add(
                lambda i, excess, x, value=value: excess + (x == value) * (1 if i < n else -1),
                cost,
                (*first, *second),
            )

    def penalty(self, metrics: Sequence[str] = ("hard", "lin", "quad")) -> Callable[[float], float]:
        """Read a kind of penalty and a cost; return the penalty as a function of the violation.

        "hard" is the cost of any violation, "quad" grows with the square, all others grow linearly.
        """
        metric, cost = self.given.choice("a kind of penalty", metrics), self.given.cost("a cost")
        power = {"hard": 0, "quad": 2}.get(metric, 1)
        return lambda violation: cost * violation**power if violation else 0.0


def _all_different(f: FunctionRequest, metrics: Sequence[str] = ("hard", "lin", "quad")) -> None:
    penalty = f.penalty(metrics)
    if f.limited(penalty(1)) == math.inf:
        for u, v in combinations(f.scope, 2):
            f.add_pair(u, v, lambda x, y: penalty(x == y))
    else:
        f.add_counts([(value, 0, 1) for value in f.values], penalty)


def _soft_all_different(f: FunctionRequest) -> None:
    metric, cost = f.given.choice("a kind of penalty", ("var", "dec", "decbi")), f.given.cost("a cost")
    if metric == "var" and f.limited(cost) < math.inf:
        f.add_counts([(value, 0, 1) for value in f.values], lambda violation: cost * violation)
        return
    for u, v in combinations(f.scope, 2):
        f.add_pair(u, v, lambda x, y: cost * (x == y))


def _cardinalities(f: FunctionRequest, metrics: Sequence[str] = ("hard", "lin", "quad")) -> None:
    penalty = f.penalty(metrics)
    f.add_counts(f.given.rows("the values and their bounds", "iii"), penalty)


def _soft_cardinalities(f: FunctionRequest) -> None:
    metric, cost = f.given.choice("a kind of penalty", ("var", "dec", "wdec")), f.given.cost("a cost")
    rows = f.given.rows("the values and their bounds", "iiicc" if metric == "wdec" else "iii")
    if metric == "var" and f.limited(cost) < math.inf:
        f.given.fail("a finite cost for each variable to change is not supported here; use 'dec'")
    for value, low, high, *weights in rows:
        lack, excess = weights or (cost, cost)
        f.add(
            lambda _, count, x, value=value: count + (x == value),
            lambda n, low=low, high=high, lack=lack, excess=excess: (
                lack * max(low - n, 0) + excess * max(n - high, 0)
            ),
        )


def _among(f: FunctionRequest) -> None:
    penalty, values = f.penalty(), set(f.given.rows("the values", "i"))
    low, high = f.given.count("the lower bound"), f.given.count("the upper bound")
    f.add(lambda _, count, x: count + (x in values), lambda n: penalty(max(low - n, n - high, 0)))


def _soft_among(f: FunctionRequest) -> None:
    penalty = f.penalty(("var",))
    low, high = f.given.count("the lower bound"), f.given.count("the upper bound")
    values = set(f.given.rows("the values", "i"))
    f.add(lambda _, count, x: count + (x in values), lambda n: penalty(max(low - n, n - high, 0)))


def _variable_among(f: FunctionRequest) -> None:
    penalty, values, last = f.penalty(), set(f.given.rows("the values", "i")), len(f.scope) - 1
    f.add(lambda i, n, x: n + (x in values) if i < last else n - x, lambda n: penalty(abs(n)))


def _soft_same(f: FunctionRequest) -> None:
    cost = f.given.cost("a cost")
    f.add_same(*f.given.halves(), lambda excess: cost * max(excess, 0))


def _same(f: FunctionRequest) -> None:
    penalty, half = f.penalty(), len(f.scope) // 2
    f.add_same(f.scope[:half], f.scope[half:], lambda excess: penalty(abs(excess)))


def _same_cardinalities(f: FunctionRequest) -> None:
    penalty, half = f.penalty(), len(f.scope) // 2
    bounds = f.given.rows("the values and their bounds", "iii")
    f.add_same(f.scope[:half], f.scope[half:], lambda excess: penalty(abs(excess)))
    for part in (f.scope[:half], f.scope[half:]):
        f.add_counts(bounds, penalty, part)


def _overlap(f: FunctionRequest) -> None:
    penalty, compare = f.penalty(), COMPARATORS[f.given.choice("a comparator", tuple(COMPARATORS))]
    to, half = f.given.count("the right-hand side"), len(f.scope) // 2
    if len(f.scope) % 2:
        f.given.fail("the scope must be two sequences of the same length")
    pairs = [u for pair in zip(f.scope[:half], f.scope[half:], strict=True) for u in pair]

    def step(i: int, state: tuple[int, int], x: int) -> tuple[int, int]:
        count, before = state
        return (count, x) if i % 2 == 0 else (count + (x == before != 0), 0)

    f.add(step, lambda state: penalty(compare(state[0], to)), pairs, start=(0, 0))


def _sum(f: FunctionRequest) -> None:
    penalty, compare = f.penalty(), COMPARATORS[f.given.choice("a comparator", tuple(COMPARATORS))]
    to = f.given.count("the right-hand side")
    f.add(lambda _, total, x: total + x, lambda total: penalty(compare(total, to)))


def _variable_sum(f: FunctionRequest) -> None:
    penalty, compare = f.penalty(), COMPARATORS[f.given.choice("a comparator", tuple(COMPARATORS))]
    last = len(f.scope) - 1
    f.add(lambda i, total, x: total + x if i < last else total - x, lambda total: penalty(compare(total, 0)))


def _largest(f: FunctionRequest) -> None:
    default = f.given.cost("a default cost")
    costs = {(u, x): cost for u, x, cost in f.given.rows("the variables, values and costs", "iic")}
    f.add(
        lambda i, largest, x: max(largest, costs.get((f.scope[i], x), default)),
        lambda largest: largest,
        start=-math.inf,
    )


def _soft_regular(f: FunctionRequest) -> None:
    f.given.choice("a kind of penalty", ("var",))
    cost, n = f.given.cost("a cost"), f.given.count("the number of states")
    start, end = f.given.rows("the initial states", "i"), set(f.given.rows("the final states", "i"))
    steps = f.given.rows("the transitions", "iii")
    _check_states(f, n, [*start, *end, *(s for step in steps for s in step[::2])])
    f.builder.add_automaton(
        f.scope,
        Automaton(
            dict.fromkeys(start, 0.0),
            lambda _, s, x: [(t, f.limited(cost * (x != y))) for s0, y, t in steps if s0 == s],
            lambda s: 0.0 if s in end else math.inf,
        ),
    )


def _regular(f: FunctionRequest) -> None:
    n = f.given.count("the number of states")
    start, end = (dict(f.given.rows(f"the {which} states", "ic")) for which in ("initial", "final"))
    steps = f.given.rows("the transitions", "iiic")
    _check_states(f, n, [*start, *end, *(s for step in steps for s in step[:3:2])])
    f.builder.add_automaton(
        f.scope,
        Automaton(
            {s: f.limited(cost) for s, cost in start.items()},
            lambda _, s, x: [(t, f.limited(cost)) for s0, y, t, cost in steps if (s0, y) == (s, x)],
            lambda s: f.limited(end[s]) if s in end else math.inf,
        ),
    )


def _check_states(f: FunctionRequest, n: int, states: Sequence[int]) -> None:
    for state in states:
        if not 0 <= state < n:
            f.given.fail(f"the automaton has {n} states, numbered from 0; there is no state {state}")


def _clique(f: FunctionRequest) -> None:
    most = f.given.count("the largest number of variables")
    values = [set(f.given.rows("the values of a variable", "i")) for _ in f.scope]
    f.add(lambda i, n, x: n + (x in values[i]), lambda n: 0.0 if n <= most else math.inf)


def _knapsack(f: FunctionRequest, weights: list[dict[int, int]], capacity: int) -> None:
    """Require that a sum of integer weights is at least the capacity."""
    most = [
        max(w.get(x, 0) for x in range(k)) for w, k in zip(weights, f.builder.shape(f.scope), strict=True)
    ]
    least = [
        min(w.get(x, 0) for x in range(k)) for w, k in zip(weights, f.builder.shape(f.scope), strict=True)
    ]

    def step(i: int, missing: float, x: int) -> float:
        missing -= weights[i].get(x, 0)
        if missing > sum(most[i + 1 :]):
            return math.inf
        return missing if missing > sum(least[i + 1 :]) else -math.inf

    f.add(step, lambda missing: math.inf if missing > 0 else 0.0, start=capacity)


def _binary_knapsack(f: FunctionRequest) -> None:
    capacity = f.given.count("the capacity")
    _knapsack(f, [{1: f.given.count("a weight")} for _ in f.scope], capacity)


def _knapsack_by_variables(f: FunctionRequest) -> None:
    capacity = f.given.count("the capacity")
    _knapsack(
        f, [dict(f.given.rows("the values and weights of a variable", "ii")) for _ in f.scope], capacity
    )


def _knapsack_by_tuples(f: FunctionRequest) -> None:
    capacity = f.given.count("the capacity")
    weights: list[dict[int, int]] = [{} for _ in f.scope]
    for u, x, weight in f.given.rows("the variables, values and weights", "iii"):
        if u not in f.scope:
            f.given.fail(f"the weight of the variable {u} is given, but the scope is {f.scope}")
        weights[f.scope.index(u)][x] = weight
    _knapsack(f, weights, capacity)


def _threshold(f: FunctionRequest, excess: Callable[[int, int, int], int]) -> None:
    shift, most = f.given.count("a constant"), f.given.count("the largest cost")

    def cost(x: int, y: int) -> float:
        violation = max(excess(x, y, shift), 0)
        return violation if violation <= most else math.inf

    f.add_pair(f.scope[0], f.scope[1], cost)


def _disjunction(f: FunctionRequest) -> None:
    a, b, cost = f.given.count("a constant"), f.given.count("a constant"), f.given.cost("a penalty")
    f.add_pair(f.scope[0], f.scope[1], lambda x, y: 0.0 if x >= y + b or y >= x + a else cost)


def _special_disjunction(f: FunctionRequest) -> None:
    a, b, most_x, most_y = (f.given.count("a constant") for _ in range(4))
    cost_x, cost_y = f.given.cost("a cost"), f.given.cost("a cost")

    def cost(x: int, y: int) -> float:
        apart = x >= y + b or y >= x + a
        if x > most_x or y > most_y or (x < most_x and y < most_y and not apart):
            return math.inf
        return cost_x * (x == most_x) + cost_y * (y == most_y)

    f.add_pair(f.scope[0], f.scope[1], cost)


BINARY: dict[str, Callable[[FunctionRequest], None]] = {
    ">=": lambda f: _threshold(f, lambda x, y, c: y + c - x),
    ">": lambda f: _threshold(f, lambda x, y, c: y + c + 1 - x),
    "<=": lambda f: _threshold(f, lambda x, y, c: x - c - y),
    "<": lambda f: _threshold(f, lambda x, y, c: x - c + 1 - y),
    "=": lambda f: _threshold(f, lambda x, y, c: abs(y + c - x)),
    "disj": _disjunction,
    "sdisj": _special_disjunction,
}
"""Cost functions of two variables."""
GLOBAL: dict[str, Callable[[FunctionRequest], None]] = {
    "clique": _clique,
    "knapsack": _binary_knapsack,
    "knapsackp": _knapsack_by_variables,
    "knapsackv": _knapsack_by_tuples,
    "max": _largest,
    "salldiff": _soft_all_different,
    "salldiffdp": lambda f: _all_different(f, ("var",)),
    "samong": _soft_among,
    "samongdp": _soft_among,
    "sgcc": _soft_cardinalities,
    "sgccdp": lambda f: _cardinalities(f, ("var",)),
    "smaxdp": _largest,
    "sregular": _soft_regular,
    "sregulardp": _soft_regular,
    "ssame": _soft_same,
    "walldiff": _all_different,
    "wamong": _among,
    "wgcc": _cardinalities,
    "woverlap": _overlap,
    "wregular": _regular,
    "wsame": _same,
    "wsamegcc": _same_cardinalities,
    "wsum": _sum,
    "wvaramong": _variable_among,
    "wvarsum": _variable_sum,
}
"""Cost functions of any number of variables."""


def add_function(request: FunctionRequest, keyword: str) -> None:
    """Add the cost function of a keyword.

    Costs of functions that count occurrences of several values are limited for each value.
    """
    if keyword in BINARY:
        if len(request.scope) != 2:
            request.given.fail(f"the cost function {keyword!r} has 2 variables, not {len(request.scope)}")
        BINARY[keyword](request)
    elif keyword in GLOBAL:
        GLOBAL[keyword](request)
    else:
        request.given.fail(
            f"the cost function {keyword!r} is not supported; define it in extension, by tuples of states "
            f"and their costs, or use one of {', '.join([*BINARY, *GLOBAL])}"
        )
