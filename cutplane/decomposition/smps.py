"""Two-stage programmes from SMPS files: core, time and stoch."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import highspy
import numpy as np
from scipy import sparse

from cutplane.decomposition.stage import LinearStage
from cutplane.decomposition.two_stage import Entries, RandomEntries, TwoStageProgram
from cutplane.exceptions import InvalidInputError
from cutplane.masters.lp.highs_model import SilentHighs
from cutplane.pieces.validation import Array
from cutplane.sets.base import FeasibleSet
from cutplane.sets.box import Box
from cutplane.sets.polyhedron import Polyhedron

_TIME = ".tim", ".time"
_STOCH = ".sto", ".stoch", ".stoc"
_ROOT = "ROOT", "'ROOT'"


def read_smps(
    core: str | Path, time: str | Path | None = None, stoch: str | Path | None = None
) -> TwoStageProgram:
    r"""Read a linear two-stage stochastic programme in the SMPS format [1]_.

    Parameters
    ----------
    core : str or Path
        The programme without randomness, an MPS file.
    time : str or Path, optional
        Where the second stage begins, in the order of the core; by default the file beside the core with
        the ending ``.tim`` or ``.time``.
    stoch : str or Path, optional
        The random entries, with sections ``INDEP DISCRETE``, ``BLOCKS DISCRETE`` or ``SCENARIOS DISCRETE``
        whose values replace those of the core; by default the file beside the core with the ending ``.sto``,
        ``.stoch`` or ``.stoc``.

    Returns
    -------
    TwoStageProgram
        ``program.problem(n=100, seed=0).solve()`` solves it for 100 scenarios.

    Raises
    ------
    InvalidInputError
        If a file is not as above; the message names it.
    FileNotFoundError
        If there is no such file.

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
    core = Path(core)
    time = _beside(core, _TIME) if time is None else Path(time)
    stoch = _beside(core, _STOCH) if stoch is None else Path(stoch)
    lp = _read_core(core)
    first_column, first_row = _read_time(time)
    names, row_names = list(lp.col_names_), list(lp.row_names_)
    if first_column not in names or first_row not in row_names:
        raise InvalidInputError(
            f"{time}: the second stage begins at {first_column}, {first_row}, not in the core."
        )
    places = names.index(first_column), row_names.index(first_row)
    return _assemble(core.stem, lp, *places, _objective_row(core), _read_stoch(stoch))


def _assemble(
    name: str, lp: Any, dim: int, head: int, objective: str, random: tuple[RandomEntries, ...]
) -> TwoStageProgram:
    names, row_names = list(lp.col_names_), list(lp.row_names_)
    matrix = lp.a_matrix_
    parts = np.array(matrix.value_), np.array(matrix.index_), np.array(matrix.start_)
    shape = (lp.num_row_, lp.num_col_)
    by_column = matrix.format_ == highspy.MatrixFormat.kColwise
    rows = sparse.csr_array((sparse.csc_array if by_column else sparse.csr_array)(parts, shape=shape))
    if rows[:head][:, dim:].nnz:
        raise InvalidInputError(f"{name}: a row of the first stage has a variable of the second.")
    low, high, cost, lower, upper = (
        np.array(part) for part in (lp.row_lower_, lp.row_upper_, lp.col_cost_, lp.col_lower_, lp.col_upper_)
    )
    core = LinearStage(
        sparse.csr_array(rows[head:][:, :dim]),
        sparse.csr_array(rows[head:][:, dim:]),
        low[head:],
        high[head:],
        cost[dim:],
        lower[dim:],
        upper[dim:],
        np.zeros(dim),
        float(lp.offset_),
    )
    feasible_set = _first_stage(rows[:head][:, :dim], low[:head], high[:head], Box(lower[:dim], upper[:dim]))
    places = {column: j - dim for j, column in enumerate(names)}
    second_rows = {row: i for i, row in enumerate(row_names[head:])}
    return TwoStageProgram(name, cost[:dim], feasible_set, core, second_rows, places, objective, random)


def _first_stage(rows: Any, low: Array, high: Array, box: Box) -> FeasibleSet:
    equal = np.flatnonzero(low == high)
    below = np.flatnonzero(np.isfinite(high) & (low != high))
    above = np.flatnonzero(np.isfinite(low) & (low != high))
    if not equal.size + below.size + above.size:
        return box
    A = sparse.csr_array(sparse.vstack([rows[below], -rows[above]]))
    equations = (rows[equal], high[equal]) if equal.size else (None, None)
    return box & Polyhedron(A, np.concatenate([high[below], -low[above]]), *equations)


def _beside(core: Path, endings: tuple[str, ...]) -> Path:
    for ending in endings:
        if core.with_suffix(ending).exists():
            return core.with_suffix(ending)
    raise FileNotFoundError(f"There is no file {core.with_suffix(endings[0])}; name it.")


