"""Two-stage programmes from SMPS files: core, time and stoch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.decomposition.mps import Line, LinearProgramme, Lines, MpsReader, warn
from cutplane.decomposition.stage import LinearStage
from cutplane.decomposition.two_stage import Entries, RandomEntries, TwoStageProgram
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array
from cutplane.sets.base import FeasibleSet
from cutplane.sets.box import Box
from cutplane.sets.polyhedron import Polyhedron

_TIME = ".tim", ".time"
_STOCH = ".sto", ".stoch", ".stoc"
_ROOT = "ROOT", "'ROOT'"
_DIGITS = 1e-3
"""How far the sum of probabilities may be from 1, because files round each to a few digits."""


def read_smps(
    core: str | Path, time: str | Path | None = None, stoch: str | Path | None = None, *, relax: bool = False
) -> TwoStageProgram:
    r"""Read a linear two-stage stochastic programme in the SMPS format [1]_.

    Every line of the files is read or refused. Words are separated by blanks, or, where names contain blanks,
    in the columns of the fixed format, with a warning. A bound of size 1e20 or more is infinite.

    Parameters
    ----------
    core : str or Path
        The programme without randomness, an MPS file with the sections NAME, OBJSENSE, ROWS, COLUMNS, RHS,
        RANGES and BOUNDS.
    time : str or Path, optional
        Where the second stage begins, in the order of the core; by default the file beside the core with
        the ending ``.tim`` or ``.time``.
    stoch : str or Path, optional
        The random entries, with sections ``INDEP DISCRETE``, ``BLOCKS DISCRETE`` or ``SCENARIOS DISCRETE``
        whose values replace those of the core; by default the file beside the core with the ending ``.sto``,
        ``.stoch`` or ``.stoc``.
    relax : bool, default False
        Whether to drop that columns are integer, which is refused by default.

    Returns
    -------
    TwoStageProgram
        ``program.problem(n=100, seed=0).solve()`` solves it for 100 scenarios. With ``OBJSENSE MAX`` that is
        the minimisation of the negative: its `sign` is -1.

    Raises
    ------
    InvalidInputError
        If a file is not as above; the message names it and the line.
    FileNotFoundError
        If there is no such file.

    Warns
    -----
    UserWarning
        If names contain blanks, if the core maximises, if it has rows of type N besides the objective, which
        constrain nothing, if a random coefficient has no place in the core, or if probabilities sum to 1 only
        up to rounding.

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
    lines = Lines(core)
    whole = lines.parsed(lambda found: MpsReader(lines, relax).read(found))
    if whole.sign < 0.0:
        warn(f"{core} maximises: problem() minimises the negative, so that the maximum is -result.objective.")
    if whole.unused:
        warn(f"{core}: the rows {whole.unused} of type N are not used; {whole.objective!r} is the objective.")
    times = Lines(time)
    dim, head, periods = times.parsed(partial(_read_time, times, whole))
    program = _assemble(Path(core).stem, whole, dim, head)
    return _Stoch(Lines(stoch), program, periods).read()


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
    box = Box(whole.lower[:dim], whole.upper[:dim])
    return TwoStageProgram(
        name=name,
        cost=whole.sign * whole.cost[:dim],
        feasible_set=_first_stage(rows[:head][:, :dim], low[:head], high[:head], box),
        core=core,
        rows={row: i - head for row, i in whole.rows.items() if i >= head},
        columns={column: j - dim for column, j in whole.columns.items()},
        objective_row=whole.objective,
        random=(),
        sides=frozenset(whole.sides),
        sign=whole.sign,
    )


def _first_stage(rows: Any, low: Array, high: Array, box: Box) -> FeasibleSet:
    equal = np.flatnonzero(low == high)
    below = np.flatnonzero(np.isfinite(high) & (low != high))
    above = np.flatnonzero(np.isfinite(low) & (low != high))
    if not equal.size + below.size + above.size:
        return box
    A = sparse.csr_array(sparse.vstack([rows[below], -rows[above]]))
    equations = (rows[equal], high[equal]) if equal.size else (None, None)
    return box & Polyhedron(A, np.concatenate([high[below], -low[above]]), *equations)


def _beside(core: str | Path, endings: tuple[str, ...]) -> Path:
    if not Path(core).is_file():
        raise FileNotFoundError(f"There is no file {core}.")
    for ending in endings:
        if Path(core).with_suffix(ending).exists():
            return Path(core).with_suffix(ending)
    raise FileNotFoundError(f"There is no file {Path(core).with_suffix(endings[0])}; name it.")


