"""Results on disk: one .npz file, with pickled objects only for results of special problems."""

from __future__ import annotations

import json
import pickle
from dataclasses import fields, is_dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.engine.history import History, Record
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.answers import name_of
from cutplane.pieces.text import written_whole
from cutplane.pieces.validation import Array
from cutplane.proof.certificate import Certificate
from cutplane.result import BaseResult, Result
from cutplane.status import Status

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration

_FORMAT = 7
"""Version of the file format, increased with each change, because older files would be misread."""
_ARRAYS = ("offsets", "blocks", "queries", "multipliers")
_NUMBERS = ("lower_bound", "upper_bound", "risk_value", "scale")
_STANDARD = "standard_"
_SPARSE = ("slope_values", "slope_columns", "slope_starts")
_MOVED = {
    "cutplane.engine.certificate": "cutplane.proof.certificate",
    "cutplane.engine.points": "cutplane.engine.bundle",
    "cutplane.engine.slopes": "cutplane.engine.bundle",
}
"""Module in which a class of an older file is defined now, by its module in that file."""


def save(result: Result, path: str | Path) -> Path:
    """Write a result; see `Result.save`."""
    certificate, standard = result.certificate, result.certificate.standard
    header = {
        "format": _FORMAT,
        "pieces": None if certificate.problem is None else pieces_of(certificate.problem),
        "status": result.status.name,
        "reason": result.reason,
        "method": result.method,
        "backend": result.backend,
        "max_cuts": result.max_cuts,
        **_numbers_of(certificate),
        "records": [record._asdict() for record in result.history],
    }
    arrays = _arrays_of(certificate) | _solutions_to_arrays(certificate.solutions)
    if standard is not None:
        header["standard"] = _numbers_of(standard)
        arrays |= {_STANDARD + name: array for name, array in _arrays_of(standard).items()}
    return _write(path, header, **arrays)


def _numbers_of(certificate: Certificate) -> dict[str, Any]:
    return {"dim": certificate.slopes.shape[1]} | {name: getattr(certificate, name) for name in _NUMBERS}


def _arrays_of(certificate: Certificate) -> dict[str, Array]:
    slopes, points, duals = certificate.slopes, certificate.points, certificate.duals
    stored: dict[str, Any] = {"slopes": slopes}
    if sparse.issparse(slopes):
        stored = dict(zip(_SPARSE, (slopes.data, slopes.indices, slopes.indptr), strict=True))
    return {
        "x": np.empty(0) if certificate.x is None else certificate.x,
        "point_keys": np.array(list(points), dtype=np.int64),
        "points": np.array(list(points.values())).reshape(len(points), slopes.shape[1]),
        "dual_keys": np.array(list(duals), dtype=np.int64),
        "dual_sizes": np.array([np.size(dual) for dual in duals.values()], dtype=np.int64),
        "duals": np.concatenate([np.empty(0), *duals.values()]),
        **stored,
        **{name: getattr(certificate, name) for name in _ARRAYS},
    }


def save_objects(result: BaseResult, path: str | Path) -> Path:
    """Write the result of a special problem; see `BaseResult.save`."""
    header = {"format": _FORMAT, "objects": type(result).__name__}
    return _write(path, header, objects=np.frombuffer(pickle.dumps(result), dtype=np.uint8))


def pieces_of(problem: Declaration) -> dict[str, Any]:
    """Return the dimension, the number of blocks, and the classes, sizes and parameters of the pieces."""
    return {
        "dimension": problem.dim,
        "blocks": problem.risk.n_blocks,
        "risk": _outline(problem.risk),
        "regularizer": _outline(problem.regularizer),
        "feasible set": _outline(problem.feasible_set),
    }


