"""Folds given as a generator are those of the splitter that made it."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from cutplane.estimators import LinearClassifierCV, LinearRegressorCV, MKLClassifierCV

X = np.random.default_rng(0).standard_normal((40, 3))


@pytest.mark.parametrize(
    "estimator", [LinearClassifierCV, LinearRegressorCV, MKLClassifierCV], ids=lambda kind: kind.__name__
)
def test_a_generator_is_read_once(estimator):
    y = np.where(X[:, 0] > 0.0, 1, -1)
    given = estimator(cv=KFold(3).split(X)).fit(X, y).scores_
    np.testing.assert_array_equal(given, estimator(cv=KFold(3)).fit(X, y).scores_)
