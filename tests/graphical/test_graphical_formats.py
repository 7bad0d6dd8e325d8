"""Cost functions by keywords, clauses, quadratic functions and CFN files: against their definitions."""

import io
import itertools
import json
import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutplane.exceptions import InvalidInputError
from cutplane.graphical import (
    GraphicalModel,
    from_networkx,
    from_pgmpy,
    read_cfn,
    read_opengm,
    read_wcnf,
    read_wcsp,
    write_cfn,
    write_wcsp,
)

INF, TOP = math.inf, 10_000


def gap(comparator, total, to):
    """Return by how much a comparison is violated, as the format's description says."""
    return {
        "==": abs(to - total),
        "<=": max(0, total - to),
        "<": max(0, total - to + 1),
        "!=": int(total == to),
        ">": max(0, to - total + 1),
        ">=": max(0, to - total),
    }[comparator]


def penalty(metric, cost, violation):
    return {"hard": cost * (violation > 0), "quad": cost * violation**2}.get(metric, cost * violation)


def outside(n, low, high):
    return max(low - n, n - high, 0)


def accepted(transitions, starts, ends, x):
    states = set(starts)
    for symbol in x:
        states = {t for s, y, t in transitions if s in states and y == symbol}
    return bool(states & set(ends))


def least_run(transitions, starts, ends, x):
    costs = dict(starts)
    for symbol in x:
        after = {}
        for s, y, t, cost in transitions:
            if s in costs and y == symbol:
                after[t] = min(after.get(t, INF), costs[s] + cost)
        costs = after
    ends = dict(ends)
    return min((cost + ends[s] for s, cost in costs.items() if s in ends), default=INF)


