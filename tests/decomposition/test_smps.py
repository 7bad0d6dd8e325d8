"""Two-stage programmes from SMPS files, written here, against their extensive form."""

import cvxpy as cp
import numpy as np
import pytest

import cutplane as cut
from cutplane.decomposition import read_smps

CORE = """\
NAME          tiny
* two machines, two products
ROWS
 N  COST
 L  BUDGET
 E  RATIO
 G  CAP1
 L  CAP2
 E  DEM1
 G  DEM2
COLUMNS
    x1        COST                 1.5   BUDGET               1.0
    x1        CAP1                -1.0   RATIO               -1.0
    x2        COST                 2.0   BUDGET               1.0
    x2        CAP2                -1.0
    x3        COST                 0.1   RATIO                1.0
    y1        COST                 0.5   CAP1                -1.0
    y1        DEM1                 1.0
    y2        COST                 0.4   CAP2                 1.0
    y2        DEM2                 1.0
    s1        COST                 9.0   DEM1                 1.0
    s2        COST                 7.0   DEM2                 1.0
RHS
    RHS       BUDGET              12.0   DEM1                 3.0
    RHS       DEM2                 2.0   COST                -4.0
BOUNDS
 UP BND       x2                   8.0
 UP BND       x3                  20.0
 UP BND       s1                  30.0
 UP BND       s2                  30.0
ENDATA
"""
TIME = """\
TIME          tiny
PERIODS       LP
    x1        BUDGET                   TIME1
    y1        CAP1                     TIME2
ENDATA
"""
INDEP = """\
STOCH         tiny
* demands, a price, a yield
INDEP         DISCRETE
    RHS       DEM1      2.0            0.25
    RHS       DEM1      6.0   TIME2    0.75
    RHS       DEM2      1.0            0.5
    RHS       DEM2      5.0            0.5
    y1        COST      0.5            0.5
    y1        COST      1.5            0.5
    x2        CAP2      -1.0           0.9
    x2        CAP2      -0.5           0.1
    y2        DEM2      1.0            0.5
    y2        DEM2      0.8            0.5
ENDATA
"""
BLOCKS = """\
STOCH         tiny
BLOCKS        DISCRETE
 BL DEMAND    TIME2     0.25
    RHS       DEM1      2.0   DEM2    1.0
    y1        COST      0.6
 BL DEMAND    TIME2     0.75
    RHS       DEM1      6.0
 BL PRICE     TIME2     0.5
    y2        COST      0.3
 BL PRICE     TIME2     0.5
    y2        COST      0.9
ENDATA
"""
SCENARIOS = """\
STOCH         tiny
SCENARIOS     DISCRETE
 SC low       ROOT      0.25   TIME2
    RHS       DEM1      2.0
 SC high      ROOT      0.5    TIME2
    RHS       DEM1      6.0   DEM2    5.0
 SC dear      high      0.25   TIME2
    s1        COST      20.0
ENDATA
"""
KINDS = {"INDEP": (INDEP, 32), "BLOCKS": (BLOCKS, 4), "SCENARIOS": (SCENARIOS, 3)}


def write(folder, stoch, core=CORE, time=TIME):
    for ending, text in ((".cor", core), (".tim", time), (".sto", stoch)):
        (folder / f"tiny{ending}").write_text(text)
    return folder / "tiny.cor"


def whole(program, Q):
    x = cp.Variable(program.cost.size)
    written_out = Q.extensive(x)
    objective = cp.Minimize(written_out.objective.expr + program.cost @ x)
    constraints = [*written_out.constraints, *program.feasible_set.cvxpy_form(x)]
    return cp.Problem(objective, constraints).solve(solver="HIGHS")


@pytest.mark.parametrize("kind", KINDS)
def test_the_programme_of_all_scenarios_is_solved(kind, tmp_path):
    stoch, count = KINDS[kind]
    program = read_smps(write(tmp_path, stoch))
    assert program.n_scenarios == count
    result = program.problem().solve(tol=1e-8)
    assert result.status == "OPTIMAL"
    Q = program.value_function()
    assert Q.weights.sum() == pytest.approx(1.0)
    assert result.objective == pytest.approx(whole(program, Q), rel=1e-7)
    assert result.certificate.verify().valid


