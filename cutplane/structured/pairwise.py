"""Max-margin risks of labelled graphs with scores that are linear in the weights."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array
from cutplane.risks.base import Estimate
from cutplane.risks.examples import as_weights
from cutplane.runtime.deadline import check_time, seconds_left
from cutplane.runtime.threads import run_chunks
from cutplane.structured.example_sum import ExampleSum, Factors, Shares
from cutplane.structured.graphs import BestMarginals, Graphs
from cutplane.structured.mixture import pack, slots
from cutplane.structured.risk import Decoder
from cutplane.structured.sequences import as_costs

if TYPE_CHECKING:
    from cutplane.graphical.model import GraphicalModel
    from cutplane.graphical.result import MAPResult

_SMALL = 1000
"""Largest number of columns for which a linear programme is tried before `map`, because it takes a fraction
of the time."""
_CLOSED = 1e-9
"""Relative gap of an exact labelling that is accepted, because `map` cannot prove a smaller one."""
_MOST = 0.9
"""Least share of the largest violation in a block step, because steps converge with a relative error."""
_KEPT = 2**27
"""Largest number of floats in the results from which `map` starts again, because they take a gibibyte."""
_PER_LINK = 10
"""Number of integers in a result for each end of an edge, because the messages need as many indices."""


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
        self._models: dict[Any, GraphicalModel] = {}
        self._results: dict[int, MAPResult] = {}
        self._room = _KEPT

    @property
    def work(self) -> Array:
        """The cumulative number of scores of the graphs, shape (m + 1,)."""
        return self.graphs.work

    def part(self, low: int, high: int) -> Self:
        part = super().part(low, high)
        part.graphs = self.graphs.part(low, high)
        return part

    def __getstate__(self) -> dict[str, Any]:
        made = {"_marginals": {}, "_models": {}, "_results": {}, "_room": _KEPT}
        return {**vars(self), **made}  # models of HiGHS cannot be pickled

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
        """Capabilities that the decoder lacks.

        Marginals in place of labellings give no block steps and no cuts of multipliers. Only `map` has an
        accuracy, so that forests, marginals and inner decoders give no estimates.
        """
        if self.relaxed:
            return Capability.BLOCK_ASCENT, Capability.DUAL_CUT, Capability.ON_DEMAND
        return () if self.decoder == "exact" and not self.graphs.forests.all() else (Capability.ON_DEMAND,)

    def oracle(self, x: Array) -> tuple[float, Array]:
        run = run_chunks if self.graphs.forests.all() else map  # a linear programme serves many graphs
        parts = list(run(lambda chunk: self._part(x, *chunk), self.graphs.chunks))
        return sum(value for value, _ in parts), np.sum([slope for _, slope in parts], axis=0)

    def estimate(self, x: Array, accuracy: float, start: Estimate | None = None) -> Estimate:
        """Return an upper bound of the value at `x`, and a cut that is below it by at most `accuracy` there.

        Graphs with cycles are decoded as accurately as required, from their last labellings and messages. If
        `map` ends without a proof, the bound is further above the cut.
        """
        graphs, value, weight = self.graphs, 0.0, float(self.weights.sum())
        labels = graphs.labels.copy()
        for low, high in graphs.chunks:
            weights = self.weights[low:high]
            unaries, pairs = self._augmented(x, low, high)
            found, bounds, gap = self._bounded(unaries, pairs, low, high, accuracy, weight)
            accuracy, weight = accuracy - gap, weight - float(weights.sum())
            violations, true_scores = self._violations(unaries, pairs, found, low, high)
            better, _ = graphs.over_nodes(low, high, violations > 0.0)
            labels[graphs.nodes_of(low, high)][better] = found[better]
            value += float(weights @ np.maximum(np.maximum(violations, bounds - true_scores), 0.0))
        u = pack(np.ones((1, len(graphs))), labels[np.newaxis], np.diff(graphs.starts))
        slopes, offsets = self.dual_cut(u)
        return Estimate(np.maximum(value, slopes @ x + offsets), slopes, offsets, u)

    def _bounded(
        self, unaries: Array, pairs: Array, low: int, high: int, accuracy: float, weight: float
    ) -> tuple[Array, Array, float]:
        """Return labellings of graphs, upper bounds of all scores of each, and the weighted sum of the gaps.

        Graphs without cycles have the bound -inf. The accuracy is for graphs of the given total weight, of
        which these are the first; an accuracy that a graph does not need is shared by the next ones.
        """
        truth = self.graphs.labels[self.graphs.nodes_of(low, high)]
        found, bounds, total = truth.copy(), np.full(high - low, -np.inf), 0.0
        for i, nodes, tables in self._cyclic(pairs, low, high):
            share = max(weight, float(self.weights[i]))
            each = max(accuracy - total, 0.0) / share if share > 0.0 else math.inf
            found[nodes], bounds[i - low], gap = self._mapped(unaries[nodes], tables, i, each, truth[nodes])
            total, weight = total + self.weights[i] * gap, weight - float(self.weights[i])
        self._decode_forests(unaries.copy(), pairs, low, high, found)
        return found, bounds, total

    def decode(self, w: Array, i: int) -> Array:
        """Return the best labelling of graph i; if `map` decodes, one with most of the largest violation."""
        unaries, pairs = self._augmented(w, i, i + 1)
        if not offers(self, Capability.ON_DEMAND):
            return self.labellings(unaries, pairs, i, i + 1)
        accuracy = math.inf
        while True:
            found, (bound,), _ = self._bounded(unaries, pairs, i, i + 1, accuracy, 1.0)
            (violation,), (truth,) = self._violations(unaries, pairs, found, i, i + 1)
            if accuracy == 0.0 or violation >= _MOST * (bound - truth):
                return found
            accuracy = 0.5 * (1.0 - _MOST) * max(bound - truth, 0.0) if accuracy == math.inf else 0.0

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
        found = np.zeros(len(unaries), dtype=np.int64)
        for i, nodes, tables in self._cyclic(pairs, low, high):
            found[nodes] = self._mapped(unaries[nodes], tables, i)[0]
        self._decode_forests(unaries, pairs, low, high, found)
        return found

    def _cyclic(self, pairs: Array, low: int, high: int) -> Iterator[tuple[int, slice, Array]]:
        """Yield each graph with cycles, the range of its nodes, and its tables, a single one if all agree."""
        graphs = self.graphs
        for i in (np.flatnonzero(~graphs.forests[low:high]) + low).tolist():
            nodes, edges = (slice(part.start - begin, part.stop - begin) for part, begin in (
                (graphs.nodes_of(i, i + 1), int(graphs.starts[low])),
                (graphs.edges_of(i, i + 1), int(graphs.edge_starts[low])),
            ))  # fmt: skip
            yield i, nodes, pairs if len(pairs) == 1 else _tables(pairs, edges)

    def _decode_forests(self, unaries: Array, pairs: Array, low: int, high: int, found: Array) -> None:
        """Write the best labellings of graphs without cycles to `found`; `unaries` is overwritten."""
        from cutplane.structured.forest_passes import best_labellings

        graphs = self.graphs
        if graphs.forests[low:high].any():
            edges = graphs.edge_starts, graphs.edges, *graphs.walk, graphs.forests
            first, message = graphs.edges_of(low, high).start, np.empty(graphs.n_states)
            best_labellings(graphs.starts, edges, first, low, high, unaries, pairs, message, found)

    def _mapped(
        self,
        unaries: Array,
        pairs: Array,
        i: int,
        accuracy: float | None = None,
        labelling: Array | None = None,
    ) -> tuple[Array, float, float]:
        """Return a labelling of a graph with cycles, an upper bound of all scores, and their difference.

        Without an accuracy, the labelling is the best one, or `OracleError` is raised. With an accuracy, the
        search starts from the given labelling and the last result for the graph.
        """
        ends, S = self.graphs.ends(i, i + 1), self.graphs.n_states
        tables = np.broadcast_to(pairs, (len(ends), S, S))
        if self.decoder == "exact" and unaries.size + tables.size <= _SMALL:
            marginals, _, bound = self._programme(len(unaries), ends)(unaries, tables)
            found = marginals.argmax(axis=1)
            score = unaries[np.arange(found.size), found].sum()
            score += tables[np.arange(len(ends)), *found[ends].T].sum()
            if bound - score <= _CLOSED * abs(score):
                return found, bound, bound - score
        model = self._model(unaries, ends, pairs)
        if accuracy is None:
            result = model.map(tol=_CLOSED, tighten=self.decoder == "exact")
            if result.labelling is None or (self.decoder == "exact" and result.status != "OPTIMAL"):
                raise OracleError(
                    f"The best labelling of graph {i} was not found: {result.status}, {result.reason}. Pass "
                    'decoder="outer", which relaxes graphs with cycles, or "inner".'
                )
            return result.labelling, -result.bound, result.gap_abs
        last, left = self._results.get(i), seconds_left()
        limit = None if left == math.inf else max(left, 1e-9)
        result = model.map(tol=_CLOSED, tol_abs=accuracy, time_limit=limit, labelling=labelling, start=last)
        check_time()
        if result.status == "INTERRUPTED":
            raise KeyboardInterrupt
        size = model.tables.size + 2 * unaries.size + 2 * len(ends) * (S + _PER_LINK)
        if last is not None or size <= self._room:
            self._room -= size if last is None else 0
            self._results[i] = result
        assert result.labelling is not None
        return result.labelling, -result.bound, result.gap_abs

    def _model(self, unaries: Array, ends: Array, pairs: Array) -> GraphicalModel:
        """Return the model of a graph; models of graphs with the same edges share what follows from these."""
        from cutplane.graphical.model import GraphicalModel

        key = len(unaries), ends.tobytes(), len(pairs)
        if key not in self._models:
            self._models[key] = GraphicalModel.pairwise(
                -unaries, ends, -pairs if len(pairs) > 1 else -pairs[0]
            )
        turned = ends[:, 0] > ends[:, 1]
        if turned.any():
            swapped = np.swapaxes(pairs, 1, 2)
            one = len(pairs) == 1
            pairs = (
                np.concatenate([pairs, swapped]) if one else np.where(turned[:, None, None], swapped, pairs)
            )
        return self._models[key].with_costs(-unaries, -pairs)

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
        weights = self.weights[low:high]
        unaries, pairs = self._augmented(w, low, high)
        if self.relaxed:
            return self._relaxed_part(unaries, pairs, low, high)
        found = self.labellings(unaries.copy(), pairs, low, high)
        violations, _ = self._violations(unaries, pairs, found, low, high)
        factors = np.where(violations > 0.0, weights, 0.0)
        return float(factors @ violations), self._differences(found, factors, low, high)

    def _violations(
        self, unaries: Array, pairs: Array, found: Array, low: int, high: int
    ) -> tuple[Array, Array]:
        """Return the scores of labellings above the scores of the true ones, and the latter."""
        graphs = self.graphs
        truth, ends = graphs.labels[graphs.nodes_of(low, high)], graphs.ends(low, high)
        here, tables = np.arange(truth.size), np.arange(len(ends)) % max(1, len(pairs))
        of_truth = unaries[here, truth], pairs[tables, *truth[ends].T]
        gains = unaries[here, found] - of_truth[0], pairs[tables, *found[ends].T] - of_truth[1]
        return graphs.sums(low, high, *gains), graphs.sums(low, high, *of_truth)

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
