"""Two-stage programmes from SMPS files (core, time and stoch)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.decomposition.mps import LinearProgramme, Lines, MpsLine, MpsReader, warn
from cutplane.decomposition.stage import LinearStage
from cutplane.decomposition.two_stage import Entries, RandomEntries, TwoStageProgram
from cutplane.exceptions import InvalidInputError
from cutplane.sets.base import FeasibleSet
from cutplane.sets.box import Box
from cutplane.sets.polyhedron import Polyhedron

_TIME = ".tim", ".time"
_STOCH = ".sto", ".stoch", ".stoc"
_ROOT = "ROOT", "'ROOT'"
_HEADS = {
    "BLOCKS": ("BL", 4, "a block, a period and a probability"),
    "SCENARIOS": ("SC", 5, "a name, its parent, a probability and a period"),
}
"""The first word and the number of words of each line that begins an outcome, and the other words of the
line."""
_DIGITS = 1e-3
"""Error of a sum of probabilities that is accepted, because files round them to a few digits."""
_EXACT = 1e-9
"""Error of a sum of probabilities up to which no warning is given, because binary numbers have such
errors."""


def read_smps(
    core: str | Path, time: str | Path | None = None, stoch: str | Path | None = None, *, relax: bool = False
) -> TwoStageProgram:
    r"""Read a linear two-stage stochastic programme in the SMPS format [1]_.

    Every line of the files is read or refused. Words are separated by blanks. If names contain blanks, the
    columns of the fixed format are used, with a warning. A bound with an absolute value of 1e20 or more is
    infinite.

    Parameters
    ----------
    core : str or Path
        The deterministic programme, an MPS file with the sections NAME, OBJSENSE, ROWS, COLUMNS, RHS, RANGES
        and BOUNDS.
    time : str or Path, optional
        The file with the first column and row of each stage; by default the path of the core with the suffix
        ``.tim`` or ``.time``.
    stoch : str or Path, optional
        The random entries, in sections ``INDEP DISCRETE``, ``BLOCKS DISCRETE`` or ``SCENARIOS DISCRETE``,
        whose values replace values of the core; by default the path of the core with the suffix ``.sto``,
        ``.stoch`` or ``.stoc``.
    relax : bool, default False
        Whether integer columns become continuous; by default they are refused.

    Returns
    -------
    TwoStageProgram
        ``program.problem(n=100, seed=0).solve()`` solves it for 100 scenarios. With ``OBJSENSE MAX`` the
        negative is minimised, and `sign` is -1.

    Raises
    ------
    InvalidInputError
        If a file is invalid; the message names the file and the line.
    FileNotFoundError
        If a file does not exist.

    Warns
    -----
    UserWarning
        If names contain blanks, the core is a maximisation, it has rows of type N other than the objective, a
        random coefficient is not in the core, or probabilities sum to 1 only up to rounding.

    References
    ----------
    .. [1] J. R. Birge, M. A. H. Dempster, H. I. Gassmann, E. A. Gunn, A. J. King, S. W. Wallace, "A standard
       input format for multiperiod stochastic linear programs", COAL Newsletter 17, 1987.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from cutplane.decomposition import read_smps
    >>> core = ["NAME news", "ROWS", " N COST", " L MONEY", " L STOCK", " L DEMAND", "COLUMNS"]
    >>> core += [" buy COST 1 MONEY 1", " buy STOCK -1", " sell COST -2.5 STOCK 1", " sell DEMAND 1"]
    >>> core += ["RHS", " RHS MONEY 10 DEMAND 2", "ENDATA"]
    >>> time = ["TIME news", "PERIODS", " buy MONEY NOW", " sell STOCK LATER", "ENDATA"]
    >>> stoch = ["STOCH news", "INDEP DISCRETE", " RHS DEMAND 1 0.25", " RHS DEMAND 4 0.75", "ENDATA"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for ending, lines in (("cor", core), ("tim", time), ("sto", stoch)):
    ...         _ = pathlib.Path(folder, f"news.{ending}").write_text("\n".join(lines))
    ...     program = read_smps(pathlib.Path(folder, "news.cor"))
    >>> result = program.problem().solve(tol=1e-8)
    >>> print(program.n_scenarios, round(result.objective, 6), result.x.round(6))
    2 -4.125 [4.]
    """
    time = _beside(core, _TIME) if time is None else time
    stoch = _beside(core, _STOCH) if stoch is None else stoch
    whole = Lines(core).parsed(lambda lines: MpsReader(relax).read(lines))
    if whole.sign < 0.0:
        warn(f"{core} maximises: problem() minimises the negative, so the maximum is -result.objective.")
    if whole.unused:
        warn(f"{core}: the rows {whole.unused} of type N are not used; {whole.objective!r} is the objective.")
    dim, head, periods = Lines(time).parsed(partial(_read_time, whole))
    return _Stoch(Lines(stoch), _assemble(Path(core).stem, whole, dim, head), periods).read()


def _assemble(name: str, whole: LinearProgramme, dim: int, head: int) -> TwoStageProgram:
    rows, low, high = whole.A, whole.row_lower, whole.row_upper
    core = LinearStage(
        T=rows[head:][:, :dim],
        W=rows[head:][:, dim:],
        row_lower=low[head:],
        row_upper=high[head:],
        cost=whole.sign * whole.cost[dim:],
        lower=whole.lower[dim:],
        upper=whole.upper[dim:],
        first_cost=np.zeros(dim),
        constant=whole.sign * whole.constant,
    )
    first: FeasibleSet = Box(whole.lower[:dim], whole.upper[:dim])
    if head:
        A, below, above = rows[:head][:, :dim], low[:head], high[:head]
        equal = below == above
        under, over = np.isfinite(above) & ~equal, np.isfinite(below) & ~equal
        sides = sparse.csr_array(sparse.vstack([A[under], -A[over]]))
        equations = (A[equal], above[equal]) if equal.any() else (None, None)
        first = first & Polyhedron(sides, np.concatenate([above[under], -below[over]]), *equations)
    return TwoStageProgram(
        name=name,
        cost=whole.sign * whole.cost[:dim],
        feasible_set=first,
        core=core,
        rows={row: i - head for row, i in whole.rows.items() if i >= head},
        columns={column: j - dim for column, j in whole.columns.items()},
        objective_row=whole.objective,
        random=(),
        sides=frozenset(whole.sides),
        sign=whole.sign,
    )


def _beside(core: str | Path, endings: tuple[str, ...]) -> Path:
    if not Path(core).is_file():
        raise FileNotFoundError(f"There is no file {core}.")
    for ending in endings:
        if Path(core).with_suffix(ending).exists():
            return Path(core).with_suffix(ending)
    raise FileNotFoundError(f"There is no file {Path(core).with_suffix(endings[0])}; pass its path.")


def _read_time(whole: LinearProgramme, lines: Iterator[MpsLine]) -> tuple[int, int, set[str]]:
    """Return the numbers of columns and rows of the first stage, and the names of the periods."""
    periods: list[MpsLine] = []
    section = ""
    for line in lines:
        if line.begins:
            after = {"TIME": "", "PERIODS": "TIME", "ENDATA": "PERIODS"}.get(line.words[0])
            if after != section:
                line.fail(f"the sections must be TIME, PERIODS and ENDATA in this order, got '{line}'")
            section = line.words[0]
            if section == "PERIODS" and line.words[1:] not in ([], ["LP"], ["IMPLICIT"]):
                line.fail(f"'{line}' is not supported: periods must be given by their first column and row")
            if section == "ENDATA" and len(periods) != 2:
                line.fail(f"there must be two periods, got {len(periods)}")
            continue
        if section != "PERIODS":
            line.fail(f"'{line}' is in no section")
        if len(line.words) != 3:
            line.fail(f"a period must be a column, a row and a name, got '{line}'")
        column, row, name = line.words
        if column not in whole.columns or (row not in whole.rows and row != whole.objective):
            line.fail(f"the period {name!r} begins at {column!r}, {row!r}, not in the core")
        at = whole.columns[column], whole.rows.get(row, 0)
        if not periods and at != (0, 0):
            line.fail("the first period must begin at the first column and row of the core")
        if periods and (at[0] == 0 or row == whole.objective or name == periods[0].words[2]):
            line.fail(f"'{line}' must begin after the first period, and have another name")
        periods.append(line)
    column, row, _ = periods[1].words
    dim, head = whole.columns[column], whole.rows[row]
    below, right = whole.A[:head].nonzero()
    if (right >= dim).any():
        where = int(np.argmax(right >= dim))
        first, second = list(whole.rows)[below[where]], list(whole.columns)[right[where]]
        periods[1].fail(f"the first-stage row {first!r} contains the second-stage column {second!r}")
    return dim, head, {period.words[2] for period in periods}


Outcomes = list[tuple[float, Entries]]


class _Stoch:
    """Reads the random entries of a programme from the lines of a stoch file."""

    def __init__(self, lines: Lines, program: TwoStageProgram, periods: set[str]):
        self.lines, self.program, self.periods = lines, program, periods

    def read(self) -> TwoStageProgram:
        """Return the programme with its random entries."""
        random = self.lines.parsed(self._random)
        stored = {}
        for name in ("T", "W"):
            matrix = getattr(self.program.core, name).tocoo()
            stored[name] = set(zip(matrix.row.tolist(), matrix.col.tolist(), strict=True))
        for column, row in (key for one in random for entries in one.outcomes for key in entries):
            name, where = self.program.place(column, row)
            if name in stored and where not in stored[name]:
                warn(f"{self.lines.name}: the core has no coefficient of {column!r} in {row!r}; 0 is used.")
                break
        return replace(self.program, random=tuple(random))

    def _random(self, lines: Iterator[MpsLine]) -> list[RandomEntries]:
        kinds = ("INDEP", *_HEADS)
        sections: list[tuple[MpsLine, list[MpsLine]]] = []
        headed = False
        for line in lines:
            if line.begins and line.words[0] == "STOCH" and not headed:
                headed = True
            elif not headed:
                line.fail(f"the first line must be STOCH, not '{line}'")
            elif line.begins and line.words[0] in kinds:
                if line.words[1:] not in (["DISCRETE"], ["DISCRETE", "REPLACE"]):
                    line.fail(f"'{line}' is not supported, only DISCRETE values that replace others")
                sections.append((line, []))
            elif line.begins and (line.words != ["ENDATA"] or not sections):
                line.fail(f"the section {line} is not supported here, only {', '.join(kinds)}, then ENDATA")
            elif not line.begins and not sections:
                line.fail(f"'{line}' is in no section")
            elif not line.begins:
                sections[-1][1].append(line)
        random: list[RandomEntries] = []
        taken: set[tuple[str, Any]] = set()
        for head, data in sections:
            groups = self._independent(data) if head.words[0] == "INDEP" else self._joint(head, data)
            for outcomes in groups:
                random.append(_scaled(head, outcomes))
                keys = [key for _, entries in outcomes for key in entries]
                twice = [key for key in keys if self.program.place(*key) in taken]
                if twice:
                    head.fail(f"the entry {twice[0]} is random twice, here and before")
                taken |= {self.program.place(*key) for key in keys}
            if not groups:
                head.fail(f"the section {head.words[0]} is empty")
        return random

    def _independent(self, lines: list[MpsLine]) -> list[Outcomes]:
        """Read ``column row value [period] probability``."""
        found: dict[tuple[str, str], Outcomes] = {}
        for line in lines:
            if len(line.words) not in (4, 5):
                line.fail(f"'{line}' must be column, row, value, an optional period, and probability")
            entries: Entries = {}
            self._add(entries, set(), line, line.words[:3])
            self._check_period(line, line.words[3:-1])
            (key,) = entries
            found.setdefault(key, []).append((_probability(line, -1), entries))
        return list(found.values())

    def _joint(self, head: MpsLine, lines: list[MpsLine]) -> list[Outcomes]:
        """Read lines ``BL name period probability`` or ``SC name parent probability period``, and entries.

        Entries that an outcome does not contain are as in the first outcome of the block, or in the parent of
        the scenario.
        """
        code, length, words = _HEADS[head.words[0]]
        groups: dict[str, Outcomes] = {}
        scenarios: dict[str, Entries] = {name: {} for name in _ROOT}
        outcome: Entries | None = None
        given: set[tuple[str, Any]] = set()
        for line in lines:
            if line.words[0] == code and len(line.words) == length:
                name = line.words[1]
                if code == "BL":
                    self._check_period(line, line.words[2:3])
                    group = groups.setdefault(name, [])
                    base = group[0][1] if group else {}
                else:
                    parent = line.words[2]
                    if name in scenarios:
                        line.fail(f"the scenario {name!r} is given twice")
                    if parent not in scenarios:
                        line.fail(f"the parent {parent!r} is neither ROOT nor a scenario before this line")
                    self._check_period(line, line.words[4:])
                    group, base = groups.setdefault("", []), scenarios[parent]
                outcome, given = dict(base), set()
                scenarios[name] = outcome
                group.append((_probability(line, 3), outcome))
            elif outcome is None or line.words[0] == code:
                line.fail(f"'{line}' must be {code}, {words}")
            else:
                self._add(outcome, given, line, line.words)
        return list(groups.values())

    def _add(self, entries: Entries, given: set[tuple[str, Any]], line: MpsLine, words: list[str]) -> None:
        """Add the entries of a line ``column row value [row value]`` to an outcome."""
        column, *pairs = words
        if len(pairs) not in (2, 4):
            line.fail(f"'{line}' must have a column, and one or two pairs of a row and a value")
        for row, word in zip(pairs[::2], pairs[1::2], strict=True):
            try:
                place = self.program.place(column, row)
            except InvalidInputError as error:
                line.fail(str(error).removesuffix("."))
            if place in given:
                line.fail(f"{(column, row)} is given twice in one outcome")
            given.add(place)
            entries[column, row] = line.value(word)

    def _check_period(self, line: MpsLine, words: list[str]) -> None:
        for word in words:
            if word not in self.periods:
                line.fail(f"{word!r} is no period; the time file has {sorted(self.periods)}")


def _scaled(head: MpsLine, outcomes: Outcomes) -> RandomEntries:
    """Return the outcomes with probabilities scaled to sum 1."""
    total = math.fsum(p for p, _ in outcomes)
    if abs(total - 1.0) > _DIGITS * (1.0 + _EXACT):
        head.fail(f"probabilities of this section sum to {total:g}, not 1")
    if abs(total - 1.0) > _EXACT:
        warn(f"{head.file.name}, line {head.number}: probabilities sum to {total:.9g}, and are scaled.")
    return RandomEntries(tuple(p / total for p, _ in outcomes), tuple(entries for _, entries in outcomes))


def _probability(line: MpsLine, place: int) -> float:
    value = line.value(line.words[place])
    if not 0.0 <= value <= 1.0:
        line.fail(f"the probability {value:g} is not between 0 and 1")
    return value
