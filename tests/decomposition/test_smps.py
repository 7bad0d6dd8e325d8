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


def test_too_many_scenarios_are_not_written_out(tmp_path):
    many = read_smps(write(tmp_path, INDEP))
    object.__setattr__(many, "random", many.random * 5)
    with pytest.raises(cut.InvalidInputError, match="too many to enumerate"):
        many.value_function()


MAX = CORE.replace("ROWS\n", "OBJSENSE\n    MAX\nROWS\n", 1)
WRONG = r"""
core|NAME          tiny|nonsense|tiny.cor, line 1: the section NONSENSE is not supported
core|    x2        COST|    M1  'MARKER'  'INTORG'\n    x2        COST|cor, line 15: .*'x2' is int
core| UP BND       x2 | UI BND       x2 |cor, line 27: .*'x2' is int
core| UP BND       x2 | LI BND       x2 |cor, line 27: .*'x2' is int
core| UP BND       x2 | BV BND       x2 |cor, line 27: .*'x2' is int
core| UP BND       x2 | SC BND       x2 |cor, line 27: .*'x2' is semi
core| UP BND       x2 | SI BND       x2 |cor, line 27: .*'x2' is semi
core| UP BND       x2 | XX BND       x2 |line 27: the bound 'XX' is not supported
core| UP BND       x2 | UP BND       xx |line 27: there is no column 'xx'
core| UP BND       x2 | UP OTHER     x2 |line 28: there is a second set of bounds, 'BND'
core|x2                   8.0|x2                  -8.0|line 27: .*upper bound -8 and no lower bound
core|x2                   8.0|x2                   nan|line 27: 'nan' in .* is no number
core|x2                   8.0|x2                   8_0|line 27: '8_0' in .* is no number
core|x2                   8.0|x2|line 27
core|BUDGET              12.0|BUDGET               inf|line 24: 'inf' in .* is no finite number
core|BUDGET              12.0|BUDGET              1e15|1e15 in 'RHS BUDGET 1e15 .* of 1e.15 or more
core|RHS       DEM2|RHS2      DEM2|line 25: there is a second right-hand side, 'RHS2'
core|DEM2                 2.0|DEM1                 2.0|line 25: the row 'DEM1' has two right
core|DEM2                 2.0|DEM3                 2.0|line 25: there is no row 'DEM3'
core| L  CAP2| L  CAP1|line 8: the row 'CAP1' is given twice
core| L  CAP2| X  CAP2|line 8: a row must be N, L, G or E
core| N  COST\n||line 11: there is no row 'COST'
core|    y1        DEM1|    x1        DEM1|line 18: the lines of the column 'x1' must follow
core|RATIO               -1.0|BUDGET              -1.0|line 13: the column 'x1' has the row 'B
core|BOUNDS\n|QUADOBJ\n|line 26: the section QUADOBJ is not supported
core|BOUNDS\n|RHS\n|line 26: there is a second section RHS
core|BOUNDS\n|RANGES\n    RNG       COST      1.0\nBOUNDS\n|line 27: .* of type N and cannot
core|BOUNDS\n|RANGES\n    RNG       DEM2      1.0   DEM2      1.0\nBOUNDS\n|line 27: .* has two ranges
core|ROWS\n|OBJSENSE\n    LEAST\nROWS\n|line 4: OBJSENSE must be MIN or MAX
core|ROWS\n|OBJSENSE\nROWS\n|the section OBJSENSE says neither
core|ENDATA\n||cor, line 31: the file is cut off
core|ENDATA\n|ENDATA\n x\n|cor, line 32: 'x' follows ENDATA
core|*||cor, line 1: the file is cut off
time|*||tim, line 1: the file is cut off
time|ENDATA\n||tim, line 5: the file is cut off
time|    x1        BUDGET|    x2        BUDGET|line 3: the first period must begin
time|    x1        BUDGET|    x1        CAP1  |line 3: the first period must begin
time|y1  |y9  |tiny.tim, line 4: the period 'TIME2' begins at 'y9', 'CAP1', not in the core
time|PERIODS       LP|PERIODS       EXPLICIT|first column and row
time|    y1        CAP1                     TIME2\n||two periods
time|CAP1|DEM1|line 4: the first-stage row .* contains the second-stage column 'y1'
stoch|*||sto, line 1: the file is cut off
stoch|*|STOCH tiny\nENDATA\n|sto, line 2: the section ENDATA is not supported here
stoch|*|STOCH tiny\nINDEP DISCRETE\nENDATA\n|sto, line 2: the section INDEP is empty
stoch|ENDATA\n||sto, line 14: the file is cut off
stoch|           0.9\n|\n|sto, line 10
stoch|DISCRETE|NORMAL|line 3: 'INDEP NORMAL' is not supported
stoch|INDEP|TREES|line 3: the section TREES DISCRETE is not supported
stoch|0.75|0.5|line 3: probabilities of this section sum to 0.75
stoch|0.75|much|line 5: 'much' in .* is no finite number
stoch|INDEP         DISCRETE\n||in no section
stoch|    x2        CAP2|    xx        CAP2|sto, line 10: The random column 'xx' is not in the core
stoch|    x2        CAP2|    x2        CAP9|sto, line 10: The random row 'CAP9' is not
stoch|0.25\n|-0.25\n|sto, line 4: the probability -0.25 is not between 0 and 1
stoch|0.25\n|nan\n|sto, line 4: 'nan' in
stoch|0.25\n|1.25\n|sto, line 4: the probability 1.25
stoch|TIME2    0.75|TIME3    0.75|sto, line 5: 'TIME3' is no period
stoch|0.75\n|0.75 9\n|sto, line 5
stoch|RHS       DEM1|RHS       BUDGET|line 4: The random row 'BUDGET'
stoch|y1        COST|x1        COST|line 8: The cost of the first-stage column 'x1'
scenarios| SC dear      high| SC dear      hgih|sto, line 7: the parent 'hgih' is neither ROOT
scenarios| SC dear | SC high |sto, line 7: the scenario 'high' is given twice
scenarios| SC low| XC low|sto, line 3: .* must be SC, a name
blocks| BL DEMAND    TIME2     0.25| BL DEMAND    TIME2|sto, line 3: .* must be BL, a block
blocks|DEM2    1.0|DEM1    1.0|sto, line 4: .'RHS', 'DEM1'. is given twice
blocks|    y2        COST      0.3|    y1        COST      0.3|is random twice
"""


