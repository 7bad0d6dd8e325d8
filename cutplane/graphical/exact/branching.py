"""Branch and bound over the states of a model, with dives from the open node of the least bound."""

from __future__ import annotations

import heapq
from functools import cached_property, partial
from itertools import count
from threading import Lock
from typing import NamedTuple, Protocol

import numpy as np

from cutplane.graphical.exact.clique_tree import CliqueTree
from cutplane.graphical.exact.orders import best_order, message_scopes, neighbourhoods
from cutplane.graphical.exact.search_node import Node, follow, restrict, root, undo
from cutplane.graphical.exact.search_passes import branching_variable, cheapest, energy_of, propagate
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock
from cutplane.runtime.compiling import routine
from cutplane.runtime.threads import get_threads, run_chunks

_PASSES = 2
"""Passes over the variables at a node, because the nodes below it continue from its costs."""
_ROOT_PASSES = 20
"""Passes at the root, because all nodes start from its costs."""
_PROGRESS = 0.3
"""Least gain of a pass, as a share of the missing bound, because a child costs about three passes."""
_NARROW = 18.0
"""log2 of the largest table of an elimination, because larger ones do not fit into the cache."""
_TOTAL = 2.0**27
"""Entries of all tables of the eliminations at a time, because they take a gigabyte."""
_MOST_ENTRIES = 2**27
"""Entries of the nodes of all dives, because they take a gigabyte."""
_REACH = 10.0
"""log2 of the excess above which a table does not guide branching, because it shrinks too slowly."""
_HOPELESS = 60.0
"""log2 of the largest table of a useful order, because branching cannot shrink larger tables enough."""
_ENTRY, _OVERHEAD = 3.0, 1e3
"""Cost of an addition, and of each variable and factor, in an elimination, in table entries that a search
reads, because these take about 5 ns, 1.5 us and 1.5 ns."""
_VISIT = 2.0
"""Cost of a node per variable, in table entries, because several loops pass over all variables."""
_WIDE = 10
"""States above which a variable is not fixed but its states are halved, because without one of many states a
node is nearly the same."""
_SLICE = 0.01
"""Seconds of one call of the compiled search, because time limits and Ctrl-C wait for its end."""
_DIVE = 20.0
"""Nodes of a dive per open node at its end, because the path to an open node costs as much as two nodes, and
all paths should cost a tenth of the time."""
_MOST_WAITING = 1e7
"""Decisions of all waiting nodes from which the search is depth-first, because they need 240 MB."""

_ENDED, _PAUSED, _FOUND, _NARROW_ENOUGH, _FULL = range(5)
_OPEN, _DEPTH, _NODES, _BEGAN, _MARK, _MARK_TOP, _MARK_DEPTH, _DEEPEST = range(8)
_HERE, _EXPECTED, _MARK_BOUND, _MARK_BEGUN, _MARK_WORK, _CONSTANT, _LEAST, _PATIENCE = range(8)


class Incumbent(Protocol):
    """The best labelling so far; a node whose bound has reached `limit` cannot improve on it."""

    @property
    def limit(self) -> float:
        """Only labellings with smaller energies than this are of interest."""
        ...

    def offer(self, candidate: Array | None) -> bool:
        """Keep the candidate if it is better; return whether it is."""
        ...


class Tree(NamedTuple):
    """The path of decisions to the present node, and the open nodes that branch off from it.

    Decision i keeps the states of ``path[i, 0]`` from ``path[i, 1]`` to ``path[i, 2]``, or removes them if
    ``path[i, 3]`` is 0. Open node i has the first ``open[i, 1]`` decisions of the path, then removes the
    states of ``open[i, 2]`` from ``open[i, 3]`` to ``open[i, 4]``; the trail is undone to ``open[i, 0]``. The
    bound of its parent is ``open_bounds[i, 0]``, and the bound of the open node is ``open_bounds[i, 1]``.
    `best` is the best labelling found in the tree, -1 before. `at` and `bounds` contain counters and bounds,
    at positions that are constants of the module.
    """

    path: Array
    open: Array
    open_bounds: Array
    at: Array
    bounds: Array
    labelling: Array
    best: Array
    usefulness: Array


