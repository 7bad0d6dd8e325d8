"""A user's piece with the same capability as ours gets the same treatment."""

from types import SimpleNamespace

import numpy as np
import pytest

import cutplane as cut
from cutplane.exceptions import MissingCapabilityError
from cutplane.methods import Kelley, ReducedGradient
from cutplane.methods.auto import choose
from cutplane.pieces.capabilities import Capability, SparseReader, ability, offers
from cutplane.pieces.forms import LinearForm
from cutplane.regularizers import Regularizer
from cutplane.regularizers.base import has_slope, minimise_linear
from cutplane.risks import LinearObjective, Risk, WeightedSum
from cutplane.sets import Box, FeasibleSet, L2Ball, Simplex, WholeSpace


class Plane(Risk):
    """<c, x>, as a user would write it."""

    linear = True

    def __init__(self, c):
        self.c, self.dim = c, c.size

    def oracle(self, x):
        return float(self.c @ x), self.c


class Pair(Plane):
    """A sum of two planes that says so."""

    splits_sums = True

    @property
    def summands(self):
        return (1.0, Plane(self.c)), (2.0, Plane(-self.c))


class Strip(FeasibleSet):
    """A box of a user's own, which meets other sets."""

    def __init__(self, lower, upper, dim=None):
        self.lower, self.upper, self.dim = lower, upper, dim

    def violation(self, x):
        return float(np.maximum(self.lower - x, x - self.upper).max())

    def resolve(self, dim):
        return type(self)(self.lower, self.upper, dim)

    def meet(self, other):
        return other.meet_box(self.lower, self.upper)


class Everything(Strip):
    """The whole space of a user's own."""

    def meet(self, other):
        return other

    def bounds(self, dim):
        return np.full(dim, -np.inf), np.full(dim, np.inf)


class Costs(FeasibleSet):
    """A simplex that is no subclass of ours."""

    bounded = True

    def __init__(self, total):
        self._own = Simplex(radius=total)
        self.project, self.minimise_linear = self._own.project, self._own.minimise_linear

    def violation(self, x):
        return self._own.violation(x)

    def linear_form(self, dim) -> LinearForm:
        return self._own.linear_form(dim)


class Flat(Regularizer):
    lam = 1.0

    def value(self, x):
        return 0.0


def test_one_way_to_say_no():
    piece = SimpleNamespace(project=None, restore=lambda x: x, minimise_linear=abs, withheld=[])
    assert ability(piece, Capability.PROJECTION) is None and not offers(piece, Capability.LINEAR_FORM)
    assert ability(piece, Capability.LINEAR_MINIMISATION) is abs
    piece.withheld = [Capability.LINEAR_MINIMISATION]
    assert ability(piece, Capability.LINEAR_MINIMISATION) is None and offers(piece, Capability.RESTORATION)


def test_a_sum_of_ones_own_is_flattened():
    c = np.array([1.0, -2.0])
    total = 0.5 * Pair(c) + LinearObjective(c)
    assert isinstance(total, WeightedSum) and [weight for weight, _ in total.terms] == [0.5, 1.0, 1.0]
    assert total.separate and total.n_blocks == 3


def test_a_linear_risk_of_ones_own_gets_the_method_of_ours():
    c = np.array([1.0, -2.0])
    for risk in (Plane(c), LinearObjective(c)):
        assert choose(cut.Problem(risk, cut.L2(1.0), Box(-1, 1))).methods[0] == Kelley()
    curved = cut.LinearRisk(np.eye(2), c, cut.losses.Squared())
    assert (0.5 * Plane(c)).linear
    assert not (Plane(c) + curved).linear


@pytest.mark.parametrize("strip", [Strip, Box])
def test_a_box_of_ones_own_meets_sets_as_ours_does(strip):
    assert (
        repr(strip(0.0, 0.5) & Simplex(3))
        == repr(Simplex(3) & strip(0.0, 0.5))
        == "CappedSimplex(cap=0.5, dim=3)"
    )
    assert repr(Box(-1, 1, dim=2) & strip(0.0, 2.0)) == "Box(0, 1, dim=2)"
    assert repr(Box(-1, 1, dim=2) & strip(2.0, 3.0)).count("&") == 1  # empty, as a solve says


@pytest.mark.parametrize("space", [Everything(-np.inf, np.inf), WholeSpace()])
def test_a_whole_space_of_ones_own_drops_out(space):
    ball = L2Ball(1.0, dim=2)
    assert (space & ball) is ball and repr(ball & space) == repr(ball)


def test_a_simplex_of_ones_own_is_followed_along_its_edges():
    X, y = np.eye(3), np.array([1.0, 0.5, -2.0])
    risk = cut.LinearRisk(X, y, cut.losses.Squared(), normalize=False)
    found = [
        cut.Problem(risk, feasible_set=feasible_set).solve(ReducedGradient(), tol=1e-9).x
        for feasible_set in (Simplex(), Costs(1.0))
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-12)
    for other in (cut.CappedSimplex(0.5), L2Ball(1.0), Box(0, 1)):
        with pytest.raises(MissingCapabilityError, match="Simplex"):
            ReducedGradient().check(cut.Problem(risk, feasible_set=other))


def test_a_master_says_whether_it_reads_sparse_slopes():
    assert isinstance(SimpleNamespace(sparse=False), SparseReader)
    assert not isinstance(SimpleNamespace(), SparseReader)


def test_slopes_and_closed_forms_are_asked_for_by_capability():
    assert not has_slope(Flat()) and has_slope(cut.L2(1.0))
    with pytest.raises(MissingCapabilityError, match="subgradient"):
        Flat().line(np.zeros(1), np.ones(1))
    v = np.array([1.0, -2.0])
    ours, own = [minimise_linear(v, feasible_set) for feasible_set in (Simplex(radius=3.0), Costs(3.0))]
    assert ours is not None and own is not None and own.value == ours.value == -6.0
    np.testing.assert_array_equal(own.x, ours.x)  # pyright: ignore[reportArgumentType]