@pytest.mark.parametrize("case", WRONG.strip("\n").split("\n"))
def test_no_line_is_skipped(case, tmp_path):
    """A case: the file, the text in it that is replaced (* for all), the other text, the error."""
    kind, old, new, said = (part.replace("\\n", "\n") for part in case.split("|"))
    files = {"core": CORE, "time": TIME, "stoch": INDEP, "blocks": BLOCKS, "scenarios": SCENARIOS}
    assert old in files[kind] or old == "*"
    text = new if old == "*" else files[kind].replace(old, new)
    changed = "stoch" if kind in ("blocks", "scenarios") else kind
    with pytest.raises(cut.InvalidInputError, match=said):
        read_smps(write(tmp_path, **{"stoch": INDEP, changed: text}))


@pytest.mark.parametrize("text", [MAX, MAX.replace("OBJSENSE\n    MAX", "OBJSENSE MAXIMIZE")])
def test_a_maximum_is_a_maximum(text, tmp_path):
    """Of negative costs, so that the minimum of the costs is the optimum of both files."""
    for number in (
        "1.5   BUDGET", "2.0   BUDGET", "0.1   RATIO", "0.5   CAP1", "0.4   CAP2", "9.0   DEM1", "7.0   DEM2",
    ):  # fmt: skip
        assert f" {number}" in text
        text = text.replace(f" {number}", f"-{number}")
    text = text.replace("COST                -4.0", "COST                 4.0")
    stoch = INDEP.replace("COST      0.5 ", "COST      -.5 ").replace("COST      1.5 ", "COST     -1.5 ")
    least = read_smps(write(tmp_path, INDEP)).problem().solve(tol=1e-8)
    with pytest.warns(UserWarning, match="maximises: .* the maximum is -result.objective"):
        program = read_smps(write(tmp_path, stoch, text))
    assert program.sign == -1.0 and "maximised" in repr(program)
    assert program.value_function().stages[-1].cost.tolist() == [1.5, 0.4, 9.0, 7.0]
    greatest = program.problem().solve(tol=1e-8)
    assert program.sign * greatest.objective == pytest.approx(-least.objective, rel=1e-7)


def test_ranges_and_bounds_are_those_of_the_format(tmp_path):
    rows = " N  COST\n E  A\n E  B\n L  C\n G  D\n E  E\n"
    columns = (
        "".join(f"    x{j}  COST  1.0  A  1.0\n" for j in range(7))
        + "    z  E  1.0  B  0\n    z  C  1  D  1\n"
    )
    core = f"NAME\nROWS\n{rows}COLUMNS\n{columns}RHS\n    A 5 COST -3\n    B 5 C 5\n    D 5\nRANGES\n"
    core += "    A 2 B -2\n    C -2 D -2\nBOUNDS\n UP x0 4\n LO x1 -4\n FX x2 3\n FR x3\n"
    core += " MI x4\n UP x4 -2\n PL x5\n UP x6 1e30\n LO x6 1D+0\nENDATA\n"
    time = "TIME\nPERIODS\n x0 COST ONE\n z B TWO\nENDATA\n"
    stoch = "STOCH\nINDEP DISCRETE\n RHS E 1 .5\n RHS E 2 .5\nENDATA\n"
    core = core.replace("A  1.0\n", "A  1.0\n", 1)
    program = read_smps(write(tmp_path, stoch, core, time))
    assert program.core.row_lower.tolist() == [3.0, 3.0, 5.0, 0.0]
    assert program.core.row_upper.tolist() == [5.0, 5.0, 7.0, 0.0]
    assert program.core.constant == 3.0
    box = program.feasible_set.simple[0]
    assert np.broadcast_to(box.lower, 7).tolist() == [0.0, -4.0, 3.0, -np.inf, -np.inf, 0.0, 1.0]
    assert np.broadcast_to(box.upper, 7).tolist() == [4.0, np.inf, 3.0, np.inf, -2.0, np.inf, np.inf]