def _read_core(core: Path) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        mps = shutil.copy(core, Path(folder) / "core.mps")  # HiGHS reads the format off the ending
        model = SilentHighs()
        if model.readModel(str(mps)) == highspy.HighsStatus.kError:
            raise InvalidInputError(f"{core} is not an MPS file that HiGHS can read.")
        return model.getLp()


def _objective_row(core: Path) -> str:
    return next((words[1] for _, words in _lines(core) if words[0] == "N"), "")


def _lines(path: Path) -> Iterator[tuple[bool, list[str]]]:
    """Yield the words of each line that is no comment, and whether it begins a section."""
    for line in path.read_text(encoding="latin-1").splitlines():
        if line.strip() and not line.startswith("*"):
            yield not line[0].isspace(), line.split()


def _read_time(path: Path) -> tuple[str, str]:
    """Return the first column and the first row of the second period."""
    periods, reading = [], False
    for begins, words in _lines(path):
        if begins:
            reading = words[0] == "PERIODS"
            if reading and "EXPLICIT" in words[1:]:
                raise InvalidInputError(f"{path}: periods must be given by their first column and row.")
        elif reading:
            periods.append(words)
    if len(periods) != 2 or len(periods[1]) < 2:
        raise InvalidInputError(
            f"{path} must have two periods, each with a column and a row: {len(periods)}."
        )
    return periods[1][0], periods[1][1]


def _read_stoch(path: Path) -> tuple[RandomEntries, ...]:
    sections: list[tuple[str, list[list[str]]]] = []
    for begins, words in _lines(path):
        if not begins:
            if not sections:
                raise InvalidInputError(f"{path}: {' '.join(words)!r} is in no section.")
            sections[-1][1].append(words)
        elif words[0] in _SECTIONS:
            if words[1:] not in (["DISCRETE"], ["DISCRETE", "REPLACE"]):
                raise InvalidInputError(f"{path}: {' '.join(words)} is not read; only DISCRETE values are.")
            sections.append((words[0], []))
        elif words[0] not in ("STOCH", "ENDATA"):
            raise InvalidInputError(
                f"{path}: the section {words[0]} is not read; {', '.join(_SECTIONS)} are."
            )
    try:
        found = [entries for kind, lines in sections for entries in _SECTIONS[kind](lines)]
    except (ValueError, IndexError, KeyError) as error:
        raise InvalidInputError(f"{path} has a line that cannot be read: {error}") from error
    for one in found:
        if abs(sum(one.probabilities) - 1.0) > 1e-3:  # files round them to a few digits
            raise InvalidInputError(f"{path}: probabilities sum to {sum(one.probabilities):g}, not 1.")
    return tuple(found)


def _independent(lines: list[list[str]]) -> list[RandomEntries]:
    """Read ``column row value [period] probability``."""
    found: dict[tuple[str, str], list[tuple[float, Entries]]] = {}
    for words in lines:
        key = words[0], words[1]
        found.setdefault(key, []).append((float(words[-1]), {key: float(words[2])}))
    return [_random(outcomes) for outcomes in found.values()]


def _blocks(lines: list[list[str]]) -> list[RandomEntries]:
    """Read ``BL name period probability`` and entries; those left out are as in the block's first outcome."""
    found: dict[str, list[tuple[float, Entries]]] = {}
    outcome: Entries = {}
    for words in lines:
        if words[0] == "BL":
            outcomes = found.setdefault(words[1], [])
            outcome = dict(outcomes[0][1]) if outcomes else {}
            outcomes.append((float(words[-1]), outcome))
        else:
            outcome |= _entries(words)
    return [_random(outcomes) for outcomes in found.values()]


def _scenarios(lines: list[list[str]]) -> list[RandomEntries]:
    """Read ``SC name parent probability period`` and entries; those left out are as in the parent."""
    found: dict[str, tuple[float, Entries]] = {}
    name = ""
    for words in lines:
        if words[0] == "SC":
            name, parent = words[1], words[2]
            found[name] = float(words[3]), {} if parent in _ROOT else dict(found[parent][1])
        else:
            found[name][1].update(_entries(words))
    return [_random(list(found.values()))]


def _entries(words: list[str]) -> Entries:
    return {(words[0], row): float(value) for row, value in zip(words[1::2], words[2::2], strict=True)}


def _random(outcomes: list[tuple[float, Entries]]) -> RandomEntries:
    probabilities, entries = zip(*outcomes, strict=True)
    return RandomEntries(probabilities, entries)


_SECTIONS = {"INDEP": _independent, "BLOCKS": _blocks, "SCENARIOS": _scenarios}
