"""Estimates of costs: how they grow with the size of a problem."""

import pytest

from cutplane.engine import costs


def test_a_semidefinite_cone_costs_the_cube_of_its_entries():
    """A symmetric matrix of order n has n (n + 1) / 2 of them."""
    one = costs.cost_of_semidefinite(1)
    assert one == costs.SEMIDEFINITE > 0.0
    assert [costs.cost_of_semidefinite(order) / one for order in (2, 5)] == pytest.approx([3.0**3, 15.0**3])
