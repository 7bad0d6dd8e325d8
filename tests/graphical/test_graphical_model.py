"""Graphical models: tables, neighbourhoods, energies, and the errors."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from graphical_models import SPECIAL, random_model
from hypothesis import given
from hypothesis import strategies as st

from cutplane import InvalidInputError
from cutplane.graphical import GraphicalModel, chain, grid, potts, spin_glass

inf = np.inf


def slow_energy(factors, constant, labelling):
    return constant + sum(
        float(np.asarray(table)[tuple(labelling[u] for u in scope)]) for scope, table in factors
    )


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_energies_are_sums_of_the_tables_as_given(seed, hard):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    cardinalities = rng.integers(1, 4, n)
    factors = []
    for _ in range(rng.integers(0, 8)):
        scope = rng.permutation(n)[: rng.integers(0, n + 1)]
        table = rng.normal(size=cardinalities[scope])
        factors.append((tuple(scope), np.where(rng.random(table.shape) < 0.1 * hard, inf, table)))
    model = GraphicalModel(cardinalities, factors, constant=1.5)
    labellings = np.array(list(itertools.product(*(range(k) for k in cardinalities))))
    expected = [slow_energy(factors, 1.5, x) for x in labellings]
    assert np.allclose(model.energies(labellings), expected, rtol=1e-12, atol=1e-12)
    best, energy = model.brute_force()
    assert energy == pytest.approx(min(expected)) and (energy == inf or model.energy(best) == energy)
    assert len({model.factor(a).variables for a in range(model.n_factors)}) == model.n_factors
    for a in range(model.n_factors):
        scope, table = model.factor(a)
        assert list(scope) == sorted(scope) and table.shape == tuple(cardinalities[list(scope)])


@given(st.integers(0, 2**32 - 1))
def test_the_neighbourhood_is_that_of_the_scopes(seed):
    model = random_model(np.random.default_rng(seed))
    for u in range(model.n_variables):
        scopes = {
            a: model.factor(a).variables for a in range(model.n_factors) if u in model.factor(a).variables
        }
        assert model.factors_of(u).tolist() == list(scopes)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("repeated", [True, False])
def test_pairs_from_arrays_are_pairs_from_a_list(shared, repeated):
    rng = np.random.default_rng(0)
    edges = np.array([[1, 0], [1, 2], [3, 2], [0, 3]])
    if repeated:
        edges = np.concatenate([edges, [[0, 1], [2, 1]]])
    tables = rng.normal(size=(3, 3)) if shared else rng.normal(size=(len(edges), 3, 3))
    unaries = rng.normal(size=(4, 3))
    fast = GraphicalModel.pairwise(unaries, edges, tables, constant=2.0)
    each = np.broadcast_to(tables, (len(edges), 3, 3))
    slow = GraphicalModel(
        [3] * 4, [*(((u,), t) for u, t in enumerate(unaries)), *zip(edges, each, strict=True)], constant=2.0
    )
    as_list = GraphicalModel.pairwise(list(unaries), edges, list(each), constant=2.0)
    x = rng.integers(0, 3, (50, 4))
    assert np.allclose(fast.energies(x), slow.energies(x)) and np.allclose(
        as_list.energies(x), slow.energies(x)
    )
    assert fast.n_factors == slow.n_factors == 4
    if shared and not repeated:
        assert fast.tables.size == 2 * 9


@given(st.integers(0, 2**32 - 1))
def test_factors_given_the_same_object_share_a_table(seed):
    """Unless something is added to it; energies are sums of the given tables in any order of variables."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(4, 7)), int(rng.integers(1, 4))
    objects = [rng.normal(size=(k, k)) for _ in range(2)] + [rng.normal(size=(k, k, k)).tolist()]
    factors = []
    for _ in range(int(rng.integers(1, 30))):
        table = objects[rng.integers(3)]
        factors.append((rng.permutation(n)[: np.ndim(table)], table))
    model = GraphicalModel([k] * n, factors)
    x = rng.integers(0, k, n)
    assert model.energy(x) == pytest.approx(sum(np.asarray(t)[tuple(x[s])] for s, t in factors), abs=1e-9)
    scopes = [tuple(sorted(scope.tolist())) for scope, _ in factors]
    assert [model.factor(a).variables for a in range(model.n_factors)] == list(dict.fromkeys(scopes))
    orders = {(id(table), *np.argsort(scope).tolist()) for scope, table in factors}
    n_sums = sum(scopes.count(scope) > 1 for scope in set(scopes))
    assert np.unique(model.table_starts).size <= len(orders) + n_sums


