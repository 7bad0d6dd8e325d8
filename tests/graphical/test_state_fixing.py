"""Where the best labelling and the bound differ."""

import warnings
from types import SimpleNamespace

import numpy as np

from cutplane.graphical.dual.ascent import excesses


def test_a_variable_without_a_state_left_is_no_warning():
    costs = SimpleNamespace(
        unaries=np.array([1.0, 3.0, np.inf, np.inf]),
        unary_starts=np.array([0, 2, 4]),
        pairs=np.array([[0, 1]]),
        cardinalities=np.array([2, 2]),
        tables=np.array([0.0, 2.0, 0.5, 1.0]),
        table_starts=np.array([0]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = excesses(costs, np.array([1, 0]))  # pyright: ignore[reportArgumentType]
    assert found[0] == 2.5