class Cliques(NamedTuple):
    """The variables of each table of an elimination order: ``members[starts[i]:starts[i + 1]]``.

    `limits` are the entries of the largest table and of all tables, and the cost of an elimination without
    entries.
    """

    starts: Array
    members: Array
    limits: Array


class Dive:
    """A depth-first search from a waiting node. All arrays belong to it, because several dives run at once.

    `root_bound` is the bound of the root below `root_limit`, after `root_passes` passes.
    """

    def __init__(self, model: FactorGraph, node: Node) -> None:
        most = model.unaries.size + 1
        self.node = node
        self.tree = Tree(
            path=np.empty((most, 4), dtype=np.int64),
            open=np.empty((most, 5), dtype=np.int64),
            open_bounds=np.empty((most, 2)),
            at=np.array([0, 0, 0, 0, -1, 0, 0, 0]),
            bounds=np.array([model.constant, model.constant, 0.0, 0.0, 0.0, model.constant, np.inf, 1.0]),
            labelling=np.zeros(model.n_variables, dtype=np.int64),
            best=np.full(model.n_variables, -1),
            usefulness=np.zeros(model.n_variables),
        )
        self.root_bound, self.root_limit, self.root_passes = model.constant, np.nan, 0
        self.is_active = self.is_closed = False
        self.per_node = _SLICE

    def lower_bound(self) -> float:
        """Return a lower bound of the energies below its open nodes; inf if there is none."""
        if not self.is_active:
            return np.inf
        tree = self.tree
        return min(tree.bounds[_EXPECTED], tree.open_bounds[: tree.at[_OPEN], 1].min(initial=np.inf))

    @property
    def open_share(self) -> float:
        """The sum of 1 / 2^depth over the open nodes, of which the present one may be done in part."""
        if not self.is_active:
            return 0.0
        at, bounds, done = self.tree.at, self.tree.bounds, float(self.is_closed)
        n_open, depth = at[_OPEN], at[_DEPTH]
        if at[_MARK] >= 0:
            n_open, depth = at[_MARK], at[_MARK_DEPTH]
            searched = (self.node.work[0] - bounds[_MARK_BEGUN]) / (bounds[_MARK_WORK] - bounds[_MARK_BEGUN])
            done = min(searched * bounds[_PATIENCE] / (1.0 + bounds[_PATIENCE]), 1.0)
        return float((1.0 - done) * 0.5**depth + (0.5 ** (self.tree.open[:n_open, 1] + 1)).sum())

    def make_room(self) -> None:
        """Enlarge the trail for all blocks twice, because a node and the decision of its child save them."""
        node = self.node
        values, blocks = 2 * node.values.size, 2 * node.stamps.size
        if node.trail.size < node.tops[0] + values or node.trail_blocks.size < node.tops[1] + blocks:
            self.node = node._replace(
                trail=_longer(node.trail, node.tops[0], values),
                trail_blocks=_longer(node.trail_blocks, node.tops[1], blocks),
            )