class Draw:
    """Random parameters of a cost function of four variables with three states."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def metric(self, *names):
        return str(self.rng.choice(names or ("hard", "lin", "quad")))

    def cost(self):
        return int(self.rng.choice([1, 7, TOP]))

    def integer(self, low, high):
        return int(self.rng.integers(low, high))

    def values(self):
        return self.rng.permutation(3)[: self.integer(0, 4)].tolist()

    def bounds(self, weights=0):
        rows = []
        for value in self.values():
            low = self.integer(0, 3)
            rows.append([value, low, low + self.integer(0, 3), *(self.integer(1, 9) for _ in range(weights))])
        return rows


def all_different(d):
    metric, cost = d.metric(), d.cost()
    return [metric, cost], lambda x: sum(penalty(metric, cost, max(x.count(v) - 1, 0)) for v in range(3))


def soft_all_different(d):
    metric, cost = d.metric("var", "dec", "decbi"), d.cost()
    if metric == "var":
        return [metric, cost], lambda x: cost * (4 - len(set(x)))
    return [metric, cost], lambda x: cost * sum(a == b for a, b in itertools.combinations(x, 2))


def cardinalities(d, *metrics):
    metric, cost, rows = d.metric(*metrics), d.cost(), d.bounds()
    return [metric, cost, rows], lambda x: sum(
        penalty(metric, cost, outside(x.count(v), low, high)) for v, low, high in rows
    )


def weighted_cardinalities(d):
    rows = d.bounds(weights=2)
    return ["wdec", 1, rows], lambda x: sum(
        a * max(low - x.count(v), 0) + b * max(x.count(v) - high, 0) for v, low, high, a, b in rows
    )


def among(d):
    metric, cost, values, low = d.metric(), d.cost(), d.values(), d.integer(0, 4)
    return [metric, cost, values, low, low + 1], lambda x: penalty(
        metric, cost, outside(sum(a in values for a in x), low, low + 1)
    )


def soft_among(d):
    cost, values, low = d.cost(), d.values(), d.integer(0, 4)
    return [
        "var",
        cost,
        low,
        low + 1,
        values,
    ], lambda x: cost * outside(sum(a in values for a in x), low, low + 1)


def variable_among(d):
    cost, values = d.cost(), d.values()
    return ["hard", cost, values], lambda x: cost * (sum(a in values for a in x[:3]) != x[3])


def same(d):
    metric, cost = d.metric(), d.cost()
    return [metric, cost], lambda x: sum(
        penalty(metric, cost, abs(x[:2].count(v) - x[2:].count(v))) for v in range(3)
    )


def same_cardinalities(d):
    metric, cost, rows = d.metric(), d.cost(), d.bounds()
    return (
        [metric, cost, rows],
        lambda x: (
            sum(penalty(metric, cost, abs(x[:2].count(v) - x[2:].count(v))) for v in range(3))
            + sum(
                penalty(metric, cost, outside(half.count(v), low, high))
                for half in (x[:2], x[2:])
                for v, low, high in rows
            )
        ),
    )


def soft_same(d):
    cost = d.cost()
    return [
        cost,
        [0, 2],
        [3, 1],
    ], lambda x: cost * sum((Counter([x[0], x[2]]) - Counter([x[3], x[1]])).values())


def overlap(d):
    metric, cost, comparator, to = (
        d.metric(),
        d.cost(),
        d.metric("==", "<=", "<", "!=", ">", ">="),
        d.integer(0, 3),
    )
    return [metric, cost, comparator, to], lambda x: penalty(
        metric, cost, gap(comparator, (x[0] == x[2] != 0) + (x[1] == x[3] != 0), to)
    )


def total(d):
    metric, cost, comparator, to = (
        d.metric(),
        d.cost(),
        d.metric("==", "<=", "<", "!=", ">", ">="),
        d.integer(0, 9),
    )
    return [metric, cost, comparator, to], lambda x: penalty(metric, cost, gap(comparator, sum(x), to))


def variable_total(d):
    cost, comparator = d.cost(), d.metric("==", "<=", "<", "!=", ">", ">=")
    return ["hard", cost, comparator], lambda x: cost * (gap(comparator, sum(x[:3]), x[3]) > 0)


def largest(d):
    default, rows = d.integer(0, 9), [[i, d.integer(0, 3), d.integer(0, 9)] for i in range(4)]
    costs = {(i, v): cost for i, v, cost in rows}
    return [default, rows], lambda x: max(costs.get((i, v), default) for i, v in enumerate(x))


def soft_regular(d):
    cost, steps = (
        d.cost(),
        [[d.integer(0, 3), d.integer(0, 3), d.integer(0, 3)] for _ in range(d.integer(1, 8))],
    )
    words = [y for y in itertools.product(range(3), repeat=4) if accepted(steps, [0], [1, 2], y)]
    return ["var", cost, 3, [0], [1, 2], steps], lambda x: min(
        (cost * sum(a != b for a, b in zip(x, y, strict=True)) for y in words), default=INF
    )


def regular(d):
    steps = {(d.integer(0, 3), d.integer(0, 3), d.integer(0, 3)): d.integer(0, 5) for _ in range(12)}
    steps = [[*key, cost] for key, cost in steps.items()]
    return [3, [[0, 2], [1, 0]], [[2, 3], [1, 1]], steps], lambda x: least_run(
        steps, [(0, 2), (1, 0)], [(2, 3), (1, 1)], x
    )


def knapsack_by_tuples(d):
    capacity, rows = d.integer(-2, 8), [[i, v, d.integer(-2, 6)] for i in range(4) for v in d.values()]
    weights = {(i, v): weight for i, v, weight in rows}
    return [
        capacity,
        rows,
    ], lambda x: 0 if sum(weights.get(item, 0) for item in enumerate(x)) >= capacity else INF


FUNCTIONS = {
    "walldiff": all_different,
    "salldiff": soft_all_different,
    "wgcc": cardinalities,
    "sgccdp": lambda d: cardinalities(d, "var"),
    "sgcc": weighted_cardinalities,
    "wamong": among,
    "samong": soft_among,
    "wvaramong": variable_among,
    "wsame": same,
    "wsamegcc": same_cardinalities,
    "ssame": soft_same,
    "woverlap": overlap,
    "wsum": total,
    "wvarsum": variable_total,
    "max": largest,
    "sregular": soft_regular,
    "wregular": regular,
    "knapsackv": knapsack_by_tuples,
}


def wcsp_words(keyword, parameters):
    """Write parameters with the lengths of the lists in front."""
    if keyword == "ssame":
        return [parameters[0], 2, 2, *parameters[1], *parameters[2]]
    words = []
    for value in parameters:
        words += [len(value), *np.ravel(value).tolist()] if isinstance(value, list) else [value]
    return words


def assert_energies(model, energy, sizes, top=INF):
    for x in itertools.product(*map(range, sizes)):
        expected, found = energy(x), model.energy(model.complete(x))
        if expected < top:
            assert found == pytest.approx(expected), x
        else:
            assert found >= top, x


@settings(max_examples=8, deadline=None)
@pytest.mark.parametrize("keyword", FUNCTIONS)
@given(seed=st.integers(0, 2**32))
def test_a_function_by_keyword_costs_as_defined(keyword, seed):
    parameters, energy = FUNCTIONS[keyword](Draw(seed))
    words = " ".join(map(str, wcsp_words(keyword, parameters)))
    wcsp = f"t 4 3 1 {TOP}\n3 3 3 3\n4 0 1 2 3 -1 {keyword} {words}\n"
    assert_energies(read_wcsp(io.StringIO(wcsp)), energy, [3] * 4, TOP)
    network = {
        "problem": {"name": "t", "mustbe": f"<{TOP}.0"},
        "variables": {name: 3 for name in "abcd"},
        "functions": {"f": {"scope": list("abcd"), "type": keyword, "params": parameters}},
    }
    assert_energies(read_cfn(io.StringIO(json.dumps(network))), energy, [3] * 4, TOP)


@pytest.mark.parametrize(
    "words, energy",
    [
        ("2 0 1 -1 >= 1 1", lambda x, y: 0 if x >= y + 1 else 1 if y + 1 - x == 1 else INF),
        ("2 0 1 -1 > 0 2", lambda x, y: 0 if x > y else y + 1 - x if y + 1 - x <= 2 else INF),
        ("2 0 1 -1 <= 1 0", lambda x, y: 0 if x <= y + 1 else INF),
        ("2 0 1 -1 < -1 9", lambda x, y: max(x - y + 2, 0)),
        ("2 0 1 -1 = 1 1", lambda x, y: abs(x - y - 1) if abs(x - y - 1) <= 1 else INF),
        ("2 0 1 -1 disj 2 1 9", lambda x, y: 0 if x >= y + 1 or y >= x + 2 else 9),
        (
            "2 0 1 -1 sdisj 1 1 2 1 3 4",
            lambda x, y: (
                INF
                if y > 1 or (x < 2 and y < 1 and not (x >= y + 1 or y >= x + 1))
                else 3 * (x == 2) + 4 * (y == 1)
            ),
        ),
        ("2 0 1 -1 clique 1 2 0 1 1 2", lambda x, y: INF if x < 2 and y == 2 else 0),
        ("2 0 1 -1 knapsack 3 2 1", lambda x, y: 0 if x == y == 1 else INF),
        ("2 0 1 -1 knapsackp 3 2 1 2 2 3 1 0 1", lambda x, y: 0 if x == 2 or (x == 1 and y == 0) else INF),
    ],
)
def test_a_function_of_two_variables_costs_as_defined(words, energy):
    model = read_wcsp(io.StringIO(f"t 2 3 1 {TOP}\n3 3\n{words}\n"))
    assert_energies(model, lambda x: energy(*x), [3, 3])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0, 3, TOP]))
def test_few_tuples_of_many_variables_cost_as_written(seed, default):
    """Also where the default is neither the least nor the largest cost."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(6).tolist()
    tuples = {tuple(rng.integers(0, 3, 6).tolist()): int(rng.integers(0, 6)) for _ in range(6)}
    rows = "\n".join(" ".join(map(str, [*key, cost])) for key, cost in tuples.items())
    scope = " ".join(map(str, order))
    model = read_wcsp(io.StringIO(f"t 6 3 1 {TOP}\n3 3 3 3 3 3\n6 {scope} {default} {len(tuples)}\n{rows}\n"))
    assert model.table_sizes.sum() < 3**6
    for x in [
        *rng.integers(0, 3, (30, 6)).tolist(),
        *([key[order.index(u)] for u in range(6)] for key in tuples),
    ]:
        expected = tuples.get(tuple(x[u] for u in order), default)
        assert model.energy(model.complete(x)) == (expected if expected < TOP else INF)


