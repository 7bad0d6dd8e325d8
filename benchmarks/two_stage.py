"""Two-stage programmes from SMPS files: decomposition against the extensive form in HiGHS.

Run as ``python benchmarks/two_stage.py CORE.cor [number of scenarios ...]``.
"""

import sys
import time

import highspy
import numpy as np
from scipy import sparse

import cutplane as cut
from cutplane.decomposition import read_smps
from cutplane.sets.box import Box


def extensive(program, Q):
    """Solve the extensive form by HiGHS, as it chooses; return its optimum."""
    dim = program.cost.size
    form = (program.feasible_set & Box(-np.inf, np.inf, dim)).linear_form(dim)
    stages, p = Q.stages, Q.weights
    second = sparse.block_diag([stage.W for stage in stages], format="csr")
    first = sparse.vstack([stage.T for stage in stages], format="csr")
    rows = sparse.csr_array(sparse.block_array([[form.rows, None], [first, second]]))
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = rows.shape[1], rows.shape[0]
    lp.col_cost_ = np.concatenate(
        [program.cost, *(w * stage.cost for w, stage in zip(p, stages, strict=True))]
    )
    lp.col_lower_ = np.concatenate([form.lower, *(stage.lower for stage in stages)])
    lp.col_upper_ = np.concatenate([form.upper, *(stage.upper for stage in stages)])
    lp.row_lower_ = np.concatenate([form.row_lower, *(stage.row_lower for stage in stages)])
    lp.row_upper_ = np.concatenate([form.row_upper, *(stage.row_upper for stage in stages)])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = rows.indptr, rows.indices, rows.data
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.passModel(lp)
    model.run()
    return model.getInfo().objective_function_value + sum(p) * stages[0].constant


def main():
    program = read_smps(sys.argv[1])
    print(program)
    print(
        f"{'scenarios':>9} {'HiGHS s':>8} {'method':>15} {'s':>8} {'queries':>7} {'above HiGHS':>12} status"
    )
    for count in map(int, sys.argv[2:] or ("20", "100", "500")):
        began = time.process_time()
        optimum = extensive(program, program.value_function(count))
        seconds = time.process_time() - began
        for method in (cut.LevelBundle(), cut.ProximalBundle()):
            began = time.process_time()
            result = program.problem(count).solve(method, tol=1e-4)
            mine = time.process_time() - began
            print(
                f"{count:9d} {seconds:8.2f} {type(method).__name__:>15} {mine:8.2f} {result.oracle_calls:7d} "
                f"{result.objective / optimum - 1:12.1e} {result.status}",
                flush=True,
            )


if __name__ == "__main__":
    main()
