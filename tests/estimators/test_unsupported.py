"""What an estimator does not take is refused by name."""

import inspect

import numpy as np
import pytest

import cutplane.estimators as estimators
from cutplane import InvalidInputError

WITHOUT_WEIGHTS = [
    item
    for name, item in vars(estimators).items()
    if inspect.isclass(item)
    and list(inspect.signature(getattr(item, "fit", len)).parameters)[-1:] == ["unsupported"]
]


@pytest.mark.parametrize("kind", WITHOUT_WEIGHTS)
def test_weights_that_an_estimator_does_not_take_are_refused_by_name(kind):
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    with pytest.raises(
        InvalidInputError, match=rf"{kind.__name__}\.fit takes X and y, and no sample_weight; repeat"
    ):
        kind().fit(X, y, sample_weight=np.ones(4))
    with pytest.raises(InvalidInputError, match="no groups"):
        kind().fit(X, y, groups=y)


def test_boosters_and_multiple_kernels_are_among_them():
    names = {kind.__name__ for kind in WITHOUT_WEIGHTS}
    assert {"LPBoostClassifier", "MLPBoostClassifier", "MKLClassifier", "MeasureClassifier"} <= names
