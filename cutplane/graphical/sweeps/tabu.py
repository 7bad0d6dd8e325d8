"""Tabu search over the labellings of a model."""

from __future__ import annotations

import numpy as np

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.sweeps.layout import make_layout
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine

_PATIENCE = 100
"""Moves per variable without a better labelling until some variables are changed at random, because a descent
from a random labelling takes a few moves per variable."""
_SHAKEN = 0.1
"""Share of the variables that are changed at random, because more would lose its good parts."""
_TENURE = 10
"""Moves until a state may return, with up to as many more at random, because equal numbers let a search
repeat itself (Galinier and Hao 1999, doi:10.1023/A:1009823419804)."""
_OSCILLATION = 1.2
"""Factor of the penalty of a broken constraint in ten moves, because about half of the labellings should
satisfy all constraints (Gendreau, Hertz and Laporte 1994, doi:10.1287/mnsc.40.10.1276)."""


class TabuSearch:
    """Changes one variable at a time to its best state, even if the energy rises.

    The state before a change is tabu for some moves. Hard constraints are penalised, by more the longer one
    is broken. After a time without a better labelling, some variables of the best one are changed at random.

    Parameters
    ----------
    model : FactorGraph
    labelling : ndarray of int, shape (n_variables,)
        Where the search starts.
    seed : int, default 0
    """

    def __init__(self, model: FactorGraph, labelling: Array, seed: int = 0) -> None:
        layout = make_layout(
            model.cardinalities, model.unary_starts, model.scope_starts, model.scopes, model.table_starts
        )
        self._tables = (
            *layout[:5],
            *layout[6:],
            *map(read_only, (model.strides, model.tables, model.unaries)),
        )
        self.labelling = np.array(labelling, dtype=np.int64)
        self._current = self.labelling.copy()
        self._costs = np.zeros((2, model.unaries.size))
        self._until = np.zeros(model.unaries.size, dtype=np.int64)
        finite = model.tables[np.isfinite(model.tables)]
        penalty = float(np.ptp(finite)) if finite.size else 1.0
        self._numbers = np.array([penalty or 1.0, np.inf, np.inf, 0.0])
        self._counters = np.array([0, 0, 0, seed + 1, 1], dtype=np.int64)

    def run(self, moves: int) -> bool:
        """Make some moves; return whether `labelling` has become better."""
        return _search(
            *self._tables,
            self._current,
            self.labelling,
            *self._costs,
            self._until,
            self._numbers,
            self._counters,
            moves,
        )


