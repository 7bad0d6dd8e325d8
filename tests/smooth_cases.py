"""Smooth risks over bounded sets, with their optima by cvxpy, for the first-order methods."""

from __future__ import annotations

from functools import cache

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

import cutplane as cut
from cutplane.losses import Logistic, Squared

M, N = 40, 6
SETS = {
    "simplex": cut.Simplex(),
    "large simplex": cut.Simplex(radius=3.0),
    "l1 ball": cut.L1Ball(0.8, centre=np.full(N, 0.1)),
    "l2 ball": cut.L2Ball(0.7),
    "box": cut.Box(-0.3, np.linspace(0.1, 0.6, N)),
    "capped simplex": cut.CappedSimplex(0.3),
}
LOSSES = "squared", "logistic"
LAYOUTS = "dense", "csr", "float32", "oracle"


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(M, N))
    t = X @ np.array([0.5, -0.4, 0.3, 0.2, 0.1, 0.0]) + 0.3 * rng.normal(size=M)
    return X, t


@cache
def instance(set_name, loss_name, layout="dense"):
    X, t = data()
    loss, y = (Squared(), t) if loss_name == "squared" else (Logistic(), np.sign(t))
    w = cp.Variable(N)
    X = {"csr": sp.csr_array(X), "float32": X.astype(np.float32)}.get(layout, X)
    rows = X.toarray() if layout == "csr" else X.astype(np.float64)
    monolith = cp.Problem(cp.Minimize(cp.sum(loss.cvxpy_form(rows @ w, y)) / M), SETS[set_name].cvxpy_form(w))
    optimum = monolith.solve(cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    risk = cut.LinearRisk(X, y, loss)
    if layout == "oracle":
        risk = cut.risk(dim=N)(risk.oracle)
    return cut.Problem(risk, feasible_set=SETS[set_name]), float(optimum)


def assert_sound(problem, result, optimum, tol):
    scale = max(1e-12, abs(optimum))
    assert result.status is cut.Status.OPTIMAL and result.gap <= tol, result
    assert abs(result.objective - optimum) <= tol * scale + 1e-8
    assert problem.simple_set.violation(result.x) <= 1e-12
    lower, upper = result.history.column("lower_bound"), result.history.column("upper_bound")
    assert (lower <= optimum + 1e-7 * scale).all() and (upper >= optimum - 1e-7 * scale).all()
    assert (np.diff(lower[np.isfinite(lower)]) >= 0).all()
    assert (np.diff(upper) <= 0).all()
    verification = result.certificate.verify()
    assert verification.valid, verification
