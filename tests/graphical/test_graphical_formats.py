"""Cost functions by keywords, clauses, quadratic functions and CFN files: against their definitions."""

import io
import json
import math
from collections import Counter
from itertools import combinations, product
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


def penalty(metric, cost, violation):
    return {"hard": cost * (violation > 0), "quad": cost * violation**2}.get(metric, cost * violation)


def compared(metric, cost, comparator, total, to):
    """Return the penalty of a comparison by how much it is violated, as the format's description says."""
    below, above = max(0, to - total), max(0, total - to)
    of_equal = {"==": below + above, "!=": int(total == to), "<=": above, ">=": below}
    violation = of_equal | {"<": max(0, total - to + 1), ">": max(0, to - total + 1)}
    return penalty(metric, cost, violation[comparator])


def outside(n, low, high):
    return max(low - n, n - high, 0)


def counted(x, metric, cost, rows):
    return sum(penalty(metric, cost, outside(x.count(v), low, high)) for v, low, high in rows)


def differing(x, metric, cost):
    return sum(penalty(metric, cost, abs(x[:2].count(v) - x[2:].count(v))) for v in range(3))


def least_run(x, n, starts, ends, steps):
    costs = dict(starts)
    for symbol in x:
        after = {}
        for s, y, t, cost in steps:
            if s in costs and y == symbol:
                after[t] = min(after.get(t, INF), costs[s] + cost)
        costs = after
    return min((cost + dict(ends)[s] for s, cost in costs.items() if s in dict(ends)), default=INF)


def least_changes(x, metric, cost, n, starts, ends, steps):
    steps = [(s, v, t, cost * (v != y)) for s, y, t in steps for v in range(3)]
    return least_run(x, n, [(s, 0) for s in starts], [(s, 0) for s in ends], steps)


def counters(rng, *more):
    rows = [
        [v, *rng.integers(0, 3, 2), *rng.integers(1, 9, len(more))]
        for v in rng.permutation(3)[: rng.integers(4)]
    ]
    return [[int(v), int(low), int(low + width), *map(int, more)] for v, low, width, *more in rows]


DRAWS = {
    "metric": lambda rng: str(rng.choice(["hard", "lin", "quad"])),
    "soft": lambda rng: str(rng.choice(["var", "dec", "decbi"])),
    "comparator": lambda rng: str(rng.choice(["==", "<=", "<", "!=", ">", ">="])),
    "cost": lambda rng: int(rng.choice([1, 7, TOP])),
    "small": lambda rng: int(rng.integers(0, 4)),
    "large": lambda rng: int(rng.integers(-2, 9)),
    "values": lambda rng: rng.permutation(3)[: rng.integers(0, 4)].tolist(),
    "bounds": counters,
    "weighted": lambda rng: counters(rng, 1, 1),
    "items": lambda rng: [
        [i, v, int(rng.integers(-2, 6))] for i in range(4) for v in range(3) if rng.random() < 0.5
    ],
    "maxima": lambda rng: [[i, int(rng.integers(0, 3)), int(rng.integers(0, 9))] for i in range(4)],
    "steps": lambda rng: rng.integers(0, 3, (rng.integers(1, 8), 3)).tolist(),
    "arcs": lambda rng: [
        [*k, int(rng.integers(0, 5))] for k in {tuple(k) for k in rng.integers(0, 3, (12, 3)).tolist()}
    ],
}
"""Random parameters of a cost function of four variables with three states."""
FUNCTIONS = {
    "walldiff": (
        ["metric", "cost"],
        lambda x, m, c: sum(penalty(m, c, max(x.count(v) - 1, 0)) for v in range(3)),
    ),
    "salldiff": (
        ["soft", "cost"],
        lambda x, m, c: c * (4 - len(set(x)) if m == "var" else sum(a == b for a, b in combinations(x, 2))),
    ),
    "wgcc": (["metric", "cost", "bounds"], counted),
    "sgccdp": (["var", "cost", "bounds"], counted),
    "sgcc": (
        ["wdec", 1, "weighted"],
        lambda x, m, c, rows: sum(
            a * max(low - x.count(v), 0) + b * max(x.count(v) - high, 0) for v, low, high, a, b in rows
        ),
    ),
    "wamong": (
        ["metric", "cost", "values", "small", "small"],
        lambda x, m, c, values, low, high: penalty(m, c, outside(sum(a in values for a in x), low, high)),
    ),
    "samong": (
        ["var", "cost", "small", "small", "values"],
        lambda x, m, c, low, high, values: c * outside(sum(a in values for a in x), low, high),
    ),
    "wvaramong": (
        ["hard", "cost", "values"],
        lambda x, m, c, values: c * (sum(a in values for a in x[:3]) != x[3]),
    ),
    "wsame": (["metric", "cost"], differing),
    "wsamegcc": (
        ["metric", "cost", "bounds"],
        lambda x, m, c, rows: differing(x, m, c) + counted(x[:2], m, c, rows) + counted(x[2:], m, c, rows),
    ),
    "ssame": (
        ["cost", [0, 2], [3, 1]],
        lambda x, c, *_: c * sum((Counter([x[0], x[2]]) - Counter([x[3], x[1]])).values()),
    ),
    "woverlap": (
        ["metric", "cost", "comparator", "small"],
        lambda x, *p: compared(*p[:3], (x[0] == x[2] != 0) + (x[1] == x[3] != 0), p[3]),
    ),
    "wsum": (["metric", "cost", "comparator", "large"], lambda x, *p: compared(*p[:3], sum(x), p[3])),
    "wvarsum": (["hard", "cost", "comparator"], lambda x, *p: compared(*p, sum(x[:3]), x[3])),
    "max": (
        ["small", "maxima"],
        lambda x, default, rows: max(
            {(i, v): c for i, v, c in rows}.get(item, default) for item in enumerate(x)
        ),
    ),
    "sregular": (["var", "cost", 3, [0], [1, 2], "steps"], least_changes),
    "wregular": ([3, [[0, 2], [1, 0]], [[2, 3], [1, 1]], "arcs"], least_run),
    "knapsackv": (
        ["large", "items"],
        lambda x, least, rows: 0 if sum(w for i, v, w in rows if x[i] == v) >= least else INF,
    ),
}
"""The parameters of each keyword, and the cost of a labelling with these parameters."""


def wcsp_words(keyword, parameters):
    """Write parameters with the lengths of the lists in front."""
    if keyword == "ssame":
        return [parameters[0], 2, 2, *parameters[1], *parameters[2]]
    words = []
    for value in parameters:
        words += [len(value), *np.ravel(value).tolist()] if isinstance(value, list) else [value]
    return words


def assert_energies(model, energy, sizes, top=INF):
    for x in product(*map(range, sizes)):
        expected, found = energy(x), model.energy(model.complete(x))
        if expected < top:
            assert found == pytest.approx(expected), x
        else:
            assert found >= top, x


@settings(max_examples=8, deadline=None)
@pytest.mark.parametrize("keyword", FUNCTIONS)
@given(seed=st.integers(0, 2**32))
def test_a_function_by_keyword_costs_as_defined(keyword, seed):
    rng, (kinds, cost) = np.random.default_rng(seed), FUNCTIONS[keyword]
    parameters = [DRAWS[kind](rng) if isinstance(kind, str) and kind in DRAWS else kind for kind in kinds]

    def energy(x):
        return cost(x, *parameters)

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
