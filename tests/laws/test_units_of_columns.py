"""Columns in any unit, and far from zero where that changes only an intercept, cost a solve nothing."""

from __future__ import annotations

import numpy as np
import pytest

import cutplane as cut
from cutplane.losses import Absolute, Hinge, Huber, Softmax
from cutplane.risks.columns import Columns, moments

pytestmark = pytest.mark.every
rng = np.random.default_rng(0)
Z = rng.standard_normal((120, 5))
scores = Z @ rng.standard_normal(5)
y = np.sign(scores + 0.5 * rng.standard_normal(120))
levels = np.digitize(scores, [-1.0, 1.0])
queries = np.repeat(np.arange(12), 10)
SIZES = np.array([1.0, 2.0**17, 1.0, 2.0**-10, 2.0**30])
MEANS = np.array([2000.0, 0.0, 0.0, 1.0, 2.0**40])

RISKS = {
    "linear": lambda X, b: cut.LinearRisk(X, y, Hinge(), intercept=b),
    "multiple": lambda X, b: 3.0 * cut.LinearRisk(X, scores, Huber(), intercept=b),
    "sum": lambda X, b: (
        cut.LinearRisk(X, y, Hinge(), intercept=b) + 0.5 * cut.LinearRisk(X, scores, Absolute(), intercept=b)
    ),
    "maximum": lambda X, b: cut.maximum(
        *[cut.LinearRisk(X[part], y[part], Hinge(), intercept=b) for part in (slice(60), slice(60, None))]
    ),
    "classes": lambda X, b: cut.MulticlassRisk(X, levels, intercept=b),
    "softmax": lambda X, b: cut.MulticlassRisk(X, levels, Softmax(), intercept=b),
    "levels": lambda X, b: cut.OrdinalRisk(X, levels),
    "ranking": lambda X, b: cut.RankingRisk(X, scores, queries),
}
ROWS = {"classes": 3, "softmax": 3}
FREE = {"levels": 2}


def weights_of(name, sizes, intercept):
    """Return the weights of the squares of x for which they are those of the usual variables."""
    free = FREE.get(name, int(intercept and name != "ranking"))
    return np.tile(np.append(sizes**2, np.zeros(free)), ROWS.get(name, 1))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", RISKS)
def test_units_and_means_change_nothing(name, intercept):
    far = MEANS if intercept and name != "levels" else np.zeros(5)
    X = SIZES * (Z + far / SIZES)
    usual = (X - far) / SIZES  # the same numbers, as they were rounded
    results = [
        cut.Problem(
            RISKS[name](A, intercept), cut.L2(0.01, weights=weights_of(name, sizes, intercept))
        ).solve()
        for A, sizes in ((usual, np.ones(5)), (X, SIZES))
    ]
    assert [str(result.status) for result in results] == ["OPTIMAL"] * 2
    assert results[0].objective == pytest.approx(results[1].objective, rel=3e-4)
    assert results[1].certificate.standard is not None
    assert results[1].certificate.verify().valid


def test_columns_of_several_risks_are_those_of_the_stacked_data():
    data = [Z + 1000.0, Z - 1000.0]
    parts = [cut.LinearRisk(X, y, Hinge()).data_columns() for X in data]
    for found, expected in zip(Columns.of_all(parts)[1:3], moments(np.vstack(data))[1:], strict=True):
        assert found == pytest.approx(expected, abs=1e-9)


def test_columns_of_parts_in_another_layout_stay_as_they_are():
    risks = (
        cut.LinearRisk(1e6 * Z, y, Hinge(), intercept=True),
        cut.LinearRisk(np.eye(6), np.ones(6), Huber()),
    )
    result = cut.Problem(risks[0] + risks[1], cut.L2(1.0)).solve()
    assert result.status == "OPTIMAL"
    assert result.certificate.standard is None
