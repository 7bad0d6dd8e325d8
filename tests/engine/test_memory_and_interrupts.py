"""Memory that runs out has a name and keeps the best point; Ctrl-C is not lost."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import cutplane as cut

CENTRE = np.arange(20.0)


def after(calls, action):
    """A risk that does something at one of its calls."""
    asked = []

    @cut.risk(dim=20)
    def risk(x):
        asked.append(x)
        if len(asked) == calls:
            action()
        return float(((x - CENTRE) ** 2).sum() + np.abs(x).sum()), 2.0 * (x - CENTRE) + np.sign(x)

    return cut.Problem(risk, cut.L2(0.1))


def allocate():
    return np.ones(10**13)  # numpy refuses 80 TB, without an attempt


def run_out():
    raise MemoryError


@pytest.mark.parametrize("method", ["proximal", "bmrm", "level", "ocas", "auto"])
@pytest.mark.parametrize("action, told", [(allocate, "array with shape"), (run_out, "size is not known")])
def test_memory_that_runs_out_keeps_the_best_point(method, action, told):
    with pytest.raises(cut.OutOfMemoryError, match=told) as caught:
        after(4, action).solve(method, tol=1e-9)
    assert isinstance(caught.value, MemoryError) and isinstance(caught.value, cut.CutplaneError)
    assert action.__name__ in str(caught.value) and "iteration" in str(caught.value)
    result = caught.value.result
    assert np.isfinite(result.objective) and result.certificate.verify().valid


def test_memory_that_runs_out_at_the_first_query_has_no_result():
    with pytest.raises(cut.OutOfMemoryError) as caught:
        after(1, run_out).solve()
    assert caught.value.result is None


FAMILIES = {
    "linear": """
        def solve(m, n):
            X = rng.normal(size=(m, n))
            return cut.Problem(cut.LinearRisk(X, np.sign(X[:, 0]), cut.losses.Hinge()), cut.L2(1e-6)).solve
        small, large = solve(30, 5), solve(20_000, 500)
    """,
    "direct": """
        def solve(m, n):
            X = rng.normal(size=(m, n))
            risk = cut.LinearRisk(X, np.sign(X[:, 0]), cut.losses.Logistic())
            return lambda: cut.Problem(risk, cut.L1(1e-3)).solve("direct")
        small, large = solve(30, 5), solve(3000, 600)
    """,
    "boosting": """
        from sklearn.tree import DecisionTreeClassifier
        def solve(m, n):
            X = rng.normal(size=(m, n))
            y = np.sign(X[:, 0] + rng.normal(size=m))
            tree = DecisionTreeClassifier(max_depth=1)
            return cut.boosting.SoftMargin(X, y, nu=0.2 * m, weak_learner=tree).solve
        small, large = solve(30, 5), solve(40_000, 3)
    """,
    "kernel": """
        from cutplane.estimators import KernelSVC
        def solve(m, n):
            X = rng.normal(size=(m, n))
            return lambda: KernelSVC(C=100.0).fit(X, np.sign(X[:, 0] + X[:, 1] ** 2 - 1.0))
        small, large = solve(30, 5), solve(6000, 300)
    """,
    "bundle": """
        def solve(m, n):
            A = rng.normal(size=(m, n))
            @cut.risk(dim=n)
            def risk(x):
                return float(np.abs(A @ x - 1.0).sum()), A.T @ np.sign(A @ x - 1.0)
            return lambda: cut.Problem(risk, cut.L2(0.1)).solve("bmrm", tol=1e-9, max_iter=300)
        small, large = solve(3, 5), solve(3, 1_000_000)
    """,
}


@pytest.mark.skipif(sys.platform != "linux", reason="the address space is limited by RLIMIT_AS")
@pytest.mark.parametrize("family", FAMILIES)
def test_no_family_lets_a_bare_memory_error_pass(family):
    script = (
        "import resource, warnings\nimport numpy as np, cutplane as cut\n"
        "warnings.simplefilter('ignore')\nrng = np.random.default_rng(0)\n"
        + textwrap.dedent(FAMILIES[family])
        + textwrap.dedent("""
        small()
        from scipy import linalg
        linalg.cholesky(np.eye(500)) @ np.eye(500)  # both libraries of BLAS take their buffers
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 20_000_000,) * 2)
        try:
            large()
        except cut.OutOfMemoryError as error:
            print("named:", error)
        else:
            print("solved")
        """)
    )
    environment = os.environ | {
        "CUTPLANE_COMPILE": "always",
        "OPENBLAS_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, env=environment
    )
    if "OpenBLAS error" in done.stderr:
        pytest.skip("OpenBLAS ends the process where it has no memory")
    assert done.stdout.startswith(("named: Memory ran out in", "solved")), done.stdout + done.stderr


def lose():
    """What a destructor or a solver of compiled code does with the exception."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        pass


def fail_to_import():
    """What the import of a compiled module makes of it."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as error:
        raise ImportError("initialization failed") from error


def press():
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("method", ["proximal", "bmrm", "level", "auto"])
@pytest.mark.parametrize("action", [press, lose, fail_to_import])
def test_an_interrupt_is_not_lost(action, method):
    result = after(4, action).solve(method, tol=1e-9)
    assert result.status == "INTERRUPTED" and np.isfinite(result.objective)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("action", [press, fail_to_import])
def test_without_a_point_an_interrupt_is_raised(action):
    with pytest.raises(KeyboardInterrupt):
        after(1, action).solve()


def test_an_interrupt_that_the_first_query_loses_ends_the_run_after_it():
    assert after(1, lose).solve().status == "INTERRUPTED"
