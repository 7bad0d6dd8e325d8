"""A master as a user would write it: the reduced problem, said to cvxpy from scratch."""

import cvxpy as cp
import numpy as np

from cutplane.masters import Level, MasterSolution, MasterStatus

STATUSES = {
    "optimal": MasterStatus.SOLVED,
    "unbounded": MasterStatus.UNBOUNDED,
    "infeasible": MasterStatus.INFEASIBLE,
}


class UsersMaster:
    """Minimises the model alone, or with a prox term."""

    name = "mine"

    def __init__(self, reduced):
        self.reduced = reduced

    @staticmethod
    def refusal(reduced, stabilization):
        return "it knows no level" if stabilization is Level else None

    def solve(self, rows, stabilization=None, accuracy=0.0):
        reduced = self.reduced
        x, heights = cp.Variable(reduced.dim), cp.Variable(reduced.n_blocks)
        blocks = np.vstack([np.eye(reduced.n_blocks), np.zeros(reduced.n_blocks)])[rows.blocks]
        cuts = rows.slopes @ x + rows.offsets <= blocks @ heights
        objective = cp.sum(heights) + reduced.regularizer.cvxpy_form(x)
        if stabilization is not None:
            objective += 0.5 * stabilization.weight * cp.sum_squares(x - stabilization.centre)
        problem = cp.Problem(cp.Minimize(objective), [cuts, *reduced.simple_set.cvxpy_form(x)])
        try:
            problem.solve("CLARABEL")
        except cp.SolverError as error:
            return MasterSolution(None, None, MasterStatus.FAILED, str(error))
        status = STATUSES.get(problem.status, MasterStatus.FAILED)
        if status is not MasterStatus.SOLVED:
            return MasterSolution(None, None, status, problem.status)
        return MasterSolution(x.value, np.atleast_1d(cuts.dual_value))