def test_variables_of_different_sizes_in_pairs():
    model = GraphicalModel.pairwise([[0, 1], [2, 1, 0]], [[1, 0]], [np.arange(6).reshape(3, 2)])
    assert model.energy([1, 2]) == 1 + 0 + 5


@pytest.mark.parametrize("value", [-inf, np.nan])
@pytest.mark.parametrize(
    "make",
    [
        lambda a: GraphicalModel([2, 2], [((0, 1), [[a, 3], [1, 0]])]),
        lambda a: GraphicalModel([2, 2], [((0,), [a, 0])]),
        lambda a: GraphicalModel([2], [((), a)]),
        lambda a: GraphicalModel([2], [(0, [a, inf])]),
        lambda a: GraphicalModel([2], constant=a),
        lambda a: GraphicalModel.pairwise([[a, 0.0], [0.0, 0.0]], [[0, 1]], np.eye(2)),
        lambda a: GraphicalModel.pairwise(np.array([[a, 0.0], [0.0, 0.0]]), [[0, 1]], [np.eye(2)]),
        lambda a: GraphicalModel.pairwise(np.zeros((2, 2)), [[0, 1]], [[a, 0.0], [0.0, inf]]),
        lambda a: GraphicalModel.pairwise(np.zeros((2, 2)), [[0, 1]], np.array([[[a, 0.0], [0.0, 0.0]]])),
        lambda a: GraphicalModel.pairwise(np.zeros((2, 2)), [[0, 1]], [[[a, 0.0], [0.0, 0.0]]]),
        lambda a: GraphicalModel.pairwise(np.zeros((2, 2)), [], [], constant=a),
        lambda a: chain([[a, 0.0], [0.0, 0.0]], np.eye(2)),
        lambda a: chain(np.zeros((2, 2)), [[a, 0.0], [0.0, 0.0]]),
        lambda a: grid(np.full((2, 2, 2), a), np.eye(2)),
        lambda a: grid(np.zeros((2, 2, 2)), np.full((2, 2), a)),
        lambda a: grid(np.zeros((2, 2, 2)), np.eye(2), np.full((2, 2), a)),
        lambda a: spin_glass(2, 2, field=-a),
    ],
)
def test_no_door_takes_nan_or_minus_infinity(make, value):
    with pytest.raises(InvalidInputError, match=r"nan|-inf|must be in"):
        make(value)


@pytest.mark.parametrize("value", [1j, "1", None, [1.0], np.ma.masked_array([1.0, 2.0], [True, False])])
def test_a_table_is_of_real_numbers(value):
    table = value if isinstance(value, np.ma.MaskedArray) else [value, 0.0]
    for make in (
        lambda: GraphicalModel([2], [((0,), table)]),
        lambda: GraphicalModel.pairwise([table], [], np.zeros((0, 2, 2))),
        lambda: (
            GraphicalModel.pairwise(np.zeros((2, 2)), [[0, 1]], np.ma.array([table, table]))
            if isinstance(value, np.ma.MaskedArray)
            else GraphicalModel.pairwise(np.zeros((2, 2)), [[0, 1]], [table, table])
        ),
    ):
        with pytest.raises(InvalidInputError, match=r"real numbers|factors\[0\]|contains nan"):
            make()


def test_energies_too_large_for_floats_are_refused():
    for make in (
        lambda: GraphicalModel([1, 1], [((0,), [1e308]), ((1,), [1e308])]),
        lambda: GraphicalModel([1], [((0,), [1e308]), ((0,), [1e308])]),
        lambda: GraphicalModel([1], [((), 1e308), ((), 1e308)]),
        lambda: GraphicalModel.pairwise(np.zeros((2, 1)), [[0, 1], [1, 0]], [[-1e308]]),
        lambda: GraphicalModel.pairwise(np.zeros((3, 1)), [[0, 1], [1, 2]], [[-1e308]]),
    ):
        with pytest.raises(InvalidInputError, match="too large for floats"):
            make()
    assert GraphicalModel([2], [((0,), [1e300, inf])]).map().energy == 1e300


