"""Regularizers of every kind, in five dimensions."""

import cvxpy as cp
import numpy as np
from scipy import sparse

from cutplane.regularizers import (
    L1,
    L2,
    CvxpyRegularizer,
    ElasticNet,
    NegativeEntropy,
    NoRegularizer,
    QuadraticForm,
    RelativeEntropy,
    SquaredGroupNorm,
)

DIM = 5
RNG = np.random.default_rng(3)
CENTRE = np.array([1.0, -2.0, 0.0, 0.5, 3.0])
WEIGHTS = np.array([1.0, 0.0, 2.0, 0.3, 1.5])
FACTOR = RNG.standard_normal((3, DIM))
TRIDIAGONAL = sparse.diags_array(
    [np.full(DIM, 2.5), -np.ones(4), -np.ones(4)], offsets=[0, 1, -1], format="csr"
)
GROUPS = [[0, 3], [4], [2, 1]]
W = cp.Variable(DIM, name="w")

REGULARIZERS = {
    "none": NoRegularizer(),
    "l2": L2(0.7),
    "l2, centre": L2(0.3, CENTRE),
    "l2, weights": L2(0.5, CENTRE, WEIGHTS),
    "l2, lam 0": L2(0.0, CENTRE),
    "l1": L1(0.8),
    "l1, weights": L1(0.8, WEIGHTS),
    "l1, lam 0": L1(0.0),
    "elastic net": ElasticNet(0.9, 0.4),
    "elastic net, all l1": ElasticNet(0.9, 1.0),
    "elastic net, all l2": ElasticNet(0.9, 0.0),
    "sum": L1(0.8) + L2(0.7),
    "sum, weights": L1(0.8, WEIGHTS) + 0.6 * (L2(0.5, CENTRE) + L2(0.5, -CENTRE, WEIGHTS)),
    "sum, partly flat": L1(0.8) + L2(0.5, CENTRE, WEIGHTS),
    "sum of quadratics": L2(0.3, CENTRE) + L2(0.4),
    "sum, one term": L1(0.0) + SquaredGroupNorm(GROUPS, 0.6),
    "sum, apart": SquaredGroupNorm([[0, 1]], 0.6).on([3, 0]) + ElasticNet(0.5).on([1, 4]),
    "sum, lam 0": 0.0 * (L1(0.8) + L2(0.7)),
    "entropy": NegativeEntropy(0.5),
    "entropy, lam 0": NegativeEntropy(0.0),
    "relative entropy": RelativeEntropy([0.1, 0.4, 2.0, 0.3, 0.2], 0.7),
    "relative entropy, scalar": RelativeEntropy(1.0 / DIM, 1.3),
    "groups, p 1": SquaredGroupNorm(GROUPS, 0.6),
    "groups, p 4/3": SquaredGroupNorm(GROUPS, 0.6, 4 / 3, [1.0, 0.5, 2.0]),
    "groups, p 2": SquaredGroupNorm(GROUPS, 0.6, 2.0, [1.0, 0.5, 2.0]),
    "groups, p 3": SquaredGroupNorm(GROUPS, 0.6, 3.0, 1.5),
    "groups, lam 0": SquaredGroupNorm(GROUPS, 0.0),
    "quadratic": QuadraticForm(FACTOR.T @ FACTOR + np.eye(DIM), CENTRE, 0.4),
    "quadratic, sparse": QuadraticForm(TRIDIAGONAL, CENTRE, 0.4),
    "quadratic, singular": QuadraticForm(FACTOR.T @ FACTOR, lam=0.4),
    "quadratic, lam 0": QuadraticForm(np.eye(DIM), lam=0.0),
    "cvxpy": CvxpyRegularizer(cp.norm_inf(W) + cp.sum_squares(W - 1), W, 0.5),
}