class Branching:
    """A tree search, which can be stopped at any node and continued.

    A dive is a depth-first search from the waiting node of the least bound. It ends after so many nodes that
    the paths to its open nodes are cheap in comparison; these then become waiting nodes (Allouche et al.
    2015, doi:10.1007/978-3-319-23219-5_2). A node is split by a state of one variable. If tables
    of 2^18 entries suffice to eliminate all variables of a node, the node is searched for as long as
    elimination would take, and only then eliminated, so that the time is at most twice the shorter of the
    two. The search gets less time if the last searches did not suffice.

    `get_threads` dives run at once, and share the waiting nodes and the limit. If there are no waiting nodes
    for some of them, the open nodes of the others become waiting nodes. With several threads, the nodes
    depend on the speed of the threads.

    All unary costs and tables of the model are >= 0, so that its constant is a lower bound.
    """

    def __init__(self, model: FactorGraph, deadline: float = np.inf) -> None:
        self.model = model
        self.finished = False
        self._deadline = deadline
        self._network, node = root(model)
        n_dives = int(max(1, min(get_threads(), _MOST_ENTRIES // max(1, node.trail.size))))
        self._cliques, self._order = _elimination(model, node.counts, deadline, n_dives)
        fresh = node._replace(trail=node.trail[:0], trail_blocks=node.trail_blocks[:0])
        self._dives = [Dive(model, Node(*map(np.copy, fresh))) for _ in range(n_dives - 1)]
        self._dives.insert(0, Dive(model, node))
        self._best = self._dives[0].tree.best.copy()
        self._waiting = [(float(model.constant), 0, 0, np.empty((0, 4), dtype=np.int64))]
        self._waiting_share = 1.0
        self._numbers = count(1)
        self._lock, self._lacks_nodes = Lock(), False

    @property
    def nodes(self) -> int:
        """Number of nodes so far."""
        return sum(int(dive.tree.at[_NODES]) for dive in self._dives)

    @property
    def additions(self) -> int:
        """Most additions that changed the bound and the costs of a labelling on the path to any node.

        A pass has a forward and a backward half. In each half, every variable changes the bound and its cost,
        and every link shifts a cost to the variable and another one back, by an addition to the cost and one
        to the message.
        """
        passes = max(d.root_passes + _PASSES * (int(d.tree.at[_DEEPEST]) + 2) for d in self._dives)
        n_links = self._network.scopes.size
        return 2 * passes * (2 * self.model.n_variables + 4 * n_links) + 2 * n_links

    def run(self, incumbent: Incumbent, deadline: float = np.inf, max_nodes: float = np.inf) -> None:
        """Search until the tree is exhausted, the deadline has passed, or `nodes` is at least `max_nodes`."""
        while not self.finished and self.nodes < max_nodes and clock() <= deadline:
            self._lacks_nodes = False
            run_chunks(partial(self._work, incumbent, deadline, max_nodes), self._dives)
            if self._lacks_nodes:
                for dive in self._dives:
                    self._share(dive)
            self.finished = not self._waiting and not any(dive.is_active for dive in self._dives)

    def _work(self, incumbent: Incumbent, deadline: float, max_nodes: float, dive: Dive) -> None:
        """Run dives one after the other, until some thread has no node."""
        tree = dive.tree
        while self.nodes < max_nodes and clock() <= deadline:
            if not dive.is_active and not self._descend(dive, incumbent.limit):
                self._lacks_nodes = True
                return
            before, began = int(tree.at[_NODES]), clock()
            most = max(1, int(min(_SLICE, deadline - began) / dive.per_node))
            answer = self._slice(dive, incumbent.limit, before + int(min(most, max_nodes - self.nodes)))
            dive.per_node = (clock() - began + 1e-7) / max(1, int(tree.at[_NODES]) - before)
            if answer == _FOUND:
                with self._lock:
                    incumbent.offer(tree.labelling)
                    self._best = tree.labelling.copy()
            elif answer == _NARROW_ENOUGH:
                self._eliminate(dive, incumbent)
            elif answer == _FULL:
                dive.make_room()
            elif answer == _ENDED:
                self._share(dive)
                dive.is_active = False
            if self._lacks_nodes:
                return

    def lower_bound(self) -> float:
        """Return a lower bound of the energies of all labellings not excluded yet; inf if none remains."""
        if self.finished:
            return np.inf
        bounds = [dive.lower_bound() for dive in self._dives]
        least = min(bounds + [node[0] for node in self._waiting[:1]])
        return float(max(least, *(dive.root_bound for dive in self._dives)))

    @property
    def open_share(self) -> float:
        """Estimate the share of the search that is to be done: the sum of 1 / 2^depth over the open nodes.

        It is exact if both children of each node need as long (Kilby et al. 2006). A node that is searched
        for as long as its elimination would take, and then eliminated, is done in proportion to this time.
        """
        if self.finished:
            return 0.0
        return min(self._waiting_share + sum(dive.open_share for dive in self._dives), 1.0)

    def _slice(self, dive: Dive, limit: float, max_nodes: int) -> int:
        tree, is_closed = dive.tree, dive.is_closed
        tree.best[:] = self._best
        dive.is_closed = False
        least = np.inf if len(self._waiting) * max(1, tree.at[_DEPTH]) > _MOST_WAITING else _DIVE
        return _dive(self._network, dive.node, tree, self._cliques, is_closed, limit, max_nodes, least)

    def _share(self, dive: Dive) -> None:
        """Turn the open nodes of a dive into waiting nodes, except below a node that may be eliminated."""
        tree, at = dive.tree, dive.tree.at
        n = int(at[_MARK] if at[_MARK] >= 0 else at[_OPEN])
        for i in range(n):
            _, depth, *removed = tree.open[i]
            decisions = np.concatenate([tree.path[:depth], [[*removed, 0]]])
            with self._lock:
                waiting = (float(tree.open_bounds[i, 1]), -int(depth), next(self._numbers), decisions)
                heapq.heappush(self._waiting, waiting)
                self._waiting_share += 0.5 ** len(decisions)
        at[_OPEN] -= n
        at[_MARK] = min(at[_MARK], 0)
        for array in (tree.open, tree.open_bounds):
            array[: at[_OPEN]] = array[n : n + at[_OPEN]]

    def _descend(self, dive: Dive, limit: float) -> bool:
        """Go to the waiting node of the least bound; return whether there is one below the limit."""
        tree = dive.tree
        undo(self._network, dive.node, 0)
        dive.make_room()
        node = dive.node
        if limit != dive.root_limit:
            node.dirty[:] = True
            node.stale[:] |= np.isnan(dive.root_limit)
            dive.root_bound = propagate(self._network, node, dive.root_bound, limit, _ROOT_PASSES, _PROGRESS)
            dive.root_limit, dive.root_passes = limit, dive.root_passes + _ROOT_PASSES
            node.tops[:2] = 0
            node.tops[2] += 1
        with self._lock:
            if self._waiting and max(self._waiting[0][0], dive.root_bound) >= limit:
                self._waiting.clear()
                self._waiting_share = 0.0
            if not self._waiting:
                return False
            bound, _, _, decisions = heapq.heappop(self._waiting)
            self._waiting_share -= 0.5 ** len(decisions)
        follow(self._network, node, decisions)
        tree.path[: len(decisions)] = decisions
        tree.at[[_OPEN, _DEPTH, _BEGAN, _MARK]] = 0, len(decisions), tree.at[_NODES], -1
        tree.bounds[_HERE] = propagate(self._network, node, dive.root_bound, limit, _PASSES, _PROGRESS)
        tree.bounds[_EXPECTED] = max(bound, tree.bounds[_HERE])
        dive.is_closed = bool(tree.bounds[_HERE] >= limit)
        dive.is_active = True
        return True

    @cached_property
    def _tree(self) -> CliqueTree:
        return CliqueTree(self.model, order=self._order)

    def _eliminate(self, dive: Dive, incumbent: Incumbent) -> None:
        """Solve the present node."""
        alive = np.isfinite(dive.node.values[: self.model.unaries.size])
        dive.tree.bounds[_EXPECTED] = dive.tree.bounds[_HERE]
        try:
            labelling, _ = self._tree.restricted(alive).least(deadline=self._deadline)
        except TimeoutError:
            return
        dive.is_closed = True
        with self._lock:
            incumbent.offer(labelling)


def _longer(array: Array, used: int, more: int) -> Array:
    """Return the used entries in an array of twice the size and `more`; the others need no memory yet."""
    longer = np.empty(2 * array.size + more, dtype=array.dtype)
    longer[:used] = array[:used]
    return longer


def _elimination(
    model: FactorGraph, counts: Array, deadline: float, at_once: int
) -> tuple[Cliques, list[int]]:
    """Return the tables and the order of all nodes; without a useful order, a table of all variables."""
    starts = model.scope_starts
    scopes = (
        [tuple(scope.tolist()) for scope in np.split(model.scopes, starts[1:-1])] if starts.size > 1 else []
    )
    near = neighbourhoods(model.n_variables, scopes)
    order, _ = best_order(near, np.log2(np.maximum(counts, 2)), _HOPELESS, deadline)
    cliques = [sorted({u, *scope}) for u, scope in enumerate(message_scopes(order, near))] if order else []
    sizes = [len(clique) for clique in cliques]
    members = np.array([u for clique in cliques for u in clique], dtype=np.int64)
    limits = np.array([2.0**_NARROW, _TOTAL / at_once, _OVERHEAD * (model.n_variables + model.n_factors)])
    return Cliques(np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]), members, limits), order


@routine(allocates=False)
def _dive(network, node, tree, cliques, is_closed, limit, max_nodes, least):
    """Search depth-first from the present node, or from the node after it if `is_closed`.

    Return the reason of the stop: the dive has ended, with at least `least` nodes per open node, `max_nodes`
    nodes were visited, a labelling below the limit was found, the present node should be eliminated, or the
    trail is full.
    """
    at, bounds = tree.at, tree.bounds
    while True:
        if not is_closed:
            if at[_NODES] >= max_nodes:
                return _PAUSED
            if (
                node.tops[0] + 2 * node.values.shape[0] > node.trail.shape[0]
                or node.tops[1] + 2 * node.stamps.shape[0] > node.trail_blocks.shape[0]
            ):
                return _FULL
            bound = propagate(network, node, bounds[_HERE], limit, _PASSES, _PROGRESS)
            node.work[0] += _VISIT * node.counts.shape[0]
            if bound < limit:
                bounds[_HERE] = bound
                is_leaf = cheapest(network, node, tree.labelling)
                energy = energy_of(network, bounds[_CONSTANT], tree.labelling)
                if energy < limit and energy < bounds[_LEAST]:
                    bounds[_LEAST] = energy
                    return _FOUND
                at[_NODES] += 1
                if not is_leaf:
                    entries = _entries(node, cliques, tree.usefulness)
                    if entries < np.inf and at[_MARK] < 0:
                        at[_MARK], at[_MARK_TOP], at[_MARK_DEPTH] = at[_OPEN], node.tops[1], at[_DEPTH]
                        bounds[_MARK_BOUND], bounds[_MARK_BEGUN] = bound, node.work[0]
                        bounds[_MARK_WORK] = node.work[0] + bounds[_PATIENCE] * entries
                    if at[_MARK] >= 0 and node.work[0] >= bounds[_MARK_WORK]:
                        undo(network, node, at[_MARK_TOP])
                        at[_OPEN], at[_DEPTH], at[_MARK] = at[_MARK], at[_MARK_DEPTH], -1
                        bounds[_HERE] = bounds[_MARK_BOUND]
                        bounds[_PATIENCE] = max(0.5 * bounds[_PATIENCE], 0.01)
                        return _NARROW_ENOUGH
                    _branch(network, node, tree, bound)
                    continue
            else:
                at[_NODES] += 1
                if at[_DEPTH] > 0:
                    node.weights[tree.path[at[_DEPTH] - 1, 0]] += 1.0
        is_closed = False
        while at[_OPEN] > 0 and tree.open_bounds[at[_OPEN] - 1, 1] >= limit:
            at[_OPEN] -= 1
        if at[_OPEN] <= at[_MARK]:
            at[_MARK] = -1
            bounds[_PATIENCE] = min(2.0 * bounds[_PATIENCE], 1.0)
        if at[_OPEN] == 0 or (at[_NODES] - at[_BEGAN] >= least * at[_OPEN] and at[_MARK] < 0):
            return _ENDED
        at[_OPEN] -= 1
        top, depth, u, low, high = tree.open[at[_OPEN]]
        undo(network, node, top)
        restrict(network, node, u, low, high, False)
        tree.path[depth, 0], tree.path[depth, 1], tree.path[depth, 2], tree.path[depth, 3] = u, low, high, 0
        at[_DEPTH] = depth + 1
        bounds[_HERE], bounds[_EXPECTED] = tree.open_bounds[at[_OPEN], 0], tree.open_bounds[at[_OPEN], 1]


@routine(allocates=False)
def _branch(network, node, tree, bound):
    """Fix a variable or halve its states, and add an open node with the other states.

    The variable whose states were removed by the last decision is first, because it has few other states.

    The first node has the state in the best labelling so far, because better ones often lie near it
    (Demirovic et al. 2018, doi:10.1007/978-3-319-98334-9_7); if it was removed, the cheapest state.
    """
    at = tree.at
    u = tree.path[at[_DEPTH] - 1, 0]
    if at[_DEPTH] == 0 or tree.path[at[_DEPTH] - 1, 3] == 1 or node.counts[u] < 2:
        u = branching_variable(network, node, tree.usefulness)
    begin, count = np.int64(network.block_starts[u]), np.int64(node.counts[u])
    place, least = 0, np.inf
    for i in range(count):
        x = node.alive[begin + i]
        cost = -1.0 if x == tree.best[u] else node.values[begin + x]
        if cost < least:
            place, least = i, cost
    first, last = place, place
    if count > _WIDE:
        first, last = (0, count // 2 - 1) if place < count // 2 else (count // 2, count - 1)
    second = np.inf
    for i in range(count):
        if i < first or i > last:
            second = min(second, node.values[begin + node.alive[begin + i]])
    low, high = np.int64(node.alive[begin + first]), np.int64(node.alive[begin + last])
    i, depth, expected = at[_OPEN], at[_DEPTH], max(tree.bounds[_EXPECTED], bound)
    tree.open[i, 0], tree.open[i, 1], tree.open[i, 2] = node.tops[1], depth, u
    tree.open[i, 3], tree.open[i, 4] = low, high
    tree.open_bounds[i, 0], tree.open_bounds[i, 1] = bound, max(bound + second, expected)
    at[_OPEN] += 1
    tree.path[depth, 0], tree.path[depth, 1], tree.path[depth, 2], tree.path[depth, 3] = u, low, high, 1
    at[_DEPTH] += 1
    at[_DEEPEST] = max(at[_DEEPEST], at[_DEPTH])
    node.tops[2] += 1
    restrict(network, node, u, low, high, True)
    tree.bounds[_HERE], tree.bounds[_EXPECTED] = bound, expected


@routine(allocates=False)
def _entries(node, cliques, usefulness):
    """Return the cost of an elimination, in entries that a search reads; inf if its tables are too large.

    Set the usefulness of branching on each variable: the number of its tables that are too large, or 1 if one
    of these is far too large.
    """
    largest, most, overhead = cliques.limits
    if cliques.members.shape[0] == 0:
        usefulness[:] = 1.0
        return np.inf
    usefulness[:] = 0.0
    total, is_far, is_wide = 0.0, False, False
    for i in range(cliques.starts.shape[0] - 1):
        size = 1.0
        for j in range(cliques.starts[i], cliques.starts[i + 1]):
            size *= node.counts[cliques.members[j]]
        total += size
        if size > largest:
            is_wide = True
            if size > largest * 2.0**_REACH:
                is_far = True
                break
            for j in range(cliques.starts[i], cliques.starts[i + 1]):
                usefulness[cliques.members[j]] += 1.0
    if is_far:
        usefulness[:] = 1.0
    if is_wide:
        return np.inf
    usefulness[:] = 1.0
    if total > most:
        return np.inf
    return overhead + _ENTRY * total
