"""Tabu search over the labellings of a model."""

from __future__ import annotations

import numpy as np

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.sweeps.decoding import costs_of_states
from cutplane.graphical.sweeps.layout import make_layout
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine

_PATIENCE = 100
"""Moves per variable without a better labelling until some variables are changed at random, because a descent
from a random labelling takes a few moves per variable."""
_SHAKEN = 0.1
"""Share of the variables changed at random, because more would destroy good parts of the labelling."""
_TENURE = 10
"""Moves until a state may return, with up to as many more at random, because equal numbers let a search
repeat itself (Galinier and Hao 1999, doi:10.1023/A:1009823419804)."""
_OSCILLATION = 1.2
"""Factor of the penalty of a broken constraint in ten moves, because about half of the labellings should
satisfy all constraints (Gendreau, Hertz and Laporte 1994, doi:10.1287/mnsc.40.10.1276)."""

_TOLERANCE = 1e-12
"""Least improvement relative to the energy, because sums of updated costs have rounding errors."""


class TabuSearch:
    """Changes one variable at a time to its best state, even if the energy rises.

    The state before a change is tabu for some moves. Broken hard constraints are penalised, by more the
    longer one of them is broken. After a time without a better labelling, some variables of the best one are
    changed at random.

    Parameters
    ----------
    model : FactorGraph
    labelling : ndarray of int, shape (n_variables,)
        The start of the search.
    seed : int, default 0

    Attributes
    ----------
    labelling : ndarray of int, shape (n_variables,)
        The best labelling so far: fewest infinite terms first, then least sum of the others.
    restarts : int
        Number of restarts from a labelling that satisfies all hard constraints.
    """

    def __init__(self, model: FactorGraph, labelling: Array, seed: int = 0) -> None:
        self._model, self._rng = model, np.random.default_rng(seed)
        self._tables = make_layout(model), *map(read_only, (model.strides, model.tables, model.unaries))
        self.labelling = np.array(labelling, dtype=np.int64)
        self._current = self.labelling.copy()
        self._costs = np.empty((2, model.unaries.size))
        self._until = np.zeros(model.unaries.size, dtype=np.int64)
        tables = model.tables[np.isfinite(model.tables)]
        penalty = float(np.ptp(tables)) if tables.size else 0.0
        start = self._evaluated()
        self._numbers = np.array([penalty or 1.0, *start, *start])
        self._counters = np.array([0, 0, seed + 1])
        self.restarts = 0

    def run(self, moves: int) -> bool:
        """Make this many moves; return whether `labelling` has become better."""
        before, end = tuple(self._numbers[3:]), self._counters[0] + moves
        state = self._current, self.labelling, *self._costs, self._until, self._numbers, self._counters
        while _moves(*self._tables, *state, end):
            self._shake()
        return tuple(self._numbers[3:]) < before

    def _shake(self) -> None:
        """Go to the best labelling, and change some variables at random."""
        self.restarts += int(self._numbers[3] == 0)
        n = self._current.size
        chosen = self._rng.integers(0, n, 1 + int(_SHAKEN * n))
        self._current[:] = self.labelling
        self._current[chosen] = self._rng.integers(0, self._model.cardinalities[chosen])
        self._numbers[1:3] = self._evaluated()
        self._counters[1] = 0

    def _evaluated(self) -> tuple[float, float]:
        """Compute all costs again; return the number of infinite terms and the sum of the others."""
        _set_costs(*self._tables, self._current, *self._costs)
        terms = self._model.terms(self._current)
        return float(np.isinf(terms).sum()), float(terms.sum(where=np.isfinite(terms)))


@routine
def _moves(layout, strides, tables, unaries, labelling, best, broken, finite, until, numbers, counters, end):
    """Move up to move number `end`; return whether it stopped earlier, long without a better labelling.

    `numbers` are the penalty, the number of broken constraints and the finite cost of the labelling, and the
    same two numbers of the best labelling; `counters` are the moves so far, the moves since the last
    improvement, and a random number.
    """
    unary_starts = layout.unary_starts
    n = labelling.shape[0]
    while counters[0] < end:
        counters[0] += 1
        counters[1] += 1
        penalty = numbers[0]
        chosen, state, least, ties = -1, 0, np.inf, 0
        for u in range(n):
            here = unary_starts[u] + labelling[u]
            now = finite[here] + penalty * broken[here]
            for place in range(unary_starts[u], unary_starts[u + 1]):
                change = finite[place] + penalty * broken[place] - now
                if place == here or change > least:
                    continue
                if until[place] > counters[0]:
                    total = numbers[1] + broken[place] - broken[here]
                    energy = numbers[2] + finite[place] - finite[here]
                    if total > numbers[3] or (total == numbers[3] and energy >= numbers[4]):
                        continue
                ties = ties + 1 if change == least else 1
                if ties == 1 or _random(counters, ties) == 0:
                    chosen, state, least = u, place - unary_starts[u], change
        if chosen >= 0:
            here, there = unary_starts[chosen] + labelling[chosen], unary_starts[chosen] + state
            until[here] = counters[0] + 1 + min(_TENURE, n // 4) + _random(counters, _TENURE)
            numbers[1] += broken[there] - broken[here]
            numbers[2] += finite[there] - finite[here]
            _move(layout, strides, tables, chosen, state, labelling, broken, finite)
        numbers[0] *= _OSCILLATION**0.1 if numbers[1] > 0 else _OSCILLATION**-0.1
        least = numbers[4] - _TOLERANCE * (1.0 + abs(numbers[4]))
        if numbers[1] < numbers[3] or (numbers[1] == numbers[3] and numbers[2] < least):
            numbers[3], numbers[4] = numbers[1], numbers[2]
            best[:] = labelling
            counters[1] = 0
        elif counters[1] > _PATIENCE * n > 0:
            return True
    return False


@routine
def _random(counters, below):
    """Return a random integer from 0 on, by a linear congruential generator."""
    counters[2] = (counters[2] * 1103515245 + 12345) % 2147483648
    return (counters[2] // 8) % below


@routine
def _set_costs(layout, strides, tables, unaries, labelling, broken, finite):
    """Set the costs of each state of each variable given the states of the others."""
    for u in range(labelling.shape[0]):
        begin, end = layout.unary_starts[u], layout.unary_starts[u + 1]
        costs_of_states(layout, strides, tables, unaries, labelling, u, broken[begin:end], finite[begin:end])


@routine
def _move(layout, strides, tables, u, state, labelling, broken, finite):
    """Set a variable to a state, and update the costs of its neighbours."""
    scope_starts, scopes, unary_starts = layout.scope_starts, layout.scopes, layout.unary_starts
    for j in range(layout.variable_starts[u], layout.variable_starts[u + 1]):
        link = layout.variable_links[j]
        a = layout.link_factors[link]
        base = layout.table_starts[a]
        for other in range(scope_starts[a], scope_starts[a + 1]):
            if other != link:
                base += labelling[scopes[other]] * strides[other]
        before, after = labelling[u] * strides[link], state * strides[link]
        for other in range(scope_starts[a], scope_starts[a + 1]):
            if other == link:
                continue
            v, stride = scopes[other], strides[other]
            place = base - labelling[v] * stride
            for x in range(unary_starts[v + 1] - unary_starts[v]):
                old, new = tables[place + before + x * stride], tables[place + after + x * stride]
                there = unary_starts[v] + x
                if old == new:
                    continue
                if old == np.inf:
                    broken[there] -= 1.0
                else:
                    finite[there] -= old
                if new == np.inf:
                    broken[there] += 1.0
                else:
                    finite[there] += new
    labelling[u] = state
