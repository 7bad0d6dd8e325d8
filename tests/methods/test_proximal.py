"""What the proximal bundle method asks after many null steps."""

import numpy as np

import cutplane as cut


def test_half_steps_are_asked_only_after_more_than_three_null_steps():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((40, 15)), rng.standard_normal(40)
    asked = []

    @cut.risk(dim=15)
    def largest(x):
        r = A @ x - b
        asked.append(x.copy())
        k = np.abs(r).argmax()
        return abs(r[k]), np.sign(r[k]) * A[k]

    result = cut.Problem(largest, cut.L2(1e-3)).solve(cut.ProximalBundle(), tol=1e-6)
    assert result.status == "OPTIMAL"
    steps = [record.step for record in result.history]
    halves = [
        k
        for k in range(2, len(asked))
        if any(np.allclose(2.0 * asked[k], asked[k - 1] + c, rtol=0.0, atol=1e-12) for c in asked[: k - 1])
    ]
    assert halves
    first = next(k for k in range(4, len(steps)) if steps[k - 4 : k + 1] == ["null"] * 5)
    assert halves[0] > first