def test_integers_are_dropped_when_that_is_wanted(tmp_path):
    marked = "    M1        'MARKER'                 'INTORG'\n    x2        COST "
    core = CORE.replace("    x2        COST ", marked).replace(
        "    x3  ", "    M1  'MARKER'  'INTEND'\n    x3  ", 1
    )
    expected = read_smps(write(tmp_path, INDEP)).problem().solve(tol=1e-8).objective
    relaxed = read_smps(write(tmp_path, INDEP, core), relax=True).problem().solve(tol=1e-8)
    assert relaxed.objective == pytest.approx(expected, rel=1e-7)
    with pytest.raises(cut.InvalidInputError, match="'x2' has no bounds"):
        read_smps(
            write(tmp_path, INDEP, core.replace(" UP BND       x2                   8.0\n", "")), relax=True
        )


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["utf-8", "utf-8-sig", "utf-16"])
def test_marks_and_line_ends_change_nothing(ends, mark, tmp_path):
    for ending, text in ((".cor", CORE), (".tim", TIME), (".sto", INDEP)):
        (tmp_path / f"tiny{ending}").write_bytes(text.replace("\n", ends).encode(mark))
    assert read_smps(tmp_path / "tiny.cor").n_scenarios == 32


def fixed(text):
    """Write the words of each line in the columns of the fixed format, names with a blank."""
    lines = []
    for line in text.splitlines():
        words = line.split()
        if not line[0].isspace() or not words:
            lines.append(line)
            continue
        code = words.pop(0) if words[0] in ("N", "L", "G", "E", "UP", "SC") else ""
        names = [word if word[0] in "-.0123456789" else f"{word[0]} {word[1:]}" for word in words]
        places = (
            [4, 14, 24, 39, 49] if len(words) < 4 or words[3][0] not in "0123456789." else [4, 14, 24, 49]
        )
        out = f" {code}"
        for place, name in zip(places, names, strict=False):
            out = out.ljust(place) + name
        lines.append(out)
    return "\n".join(lines)


def test_names_may_contain_blanks_in_the_fixed_format(tmp_path):
    time = "TIME          tiny\nPERIODS\n    x 1       B UDGET                  T IME1\n"
    time += "    y 1       C AP1                    T IME2\nENDATA\n"
    core = CORE.replace("* two machines, two products\n", "")
    plain = read_smps(write(tmp_path, INDEP))
    with pytest.warns(UserWarning, match="is read in the fixed format, because a name") as said:
        spaced = read_smps(write(tmp_path, fixed(INDEP), fixed(core), time))
    assert len(said) == 3
    assert (next(iter(spaced.columns)), next(iter(spaced.rows))) == ("x 1", "C AP1")
    objectives = [program.problem().solve(tol=1e-8).objective for program in (plain, spaced)]
    assert objectives[0] == pytest.approx(objectives[1])


def test_what_is_changed_in_reading_is_said(tmp_path):
    with pytest.warns(UserWarning, match="sum to 0.9995, and are scaled"):
        program = read_smps(write(tmp_path, INDEP.replace("0.75", "0.7495")))
    assert program.value_function().weights.sum() == pytest.approx(1.0, abs=1e-12)
    with pytest.warns(UserWarning, match=r"rows \['EXTRA'\] of type N are not used"):
        read_smps(write(tmp_path, INDEP, CORE.replace(" N  COST\n", " N  COST\n N  EXTRA\n")))
    with pytest.warns(UserWarning, match="the core has no coefficient of 'y1' in 'DEM2'"):
        read_smps(write(tmp_path, INDEP.replace("y2        DEM2", "y1        DEM2")))


def test_a_random_constant_and_a_right_hand_side_of_another_name(tmp_path):
    core = CORE.replace("    RHS  ", "    SIDE ")
    stoch = INDEP.replace("    RHS       DEM2  ", "    SIDE      COST  ").replace("    RHS  ", "    SIDE ")
    stages = read_smps(write(tmp_path, stoch, core)).value_function().stages
    assert {stage.constant for stage in stages} == {-1.0, -5.0}


@pytest.mark.parametrize("missing", ["cor", "tim", "sto"])
def test_a_missing_file_is_named(missing, tmp_path):
    core = write(tmp_path, INDEP)
    (tmp_path / f"tiny.{missing}").unlink()
    with pytest.raises(FileNotFoundError, match=rf"tiny\.{missing}"):
        read_smps(core)
    with pytest.raises(FileNotFoundError, match=rf"tiny\.{missing}"):
        read_smps(core, core.with_suffix(".tim"), core.with_suffix(".sto"))


def test_random_entries_are_checked_when_they_are_made():
    for p in ((0.5, 0.4), (1.5, -0.5), (np.nan, 1.0)):
        with pytest.raises(cut.InvalidInputError, match="probabilities"):
            cut.decomposition.RandomEntries(p, ({}, {}))