def test_long_clauses_need_no_large_tables():
    n = 200
    positive, negative = (" ".join(str(sign * u) for u in range(1, n + 1)) for sign in (1, -1))
    text = f"p wcnf {n} 2 9\n9 {positive} 0\n4 {negative} 0\n"
    model = read_wcnf(io.StringIO(text))
    assert model.table_sizes.sum() < 10 * 2 * n
    labelling = np.zeros(n, dtype=int)
    assert model.energy(model.complete(labelling)) == INF
    assert model.energy(model.complete(labelling + 1)) == 4.0
    labelling[7] = 1
    assert model.energy(model.complete(labelling)) == 0.0


def test_a_negative_transition_may_make_up_for_a_cost_above_the_bound():
    network = {
        "problem": {"name": "t", "mustbe": "<10.0"},
        "variables": {"x": 2, "y": 2},
        "functions": {
            "f": {"scope": ["x"], "costs": [20, 12]},
            "g": {
                "scope": ["y"],
                "type": "wregular",
                "params": [1, [[0, 0]], [[0, 0]], [[0, 0, 0, 0], [0, 1, 0, -15]]],
            },
        },
    }
    result = read_cfn(io.StringIO(json.dumps(network))).map()
    assert (result.labelling.tolist(), result.energy) == ([1, 1], -3.0)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("precision", [0, 1])
