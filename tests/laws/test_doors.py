"""Every number that enters is read as the same number in float64, or refused in a sentence that names it."""

from __future__ import annotations

import copy
import pickle
import re
import traceback
import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import doors
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from cutplane.exceptions import CutplaneError

polars = None
try:
    import polars
except ImportError:
    pass

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")


def same(value: Any) -> Iterator[tuple[str, Any]]:
    """The number or the array in other forms: they give the same answer."""
    kind = "i" if np.asarray(value).dtype.kind == "i" else "f"
    if np.ndim(value) == 0:
        yield from {"float16": np.float16(value), "float32": np.float32(value), "longdouble":
                    np.longdouble(value), "fraction": Fraction(value)}.items()  # fmt: skip
        return
    frozen = np.array(value)
    frozen.flags.writeable = False
    yield "read-only", frozen
    yield "Fortran order", np.asfortranarray(value)
    yield "strided", np.repeat(value, 2, axis=-1)[..., ::2]
    yield "reversed", np.array(value[::-1])[::-1]
    if kind == "f":
        yield "float16", value.astype(np.float16)
        yield "float32", value.astype(np.float32)
        yield "longdouble", value.astype(np.longdouble)
    yield "other byte order", value.astype(value.dtype.newbyteorder())
    yield "pandas", pd.DataFrame(value) if value.ndim == 2 else pd.Series(value) if value.ndim == 1 else value


def allowed(value: Any) -> Iterator[tuple[str, Any]]:
    """The number or the array in further forms: they give the same answer, or are refused."""
    if np.ndim(value) == 0:
        yield from {"array": np.array(value), "vector": np.array([value]), "list": [value]}.items()
        return
    yield "list", value.tolist()
    yield "object", value.astype(object)
    yield "no masked entries", np.ma.array(value, mask=np.zeros(value.shape, dtype=bool))
    yield "integers", value.astype(int) if (value == np.round(value)).all() else value
    yield "one dimension more", value[np.newaxis]
    if value.ndim == 1:
        yield "column", value[:, np.newaxis]
        yield "sparse column", sparse.csr_array(value[:, np.newaxis])
        yield "nullable", pd.Series(value, dtype="Float64" if value.dtype.kind == "f" else "Int64")
    if value.ndim == 2:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it will be deprecated
            yield "np.matrix", np.asmatrix(value)
        yield "flat", value.ravel()
        for index in (np.int32, np.int64):
            for format in FORMATS:
                for suffix in ("array", "matrix"):
                    made = getattr(sparse, f"{format}_{suffix}")(value)
                    yield f"{format}_{suffix}, {index.__name__}", _indexed(made, index)
    if polars is not None and value.ndim <= 2:
        yield "polars", polars.DataFrame(value) if value.ndim == 2 else polars.Series(value)


def _indexed(matrix: Any, index: Any) -> Any:
    for name in ("indices", "indptr"):
        if hasattr(matrix, name):
            setattr(matrix, name, getattr(matrix, name).astype(index))
    if matrix.format == "coo":
        matrix.coords = tuple(coordinates.astype(index) for coordinates in matrix.coords)
    return matrix


def wrong(value: Any, extended: bool, of_sklearn: bool) -> Iterator[tuple[str, Any]]:
    """What is refused in place of the number or the array."""
    for bad in (np.nan, *(() if extended else (np.inf, -np.inf))):
        yield str(bad), _with(value, bad)
    yield "object()", object()
    if np.ndim(value) == 0:
        yield from {"complex": value + 1j, "string": str(value), "masked": np.ma.masked,
                    "numpy complex": np.complex128(value), "nothing": []}.items()  # fmt: skip
        if not extended:
            yield "huge", 10**400
        return
    yield "complex", value + 1j
    yield "complex without imaginary part", value.astype(complex)
    if not of_sklearn:  # which reads strings that hold numbers
        yield "strings", value.astype(str)
        yield "strings as objects", value.astype(str).astype(object)
    yield "None", _with(value.astype(object), None)
    yield "dates", value.astype(int).astype("datetime64[D]")
    yield "empty", value[:0]
    yield "masked", np.ma.array(value, mask=_with(np.zeros(value.shape, dtype=bool), True))
    yield "ragged", [[1.0, 2.0], 1.0]
    yield "missing", pd.Series([*value.ravel()[1:].tolist(), pd.NA], dtype=object)
    if value.ndim == 2:
        yield "sparse nan", sparse.csr_array(_with(value, np.nan))
        yield "sparse complex", sparse.csc_array(value + 1j)


