"""Least energies of states, their bounds, and what these exclude, against all labellings."""

import itertools

import numpy as np
import pytest
from graphical_models import SMALL, least_energies, random_model

import cutplane.graphical.marginals as module
from cutplane.exceptions import InvalidInputError
from cutplane.graphical import Reparametrization, chain, potts, spin_glass
from cutplane.graphical.exact.clique_tree import CliqueTree
from cutplane.status import Status


@pytest.mark.parametrize("method", ["elimination", "sweeps"])
@pytest.mark.parametrize("name", SMALL)
def test_against_all_labellings(name, method):
    model = SMALL[name]
    least = least_energies(model)
    found = model.min_marginals(method)
    assert (found.lower <= least).all() and (least <= found.upper).all()
    assert found.is_exact == (method == "elimination")
    energy = least.min() if least.size else model.constant
    assert found.energy == pytest.approx(energy, rel=1e-9)
    if found.is_exact:
        finite = np.isfinite(least)
        assert (np.isfinite(found.lower) == finite).all() and (np.isfinite(found.upper) == finite).all()
        assert found.lower[finite] == pytest.approx(found.upper[finite], rel=1e-12, abs=1e-12)
    assert (found.lower[found.excluded] > energy).all()
    for u, state in enumerate(found.fixed.tolist()):
        costs = least[model.unary_starts[u] : model.unary_starts[u + 1]]
        assert state < 0 or (costs[state] == costs.min() and (np.delete(costs, state) > costs.min()).all())
        assert found.of(u)[0].tolist() == found.lower[model.unary_starts[u] :][: costs.size].tolist()


def test_what_is_excluded_exactly():
    model = chain([[0, 2], [1, 1], [2, 0]], [[0, 3], [3, 0]])  # two best labellings
    assert model.min_marginals().fixed.tolist() == [-1, -1, -1]
    assert not model.min_marginals().excluded.any()
    model = chain([[0, 2, 9], [1, 1, 9], [2, 0.5, 9]], [[0, 3, 9], [3, 0, 9], [9, 9, 0]])
    found = model.min_marginals()
    assert found.fixed.tolist() == [0, 0, 0]
    assert found.excluded.tolist() == [False, True, True] * 3
    assert "3 of 3" in repr(found) and "by elimination" in found._repr_html_()


def test_sweeps_are_exact_on_chains():
    rng = np.random.default_rng(2)
    model = chain(rng.normal(size=(30, 3)), rng.normal(size=(29, 3, 3)))
    rep = Reparametrization(model)
    rep.sweep()
    swept, exact = rep.state_bounds(), model.min_marginals("elimination")
    assert (swept <= exact.upper).all()
    assert swept == pytest.approx(exact.upper, abs=1e-9)
    assert (rep.state_bounds(near=3) <= exact.upper).all()
    rep.sweep()
    again = Reparametrization(model)
    again.sweep(4)
    assert (rep.unaries == again.unaries).all() and (rep.messages == again.messages).all()


def test_bounds_of_states_with_clusters_and_after_a_search():
    model = spin_glass(6, 6, field=0.2, wrap=True, seed=3)
    result = model.map("dual")
    assert result.proof.n_clusters
    exact = model.min_marginals("elimination")
    swept = model.min_marginals("sweeps", start=result)
    assert (swept.lower <= exact.upper).all() and (exact.lower <= swept.upper).all()
    assert swept.excluded.sum() > 0.3 * exact.excluded.sum() > 0
    assert (exact.excluded >= swept.excluded).all()


def test_large_tables_are_not_built():
    model = potts(40, 40, 3, seed=2)
    found = model.min_marginals(time_limit=20)
    assert not found.is_exact and "messages" in repr(found)
    assert (found.fixed >= 0).mean() > 0.8
    assert (found.fixed[found.fixed >= 0] == found.labelling[found.fixed >= 0]).all()
    with pytest.raises(InvalidInputError, match="method='sweeps'"):
        model.min_marginals("elimination")


def test_time_limit_and_interrupt(monkeypatch):
    model = spin_glass(30, 30, field=0.1, wrap=True)
    found = model.min_marginals("sweeps", time_limit=0.05)
    assert found.status is Status.TIME_LIMIT
    assert (found.lower <= found.upper).all()

    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "lower_bounds", stop)
    found = SMALL["random 0"].min_marginals("sweeps")
    assert found.status is Status.INTERRUPTED
    assert (found.lower <= least_energies(SMALL["random 0"])).all()


def test_wrong_arguments():
    model, other = SMALL["random 0"], SMALL["random 1"]
    with pytest.raises(InvalidInputError, match="method must be"):
        model.min_marginals("fast")
    with pytest.raises(InvalidInputError, match="another model"):
        model.min_marginals(start=other.map())
    with pytest.raises(InvalidInputError, match="no variable 99"):
        model.min_marginals().of(99)


def test_tree_with_states_left_out():
    """A tree on some states, in any order, has the least energies of the labellings that take them alone."""
    for seed in range(24):
        rng = np.random.default_rng(seed)
        model = random_model(rng, n=7, max_states=3, max_arity=3, hard=0.2 * (seed % 2), n_factors=seed % 9)
        alive = rng.random(model.unaries.size) < 0.7
        masked = model.with_unaries(np.where(alive, model.unaries, np.inf))
        order = rng.permutation(7).tolist() if seed % 3 else None
        tree = CliqueTree(model, alive & np.isfinite(model.unaries), order=order)
        least = least_energies(masked)
        found = np.full(model.unaries.size, np.inf)
        found[tree.kept] = tree.constant + tree.min_marginals()
        assert found == pytest.approx(least, abs=1e-9)
        labelling, above = tree.least()
        assert tree.constant + above == pytest.approx(least.min(), abs=1e-9)
        assert labelling is None or masked.energy(labelling) == pytest.approx(least.min(), abs=1e-9)


@pytest.mark.parametrize("hard", [0.0, 0.3])
def test_restated_messages_leave_all_energies_as_they_are(hard):
    for seed in range(6):
        model = random_model(np.random.default_rng(seed), n=5, hard=hard)
        rep = Reparametrization(model)
        rep.sweep(3)
        rep.add_cluster((0, 2, 4))
        rep.sweep(3)
        again = rep.restated(model)
        for x in itertools.product(*map(range, model.cardinalities)):
            total = model.constant + sum(again.unary(u)[state] for u, state in enumerate(x))
            for a in range(again.n_factors):
                total += again.table(a)[tuple(x[u] for u in again.scopes(a))]
            assert total == pytest.approx(model.energy(np.array(x)), abs=1e-9)
        assert again.bound >= rep.bound - 1e-9 or hard
