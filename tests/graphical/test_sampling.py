"""Partition functions, their bounds, and samples, against sums over all labellings."""

import numpy as np
import pytest
from graphical_models import SMALL, all_labellings
from scipy.special import logsumexp

import cutplane.graphical.sampling as module
from cutplane.exceptions import InvalidInputError
from cutplane.graphical import GraphicalModel, chain, potts, spin_glass
from cutplane.status import Status


def gibbs(model):
    """All labellings, and the logarithms of their weights."""
    labellings, energies = all_labellings(model)
    return labellings, -energies


@pytest.mark.parametrize("name", SMALL)
def test_partition_function(name):
    _, weights = gibbs(SMALL[name])
    wanted = logsumexp(weights) if np.isfinite(weights).any() else -np.inf
    assert SMALL[name].log_partition() == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("name", ["random 0", "random 1", "star", "one variable", "implied states"])
def test_samples_are_from_the_distribution(name):
    """By a chi-squared statistic on the labellings that are frequent enough."""
    model, n = SMALL[name], 20_000
    labellings, weights = gibbs(model)
    expected = n * np.exp(weights - logsumexp(weights))
    found = model.sample(n, seed=1)
    assert found.shape == (n, model.n_variables)
    radix = np.append(np.cumprod(model.cardinalities[:0:-1])[::-1], 1)
    counts = np.bincount(found @ radix, minlength=len(labellings))
    assert (counts[expected == 0.0] == 0).all()
    often = expected > 10
    statistic = ((counts - expected)[often] ** 2 / expected[often]).sum()
    freedom = max(1, often.sum() - 1)
    assert statistic < freedom + 5.0 * np.sqrt(2.0 * freedom)


def test_samples_of_a_long_chain_repeat_by_seed():
    rng = np.random.default_rng(0)
    model = chain(rng.normal(size=(300, 5)), rng.normal(size=(299, 5, 5)))
    assert (model.sample(3, seed=7) == model.sample(3, seed=7)).all()
    assert (model.sample(3, seed=7) != model.sample(3, seed=8)).any()
    assert model.sample(2, seed=np.random.default_rng(7)).shape == (2, 300)
    assert GraphicalModel([]).sample(3).shape == (3, 0)


def test_chunks_give_the_same_samples(monkeypatch):
    model = SMALL["random 0"]
    whole = model.sample(50, seed=2)
    monkeypatch.setattr(module, "_CHUNK", 15)
    assert (model.sample(50, seed=2) == whole).all()


@pytest.mark.parametrize("way", ["elimination", "inference"])
def test_bound_is_above_in_expectation(way, monkeypatch):
    if way == "inference":
        monkeypatch.setattr(module, "CliqueTree", refuse)
    for name in ["random 0", "star", "implied states"]:
        model = SMALL[name]
        exact = logsumexp(gibbs(model)[1])
        bound = model.log_partition_bound(60, seed=3)
        assert exact < bound.value + 4.0 * bound.standard_error
        assert bound.value == pytest.approx(bound.samples.mean())
        assert bound.standard_error == pytest.approx(bound.samples.std(ddof=1) / np.sqrt(60))
        assert bound.status is Status.OPTIMAL and bound.n_open == 0
        assert np.isfinite([model.energy(x) for x in bound.labellings]).all()


def test_the_two_ways_agree(monkeypatch):
    model = SMALL["random 0"]
    exact = model.log_partition_bound(20, seed=5)
    monkeypatch.setattr(module, "CliqueTree", refuse)
    inferred = model.log_partition_bound(20, seed=5, tol=0.0)
    assert inferred.samples == pytest.approx(exact.samples, abs=1e-9)
    assert (inferred.labellings == exact.labellings).all()


def test_bound_is_tight_for_independent_variables():
    """Then it is an equality: the mean of a maximum of Gumbel variables is the log of the sum."""
    rng = np.random.default_rng(0)
    model = GraphicalModel([3] * 4, [((u,), rng.normal(size=3)) for u in range(4)])
    bound = model.log_partition_bound(4000, seed=1)
    assert bound.value == pytest.approx(model.log_partition(), abs=4.0 * bound.standard_error)
    assert bound.standard_error < 0.05


def test_unsolved_inferences_only_raise_the_bound(monkeypatch):
    model = spin_glass(12, 12, field=0.5, wrap=True)
    solved = model.log_partition_bound(4, seed=1)
    monkeypatch.setattr(module, "CliqueTree", refuse)
    loose = model.log_partition_bound(4, seed=1, tol=0.5)
    assert (loose.samples >= solved.samples - 1e-9).all()


def test_degenerate_models_and_stops(monkeypatch):
    bound = SMALL["infeasible"].log_partition_bound(3)
    assert bound.value == -np.inf and (bound.labellings == -1).all()
    one = GraphicalModel([1, 1], [((0, 1), [[2.5]])]).log_partition_bound(3)
    assert one.value == -2.5 and one.standard_error == 0.0
    assert GraphicalModel([]).log_partition_bound(2).value == 0.0
    with pytest.raises(InvalidInputError, match="nothing to draw from"):
        SMALL["infeasible"].sample(2)
    stopped = spin_glass(30, 30, field=0.1, wrap=True).log_partition_bound(1000, time_limit=0.3)
    assert stopped.status is Status.TIME_LIMIT and stopped.samples.size < 1000
    assert stopped.value > 0.0 and "TIME_LIMIT" in repr(stopped)


@pytest.mark.parametrize("name", ["log_partition", "sample"])
def test_large_tables_are_refused(name):
    with pytest.raises(InvalidInputError, match=r"Raise max_entries, now 1000 .* log_partition_bound"):
        getattr(potts(12, 12, 3), name)(max_entries=1000)


def refuse(*args, **options):
    raise InvalidInputError("too large")