def _outline(value: Any) -> str:
    """Return the class of a piece, its numbers, the shapes of its arrays, and its parts, as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_outline, value))})"
    if hasattr(value, "shape"):
        return f"an array of shape {tuple(value.shape)}"
    parts = [field for field in fields(value) if field.init] if is_dataclass(value) else []
    inside = ", ".join(f"{part.name}={_outline(getattr(value, part.name))}" for part in parts)
    return f"{name_of(value)}({inside})"


def _write(path: str | Path, header: dict[str, Any], **arrays: Any) -> Path:
    """Write a file as a whole or not at all."""
    path = _ending(path)
    with written_whole(path) as file:
        np.savez(file, header=np.array(json.dumps(header)), **arrays)
    return path


def _ending(path: str | Path) -> Path:
    path = Path(path)
    return path if path.suffix == ".npz" else Path(f"{path}.npz")


def load(path: str | Path, problem: Declaration | None = None, *, trusted: bool = False) -> Any:
    """Read a result written by its method `save`.

    Parameters
    ----------
    path : str or Path
        As given to `save`, with or without ``.npz``.
    problem : Problem, optional
        Attached to the certificate, so that ``result.certificate.verify()`` needs no argument. Its pieces
        must have the classes, sizes and parameters of the saved ones. Pass an equal problem that is stated
        in another way to ``verify(problem)`` instead.
    trusted : bool, default False
        Whether the file may hold pickled objects, as results of special problems do. Reading them can run any
        code, so that you have to trust the source of the file.

    Returns
    -------
    Result
        The `Result`, for example for ``problem.solve(warm_start=result)``, or the result of a special
        problem.

    Raises
    ------
    InvalidInputError
        If the file is not a saved result, is damaged, or belongs to a problem of other pieces; the message
        names the file and the fault.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import os, tempfile, numpy as np, cutplane as cut
    >>> problem = cut.Problem(cut.LinearObjective(np.ones(2)), feasible_set=cut.Box(-1, 1, dim=2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = problem.solve().save(os.path.join(folder, "run"))
    ...     print(file.name, cut.load(os.path.join(folder, "run")).objective)
    run.npz -2.0
    """
    path = _ending(path) if _ending(path).is_file() else Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return _read(file, problem, trusted)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path} is not a result that can be read: {error}") from error
    except Exception as error:  # a damaged archive raises many kinds of errors
        raise InvalidInputError(
            f"{path} is not a result saved by cutplane, or it is damaged: {type(error).__name__}: {error}"
        ) from error


def _read(file: Any, problem: Declaration | None, trusted: bool) -> Any:
    header = json.loads(str(file["header"]))
    if header.get("format") != _FORMAT:
        raise InvalidInputError(f"it has format {header.get('format')}, this version reads {_FORMAT}.")
    if "objects" in header and not trusted:
        raise InvalidInputError(
            f"it holds objects of a {header['objects']}, which can run code when they are read: pass "
            "trusted=True if you know where it comes from."
        )
    if "objects" in header:
        return _Unpickler(BytesIO(file["objects"].tobytes())).load()
    if problem is not None:
        given = pieces_of(problem)
        for name, was in ({"dimension": header["dim"]} | (header["pieces"] or {})).items():
            if given[name] != was:
                raise InvalidInputError(
                    f"the problem has the {name} {given[name]}, but the result was saved with the {name} "
                    f"{was}."
                )
    standard = None
    if "standard" in header:
        names = [name for name in file.files if name.startswith(_STANDARD)]
        within = {name.removeprefix(_STANDARD): file[name] for name in names}
        standard = _certificate(header["standard"], within)
    certificate = _certificate(
        header, file, solutions=_solutions_from_arrays(file), problem=problem, standard=standard
    )
    return Result(
        certificate=certificate,
        status=Status(header["status"]),
        reason=header["reason"],
        history=History([Record(**record) for record in header["records"]]),
        method=header["method"],
        backend=header["backend"],
        max_cuts=header["max_cuts"],
    )


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(_MOVED.get(module, module), name)


def _certificate(header: Any, file: Any, **rest: Any) -> Certificate:
    """Read a certificate; raise `InvalidInputError` if it is malformed."""
    x, dim, sizes = file["x"], header["dim"], file["dual_sizes"]
    if "slopes" in file:
        slopes = file["slopes"]
    else:
        parts = tuple(file[name] for name in _SPARSE)
        slopes = sparse.csr_array(parts, shape=(parts[2].size - 1, dim))
    duals = np.split(file["duals"], np.cumsum(sizes)[:-1]) if sizes.size else []
    certificate = Certificate(
        slopes=slopes,
        **{name: file[name] for name in _ARRAYS},
        **{name: float(header[name]) for name in _NUMBERS},
        points=dict(zip(file["point_keys"].tolist(), file["points"], strict=True)),
        duals=dict(zip(file["dual_keys"].tolist(), duals, strict=True)),
        x=x if x.size else None,
        **rest,
    )
    complaints = certificate.malformed(dim)
    if complaints:
        raise InvalidInputError(f"{'; '.join(complaints)}.")
    return certificate


def _solutions_to_arrays(solutions: dict[int, tuple[Any, ...]]) -> dict[str, Array]:
    """Return numeric solutions: for each block and shape, an array of them and an array of their queries."""
    groups: dict[tuple[int, tuple[int, ...]], dict[int, Array]] = {}
    for query, blocks in solutions.items():
        for block, solution in enumerate(blocks):
            dense = solution.toarray() if sparse.issparse(solution) else solution
            if dense is not None and np.asarray(dense).dtype.kind in "biufc":
                groups.setdefault((block, np.shape(dense)), {})[query] = np.asarray(dense)
    arrays = {}
    for number, ((block, _), found) in enumerate(groups.items()):
        arrays[f"solutions_{number}"] = np.array(list(found.values()))
        arrays[f"solution_keys_{number}"] = np.array([block, *found], dtype=np.int64)
    return arrays


def _solutions_from_arrays(file: Any) -> dict[int, tuple[Any, ...]]:
    found: dict[int, dict[int, Array]] = {}
    for name in file.files:
        if name.startswith("solutions_"):
            block, *queries = file[name.replace("solutions_", "solution_keys_")].tolist()
            for query, solution in zip(queries, file[name], strict=True):
                found.setdefault(query, {})[block] = solution
    n_blocks = int(file["blocks"].max(initial=0)) + 1
    return {query: tuple(map(blocks.get, range(n_blocks))) for query, blocks in found.items()}
