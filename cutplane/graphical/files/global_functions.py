"""Cost functions of many variables that a file defines by a keyword, such as "all different"."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NoReturn

import numpy as np

from cutplane.graphical.files.builder import ModelBuilder


class KeywordFunction:
    """A cost function that a file defines by a keyword; its parameters are read in their order.

    It is added to the model of `builder`; costs of at least `bound` are forbidden.
    """

    def __init__(self, builder: ModelBuilder, scope: Sequence[int], bound: float) -> None:
        self.builder, self.scope, self.bound = builder, tuple(scope), bound

    def read(self, kind: str, what: str) -> Any:
        """Read the next parameter: a word ("w"), an integer ("i"), a cost ("c"), or a variable ("v")."""
        raise NotImplementedError

    def length(self, what: str, width: int = 1) -> int:
        """Begin to read a list, and return the number of its rows."""
        raise NotImplementedError

    def fail(self, reason: str) -> NoReturn:
        """Raise an error that names the file and the line."""
        raise NotImplementedError

    def rows(self, what: str, kinds: str) -> list[Any]:
        """Read a list of rows with parameters of these kinds; a row of one parameter is this parameter."""
        rows = [
            tuple([self.read(kind, "a cost" if kind == "c" else what) for kind in kinds])
            for _ in range(self.length(what, len(kinds)))
        ]
        return rows if len(kinds) > 1 else [value for (value,) in rows]

    def halves(self) -> tuple[list[int], list[int]]:
        """Read two lists of variables."""
        return self.rows("a list of variables", "v"), self.rows("a list of variables", "v")

    def parameters(self, signature: str) -> list[Any]:
        """Read parameters: integers, costs, one of some words ("|a|b"), and rows ("name:kinds").

        A parameter with a star is given for each variable.
        """
        return [
            [self._parameter(part[:-1]) for _ in self.scope] if part[-1] == "*" else self._parameter(part)
            for part in signature.split()
        ]

    def _parameter(self, part: str) -> Any:
        name, _, kinds = part.partition(":")
        what = f"the {name.replace('_', ' ')}"
        if kinds:
            return self.rows(what, kinds)
        if name[0] != "|":
            return self.read("c" if name.endswith("cost") else "i", what)
        words = name[1:].split("|")
        what = f"one of {', '.join(words)}"
        word = self.read("w", what)
        if word not in words:
            self.fail(f"expected {what}, got {word!r}")
        return word

    def limited(self, cost: float) -> float:
        """Return a cost, or inf if the file forbids such a large cost."""
        return math.inf if cost >= self.bound else float(cost)

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
            {start: 0.0},
            lambda i, s, x: [(step(i, s, x), 0.0)],
            lambda s: self.limited(end(s)),
        )

    def add_pairs(self, cost: Callable[[int, int], float]) -> None:
        """Add a function of each pair of variables."""
        for pair in combinations(self.scope, 2):
            n, m = self.builder.shape(pair)
            self.builder.add(pair, np.array([self.limited(cost(x, y)) for x in range(n) for y in range(m)]))

    def add_counts(
        self, rows: Iterable[Sequence[int]], cost: Callable[..., float], scope: Sequence[int] | None = None
    ) -> None:
        """Add a cost for each value, of the lack and the excess of its number of occurrences.

        The rows are the value, its bounds, and further arguments of `cost`.
        """
        for value, low, high, *more in rows:
            self.add(
                lambda _, n, x, value=value: n + (x == value),
                lambda n, low=low, high=high, more=more: cost(low - n, n - high, *more),
                scope,
            )

    def add_same(self, first: Sequence[int], second: Sequence[int], cost: Callable[[int], float]) -> None:
        """Add a cost for each value, of the difference of its numbers of occurrences in two lists."""
        n, scope = len(first), (*first, *second)
        for u in scope:
            if u not in self.scope:
                self.fail(f"the variable {u} is not one of the cost function, {self.scope}")
        if len(second) != n or len(set(scope)) != 2 * n:
            self.fail("the two lists must have the same number of variables, without repetitions")
        for value in self.values:
            self.add(lambda i, m, x, value=value: m + (x == value) * (1 if i < n else -1), cost, scope)

    def add_runs(
        self, n: int, start: dict[int, float], end: dict[int, float], steps: Iterable[tuple[Any, ...]]
    ) -> None:
        """Add the least cost of a run of an automaton with n states, with steps (from, value, to, cost)."""
        arcs: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
        for before, x, after, cost in steps:
            arcs[before, x].append((after, self.limited(cost)))
        for state in (*start, *end, *(state for s, x in arcs for state in (s, *(t for t, _ in arcs[s, x])))):
            if not 0 <= state < n:
                self.fail(f"the automaton has {n} states, numbered from 0; there is no state {state}")
        self.builder.add_automaton(
            self.scope,
            {s: self.limited(cost) for s, cost in start.items()},
            lambda _, s, x: arcs.get((s, x), ()),
            lambda s: self.limited(end[s]) if s in end else math.inf,
        )


def _penalty(metric: str, cost: float) -> Callable[[float], float]:
    """Return a penalty as a function of the violation.

    "hard" is the cost of any violation, "quad" grows with the square, all others grow linearly.
    """
    power = {"hard": 0, "quad": 2}.get(metric, 1)
    return lambda violation: cost * violation**power if violation > 0 else 0.0


_VIOLATIONS: dict[str, Callable[[float, float], float]] = {
    "==": lambda total, to: abs(to - total),
    "<=": lambda total, to: total - to,
    "<": lambda total, to: total - to + 1,
    "!=": lambda total, to: total == to,
    ">": lambda total, to: to - total + 1,
    ">=": lambda total, to: to - total,
}
"""The amount by which a sum of integers violates a comparison, if it is positive."""


def _differ(f: KeywordFunction, metric: str, cost: float) -> None:
    penalty = _penalty(metric, cost)
    if metric.startswith("dec") or f.limited(penalty(1)) == math.inf:
        f.add_pairs(lambda x, y: penalty(x == y))
    else:
        f.add_counts(((value, 0, 1) for value in f.values), lambda _, excess: penalty(excess))


def _cardinalities(
    f: KeywordFunction, metric: str, cost: float, rows: Iterable[Any], scope: Sequence[int] | None = None
) -> None:
    penalty = _penalty(metric, cost)
    f.add_counts(rows, lambda lack, excess: penalty(max(lack, excess)), scope)


def _soft_cardinalities(f: KeywordFunction, metric: str, cost: float) -> None:
    rows = f.rows("the values and their bounds", "iiicc" if metric == "wdec" else "iii")
    if metric == "var" and f.limited(cost) < math.inf:
        f.fail("a finite cost for each variable to change is not supported here; use 'dec'")
    f.add_counts(rows, lambda lack, excess, a=cost, b=cost: a * max(lack, 0) + b * max(excess, 0))


def _among(f: KeywordFunction, metric: str, cost: float, values: list[int], low: int, high: int) -> None:
    penalty = _penalty(metric, cost)
    f.add(lambda _, n, x: n + (x in values), lambda n: penalty(max(low - n, n - high)))


def _variable_among(f: KeywordFunction, metric: str, cost: float, values: list[int]) -> None:
    penalty, last = _penalty(metric, cost), len(f.scope) - 1
    f.add(lambda i, n, x: n + (x in values) if i < last else n - x, lambda n: penalty(abs(n)))


def _same(f: KeywordFunction, metric: str, cost: float, rows: Iterable[Any] = ()) -> None:
    penalty, half = _penalty(metric, cost), len(f.scope) // 2
    f.add_same(f.scope[:half], f.scope[half:], lambda excess: penalty(abs(excess)))
    for part in (f.scope[:half], f.scope[half:]):
        _cardinalities(f, metric, cost, rows, part)


def _overlap(f: KeywordFunction, metric: str, cost: float, comparator: str, to: int) -> None:
    penalty, half = _penalty(metric, cost), len(f.scope) // 2
    if len(f.scope) % 2:
        f.fail("the scope must be two sequences of the same length")

    def step(i: int, state: tuple[int, int], x: int) -> tuple[int, int]:
        count, before = state
        return (count, x) if i % 2 == 0 else (count + (x == before != 0), 0)

    pairs = [u for pair in zip(f.scope[:half], f.scope[half:], strict=True) for u in pair]
    f.add(step, lambda state: penalty(_VIOLATIONS[comparator](state[0], to)), pairs, start=(0, 0))


def _sum(f: KeywordFunction, metric: str, cost: float, comparator: str, to: int | None = None) -> None:
    """Compare a sum with a number, or with the last variable."""
    penalty, n, right = _penalty(metric, cost), len(f.scope) - (to is None), to or 0
    f.add(
        lambda i, total, x: total + (x if i < n else -x),
        lambda total: penalty(_VIOLATIONS[comparator](total, right)),
    )


def _largest(f: KeywordFunction, default: float, rows: list[Any]) -> None:
    costs = {(u, x): cost for u, x, cost in rows}
    step = lambda i, most, x: max(most, costs.get((f.scope[i], x), default))  # noqa: E731
    f.add(step, lambda most: most, start=-math.inf)


def _soft_regular(f: KeywordFunction, _: str, cost: float, n: int, *lists: Any) -> None:
    start, end, steps = lists
    arcs = ((s, x, t, cost * (x != y)) for s, y, t in steps for x in f.values)
    f.add_runs(n, dict.fromkeys(start, 0.0), dict.fromkeys(end, 0.0), arcs)


def _knapsack(f: KeywordFunction, capacity: int, weights: list[dict[int, int]]) -> None:
    """Require that a sum of integer weights, of the states of each variable, is at least the capacity."""
    rows = [[w.get(x, 0) for x in range(k)] for w, k in zip(weights, f.builder.shape(f.scope), strict=True)]
    most, least = list(map(max, rows)), list(map(min, rows))

    def step(i: int, missing: float, x: int) -> float:
        missing -= rows[i][x]
        if missing > sum(most[i + 1 :]):
            return math.inf
        return missing if missing > sum(least[i + 1 :]) else -math.inf

    f.add(step, lambda missing: math.inf if missing > 0 else 0.0, start=capacity)


def _knapsack_by_tuples(f: KeywordFunction, capacity: int, rows: list[Any]) -> None:
    weights: dict[int, dict[int, int]] = {u: {} for u in f.scope}
    for u, x, weight in rows:
        if u not in weights:
            f.fail(f"the weight of the variable {u} is given, but the scope is {f.scope}")
        weights[u][x] = weight
    _knapsack(f, capacity, list(weights.values()))


def _threshold(excess: Callable[..., int], f: KeywordFunction, shift: int, most: int) -> None:
    f.add_pairs(lambda x, y: v if (v := max(excess(x, y, shift), 0)) <= most else math.inf)


def _special_disjunction(f: KeywordFunction, a: int, b: int, *parameters: int) -> None:
    most_x, most_y, cost_x, cost_y = parameters

    def cost(x: int, y: int) -> float:
        apart = x >= y + b or y >= x + a
        if x > most_x or y > most_y or (x < most_x and y < most_y and not apart):
            return math.inf
        return cost_x * (x == most_x) + cost_y * (y == most_y)

    f.add_pairs(cost)


_PENALTY, _SOFT, _COMPARISON = "|hard|lin|quad cost", "|var cost", "|hard|lin|quad cost |==|<=|<|!=|>|>="
_BOUNDS, _LIMITS = "values_and_their_bounds:iii", "lower_bound upper_bound"
BINARY: dict[str, tuple[str, Callable[..., None]]] = {
    ">=": ("constant largest_violation", partial(_threshold, lambda x, y, c: y + c - x)),
    ">": ("constant largest_violation", partial(_threshold, lambda x, y, c: y + c + 1 - x)),
    "<=": ("constant largest_violation", partial(_threshold, lambda x, y, c: x - c - y)),
    "<": ("constant largest_violation", partial(_threshold, lambda x, y, c: x - c + 1 - y)),
    "=": ("constant largest_violation", partial(_threshold, lambda x, y, c: abs(y + c - x))),
    "disj": (
        "constant constant cost",
        lambda f, a, b, cost: f.add_pairs(lambda x, y: 0.0 if x >= y + b or y >= x + a else cost),
    ),
    "sdisj": ("constant constant constant constant cost cost", _special_disjunction),
}
"""Parameters of the cost functions of two variables, and what adds them to a model."""
KEYWORDS: dict[str, tuple[str, Callable[..., None]]] = BINARY | {
    "clique": (
        "largest_number_of_variables values_of_a_variable:i*",
        lambda f, most, values: f.add(
            lambda i, n, x: n + (x in values[i]), lambda n: 0.0 if n <= most else math.inf
        ),
    ),
    "knapsack": ("capacity weight*", lambda f, c, weights: _knapsack(f, c, [{1: w} for w in weights])),
    "knapsackp": ("capacity weights:ii*", lambda f, c, weights: _knapsack(f, c, list(map(dict, weights)))),
    "knapsackv": ("capacity variables,_values_and_weights:iii", _knapsack_by_tuples),
    "max": ("default_cost variables,_values_and_costs:iic", _largest),
    "salldiff": ("|var|dec|decbi cost", _differ),
    "salldiffdp": (_SOFT, _differ),
    "samong": (f"{_SOFT} {_LIMITS} values:i", lambda f, m, c, low, high, v: _among(f, m, c, v, low, high)),
    "sgcc": ("|var|dec|wdec cost", _soft_cardinalities),
    "sgccdp": (f"{_SOFT} {_BOUNDS}", _cardinalities),
    "sregular": (f"{_SOFT} number_of_states initial_states:i final_states:i transitions:iii", _soft_regular),
    "ssame": ("cost", lambda f, cost: f.add_same(*f.halves(), lambda excess: cost * max(excess, 0))),
    "walldiff": (_PENALTY, _differ),
    "wamong": (f"{_PENALTY} values:i {_LIMITS}", _among),
    "wgcc": (f"{_PENALTY} {_BOUNDS}", _cardinalities),
    "woverlap": (f"{_COMPARISON} right-hand_side", _overlap),
    "wregular": (
        "number_of_states initial_states:ic final_states:ic transitions:iiic",
        lambda f, n, start, end, steps: f.add_runs(n, dict(start), dict(end), steps),
    ),
    "wsame": (_PENALTY, _same),
    "wsamegcc": (f"{_PENALTY} {_BOUNDS}", _same),
    "wsum": (f"{_COMPARISON} right-hand_side", _sum),
    "wvaramong": (f"{_PENALTY} values:i", _variable_among),
    "wvarsum": (_COMPARISON, _sum),
}
"""The same for all cost functions."""
KEYWORDS |= {"samongdp": KEYWORDS["samong"], "smaxdp": KEYWORDS["max"], "sregulardp": KEYWORDS["sregular"]}


def add_function(f: KeywordFunction, keyword: str) -> None:
    """Add the cost function of a keyword.

    Costs of functions that count occurrences of several values are limited for each value.
    """
    if keyword in BINARY and len(f.scope) != 2:
        f.fail(f"the cost function {keyword!r} has 2 variables, not {len(f.scope)}")
    if keyword not in KEYWORDS:
        f.fail(
            f"the cost function {keyword!r} is not supported; define it in extension, by tuples of states "
            f"and their costs, or use one of {', '.join(KEYWORDS)}"
        )
    signature, add = KEYWORDS[keyword]
    add(f, *f.parameters(signature))