@pytest.mark.parametrize("pairs", [False, True])
def test_energies_are_those_of_the_tables_that_were_given(pairs):
    rng = np.random.default_rng(pairs)
    for _ in range(200):
        scales = 10.0 ** rng.integers(-300 if rng.random() < 0.1 else -20, 20, size=8)
        n, k = 3, 2
        tables = [scale * rng.normal(size=(k, k)) for scale in scales]
        tables[0][0, 1] = inf
        scopes = [tuple(rng.permutation(n)[:2].tolist()) for _ in tables]
        unaries, constants = scales[3] * rng.normal(size=(n, k)), [0.1, 0.2, -scales[0]]
        if pairs:
            model = GraphicalModel.pairwise(unaries, np.array(scopes), np.array(tables), constant=0.1)
            constants = [0.1]
        else:
            factors = [*zip(scopes, tables, strict=True), *((u, unaries[u]) for u in range(n))]
            factors += [((), value) for value in constants[1:]] + [(0, unaries[1]), (0, unaries[2])]
            rng.shuffle(factors)
            model = GraphicalModel([k] * n, factors, constant=0.1)
        for x in itertools.product(range(k), repeat=n):
            terms = [*constants, *(unaries[u][x[u]] for u in range(n))]
            terms += [table[x[a], x[b]] for (a, b), table in zip(scopes, tables, strict=True)]
            terms += [] if pairs else [unaries[1][x[0]], unaries[2][x[0]]]
            exact = inf if inf in terms else float(sum(map(Fraction, map(float, terms))))
            assert model.energy(x) == exact
            assert model.condition({1: x[1]}).energy(x) == exact
            lowered = [Fraction(model.constant), *(Fraction(model.unary(u)[x[u]]) for u in range(n))]
            if exact < inf:
                lowered += [
                    Fraction(f.table[tuple(x[u] for u in f.variables)])
                    for f in map(model.factor, range(model.n_factors))
                ]
                assert sum(lowered) <= sum(map(Fraction, map(float, terms)))


def test_evidence_leaves_one_state():
    model = potts(2, 3, 3, seed=4)
    seen = model.condition({1: 2, 4: 0})
    x = np.array(list(itertools.product(range(3), repeat=6)))
    agrees = (x[:, 1] == 2) & (x[:, 4] == 0)
    assert np.array_equal(seen.energies(x), np.where(agrees, model.energies(x), inf))
    assert seen.brute_force()[1] == model.energies(x)[agrees].min()


@pytest.mark.parametrize("wrap", [False, True])
def test_a_spin_glass_is_what_its_formula_says(wrap):
    model = spin_glass(3, 4, field=0.5, wrap=wrap, seed=3)
    assert model.n_factors == (24 if wrap else 17)
    numbers = np.arange(12).reshape(3, 4)
    shifted = [np.roll(numbers, -1, axis) for axis in (1, 0)]
    edges = {tuple(sorted(pair)) for there in shifted for pair in zip(numbers.flat, there.flat, strict=True)}
    assert wrap == ({tuple(edge) for edge in model.edges.tolist()} == edges)
    for a in range(model.n_factors):
        table = model.factor(a).table
        assert table[0, 0] == table[1, 1] == -table[0, 1] == -table[1, 0] and abs(table[0, 0]) <= 1


def test_grids_and_chains_pair_the_right_neighbours():
    rng = np.random.default_rng(1)
    unaries, right, below = (rng.normal(size=s) for s in [(2, 3, 2), (2, 2, 2, 2), (1, 3, 2, 2)])
    model = grid(unaries, right, below)
    x = rng.integers(0, 2, (2, 3))
    expected = sum(unaries[i, j, x[i, j]] for i in range(2) for j in range(3))
    expected += sum(right[i, j, x[i, j], x[i, j + 1]] for i in range(2) for j in range(2))
    expected += sum(below[0, j, x[0, j], x[1, j]] for j in range(3))
    assert model.energy(x.ravel()) == pytest.approx(expected)
    line = chain(unaries[0], right[0])
    assert line.energy(x[0]) == pytest.approx(
        sum(unaries[0, j, x[0, j]] for j in range(3))
        + sum(right[0, j, x[0, j], x[0, j + 1]] for j in range(2))
    )
    assert grid(np.zeros((1, 1, 3)), np.eye(3)).n_factors == 0
    assert chain([[1.0, 0.0]], np.eye(2)).brute_force()[1] == 0.0