def test_hard_constraints_survive_rounding_in_cfn_files(seed, precision):
    """Rounding many factors changes the sum of their least costs, by which a cost counts as forbidden."""
    rng = np.random.default_rng(seed)
    factors = []
    for u in range(8):
        table = rng.choice([-7.5, 0.05, 0.5, 3.5, 40.5], (2, 2)) + rng.choice([-100.0, 0.0, 100.0])
        factors.append(((u, u + 1), np.where(rng.random((2, 2)) < 0.3, INF, table)))
    model, file = GraphicalModel([2] * 9, factors), io.StringIO()
    write_cfn(model, file, precision)
    back = read_cfn(io.StringIO(file.getvalue()))
    x = rng.integers(0, 2, (60, 9))
    assert (np.isinf(back.energies(x)) == np.isinf(model.energies(x))).all()


def test_what_no_file_can_hold_is_refused():
    with pytest.raises(InvalidInputError, match=r"sum to .* reduce precision"):
        write_wcsp(GraphicalModel([2], [((0,), [0.0, 1e9])]), io.StringIO(), precision=15)
    for write in (write_cfn, write_wcsp):
        with pytest.raises(InvalidInputError, match="precision must be at most 15"):
            write(GraphicalModel([2]), io.StringIO(), precision=16)


def test_models_of_opengm_are_sums_of_their_functions(tmp_path):
    """Functions of each kind, as OpenGM writes them: the first coordinate of a table changes fastest."""
    h5py = pytest.importorskip("h5py")
    table = np.arange(12.0).reshape(2, 3, 2)
    functions = {
        0: ([3, 2, 3, 2, 1, 3], [*table.ravel(order="F"), 7, 8, 9]),
        2: ([2, 3], [0.5]),
        3: ([3, 3], [1.0, 4.0]),
        4: ([2, 3], [0.25]),
        5: ([3, 3], [2.0, 3.0]),
        6: ([2, 3], [10.0, 20.0]),
        7: ([3, 2, 3, 2], [30.0, 40.0]),
    }
    factors = [(0, 0, [0, 1, 2]), (1, 0, [1]), (0, 1, [0, 1]), (0, 2, [1, 3]), (0, 3, [0, 1]), (0, 4, [1, 3])]
    factors += [(0, 5, [0, 1]), (0, 6, [0, 1, 2])]
    kinds = list(functions)
    with h5py.File(tmp_path / "model.h5", "w") as file:
        group = file.create_group("gm")
        counts = [x for kind in kinds for x in (16000 + kind, 2 if kind == 0 else 1)]
        group["header"] = np.array([2, 0, 4, len(factors), len(kinds), *counts, 1], dtype=np.uint64)
        group["numbers-of-states"] = np.array([2, 3, 2, 3], dtype=np.uint64)
        for kind, (indices, values) in functions.items():
            part = group.create_group(f"function-id-{16000 + kind}")
            part["indices"], part["values"] = np.array(indices, dtype=np.uint64), np.array(values)
        flat = [x for number, kind, scope in factors for x in (number, kind, len(scope), *scope)]
        group["factors"] = np.array(flat, dtype=np.uint64)

    def energy(x):
        a, b, c, d = x
        return (
            table[a, b, c]
            + [7, 8, 9][b]
            + 0.5 * abs(a - b)
            + 4.0 * min(abs(b - d), 1)
            + 0.25 * (a - b) ** 2
            + 3.0 * min((b - d) ** 2, 2)
            + (10.0 if a == b else 20.0)
            + (30.0 if a == b == c else 40.0)
        )

    assert_energies(read_opengm(tmp_path / "model.h5"), energy, [2, 3, 2, 3])
    with pytest.raises(InvalidInputError, match="there is no group 'model'; groups are 'gm'"):
        read_opengm(tmp_path / "model.h5", "model")
    with h5py.File(tmp_path / "model.h5", "a") as file:
        file["gm/factors"][4] = 9
    with pytest.raises(InvalidInputError, match=r"a factor has the variables \[0, 9, 2\]"):
        read_opengm(tmp_path / "model.h5")
    (tmp_path / "text.h5").write_text("MARKOV")
    with pytest.raises(InvalidInputError, match="is not a model of OpenGM"):
        read_opengm(tmp_path / "text.h5")


