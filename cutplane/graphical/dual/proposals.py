"""Which clusters to add to a reparametrised model: those that raise the bound most, or might."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from cutplane.graphical.dual.candidates import Scope, grown_sets, short_cycles, sums, triplets_of
from cutplane.graphical.dual.cluster_scores import Cycles, PairCosts, guaranteed_increases, set_increases
from cutplane.graphical.dual.frustrated_cycles import frustrated_cycles
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array

_SEARCHES = 2000
_AT_LEAST = 8


class ClusterProposals:
    """Proposes clusters that it has not proposed before."""

    def __init__(self, model: FactorGraph) -> None:
        self._cardinalities = model.cardinalities
        self._larger = [model.factor(int(a)).variables for a in np.flatnonzero(model.arities > 2)]
        self._known: dict[Scope, None] = {}

    def propose(
        self, costs: PairCosts, least: float, work: int, is_late: Callable[[], bool]
    ) -> tuple[list[Scope], str]:
        """Return clusters that are certain to raise the bound by more than `least`, best first, and a name.

        Triangles and chordless squares, or if there are none, longer frustrated cycles; with at most `work`
        joint states together, unless they are very few.
        """
        short = Cycles.joined(short_cycles(costs))
        found = self._new(self._triplets(short, guaranteed_increases(costs, short, is_late), least), work)
        if found or is_late():
            return found, "short cycles"
        long = frustrated_cycles(costs, _SEARCHES, least, is_late)
        return self._new(
            self._triplets(long, guaranteed_increases(costs, long, is_late), least), work
        ), "frustrated cycles"

    def guess(
        self, costs: PairCosts, excesses: Array, least: float, work: int, is_late: Callable[[], bool]
    ) -> tuple[list[Scope], str]:
        """Return clusters that may help together where none is certain to alone, and their kind.

        The first of these kinds that there are: factors of more than two variables, which agree on pairs
        then; clusters and triangles with one more variable, if certain to help; short cycles where the
        labelling at hand and the bound differ (by the `excesses` of the variables); other short cycles;
        others with one more variable.
        """
        for kind, scopes in self._guesses(costs, excesses, least):
            found = self._new(scopes, work)
            if found or is_late():
                return found, kind
        return [], "nothing"

    def _guesses(
        self, costs: PairCosts, excesses: Array, least: float
    ) -> Iterator[tuple[str, Iterable[Scope]]]:
        yield "larger factors", self._larger
        groups = short_cycles(costs)
        short, triangles = Cycles.joined(groups), groups[0].variables.reshape(-1, 3)
        grown = grown_sets(costs, list(dict.fromkeys([*self._known, *_scopes(triangles)])), excesses)
        yield "grown clusters", _ranked(grown, set_increases(costs, grown), least)
        distances = (
            np.add.reduceat(excesses[short.variables], short.starts[:-1]) if len(short) else np.empty(0)
        )
        yield "doubtful cycles", self._triplets(short, distances, least)
        yield "all short cycles", self._triplets(short, distances, -1.0)
        yield "doubtful clusters", _ranked(grown, sums(excesses, grown), -1.0)

    def _triplets(self, cycles: Cycles, values: Array, least: float) -> Iterator[Scope]:
        yield from _scopes(triplets_of(cycles, _order(values, least), self._cardinalities))

    def _new(self, scopes: Iterable[Scope], work: int) -> list[Scope]:
        found = []
        for scope in scopes:
            if scope not in self._known:
                self._known[scope] = None
                found.append(scope)
                work -= int(np.prod(self._cardinalities[list(scope)]))
                if work <= 0 and len(found) >= _AT_LEAST:
                    break
        return found


def _order(values: Array, least: float) -> Array:
    """Return where the values are more than `least`, the largest first."""
    good = np.flatnonzero(values > least)
    return good[np.argsort(-values[good], kind="stable")]


def _ranked(scopes: list[Scope], values: Array, least: float) -> Iterator[Scope]:
    return (scopes[number] for number in _order(values, least).tolist())


def _scopes(rows: Array) -> Iterator[Scope]:
    return map(tuple, rows.tolist())