@routine
def _search(
    cardinalities,
    unary_starts,
    scope_starts,
    scopes,
    table_starts,
    link_factors,
    variable_starts,
    variable_links,
    strides,
    tables,
    unaries,
    labelling,
    best,
    broken,
    finite,
    until,
    numbers,
    counters,
    moves,
):
    """Make some moves; return whether the best labelling has improved.

    `numbers` are the penalty, the broken constraints and the finite costs of the best labelling, and the
    finite costs of the present one; `counters` the moves so far, those since the last improvement, the broken
    constraints now, the state of the random numbers, and whether the costs are to be computed again.
    """
    n = cardinalities.shape[0]
    improved = False
    for _ in range(moves):
        if counters[4] == 1:
            counters[4] = 0
            _all_costs(
                unary_starts,
                scope_starts,
                scopes,
                table_starts,
                link_factors,
                variable_starts,
                variable_links,
                strides,
                tables,
                unaries,
                labelling,
                broken,
                finite,
            )
            total_broken, total_finite = _energy(
                unary_starts, scope_starts, scopes, table_starts, strides, tables, unaries, labelling
            )
            numbers[3] = total_finite
            counters[2] = int(total_broken)
            if total_broken < numbers[1] or (total_broken == numbers[1] and total_finite < numbers[2]):
                numbers[1], numbers[2] = total_broken, total_finite
                best[:] = labelling
                improved = True
        counters[0] += 1
        counters[1] += 1
        penalty = numbers[0]
        chosen, state, least, ties = -1, 0, np.inf, 0
        for u in range(n):
            begin = unary_starts[u]
            here = begin + labelling[u]
            now = finite[here] + penalty * broken[here]
            for x in range(cardinalities[u]):
                place = begin + x
                change = finite[place] + penalty * broken[place] - now
                if place == here or change > least:
                    continue
                if until[place] > counters[0]:
                    total = counters[2] + broken[place] - broken[here]
                    if total > numbers[1]:
                        continue
                    if total == numbers[1] and numbers[3] + finite[place] - finite[here] >= numbers[2]:
                        continue
                if change < least:
                    chosen, state, least, ties = u, x, change, 1
                else:
                    ties += 1
                    if _random(counters, ties) == 0:
                        chosen, state = u, x
        if chosen >= 0:
            here, there = unary_starts[chosen] + labelling[chosen], unary_starts[chosen] + state
            until[here] = counters[0] + 1 + min(_TENURE, n // 4) + _random(counters, _TENURE)
            counters[2] += int(broken[there] - broken[here])
            numbers[3] += finite[there] - finite[here]
            _move(
                chosen,
                state,
                unary_starts,
                scope_starts,
                scopes,
                table_starts,
                link_factors,
                variable_starts,
                variable_links,
                strides,
                tables,
                labelling,
                broken,
                finite,
            )
        numbers[0] *= _OSCILLATION**0.1 if counters[2] > 0 else _OSCILLATION**-0.1
        if counters[2] < numbers[1] or (
            counters[2] == numbers[1] and numbers[3] < numbers[2] - 1e-12 * (1.0 + abs(numbers[2]))
        ):
            numbers[1], numbers[2] = counters[2], numbers[3]
            best[:] = labelling
            counters[1] = 0
            improved = True
        elif chosen < 0 or counters[1] > _PATIENCE * n:
            counters[1] = 0
            counters[4] = 1
            labelling[:] = best
            for _ in range(1 + int(_SHAKEN * n)):
                u = _random(counters, n)
                labelling[u] = _random(counters, cardinalities[u])
    return improved


@routine
def _random(counters, below):
    """Return a random integer from 0 on, by a linear congruential generator."""
    counters[3] = (counters[3] * 1103515245 + 12345) % 2147483648
    return (counters[3] // 8) % below


@routine
def _energy(unary_starts, scope_starts, scopes, table_starts, strides, tables, unaries, labelling):
    """Return the number of broken constraints and the sum of the finite costs."""
    broken, finite = 0.0, 0.0
    for u in range(labelling.shape[0]):
        cost = unaries[unary_starts[u] + labelling[u]]
        if cost == np.inf:
            broken += 1.0
        else:
            finite += cost
    for a in range(table_starts.shape[0]):
        place = table_starts[a]
        for link in range(scope_starts[a], scope_starts[a + 1]):
            place += labelling[scopes[link]] * strides[link]
        if tables[place] == np.inf:
            broken += 1.0
        else:
            finite += tables[place]
    return broken, finite


@routine
def _all_costs(
    unary_starts,
    scope_starts,
    scopes,
    table_starts,
    link_factors,
    variable_starts,
    variable_links,
    strides,
    tables,
    unaries,
    labelling,
    broken,
    finite,
):
    """Set the costs of each state of each variable given the states of the others."""
    for place in range(unaries.shape[0]):
        broken[place] = unaries[place] == np.inf
        finite[place] = 0.0 if unaries[place] == np.inf else unaries[place]
    for u in range(labelling.shape[0]):
        for j in range(variable_starts[u], variable_starts[u + 1]):
            link = variable_links[j]
            a = link_factors[link]
            place = table_starts[a]
            for other in range(scope_starts[a], scope_starts[a + 1]):
                if other != link:
                    place += labelling[scopes[other]] * strides[other]
            for x in range(unary_starts[u + 1] - unary_starts[u]):
                cost = tables[place + x * strides[link]]
                if cost == np.inf:
                    broken[unary_starts[u] + x] += 1.0
                else:
                    finite[unary_starts[u] + x] += cost


@routine
def _move(
    u,
    state,
    unary_starts,
    scope_starts,
    scopes,
    table_starts,
    link_factors,
    variable_starts,
    variable_links,
    strides,
    tables,
    labelling,
    broken,
    finite,
):
    """Set a variable to a state, and update the costs of its neighbours."""
    for j in range(variable_starts[u], variable_starts[u + 1]):
        link = variable_links[j]
        a = link_factors[link]
        first, end = scope_starts[a], scope_starts[a + 1]
        base = table_starts[a]
        for other in range(first, end):
            if other != link:
                base += labelling[scopes[other]] * strides[other]
        before, after = labelling[u] * strides[link], state * strides[link]
        for other in range(first, end):
            if other == link:
                continue
            v, stride = scopes[other], strides[other]
            place = base - labelling[v] * stride
            for x in range(unary_starts[v + 1] - unary_starts[v]):
                old, new = tables[place + before + x * stride], tables[place + after + x * stride]
                if old == new:
                    continue
                there = unary_starts[v] + x
                if old == np.inf:
                    broken[there] -= 1.0
                else:
                    finite[there] -= old
                if new == np.inf:
                    broken[there] += 1.0
                else:
                    finite[there] += new
    labelling[u] = state
