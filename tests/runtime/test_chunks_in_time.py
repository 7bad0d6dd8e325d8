"""A pass in chunks ends at the deadline, and what it was computing stays usable."""

import numpy as np
import pytest

import cutplane as cut
from cutplane.runtime.deadline import OutOfTime, limited_to
from cutplane.runtime.threads import run_chunks


@pytest.mark.parametrize("count", [1, 2, 100])
def test_no_chunk_begins_after_the_deadline(count):
    done = []
    with limited_to(0.0), pytest.raises(OutOfTime):
        run_chunks(done.append, range(count))
    assert len(done) < max(count, 2)
    assert run_chunks(str, range(count)) == [str(i) for i in range(count)]


def test_rows_of_a_kernel_matrix_are_right_after_a_deadline():
    X = np.random.default_rng(0).normal(size=(1500, 4))
    risk = cut.kernels.KernelRisk(X, np.sign(X[:, 0]), cut.losses.Hinge(), cut.kernels.Gaussian(1.0))
    rows, everything = risk.gram.cache, np.arange(1500)
    rows.fetch_all(everything[::7])
    with limited_to(0.0), pytest.raises(OutOfTime):
        rows.fetch_all(everything)
    rows.fetch_all(everything[::3])
    a = np.random.default_rng(1).normal(size=1500)
    fresh = cut.kernels.KernelRisk(X, np.sign(X[:, 0]), cut.losses.Hinge(), cut.kernels.Gaussian(1.0))
    assert np.allclose(rows.product(a), fresh.gram.rows(everything) @ a, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("limit", [0.05, 0.2])
def test_a_kernel_machine_ends_in_time_and_can_go_on(limit):
    X = np.random.default_rng(0).normal(size=(3000, 200))
    y = np.sign(X[:, 0] + X[:, 1] ** 2 - 1.0)
    risk = cut.kernels.KernelRisk(X, y, cut.losses.Hinge(), cut.kernels.Gaussian(0.01))
    problem = cut.Problem(risk, risk.squared_norm(1e-4))
    stopped = problem.solve(time_limit=limit, tol=1e-6)
    assert stopped.status in ("TIME_LIMIT", "OPTIMAL") and np.isfinite(stopped.objective)
    whole = problem.solve(tol=1e-3)
    assert whole.status == "OPTIMAL" and whole.certificate.verify().valid
    assert stopped.lower_bound <= whole.objective * (1.0 + 1e-9)
