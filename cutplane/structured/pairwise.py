"""Max-margin risks of labelled graphs with scores that are linear in the weights."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self, get_args

import numpy as np

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.capabilities import Capability
from cutplane.pieces.validation import Array
from cutplane.risks.examples import as_weights
from cutplane.runtime.threads import run_chunks
from cutplane.structured.example_sum import ExampleSum, Factors, Shares
from cutplane.structured.graphs import BestMarginals, Graphs
from cutplane.structured.mixture import slots
from cutplane.structured.risk import Decoder
from cutplane.structured.sequences import as_costs

_SMALL = 1000
"""Largest number of columns for which a linear programme is tried before `map`, because it takes a fraction
of the time."""
_CLOSED = 1e-9
"""Relative gap of an exact labelling that is accepted, because `map` cannot prove a smaller one."""


class PairwiseRisk(Shares, ExampleSum):
    """f(w) = sum_i c_i max_y [D(y_i, y) + F_w(i, y) - F_w(i, y_i)] over labellings y of graphs.

    F_w is the sum of the scores of nodes and edges, which are linear in w. A subclass implements these scores
    and sums of their features. Forests are decoded by compiled dynamic programming, other graphs by linear
    programmes and `GraphicalModel.map`.

    Attributes
    ----------
    graphs : Graphs
    """

    black_box = False
    per_example = "weights", "costs"
    graphs: Graphs

    def _set(self, graphs: Graphs, loss: Any, decoder: Any, sample_weight: Any, normalize: bool) -> None:
        """Set all attributes from the graphs and the parameters of a subclass."""
        if decoder not in get_args(Decoder):
            raise InvalidInputError(f"decoder must be one of {get_args(Decoder)}, got {decoder!r}.")
        self.graphs, self.loss, self.decoder = graphs, loss, decoder
        self.n_examples = len(graphs)
        self.weights = as_weights(sample_weight, len(graphs), normalize)
        self.costs = as_costs(loss, np.diff(graphs.starts))
        self._derive()

    def _derive(self) -> None:
        """Set the attributes that depend on graphs and decoder."""
        whole = bool(self.graphs.forests.all())
        self.exact = self.decoder != "inner" or whole
        self.relaxed = self.decoder == "outer" and not whole
        self._marginals: dict[Any, BestMarginals] = {}

    @property
    def work(self) -> Array:
        """The cumulative number of scores of the graphs, shape (m + 1,)."""
        return self.graphs.work

    def part(self, low: int, high: int) -> Self:
        part = super().part(low, high)
        part.graphs = self.graphs.part(low, high)
        return part

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_marginals": {}}  # models of HiGHS cannot be pickled

    @abstractmethod
    def scores(self, w: Array, low: int, high: int) -> tuple[Array, Array]:
        """Return the scores of the graphs low <= i < high: nodes x states, and edges x states x states.

        With fewer tables than edges, edge e uses table e modulo their number. The caller may overwrite the
        arrays.
        """

    @abstractmethod
    def features(self, nodes: Array, edges: Array, low: int, high: int) -> Array:
        """Return the sum of the features times factors, which have the shapes of the scores; shape (dim,)."""

    @property
    def withheld(self) -> tuple[Capability, ...]:
        """Block steps and their cuts, withheld if the decoder returns marginals instead of labellings."""
        return (Capability.BLOCK_ASCENT, Capability.DUAL_CUT) if self.relaxed else ()

    def oracle(self, x: Array) -> tuple[float, Array]:
        run = run_chunks if self.graphs.forests.all() else map  # a linear programme serves many graphs
        parts = list(run(lambda chunk: self._part(x, *chunk), self.graphs.chunks))
        return sum(value for value, _ in parts), np.sum([slope for _, slope in parts], axis=0)

    def decode(self, w: Array, i: int) -> Array:
        unaries, pairs = self._augmented(w, i, i + 1)
        return self.labellings(unaries, pairs, i, i + 1)

    def piece(self, i: int, y: Array) -> tuple[Factors, float]:
        factors = self.weights[i : i + 1]
        slope = self._differences(y, factors, i, i + 1)
        indices = np.flatnonzero(slope)
        wrong = np.count_nonzero(y != self.graphs.labels[self.graphs.nodes_of(i, i + 1)])
        return Factors(indices, slope[indices]), float(factors[0] * self.costs[i] * wrong)

    def from_numbers(self, i: int, numbers: Array) -> Array:
        """Return a checked labelling."""
        if ((numbers < 0) | (numbers >= self.graphs.n_states) | (numbers % 1.0 != 0.0)).any():
            raise OracleError(
                f"A labelling contains a label that is none of 0 to {self.graphs.n_states - 1}."
            )
        return numbers.astype(np.int64)

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        graphs, offset, slope = self.graphs, 0.0, np.zeros(self.dim)
        for found, shares in slots(u, graphs.labels, graphs.starts, graphs.n_states):
            factors = self.weights * shares
            wrong = np.add.reduceat(found != graphs.labels, graphs.starts[:-1], dtype=np.int64)
            offset += float(factors @ (self.costs * wrong))
            for low, high in graphs.chunks:
                slope += self._differences(found[graphs.nodes_of(low, high)], factors[low:high], low, high)
        return slope[np.newaxis], np.array([offset])

    def labellings(self, unaries: Array, pairs: Array, low: int, high: int) -> Array:
        """Return labellings of largest score of the graphs low <= i < high; `unaries` is overwritten."""
        from cutplane.structured.forest_passes import best_labellings

        graphs = self.graphs
        found = np.zeros(len(unaries), dtype=np.int64)
        loose = np.flatnonzero(~graphs.forests[low:high]) + low
        for i in loose.tolist():
            nodes, edges = (slice(part.start - begin, part.stop - begin) for part, begin in (
                (graphs.nodes_of(i, i + 1), int(graphs.starts[low])),
                (graphs.edges_of(i, i + 1), int(graphs.edge_starts[low])),
            ))  # fmt: skip
            found[nodes] = self._mapped(unaries[nodes], _tables(pairs, edges), i)
        if loose.size < high - low:
            edges = graphs.edge_starts, graphs.edges, *graphs.walk, graphs.forests
            first, message = graphs.edges_of(low, high).start, np.empty(graphs.n_states)
            best_labellings(graphs.starts, edges, first, low, high, unaries, pairs, message, found)
        return found

    def _mapped(self, unaries: Array, pairs: Array, i: int) -> Array:
        """Return the best labelling of a graph with cycles, found by a linear programme or `map`."""
        from cutplane.graphical.model import GraphicalModel

        if self.decoder == "exact" and unaries.size + pairs.size <= _SMALL:
            ends = self.graphs.ends(i, i + 1)
            marginals, _, bound = self._programme(len(unaries), ends)(unaries, pairs)
            found = marginals.argmax(axis=1)
            score = unaries[np.arange(found.size), found].sum()
            score += pairs[np.arange(len(ends)), *found[ends].T].sum()
            if bound - score <= _CLOSED * abs(score):
                return found
        model = GraphicalModel.pairwise(-unaries, self.graphs.ends(i, i + 1), -pairs)
        result = model.map(tol=_CLOSED, tighten=self.decoder == "exact")
        if result.labelling is None or (self.decoder == "exact" and result.status != "OPTIMAL"):
            raise OracleError(
                f"The best labelling of graph {i} was not found: {result.status}, {result.reason}. Pass "
                'decoder="outer", which relaxes graphs with cycles, or "inner".'
            )
        return result.labelling

    def _programme(self, n_nodes: int, ends: Array) -> BestMarginals:
        """Return the linear programme of a graph; graphs with the same edges share it."""
        key = n_nodes, ends.tobytes()
        if key not in self._marginals:
            self._marginals[key] = BestMarginals(n_nodes, self.graphs.n_states, ends)
        return self._marginals[key]

    def _augmented(self, w: Array, low: int, high: int) -> tuple[Array, Array]:
        """Return the scores of graphs plus the loss."""
        graphs = self.graphs
        unaries, pairs = self.scores(w, low, high)
        truth = graphs.labels[graphs.nodes_of(low, high)]
        costs, _ = graphs.over_nodes(low, high, self.costs[low:high])
        unaries += costs[:, np.newaxis]
        unaries[np.arange(truth.size), truth] -= costs
        return unaries, pairs

    def _part(self, w: Array, low: int, high: int) -> tuple[float, Array]:
        """Return the value and the slope of the graphs low <= i < high."""
        graphs, weights = self.graphs, self.weights[low:high]
        unaries, pairs = self._augmented(w, low, high)
        if self.relaxed:
            return self._relaxed_part(unaries, pairs, low, high)
        found = self.labellings(unaries.copy(), pairs, low, high)
        truth, ends = graphs.labels[graphs.nodes_of(low, high)], graphs.ends(low, high)
        here, tables = np.arange(truth.size), np.arange(len(ends)) % max(1, len(pairs))
        gains = unaries[here, found] - unaries[here, truth]
        of_pairs = pairs[tables, *found[ends].T] - pairs[tables, *truth[ends].T]
        violations = graphs.sums(low, high, gains, of_pairs)
        factors = np.where(violations > 0.0, weights, 0.0)
        return float(factors @ violations), self._differences(found, factors, low, high)

    def _relaxed_part(self, unaries: Array, pairs: Array, low: int, high: int) -> tuple[float, Array]:
        """Return the value and the slope of the relaxed risk, with marginals instead of labellings."""
        graphs = self.graphs
        pairs = _tables(pairs, slice(0, graphs.edges_of(low, high).stop - graphs.edges_of(low, high).start))
        of_nodes, of_edges = np.empty(unaries.shape), np.empty(pairs.shape)
        for i in range(low, high):
            ends = graphs.ends(i, i + 1)
            nodes = slice(*(graphs.starts[i : i + 2] - graphs.starts[low]).tolist())
            edges = slice(*(graphs.edge_starts[i : i + 2] - graphs.edge_starts[low]).tolist())
            programme = self._programme(nodes.stop - nodes.start, ends)
            of_nodes[nodes], of_edges[edges], _ = programme(unaries[nodes], pairs[edges])
        truth, ends = graphs.labels[graphs.nodes_of(low, high)], graphs.ends(low, high)
        of_nodes[np.arange(truth.size), truth] -= 1.0
        of_edges[np.arange(len(ends)), *truth[ends].T] -= 1.0
        gains, of_pairs = (of_nodes * unaries).sum(axis=1), (of_edges * pairs).sum(axis=(1, 2))
        violations = graphs.sums(low, high, gains, of_pairs)
        factors = np.where(violations > 0.0, self.weights[low:high], 0.0)
        by_node, by_edge = graphs.over_nodes(low, high, factors)
        of_nodes *= by_node[:, np.newaxis]
        of_edges *= by_edge[:, np.newaxis, np.newaxis]
        return float(factors @ violations), self.features(of_nodes, of_edges, low, high)

    def _differences(self, found: Array, factors: Array, low: int, high: int) -> Array:
        """Return the features of labellings minus the true features, times a factor for each graph."""
        graphs, S = self.graphs, self.graphs.n_states
        truth, ends = graphs.labels[graphs.nodes_of(low, high)], graphs.ends(low, high)
        by_node, by_edge = graphs.over_nodes(low, high, factors)
        of_nodes, of_edges = np.zeros((truth.size, S)), np.zeros((len(ends), S, S))
        for labels, sign in ((found, 1.0), (truth, -1.0)):
            of_nodes[np.arange(truth.size), labels] += sign * by_node
            of_edges[np.arange(len(ends)), *labels[ends].T] += sign * by_edge
        return self.features(of_nodes, of_edges, low, high)


def _tables(pairs: Array, edges: slice) -> Array:
    """Return one table for each of the edges; edge e uses table e modulo the number of tables."""
    if len(pairs) == 0:
        return pairs
    return pairs[np.arange(edges.start, edges.stop) % len(pairs)]