@pytest.mark.parametrize("name", SPECIAL)
def test_special_models_are_shown(name):
    model = SPECIAL[name]
    assert f"{model.n_variables} variables" in repr(model)
    assert "table entries" in model._repr_html_()


def test_arrays_are_read_only_and_the_input_is_not_kept():
    table, unaries = np.ones((2, 2)), np.ones((2, 2))
    for model in (
        GraphicalModel([2, 2], [((0, 1), table)]),
        GraphicalModel.pairwise(unaries, [[0, 1]], table),
    ):
        with pytest.raises(ValueError, match="read-only"):
            model.factor(0).table[0, 0] = 5.0
    unaries[0, 0] = inf
    before = unaries.copy()
    GraphicalModel.pairwise(unaries, [[0, 1]], table)
    assert np.array_equal(unaries, before)


def model_of_two():
    return GraphicalModel([2, 3], [((0, 1), np.zeros((2, 3)))])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GraphicalModel([2, 0]), r"cardinalities\[1\] is 0"),
        (lambda: GraphicalModel([[2]]), "vector of integers"),
        (lambda: GraphicalModel([2.5]), "vector of integers"),
        (lambda: GraphicalModel([2], [((1,), [0, 0])]), "names the variable 1; there are 1"),
        (lambda: GraphicalModel([2], [((-1,), [0, 0])]), "names the variable -1"),
        (lambda: GraphicalModel([2, 2], [((0, 0), np.eye(2))]), "names a variable twice"),
        (lambda: GraphicalModel([2, 3], [((0, 1), np.eye(2))]), r"needs a table of shape \(2, 3\)"),
        (lambda: GraphicalModel([2], [((0,), [0, np.nan])]), "contains nan"),
        (lambda: GraphicalModel([2], [3]), r"factors\[0\] must be \(variables, table\)"),
        (lambda: GraphicalModel([2], constant=np.nan), "constant must be in"),
        (lambda: GraphicalModel([2], constant=-inf), "constant must be in"),
        (lambda: GraphicalModel.pairwise(np.zeros((2, 2)), [[0, 2]], np.eye(2)), r"edges\[0\] = \[0, 2\]"),
        (lambda: GraphicalModel.pairwise(np.zeros((2, 2)), [[1, 1]], np.eye(2)), "two different variables"),
        (lambda: GraphicalModel.pairwise(np.zeros((2, 2)), [[0, 1]], np.eye(3)), "have 2 and 2 states"),
        (lambda: GraphicalModel.pairwise(np.zeros((2, 2)), [[0, 1]], np.zeros((2, 2, 2))), "for the 1 edges"),
        (
            lambda: GraphicalModel.pairwise(np.zeros((2, 2)), [[0, 1]], [np.eye(2)] * 2),
            "1 edges, but 2 tables",
        ),
        (lambda: GraphicalModel.pairwise(np.zeros((2, 2)), [[0.5, 1]], np.eye(2)), "edges must be integers"),
        (
            lambda: GraphicalModel.pairwise(np.full((2, 2), np.nan), [[0, 1]], np.eye(2)),
            "unaries contains nan",
        ),
        (lambda: grid(np.zeros((3, 3)), np.eye(2)), r"shape \(height, width, k\)"),
        (lambda: grid(np.zeros((2, 3, 2)), np.eye(2), wrap=True), "at least 3 rows"),
        (lambda: grid(np.zeros((2, 3, 2)), np.zeros((2, 2, 2, 2))), "vertical tables are needed"),
        (lambda: grid(np.zeros((2, 3, 2)), np.zeros((2, 3, 2, 2)), np.eye(2)), "horizontal must have shape"),
        (lambda: GraphicalModel([2], None), "factors must be a sequence, got None"),
        (lambda: GraphicalModel.pairwise(None, [], []), "unaries must be a sequence, got None"),
        (
            lambda: GraphicalModel.pairwise(np.zeros((2, 2)), [[0, 1]], 3.0),
            "tables must be a sequence, got 3.0",
        ),
        (lambda: GraphicalModel.pairwise(np.zeros((2, 2)), [[0]], [[[0, 1]]]), r"shape \(m, 2\)"),
        (lambda: chain(3, np.eye(2)), "unaries must be a sequence, got 3"),
        (lambda: model_of_two().condition([0]), "evidence must be a dict"),
        (lambda: grid(np.zeros((2, 3, 0)), np.zeros((0, 0))), "a variable has at least one state"),
        (lambda: grid([[[1.0], [1.0, 2.0]]], np.eye(2)), "unaries must be an array of real numbers"),
        (lambda: model_of_two().energy([0]), r"has shape \(2,\), got \(1,\)"),
        (lambda: model_of_two().energy([0, 3]), "Variable 1 has 3 states"),
        (lambda: model_of_two().energy([0.0, 1.0]), "of integers"),
        (lambda: model_of_two().factor(1), "There is no factor 1"),
        (lambda: model_of_two().unary(2), "There is no variable 2"),
        (lambda: model_of_two().factors_of(-1), "There is no variable -1"),
        (
            lambda: model_of_two().condition({0: 2}),
            "variable 0 has the state 2; it must be",
        ),
        (lambda: potts(10, 10, 3).brute_force(), "more than max_labellings"),
        (
            lambda: GraphicalModel([2] * 3, [((0, 1, 2), np.zeros((2, 2, 2)))]).edges,
            "more than two variables",
        ),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