def _read_time(lines: Lines, whole: LinearProgramme, found: Iterator[Line]) -> tuple[int, int, set[str]]:
    """Return the numbers of columns and rows of the first stage, and the names of the periods."""
    periods: list[Line] = []
    section = ""
    for line in found:
        if line.begins:
            after = {"TIME": "", "PERIODS": "TIME", "ENDATA": "PERIODS"}.get(line.words[0])
            if after != section:
                lines.fail(line.number, f"the sections must be TIME, PERIODS and ENDATA, not '{line}' here")
            section = line.words[0]
            if section == "PERIODS" and line.words[1:] not in ([], ["LP"], ["IMPLICIT"]):
                lines.fail(
                    line.number, f"'{line}' is not read: periods must be given by first column and row"
                )
            if section == "ENDATA" and len(periods) != 2:
                lines.fail(line.number, f"there must be two periods, got {len(periods)}")
            continue
        if section != "PERIODS":
            lines.fail(line.number, f"'{line}' is in no section")
        if len(line.words) != 3:
            lines.fail(line.number, f"a period must be a column, a row and a name, got '{line}'")
        column, row, name = line.words
        if column not in whole.columns or (row not in whole.rows and row != whole.objective):
            lines.fail(line.number, f"the period {name!r} begins at {column!r}, {row!r}, not in the core")
        at = whole.columns[column], whole.rows.get(row, 0)
        if not periods and at != (0, 0):
            lines.fail(line.number, "the first period must begin at the first column and row of the core")
        if periods and (at[0] == 0 or row == whole.objective or name == periods[0].words[2]):
            lines.fail(line.number, f"'{line}' must begin after the first period, and have another name")
        periods.append(line)
    column, row, _ = periods[1].words
    dim, head = whole.columns[column], whole.rows[row]
    below, right = whole.A[:head].nonzero()
    if (right >= dim).any():
        where = int(np.argmax(right >= dim))
        first, second = list(whole.rows)[below[where]], list(whole.columns)[right[where]]
        lines.fail(
            periods[1].number, f"the row {first!r} of the first stage has the column {second!r} of the second"
        )
    return dim, head, {period.words[2] for period in periods}


Outcomes = list[tuple[float, Entries]]