class Graph:
    """The part of a graph of networkx that is read."""

    def __init__(self, nodes, edges, directed):
        self.nodes, self._edges, self._directed = nodes, edges, directed

    def is_directed(self):
        return self._directed

    def edges(self, data):
        return [(u, v, attributes) for (u, v), attributes in self._edges.items()]


class Nodes(dict):
    def __call__(self, data):
        return self.items()


@pytest.mark.parametrize("directed", [False, True])
def test_graphs_of_networkx_have_the_energies_of_their_nodes_and_edges(directed):
    edges = {("b", "a"): {"energies": [[1, 2], [3, 4], [5, 6]] if directed else [[1, 3, 5], [2, 4, 6]]}}
    nodes = Nodes(a={"energies": [0, 10]}, b={"energies": [0, 20, 40]})
    model = from_networkx(Graph(nodes, edges, directed))
    table = np.array([[1, 2], [3, 4], [5, 6]])
    assert_energies(model, lambda x: 10 * x[0] + 20 * x[1] + table[x[1], x[0]], [2, 3])
    with pytest.raises(InvalidInputError, match="node 'a' has no attribute 'costs'"):
        from_networkx(Graph(nodes, edges, directed), "costs")
    nodes["b"]["energies"] = 3.0
    with pytest.raises(InvalidInputError, match="node 'b' must have a vector"):
        from_networkx(Graph(nodes, edges, directed))
    with pytest.raises(InvalidInputError, match="Expected a graph of networkx, got 3"):
        from_networkx(3)


def test_bayesian_networks_of_pgmpy_have_the_energies_of_their_probabilities():
    factor = SimpleNamespace(variables=["y", "x"], values=np.array([[0.5, 0.25], [0.5, 0.0], [0.0, 0.75]]))
    network = SimpleNamespace(nodes=["x", "y"], cpds=[SimpleNamespace(to_factor=lambda: factor)])
    with np.errstate(divide="ignore"):
        assert_energies(from_pgmpy(network), lambda x: -np.log(factor.values[x[1], x[0]]), [2, 3])
    factor.values[0, 0] = -1
    with pytest.raises(InvalidInputError, match="not at least 0"):
        from_pgmpy(network)
    with pytest.raises(InvalidInputError, match="Expected a model of pgmpy"):
        from_pgmpy(SimpleNamespace(nodes=[]))


@pytest.mark.parametrize("labelling", [None, 3, [[0, 1]], [0, 0, 0], "ab", [0.5]])
def test_what_is_no_labelling_of_the_first_variables_is_refused(labelling):
    with pytest.raises(InvalidInputError, match=r"labelling must have the states|The evidence says"):
        GraphicalModel([2, 2]).complete(labelling)


def test_an_open_file_is_no_hdf5_file():
    pytest.importorskip("h5py")
    with pytest.raises(InvalidInputError, match="path must be the path of an HDF5 file, got StringIO"):
        read_opengm(io.StringIO(""))