def _with(value: Any, entry: Any) -> Any:
    if np.ndim(value) == 0:
        return entry
    changed = np.array(value, dtype=None if value.dtype.kind in "bO" else float)
    changed.flat[0] = entry
    return changed


def _outcome(door: doors.Door, argument: str, fed: Any, of_sklearn: bool) -> tuple[str, Any]:
    """Return "refused", "answer" and the answer, or a complaint."""
    try:
        with warnings.catch_warnings():
            if of_sklearn:  # it warns of columns in the place of vectors
                warnings.simplefilter("ignore")
            return "answer", door(**{argument: fed})
    except CutplaneError as error:
        name = "X" if of_sklearn and argument == "Z" else argument  # of `predict`
        named = re.search(rf"\b{name}\b", str(error), re.IGNORECASE)
        named = named or getattr(fed, "size", 1) == 0  # another argument does not fit it
        return ("refused", None) if named else (f"does not name {name}: {error}", None)
    except (TypeError, ValueError) as error:
        where = traceback.extract_tb(error.__traceback__)
        if of_sklearn and not any("cutplane/" in frame.filename.replace("\\", "/") for frame in where[-1:]):
            return "refused", None
        return f"{type(error).__name__} {error} at {where[-1].filename}:{where[-1].lineno}", None
    except Exception as error:
        return f"{type(error).__name__} {error}", None


def _agree(found: Any, wanted: Any, of_sklearn: bool) -> bool:
    return len(found) == len(wanted) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=0.2 if of_sklearn else 1e-9)
        for a, b in zip(found, wanted, strict=True)
    )


@pytest.mark.parametrize("door", [*doors.PIECES, *doors.ESTIMATORS], ids=lambda door: door.name)
def test_a_number_is_read_or_refused(door):
    of_sklearn = door in doors.ESTIMATORS
    wanted, complaints = door(), []
    assert all(np.isfinite(part).all() for part in wanted)
    for argument, value in door.arguments.items():
        for kind, fed in same(value):
            outcome, found = _outcome(door, argument, fed, of_sklearn)
            if outcome != "answer":
                complaints.append(f"{argument}, {kind}: {outcome}")
            elif not _agree(found, wanted, of_sklearn):
                complaints.append(f"{argument}, {kind}: {found} instead of {wanted}")
        for kind, fed in allowed(value):
            outcome, found = _outcome(door, argument, fed, of_sklearn)
            if outcome not in ("answer", "refused"):
                complaints.append(f"{argument}, {kind}: {outcome}")
            elif outcome == "answer" and not _agree(found, wanted, of_sklearn):
                complaints.append(f"{argument}, {kind}: {found} instead of {wanted}")
        for kind, fed in wrong(value, argument in door.extended, of_sklearn):
            outcome, found = _outcome(door, argument, fed, of_sklearn)
            if outcome != "refused":
                complaints.append(f"{argument}, {kind}: {outcome} {found if found is not None else ''}")
    assert not complaints, "\n" + "\n".join(complaints)


@pytest.mark.parametrize("door", doors.MODELS, ids=lambda door: door.name)
def test_a_number_of_a_model_is_read_or_refused(door):
    wanted, complaints = door(), []
    assert all(np.isfinite(part).all() for part in wanted)
    for argument, value in door.arguments.items():
        wide = argument in door.extended
        for bad in (np.nan, np.inf, -np.inf):
            forms = [_with(value, bad)]
            if np.ndim(value) == 2:
                forms += [sparse.csr_array(forms[0]), sparse.coo_matrix(forms[0])]
            for fed in forms:
                try:
                    found = door(**{argument: fed})
                except CutplaneError as error:
                    void = wide and bad == (np.inf if door.name.endswith(("rows", "norm")) else -np.inf)
                    if void or not re.search("nan|inf", str(error)):
                        complaints.append(f"{argument}, {bad}: {error}")
                except Exception as error:
                    complaints.append(f"{argument}, {bad}: {type(error).__name__} {error}")
                else:
                    if (
                        np.isnan(bad)
                        or not wide
                        or np.isnan(np.concatenate([np.ravel(part) for part in found])).any()
                    ):
                        complaints.append(f"{argument}, {bad}: {found}")
    assert not complaints, "\n" + "\n".join(complaints)


@pytest.mark.parametrize("door", [*doors.PIECES, *doors.MODELS], ids=lambda door: door.name)
def test_copies_give_the_same_answer(door):
    made = door.make(**door.arguments)
    wanted = door.read(made)
    assert _agree(door.read(copy.deepcopy(made)), wanted, False)
    if "OracleRisk" not in door.name:  # a lambda cannot be pickled
        assert _agree(door.read(pickle.loads(pickle.dumps(made))), wanted, False)