class _Stoch:
    """The random entries of a programme, from the lines of a stoch file."""

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
                warn(f"{self.lines.name}: the core has no coefficient of {column!r} in {row!r}; 0 is taken.")
                break
        return replace(self.program, random=tuple(random))

    def _random(self, found: Iterator[Line]) -> list[RandomEntries]:
        kinds = {"INDEP": self._independent, "BLOCKS": self._blocks, "SCENARIOS": self._scenarios}
        sections: list[tuple[Line, list[Line]]] = []
        headed = False
        for line in found:
            if line.begins and line.words[0] == "STOCH" and not headed:
                headed = True
            elif not headed:
                self.lines.fail(line.number, f"the first line must be STOCH, not '{line}'")
            elif line.begins and line.words[0] in kinds:
                if line.words[1:] not in (["DISCRETE"], ["DISCRETE", "REPLACE"]):
                    self.lines.fail(
                        line.number, f"'{line}' is not read; only DISCRETE values that replace are"
                    )
                sections.append((line, []))
            elif line.begins and (line.words != ["ENDATA"] or not sections):
                known = ", ".join(kinds)
                self.lines.fail(
                    line.number, f"the section {line} is not read here: {known} are, and then ENDATA"
                )
            elif not line.begins and not sections:
                self.lines.fail(line.number, f"'{line}' is in no section")
            elif not line.begins:
                sections[-1][1].append(line)
        random: list[RandomEntries] = []
        taken: set[tuple[str, Any]] = set()
        for head, lines in sections:
            groups = kinds[head.words[0]](lines)
            for outcomes in groups:
                random.append(self._scaled(head, outcomes))
                keys = {self.program.place(*key) for _, entries in outcomes for key in entries}
                if keys & taken:
                    name = next(
                        key for _, entries in outcomes for key in entries if self.program.place(*key) in taken
                    )
                    self.lines.fail(head.number, f"the entry {name} is random twice, here and before")
                taken |= keys
            if not groups:
                self.lines.fail(head.number, f"the section {head.words[0]} is empty")
        return random

    def _scaled(self, head: Line, outcomes: Outcomes) -> RandomEntries:
        """Return the outcomes with probabilities that sum to 1."""
        total = math.fsum(p for p, _ in outcomes)
        if abs(total - 1.0) > _DIGITS * (1.0 + 1e-9):
            self.lines.fail(head.number, f"probabilities of this section sum to {total:g}, not 1")
        if abs(total - 1.0) > 1e-9:
            warn(f"{self.lines.name}, line {head.number}: probabilities sum to {total:.9g}, and are scaled.")
        return RandomEntries(tuple(p / total for p, _ in outcomes), tuple(entries for _, entries in outcomes))

    def _independent(self, lines: list[Line]) -> list[Outcomes]:
        """Read ``column row value [period] probability``."""
        found: dict[tuple[str, str], Outcomes] = {}
        for line in lines:
            if len(line.words) not in (4, 5):
                self.lines.fail(
                    line.number, f"'{line}' must be column, row, value, maybe period, and probability"
                )
            entries: Entries = {}
            self._add(entries, set(), line, line.words[:3])
            self._check_period(line, line.words[3:-1])
            (key,) = entries
            found.setdefault(key, []).append((self._probability(line, -1), entries))
        return list(found.values())

    def _blocks(self, lines: list[Line]) -> list[Outcomes]:
        """Read ``BL name period probability`` and entries; others are as in its first outcome."""
        found: dict[str, Outcomes] = {}
        outcome: Entries | None = None
        given: set[tuple[str, Any]] = set()
        for line in lines:
            if line.words[0] == "BL" and len(line.words) == 4:
                self._check_period(line, line.words[2:3])
                outcomes = found.setdefault(line.words[1], [])
                outcome, given = dict(outcomes[0][1]) if outcomes else {}, set()
                outcomes.append((self._probability(line, 3), outcome))
            elif outcome is None or line.words[0] == "BL":
                self.lines.fail(line.number, f"'{line}' must be BL, a block, a period and a probability")
            else:
                self._add(outcome, given, line, line.words)
        return list(found.values())

    def _scenarios(self, lines: list[Line]) -> list[Outcomes]:
        """Read ``SC name parent probability period`` and entries; others are as in the parent."""
        found: dict[str, tuple[float, Entries]] = {}
        outcome: Entries | None = None
        given: set[tuple[str, Any]] = set()
        for line in lines:
            if line.words[0] == "SC" and len(line.words) == 5:
                name, parent = line.words[1:3]
                if name in found:
                    self.lines.fail(line.number, f"the scenario {name!r} is given twice")
                if parent not in _ROOT and parent not in found:
                    self.lines.fail(
                        line.number, f"there is no scenario {parent!r} before this line, nor is it ROOT"
                    )
                self._check_period(line, line.words[4:])
                outcome, given = {} if parent in _ROOT else dict(found[parent][1]), set()
                found[name] = self._probability(line, 3), outcome
            elif outcome is None or line.words[0] == "SC":
                self.lines.fail(
                    line.number, f"'{line}' must be SC, a name, its parent, a probability and a period"
                )
            else:
                self._add(outcome, given, line, line.words)
        return [list(found.values())] if found else []

    def _add(self, entries: Entries, given: set[tuple[str, Any]], line: Line, words: list[str]) -> None:
        """Add the entries of a line, ``column row value`` and maybe another row and value, to those given."""
        column, *pairs = words
        if len(pairs) not in (2, 4):
            self.lines.fail(
                line.number, f"'{line}' must have a column, and one or two pairs of a row and a value"
            )
        for row, word in zip(pairs[::2], pairs[1::2], strict=True):
            try:
                place = self.program.place(column, row)
            except InvalidInputError as error:
                self.lines.fail(line.number, str(error).removesuffix("."))
            if place in given:
                self.lines.fail(line.number, f"{(column, row)} is given twice in one outcome")
            given.add(place)
            entries[column, row] = self.lines.number(line, word)

    def _probability(self, line: Line, place: int) -> float:
        value = self.lines.number(line, line.words[place])
        if not 0.0 <= value <= 1.0:
            self.lines.fail(line.number, f"the probability {value:g} is not between 0 and 1")
        return value

    def _check_period(self, line: Line, words: list[str]) -> None:
        for word in words:
            if word not in self.periods:
                self.lines.fail(
                    line.number, f"{word!r} is no period of the time file, {sorted(self.periods)}"
                )
