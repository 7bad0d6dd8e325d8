"""Points moved into the dual of a cone: the nearest change of few coordinates, in closed form."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from cutplane.masters.cone_programme import into_dual_cone


def moved(z, upper=True, **sizes):
    dims = {"zero": 0, "nonneg": 0, "soc": [], "psd": [], "exp": 0, "p3d": [], "pnd": []} | sizes
    given = np.array(z, dtype=float)
    found = into_dual_cone(given, SimpleNamespace(**dims), upper)
    assert given.tolist() == [float(entry) for entry in z]
    return found.tolist()


def test_equations_are_free_and_inequalities_are_not_negative():
    assert moved([-1.0, 2.0, -3.0, 4.0], zero=2, nonneg=2) == [-1.0, 2.0, 0.0, 4.0]
    assert moved([-1.0, 2.0], zero=1, nonneg=1) == [-1.0, 2.0]


@pytest.mark.parametrize("first, wanted", [(6.0, 6.0), (5.0, 5.0), (4.0, 5.0), (-9.0, 5.0)])
def test_second_order_cones_raise_the_first_entry(first, wanted):
    assert moved([first, 3.0, -4.0], soc=[3]) == [wanted, 3.0, -4.0]
    assert moved([-7.0, first, 3.0, -4.0, -2.0, 1.0], zero=1, soc=[3, 2]) == [
        -7.0,
        wanted,
        3.0,
        -4.0,
        1.0,
        1.0,
    ]


ROOT = math.sqrt(2.0)


@pytest.mark.parametrize("upper", [True, False])
def test_matrices_lose_their_negative_eigenvalues(upper):
    """(0, 2; 2, 0) has the eigenvalues 2 and -2; without the second it is (1, 1; 1, 1)."""
    assert moved([0.0, 2.0 * ROOT, 0.0], upper, psd=[2]) == pytest.approx([1.0, ROOT, 1.0])
    assert moved([2.0, ROOT, 3.0], upper, psd=[2]) == [2.0, ROOT, 3.0]
    assert moved([-4.0], upper, psd=[1]) == pytest.approx([0.0])


def test_triangles_are_stacked_by_columns_or_by_rows():
    upper = [0.0, 0.0, 5.0, 2.0 * ROOT, 0.0, 0.0]  # (0, 0, 2; 0, 5, 0; 2, 0, 0)
    assert moved(upper, True, psd=[3]) == pytest.approx([1.0, 0.0, 5.0, ROOT, 0.0, 1.0], abs=1e-12)
    lower = [0.0, 0.0, 2.0 * ROOT, 5.0, 0.0, 0.0]
    assert moved(lower, False, psd=[3]) == pytest.approx([1.0, 0.0, ROOT, 5.0, 0.0, 1.0], abs=1e-12)


def lifted(u, v):
    return -u * math.exp(v / u - 1.0)


EXPONENTIAL = {
    "inside": ([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]),
    "raised in w": ([-1.0, -1.0, 0.9], [-1.0, -1.0, lifted(-1.0, -1.0)]),
    "raised in v": ([-1.0, -3.0, 5.0], [-1.0, -(1.0 + math.log(5.0)), 5.0]),
    "w negative": ([-1.0, 1.0, -2.0], [-1.0, 1.0, lifted(-1.0, 1.0)]),
    "u zero": ([0.0, -2.0, 3.0], [0.0, 0.0, 3.0]),
    "u positive": ([4.0, 2.0, -3.0], [0.0, 2.0, 0.0]),
    "overflow": ([-1e-3, -5.0, 0.0], [0.0, 0.0, 0.0]),
    "overflow with v raised": ([-1e-3, -5.0, 1.0], [-1e-3, -1e-3 * (1.0 + math.log(1e3)), 1.0]),
}


@pytest.mark.parametrize("name", EXPONENTIAL)
def test_exponential_cones_move_the_entry_that_moves_least(name):
    z, wanted = EXPONENTIAL[name]
    assert moved(z, exp=1) == pytest.approx(wanted, rel=1e-14)
    assert moved([*z, *z], exp=2) == pytest.approx([*wanted, *wanted], rel=1e-14)


@pytest.mark.parametrize("w, wanted", [(1.0, 1.0), (-1.0, -1.0), (5.0, 4.0), (-5.0, -4.0)])
def test_power_cones_clip_the_last_entry(w, wanted):
    """(2 / 0.5)^0.5 (2 / 0.5)^0.5 = 4, and (3 / 0.75)^0.75 (1 / 0.25)^0.25 = 4."""
    assert moved([2.0, 2.0, w], p3d=[0.5]) == pytest.approx([2.0, 2.0, wanted])
    assert moved([3.0, 1.0, w], p3d=[0.75]) == pytest.approx([3.0, 1.0, wanted])
    assert moved([2.0, 1.0, 1.0, w], pnd=[[0.5, 0.25, 0.25]]) == pytest.approx([2.0, 1.0, 1.0, wanted])
    assert moved([-2.0, 2.0, w], p3d=[0.5]) == [0.0, 2.0, 0.0]
