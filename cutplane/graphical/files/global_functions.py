"""Cost functions of many variables that a file defines by a keyword, such as "all different"."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
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
_METRICS = "hard", "lin", "quad"
_ENDS = "initial", "final"


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

    def interval(self) -> tuple[int, int]:
        """Read two bounds."""
        return self.given.count("the lower bound"), self.given.count("the upper bound")

    def penalty(self, metrics: Sequence[str] = _METRICS) -> Callable[[float], float]:
        """Read a kind of penalty and a cost; return the penalty as a function of the violation.

        "hard" is the cost of any violation, "quad" grows with the square, all others grow linearly.
        """
        metric, cost = self.given.choice("a kind of penalty", metrics), self.given.cost("a cost")
        power = {"hard": 0, "quad": 2}.get(metric, 1)
        return lambda violation: cost * violation**power if violation > 0 else 0.0

    def comparison(self) -> Callable[[float, float], float]:
        """Read a penalty and a comparator; return the penalty as a function of the two sides."""
        penalty, compare = self.penalty(), COMPARATORS[self.given.choice("a comparator", tuple(COMPARATORS))]
        return lambda total, to: penalty(compare(total, to))

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

    def add_pairs(self, cost: Callable[[int, int], float]) -> None:
        """Add a function of each pair of variables."""
        for pair in combinations(self.scope, 2):
            n, m = self.builder.shape(pair)
            self.builder.add(pair, np.array([self.limited(cost(x, y)) for x in range(n) for y in range(m)]))

    def add_counts(
        self,
        bounds: Iterable[Sequence[int]],
        cost: Callable[..., float],
        scope: Sequence[int] | None = None,
    ) -> None:
        """Add a cost for each value, of the lack and the excess of its number of occurrences.

        The rows of `bounds` are the value, its bounds, and further arguments of `cost`.
        """
        for value, low, high, *more in bounds:
            self.add(
                lambda _, n, x, value=value: n + (x == value),
                lambda n, low=low, high=high, more=more: cost(low - n, n - high, *more),
                scope,
            )

    def add_same(self, first: Sequence[int], second: Sequence[int], cost: Callable[[int], float]) -> None:
        """Add a cost for each value, of the difference of its numbers of occurrences in two lists."""
        n = len(first)
        if len(second) != n or len({*first, *second}) != 2 * n:
            self.given.fail("the two lists must have the same number of variables, without repetitions")
        for value in self.values:
            self.add(
                lambda i, excess, x, value=value: excess + (x == value) * (1 if i < n else -1),
                cost,
                (*first, *second),
            )

    def add_runs(
        self, n: int, start: dict[int, float], end: dict[int, float], steps: Iterable[tuple[Any, ...]]
    ) -> None:
        """Add the least cost of a run of an automaton with n states, with steps (from, value, to, cost)."""
        arcs: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
        for before, x, after, cost in steps:
            arcs[before, x].append((after, self.limited(cost)))
        for state in (*start, *end, *(state for s, x in arcs for state in (s, *(t for t, _ in arcs[s, x])))):
            if not 0 <= state < n:
                self.given.fail(f"the automaton has {n} states, numbered from 0; there is no state {state}")
        self.builder.add_automaton(
            self.scope,
            Automaton(
                {s: self.limited(cost) for s, cost in start.items()},
                lambda _, s, x: arcs.get((s, x), ()),
                lambda s: self.limited(end[s]) if s in end else math.inf,
            ),
        )


def _differ(f: FunctionRequest, penalty: Callable[[float], float], in_pairs: bool = False) -> None:
    if in_pairs or f.limited(penalty(1)) == math.inf:
        f.add_pairs(lambda x, y: penalty(x == y))
    else:
        f.add_counts(((value, 0, 1) for value in f.values), lambda _, excess: penalty(max(excess, 0)))


def _soft_all_different(f: FunctionRequest) -> None:
    metric, cost = f.given.choice("a kind of penalty", ("var", "dec", "decbi")), f.given.cost("a cost")
    _differ(f, lambda violation: cost * violation, metric != "var")


def _cardinalities(f: FunctionRequest, metrics: Sequence[str] = _METRICS) -> None:
    penalty, bounds = f.penalty(metrics), f.given.rows("the values and their bounds", "iii")
    f.add_counts(bounds, lambda lack, excess: penalty(max(lack, excess)))


def _soft_cardinalities(f: FunctionRequest) -> None:
    metric, cost = f.given.choice("a kind of penalty", ("var", "dec", "wdec")), f.given.cost("a cost")
    rows = f.given.rows("the values and their bounds", "iiicc" if metric == "wdec" else "iii")
    if metric == "var" and f.limited(cost) < math.inf:
        f.given.fail("a finite cost for each variable to change is not supported here; use 'dec'")
    f.add_counts(rows, lambda lack, excess, a=cost, b=cost: a * max(lack, 0) + b * max(excess, 0))


def _among(f: FunctionRequest, metrics: Sequence[str] = _METRICS, bounds_first: bool = False) -> None:
    penalty, bounds = f.penalty(metrics), f.interval() if bounds_first else None
    values = set(f.given.rows("the values", "i"))
    low, high = bounds or f.interval()
    f.add(lambda _, n, x: n + (x in values), lambda n: penalty(max(low - n, n - high)))


def _variable_among(f: FunctionRequest) -> None:
    penalty, values, last = f.penalty(), set(f.given.rows("the values", "i")), len(f.scope) - 1
    f.add(lambda i, n, x: n + (x in values) if i < last else n - x, lambda n: penalty(abs(n)))


def _soft_same(f: FunctionRequest) -> None:
    cost = f.given.cost("a cost")
    f.add_same(*f.given.halves(), lambda excess: cost * max(excess, 0))


def _same(f: FunctionRequest, bounded: bool = False) -> None:
    penalty, half = f.penalty(), len(f.scope) // 2
    halves = f.scope[:half], f.scope[half:]
    bounds = f.given.rows("the values and their bounds", "iii") if bounded else []
    f.add_same(*halves, lambda excess: penalty(abs(excess)))
    for part in halves:
        f.add_counts(bounds, lambda lack, excess: penalty(max(lack, excess)), part)


def _overlap(f: FunctionRequest) -> None:
    penalty, to, half = f.comparison(), f.given.count("the right-hand side"), len(f.scope) // 2
    if len(f.scope) % 2:
        f.given.fail("the scope must be two sequences of the same length")

    def step(i: int, state: tuple[int, int], x: int) -> tuple[int, int]:
        count, before = state
        return (count, x) if i % 2 == 0 else (count + (x == before != 0), 0)

    pairs = [u for pair in zip(f.scope[:half], f.scope[half:], strict=True) for u in pair]
    f.add(step, lambda state: penalty(state[0], to), pairs, start=(0, 0))


def _sum(f: FunctionRequest) -> None:
    penalty, to = f.comparison(), f.given.count("the right-hand side")
    f.add(lambda _, total, x: total + x, lambda total: penalty(total, to))


def _variable_sum(f: FunctionRequest) -> None:
    penalty, last = f.comparison(), len(f.scope) - 1
    f.add(lambda i, total, x: total + x if i < last else total - x, lambda total: penalty(total, 0))


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
    start, end = (dict.fromkeys(f.given.rows(f"the {which} states", "i"), 0.0) for which in _ENDS)
    steps = f.given.rows("the transitions", "iii")
    f.add_runs(n, start, end, ((s, x, t, cost * (x != y)) for s, y, t in steps for x in f.values))


def _regular(f: FunctionRequest) -> None:
    n = f.given.count("the number of states")
    start, end = (dict(f.given.rows(f"the {which} states", "ic")) for which in _ENDS)
    f.add_runs(n, start, end, f.given.rows("the transitions", "iiic"))


def _clique(f: FunctionRequest) -> None:
    most = f.given.count("the largest number of variables")
    values = [set(f.given.rows("the values of a variable", "i")) for _ in f.scope]
    f.add(lambda i, n, x: n + (x in values[i]), lambda n: 0.0 if n <= most else math.inf)


def _knapsack(f: FunctionRequest, read: Callable[[FunctionRequest], list[dict[int, int]]]) -> None:
    """Require that a sum of integer weights, of the states of each variable, is at least the capacity."""
    capacity, weights = f.given.count("the capacity"), read(f)
    rows = [[w.get(x, 0) for x in range(k)] for w, k in zip(weights, f.builder.shape(f.scope), strict=True)]
    most, least = list(map(max, rows)), list(map(min, rows))

    def step(i: int, missing: float, x: int) -> float:
        missing -= rows[i][x]
        if missing > sum(most[i + 1 :]):
            return math.inf
        return missing if missing > sum(least[i + 1 :]) else -math.inf

    f.add(step, lambda missing: math.inf if missing > 0 else 0.0, start=capacity)


def _weights_by_tuples(f: FunctionRequest) -> list[dict[int, int]]:
    weights: dict[int, dict[int, int]] = {u: {} for u in f.scope}
    for u, x, weight in f.given.rows("the variables, values and weights", "iii"):
        if u not in weights:
            f.given.fail(f"the weight of the variable {u} is given, but the scope is {f.scope}")
        weights[u][x] = weight
    return list(weights.values())


def _threshold(f: FunctionRequest, excess: Callable[[int, int, int], int]) -> None:
    shift, most = f.given.count("a constant"), f.given.count("the largest cost")

    def cost(x: int, y: int) -> float:
        violation = max(excess(x, y, shift), 0)
        return violation if violation <= most else math.inf

    f.add_pairs(cost)


def _disjunction(f: FunctionRequest) -> None:
    a, b, cost = f.given.count("a constant"), f.given.count("a constant"), f.given.cost("a penalty")
    f.add_pairs(lambda x, y: 0.0 if x >= y + b or y >= x + a else cost)


def _special_disjunction(f: FunctionRequest) -> None:
    a, b, most_x, most_y = (f.given.count("a constant") for _ in range(4))
    cost_x, cost_y = f.given.cost("a cost"), f.given.cost("a cost")

    def cost(x: int, y: int) -> float:
        apart = x >= y + b or y >= x + a
        if x > most_x or y > most_y or (x < most_x and y < most_y and not apart):
            return math.inf
        return cost_x * (x == most_x) + cost_y * (y == most_y)

    f.add_pairs(cost)


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
    "knapsack": lambda f: _knapsack(f, lambda f: [{1: f.given.count("a weight")} for _ in f.scope]),
    "knapsackp": lambda f: _knapsack(
        f, lambda f: [dict(f.given.rows("the values and weights of a variable", "ii")) for _ in f.scope]
    ),
    "knapsackv": lambda f: _knapsack(f, _weights_by_tuples),
    "max": _largest,
    "salldiff": _soft_all_different,
    "salldiffdp": lambda f: _differ(f, f.penalty(("var",))),
    "samong": lambda f: _among(f, ("var",), bounds_first=True),
    "samongdp": lambda f: _among(f, ("var",), bounds_first=True),
    "sgcc": _soft_cardinalities,
    "sgccdp": lambda f: _cardinalities(f, ("var",)),
    "smaxdp": _largest,
    "sregular": _soft_regular,
    "sregulardp": _soft_regular,
    "ssame": _soft_same,
    "walldiff": lambda f: _differ(f, f.penalty()),
    "wamong": _among,
    "wgcc": _cardinalities,
    "woverlap": _overlap,
    "wregular": _regular,
    "wsame": _same,
    "wsamegcc": lambda f: _same(f, bounded=True),
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
