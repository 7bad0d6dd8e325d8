"""Smaller models with the same least energy, without forbidden states and variables that others decide."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import numpy as np

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock

Scope = tuple[int, ...]
Choice = Callable[[Array], int]


@dataclass(frozen=True, eq=False)
class Reduction:
    """A smaller model on some of the variables and of the states of another one, and the way back.

    `states` are those left of each original variable; `choices` say how each variable that is not in the
    smaller model follows from the rest, in the order in which they were taken out.
    """

    model: FactorGraph
    variables: list[int]
    states: list[Array]
    choices: dict[int, Choice]

    def expand(self, labelling: Array) -> Array:
        """Return the best labelling of the original model that agrees with one of the smaller model."""
        full = np.zeros(len(self.states), dtype=np.int64)
        full[self.variables] = labelling
        for u, choice in reversed(self.choices.items()):
            full[u] = choice(full)
        return np.array([kept[x] for kept, x in zip(self.states, full, strict=True)], dtype=np.int64)


def reduce_model(model: FactorGraph, deadline: float = math.inf) -> Reduction:
    """Return a model with the same least energy and fewer variables and states, exactly.

    States of infinite unary cost are dropped (each variable has another); a variable that another one
    determines through hard constraints is replaced by that; variables with at most two neighbours are
    minimised out where the table that it leaves is not larger than those it replaces.
    """
    work = _Reducer(model)
    queue = list(range(model.n_variables))
    while queue and clock() <= deadline:
        u = queue.pop()
        if u not in work.choices:
            queue.extend(work.drop(u) or work.minimise_out(u) or work.substitute(u))
    left = [u for u in range(model.n_variables) if u not in work.choices]
    number = {u: i for i, u in enumerate(left)}
    factors = [(tuple(number[u] for u in scope), table) for scope, table in work.factors.items()]
    smaller = FactorGraph([work.states[u].size for u in left], factors, constant=work.constant)
    return Reduction(smaller, left, work.states, work.choices)


@dataclass(eq=False)
class _Reducer:
    model: FactorGraph
    factors: dict[Scope, Array] = field(default_factory=dict)
    choices: dict[int, Choice] = field(default_factory=dict)

    def __post_init__(self) -> None:
        model = self.model
        self.constant = model.constant
        self.states = [np.flatnonzero(np.isfinite(model.unary(u))) for u in range(model.n_variables)]
        self.scopes: list[set[Scope]] = [set() for _ in self.states]
        for u, kept in enumerate(self.states):
            self.add((u,), model.unary(u)[kept])
        for a in range(model.n_factors):
            scope, table = model.factor(a)
            self.add(scope, table[np.ix_(*[self.states[u] for u in scope])])

    def add(self, scope: Scope, table: Array) -> None:
        """Add a table, its axes in the order of `scope`."""
        axes = sorted(range(len(scope)), key=scope.__getitem__)
        scope, table = tuple(scope[i] for i in axes), np.transpose(table, axes)
        if not scope:
            self.constant += float(table)
            return
        self.factors[scope] = self.factors[scope] + table if scope in self.factors else table
        for u in scope:
            self.scopes[u].add(scope)

    def take(self, u: int) -> list[tuple[Scope, Array]]:
        """Take out all tables that contain u."""
        taken = [(scope, self.factors.pop(scope)) for scope in sorted(self.scopes[u])]
        for scope, _ in taken:
            for v in scope:
                self.scopes[v].discard(scope)
        return taken

    def neighbours(self, u: int) -> list[int]:
        return sorted({v for scope in self.scopes[u] for v in scope} - {u})

    def drop(self, u: int) -> list[int]:
        """Take u out of all tables if it has one state; return the variables to look at again."""
        if self.states[u].size > 1:
            return []
        near = self.neighbours(u)
        for scope, table in self.take(u):
            axis = scope.index(u)
            self.add((*scope[:axis], *scope[axis + 1 :]), table.take(0, axis=axis))
        self.choices[u] = lambda labelling: 0
        return near

    def minimise_out(self, u: int) -> list[int]:
        """Minimise u out if that leaves no larger tables; return the variables to look at again."""
        near, k = self.neighbours(u), self.states[u].size
        sizes = [self.states[v].size for v in near]
        grows = len(near) == 2 and tuple(near) not in self.factors and prod(sizes) > k * sum(sizes)
        if len(near) > 2 or grows:
            return []
        total = np.zeros([*sizes, k])
        for scope, table in self.take(u):
            axes = [*near, u]
            table = np.transpose(table, sorted(range(len(scope)), key=lambda i: axes.index(scope[i])))
            total = total + table.reshape([self.states[v].size if v in scope else 1 for v in axes])
        best = total.argmin(axis=-1)
        self.choices[u] = lambda labelling: int(best[tuple(labelling[near])])
        self.add(tuple(near), total.min(axis=-1))
        return near

    def substitute(self, u: int) -> list[int]:
        """Replace u by another variable if that determines it; return the variables to look at again."""
        for scope in sorted(self.scopes[u]):
            if len(scope) != 2:
                continue
            table = self.factors[scope] if scope[1] == u else self.factors[scope].T
            finite = np.isfinite(table)
            if (finite.sum(axis=1) > 1).any():
                continue
            by, state = sum(scope) - u, finite.argmax(axis=1)
            near = self.neighbours(u)
            for other, values in self.take(u):
                axis = other.index(u)
                if by in other:
                    moved = np.moveaxis(values, [other.index(by), axis], [0, 1])
                    moved = moved[np.arange(state.size), state]
                    self.add((by, *(v for v in other if v not in (u, by))), moved)
                else:
                    self.add((*other[:axis], by, *other[axis + 1 :]), values.take(state, axis=axis))
            self.choices[u] = lambda labelling, by=by, state=state: int(state[labelling[by]])
            return near
        return []
