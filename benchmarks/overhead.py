"""Seconds of an iteration that are neither oracle nor master, at n = 1000 (target: under 0.3 ms).

Run: python benchmarks/overhead.py
"""

import numpy as np

import cutplane as cut

M, N, ITERATIONS = 2000, 1000, 150


def main():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(M, N))
    y = np.where(X[:, 0] + rng.normal(size=M) >= 0, 1.0, -1.0)
    risk = cut.LinearRisk(X, y, cut.losses.Hinge())

    @cut.risk(dim=N)
    def black_box(w):
        return risk.oracle(w)

    problems = {
        "images, L2": cut.Problem(risk, cut.L2(1e-3)),
        "black box, L2": cut.Problem(black_box, cut.L2(1e-3)),
        "images, box": cut.Problem(risk, feasible_set=cut.Box(-1, 1)),
    }
    print(
        f"{'problem':<15} {'method':<15} {'cuts':>5} {'engine':>10} {'oracle':>10} {'master':>10}"
        "   (median per iteration)"
    )
    for name, problem in problems.items():
        for method in (cut.BMRM(), cut.OCAS(), cut.ProximalBundle()):
            if name == "images, box" and not isinstance(method, cut.BMRM):
                continue
            problem.solve(method, max_iter=3)
            history = problem.solve(method, tol=1e-12, max_iter=ITERATIONS).history
            engine, oracle, master = (
                1e3 * np.median(history.column(f"{part}_seconds")[1:])
                for part in ("other", "oracle", "master")
            )
            cuts = history[-1].n_cuts
            print(
                f"{name:<15} {method.name:<15} {cuts:>5} "
                f"{engine:>7.3f} ms {oracle:>7.3f} ms {master:>7.3f} ms"
            )


if __name__ == "__main__":
    main()
