"""Feasible sets of every kind, in five dimensions."""

import cvxpy as cp
import numpy as np
from scipy import sparse

from cutplane.sets import (
    Box,
    CappedSimplex,
    CvxpySet,
    L1Ball,
    L2Ball,
    LinfBall,
    NonnegativeBall,
    NonnegativeOrthant,
    Polyhedron,
    Simplex,
    WholeSpace,
)

DIM = 5
CENTRE = [1.0, -2.0, 0.0, 0.5, 3.0]
ROWS = np.random.default_rng(7).standard_normal((6, DIM))
VARIABLE = cp.Variable(DIM, name="w")
SETS = {
    "whole": WholeSpace(),
    "box": Box(-1.0, 2.0),
    "box, vectors": Box([-1, 0, 2, -3, 0.5], [1, 0, 4, -2, 0.75]),
    "half-open box": Box([-np.inf, -1, 0, -np.inf, 0], [1, np.inf, 2, np.inf, 0]),
    "orthant": NonnegativeOrthant(),
    "simplex": Simplex(),
    "wide simplex": Simplex(radius=7.5),
    "capped": CappedSimplex(0.3),
    "capped, inactive": CappedSimplex(2.0),
    "capped, vectors": CappedSimplex([0.5, 0.0, 0.1, 0.3, 0.6]),
    "capped, tight": CappedSimplex(1.0 / DIM),
    "l1": L1Ball(1.5, CENTRE),
    "l1, origin": L1Ball(0.5),
    "l2": L2Ball(1.5, CENTRE),
    "l2, origin": L2Ball(2.0),
    "linf": LinfBall(0.5, CENTRE),
    **{f"nonnegative l{p:g}": NonnegativeBall(p, 2.0) for p in (1, 4 / 3, 2, 4, np.inf)},
    "polyhedron": Polyhedron(ROWS, np.ones(6), np.ones((1, DIM)), [0.1]),
    "sparse polyhedron": Polyhedron(sparse.csr_array(np.vstack([np.eye(DIM), -np.eye(DIM)])), np.ones(10)),
    "equations": Polyhedron(A_eq=np.ones((1, DIM)), b_eq=[0.1]),
    "intersection": Box(-1, 1) & L1Ball(2.0),
    "intersection with a ball": L2Ball(1.0) & NonnegativeOrthant() & L1Ball(1.2),
    "cvxpy": CvxpySet([cp.norm(VARIABLE, 2) <= 1, cp.sum(VARIABLE) == 0.5], VARIABLE),
}