@given(st.integers(0, 2**32 - 1))
def test_other_costs_give_the_energies_of_a_new_model(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, n=4, hard=0.1)
    unaries, tables = rng.normal(size=model.unaries.size), rng.normal(size=model.tables.size)
    labellings = np.array(list(itertools.product(*(range(k) for k in model.cardinalities))))
    for new, constant in (((unaries, None), None), ((None, tables), 2.0), ((unaries, tables), 0.1)):
        other = model.with_costs(*new, constant=constant)
        changed = [model.unaries if new[0] is None else unaries, model.tables if new[1] is None else tables]
        starts = model.unary_starts
        factors = [((u,), changed[0][starts[u] : starts[u + 1]]) for u in range(model.n_variables)]
        for a in range(model.n_factors):
            scope, table = model.factor(a)
            begin = model.table_starts[a]
            factors.append((scope, changed[1][begin : begin + table.size].reshape(table.shape)))
        again = GraphicalModel(
            model.cardinalities, factors, constant=model.constant if constant is None else constant
        )
        assert np.array_equal(other.energies(labellings), again.energies(labellings))
        assert other.map().energy == pytest.approx(again.brute_force()[1])


def test_parts_rounded_off_belong_to_the_old_costs():
    model = GraphicalModel(
        [2], [((0,), [1.0, 0.0]), ((0,), [1e-20, 0.0]), ((), 1.0), ((), 1e-20), ((), -0.5)]
    )
    assert 0.0 < model.rounded_off < 1e-15  # also of constants that cancel
    assert model.with_costs([3.0, 4.0]).rounded_off > 0.0  # of the constant
    assert model.with_costs([3.0, 4.0], constant=0.0).rounded_off == 0.0
    assert model.with_costs([3.0, 4.0], constant=0.0).energy([0]) == 3.0


def test_costs_are_copied_and_checked():
    model, costs = potts(2, 2, 2), np.zeros((4, 2))
    other = model.with_costs(costs)
    costs[:] = 1.0
    assert not other.unaries.any() and not other.unaries.flags.writeable
    assert other.n_factors == model.n_factors and np.array_equal(other.tables, model.tables)
    for costs, words in (
        ((np.zeros(7),), "must have 8 entries"),
        ((None, np.zeros(3)), "model.tables"),
        ((np.full(8, np.nan),), "nan"),
        ((np.full(8, 1e308),), "too large"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            model.with_costs(*costs)
