"""Convex expressions of cvxpy with every atom, in four variables."""

import cvxpy as cp
import numpy as np
from scipy import sparse

RNG = np.random.default_rng(7)
W = cp.Variable(4, name="w")
SPARSE = sparse.random_array((50, 4), density=0.1, rng=0, format="csr")
A, B = RNG.standard_normal((6, 4)), RNG.standard_normal(6)
SQUARE = cp.reshape(W, (2, 2), order="F")
SYMMETRIC = [(S + S.T) / 2 for S in RNG.standard_normal((4, 3, 3))]
PENCIL = sum(S * W[i] for i, S in enumerate(SYMMETRIC))
FITTED = np.linalg.lstsq(A, B, rcond=None)[0]

ATOMS = {
    "norm1": cp.norm1(W),
    "norm1 residual": cp.norm1(A @ W - B),
    "norm2": cp.norm2(W),
    "norm2 residual": cp.norm2(A @ W - B),
    "norm_inf": cp.norm_inf(W),
    "norm_inf residual": cp.norm_inf(A @ W - B),
    "norm_inf columns": cp.sum(cp.norm_inf(SQUARE, axis=0)),
    "pnorm 3": cp.pnorm(W, 3),
    "pnorm 1.5": cp.pnorm(W, 1.5),
    "max": cp.max(A @ W - B),
    "max rows": cp.sum(cp.max(SQUARE, axis=1)),
    "maximum": cp.sum(cp.maximum(W, 0.5 * W, -1)),
    "maximum of norms": cp.maximum(cp.norm2(W), cp.norm_inf(W), 1),
    "sum_largest": cp.sum_largest(W, 2),
    "sum_largest fractional": cp.sum_largest(W, 2.5) + cp.sum_largest(W, 0.5),
    "minus sum_smallest": -cp.sum_smallest(W, 2),
    "lambda_max": cp.lambda_max(PENCIL),
    "minus lambda_min": -cp.lambda_min(5 * np.eye(3) + PENCIL),
    "lambda_sum_largest": cp.lambda_sum_largest(PENCIL, 2),
    "sigma_max": cp.sigma_max(SQUARE),
    "nuclear": cp.normNuc(SQUARE),
    "log_sum_exp": cp.log_sum_exp(W),
    "log_sum_exp large": cp.log_sum_exp(1e5 * W),
    "log_sum_exp columns": cp.sum(cp.log_sum_exp(2000 * SQUARE, axis=0)),
    "log_sum_exp keepdims": cp.sum(cp.log_sum_exp(2000 * SQUARE, axis=1, keepdims=True)),
    "quad_form": cp.quad_form(W, A.T @ A),
    "sum_squares": cp.sum_squares(A @ W - B),
    "pos": cp.sum(cp.pos(1 - A @ W)),
    "abs": cp.abs(W[1]),
    "huber": cp.sum(cp.huber(A @ W - B, 0.5)),
    "quad_over_lin": cp.quad_over_lin(W[:3], W[3]),
    "quad_over_lin rows": cp.sum(cp.quad_over_lin(SQUARE, 2.0, axis=1)),
    "power 3 of pos": cp.sum(cp.power(cp.pos(W), 3)),
    "power 1.5": cp.sum(cp.power(W, 1.5)),
    "power 1": cp.sum(cp.power(W, 1)),
    "power 4": cp.sum(cp.power(W, 4)),
    "inv_pos": cp.sum(cp.inv_pos(W)),
    "exp": cp.sum(cp.exp(W)),
    "logistic": cp.sum(cp.logistic(2000 * W)),
    "minus log": -cp.sum(cp.log(W)),
    "minus entropy": -cp.sum(cp.entr(W)),
    "minus entropy + norm": cp.norm2(W) - cp.sum(cp.entr(W)) + cp.norm1(W),
    "kl_div": cp.sum(cp.kl_div(W[:2], W[2:])),
    "minus geo_mean": -cp.geo_mean(W),
    "minus log_det": -cp.log_det(5 * np.eye(3) + PENCIL),
    "matrix_frac": cp.matrix_frac(A[:3] @ W, 5 * np.eye(3) + PENCIL),
    "total variation": cp.tv(W),
    "mixed_norm": cp.mixed_norm(SQUARE, 2, 1),
    "square of norm": cp.square(cp.norm2(A @ W - B)),
    "exp of norm_inf": cp.exp(cp.norm_inf(W) / 10),
    "cvar": cp.cvar(A @ W, 0.5),
    "affine": A[0] @ W + 3,
    "maximum, broadcast": cp.sum(cp.maximum(W, cp.norm1(W) / 5)) - cp.sum(cp.minimum(W, W[0])),
    "log_sum_exp rows": cp.sum(cp.log_sum_exp(cp.outer(W, B), axis=1)),
    "max minus min": cp.max(A @ W) - cp.min(A @ W),
    "affine above": 2 * cp.sum(cp.multiply([1.0, 0, 2, 3], cp.abs(W))[1:]) + cp.norm2(W) - W[0],
    "sparse": cp.norm1(SPARSE @ W - 1) + cp.sum_squares(SPARSE @ W),
    "constants": cp.norm1(W) + cp.sum_squares(cp.Constant(B)) + cp.maximum(cp.Constant(1.0), 2.0),
    "psd_wrap": cp.quad_form(W, cp.psd_wrap(A.T @ A)),
    "dotsort": cp.dotsort(W, np.array([1.0, 0.0, 2.0, 0.0])),
    "slices": cp.norm1(W[1:]) + cp.norm1(W[::-1][[0, 2]]) + cp.norm1(W[np.array([True, False, True, True])]),
    "stacks": cp.norm(cp.hstack([W, 2 * W[:2], 1.0])) + cp.norm(cp.vstack([W, -W]), "fro"),
    "cumulated": cp.sum_squares(cp.cumsum(W)) + cp.norm1(cp.diff(W)) + cp.norm1(cp.convolve(B, W)),
    "diag": cp.norm(cp.diag(W) + A.T @ A, "fro") + cp.norm1(cp.kron(np.eye(2), cp.diag(W))),
    "shared": (lambda r: cp.norm1(r) + cp.sum_squares(r) + cp.norm_inf(r))(A @ W - B),
    "transforms": cp.scalar_product(W, B[:4]) + cp.std(W) + cp.ptp(W),
    "bmat": cp.norm(cp.bmat([[SQUARE, np.eye(2)], [np.eye(2), SQUARE]]), "fro"),
    "trace": cp.trace(np.eye(2) @ SQUARE) + cp.norm1(cp.upper_tri(SQUARE)) + cp.norm1(SQUARE.T @ A[:2]),
}