def test_random_entries_are_where_the_file_says(tmp_path):
    program = read_smps(write(tmp_path, INDEP))
    last = program.value_function().stages[-1]
    assert last.row_lower.tolist() == [0.0, -np.inf, 6.0, 5.0]
    assert last.row_upper.tolist() == [np.inf, 0.0, 6.0, np.inf]
    assert last.cost.tolist() == [1.5, 0.4, 9.0, 7.0] and last.constant == 4.0
    assert last.T.toarray()[1].tolist() == [0.0, -0.5, 0.0] and last.W.toarray()[3, 1] == 0.8
    assert program.core.cost[0] == 0.5 and program.core.T[1, 1] == -1.0
    assert repr(program).startswith("TwoStageProgram(tiny: 3 first-stage variables, a second stage of 4 rows")

    blocks = read_smps(write(tmp_path, BLOCKS)).value_function()
    assert [stage.cost[0] for stage in blocks.stages] == [0.6] * 4  # as in the block's first outcome
    assert [stage.row_lower[3] for stage in blocks.stages] == [1.0] * 4
    assert blocks.weights.tolist() == [0.125, 0.125, 0.375, 0.375]

    dear = read_smps(write(tmp_path, SCENARIOS)).value_function().stages[2]
    assert (dear.row_lower[2], dear.row_lower[3], dear.cost[2]) == (6.0, 5.0, 20.0)  # as in its parent


def test_a_sample_is_reproducible_and_fair(tmp_path):
    program = read_smps(write(tmp_path, SCENARIOS))
    demands = [program.value_function(400, seed).stages for seed in (0, 0, 1)]
    first, again, other = ([stage.row_lower[2] for stage in stages] for stages in demands)
    assert first == again != other
    assert np.mean(np.array(first) == 2.0) == pytest.approx(0.25, abs=0.05)
    problem = program.problem(10, seed=3, n_groups=2)
    assert problem.risk.n_blocks == 3
    assert problem.solve(tol=1e-8).objective == pytest.approx(whole(program, program.value_function(10, 3)))


def test_files_are_named_or_found_beside_the_core(tmp_path):
    core = write(tmp_path, INDEP)
    other = tmp_path / "scenarios.txt"
    other.write_text(SCENARIOS)
    assert read_smps(core, stoch=other).n_scenarios == 3
    (tmp_path / "tiny.sto").unlink()
    with pytest.raises(FileNotFoundError, match=r"tiny\.sto"):
        read_smps(core)


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"core": "nonsense\n"}, "not an MPS file"),
        ({"time": TIME.replace("y1  ", "y9  ")}, "begins at y9, CAP1, not in the core"),
        ({"time": TIME.replace("PERIODS       LP", "PERIODS       EXPLICIT")}, "first column and row"),
        ({"time": TIME.replace("    y1        CAP1                     TIME2\n", "")}, "two periods"),
        ({"time": TIME.replace("CAP1", "DEM1")}, "first stage has a variable of the second"),
        ({"stoch": INDEP.replace("DISCRETE", "NORMAL")}, "INDEP NORMAL is not read"),
        ({"stoch": INDEP.replace("INDEP", "TREES")}, "section TREES"),
        ({"stoch": INDEP.replace("0.75", "0.5")}, "sum to 0.75"),
        ({"stoch": INDEP.replace("0.75", "much")}, "a line that cannot be read"),
        ({"stoch": INDEP.replace("INDEP         DISCRETE\n", "")}, "in no section"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(changes, said, tmp_path):
    files = {"stoch": INDEP} | changes
    with pytest.raises(cut.InvalidInputError, match=said):
        read_smps(write(tmp_path, **files))


def test_random_entries_outside_of_the_second_stage_are_refused(tmp_path):
    for old, said in (("RHS       DEM1", "random row 'BUDGET'"), ("y1        COST", "cost of 'x1'")):
        new = "RHS       BUDGET" if "RHS" in old else "x1        COST"
        program = read_smps(write(tmp_path, INDEP.replace(old, new)))
        with pytest.raises(cut.InvalidInputError, match=said):
            program.value_function()
    many = read_smps(write(tmp_path, INDEP))
    object.__setattr__(many, "random", many.random * 5)
    with pytest.raises(cut.InvalidInputError, match="too many to write out"):
        many.value_function()
