"""Reading models of OpenGM from HDF5 files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.files.builder import ModelBuilder
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.validation import Array
from cutplane.runtime.extras import require_extra

_FIRST_KIND = 16000
"""The number of explicit functions, because the format numbers its kinds of functions from it on."""

_TableOf = Callable[[tuple[int, ...], Array], Array]


def _of_difference(cost: Callable[[Array, Array], Array]) -> _TableOf:
    return lambda shape, values: cost(np.abs(np.subtract.outer(*map(np.arange, shape))).astype(float), values)


def _of_equality(shape: tuple[int, ...], values: Array) -> Array:
    states = np.indices(shape)
    return np.where((states == states[:1]).all(axis=0), values[0], values[1])


_KINDS: dict[int, tuple[int, _TableOf]] = {
    2: (1, _of_difference(lambda d, v: v[0] * d)),
    3: (2, _of_difference(lambda d, v: v[1] * np.minimum(d, v[0]))),
    4: (1, _of_difference(lambda d, v: v[0] * d**2)),
    5: (2, _of_difference(lambda d, v: v[1] * np.minimum(d**2, v[0]))),
    6: (2, _of_equality),
    7: (2, _of_equality),
}
"""Number of values, and table, of each kind of function: differences (3, 5: truncated), Potts functions."""
_WITH_DIMENSION = {0, 7}
"""Kinds whose shape is preceded by its length; functions of the other kinds have two variables."""


def read_opengm(path: str | os.PathLike[str], name: str = "gm") -> GraphicalModel:
    r"""Read a model of OpenGM [1]_, whose factors are summed, from an HDF5 file.

    .. math:: E(x) = \sum_A f_A(x_A)

    Functions of the following kinds are read: explicit, absolute and squared difference (truncated too),
    Potts, and Potts of many variables. Needs h5py, from the extra ``hdf5``.

    Parameters
    ----------
    path : str or Path
    name : str, default "gm"
        The group of the model in the file.

    Returns
    -------
    GraphicalModel

    Raises
    ------
    InvalidInputError
        If the file is not in this format, or has functions of another kind.
    MissingExtraError
        If h5py is not installed.

    References
    ----------
    .. [1] B. Andres, T. Beier, J. H. Kappes, "OpenGM: a C++ library for discrete graphical models", 2012,
       arXiv:1206.0111.

    Examples
    --------
    >>> from cutplane.graphical import read_opengm
    >>> model = read_opengm("segmentation.h5")  # doctest: +SKIP
    """
    h5py = require_extra("h5py", "hdf5")
    if not isinstance(path, str | os.PathLike):
        raise InvalidInputError(f"path must be the path of an HDF5 file, got {type(path).__name__}.")
    file_name = os.fspath(path)

    def fail(reason: str) -> NoReturn:
        raise InvalidInputError(f"{file_name}: {reason}.")

    try:
        with h5py.File(path, "r") as file:
            if not isinstance(file.get(name), h5py.Group):
                fail(f"there is no group {name!r}; groups are {', '.join(map(repr, file)) or 'none'}")
            return _read(file[name], fail)
    except FileNotFoundError:
        raise
    except (OSError, KeyError, ValueError, IndexError) as error:
        raise InvalidInputError(f"{file_name} is not a model of OpenGM: {error}.") from error


def _read(group: Any, fail: Callable[[str], NoReturn]) -> GraphicalModel:
    header = group["header"][()].ravel().tolist()
    cardinalities = group["numbers-of-states"][()].ravel().tolist()
    kinds = header[5 : 5 + 2 * header[4] : 2]
    functions = [list(_functions(group.get(f"function-id-{kind}"), kind, fail)) for kind in kinds]
    builder = ModelBuilder(cardinalities, fail)
    factors = group["factors"][()].ravel().tolist() if header[3] else []
    at = 0
    for _ in range(header[3]):
        number, kind, arity = factors[at : at + 3]
        scope = factors[at + 3 : at + 3 + arity]
        at += 3 + arity
        if max(scope, default=0) >= len(cardinalities) or len(set(scope)) != len(scope):
            fail(f"a factor has the variables {scope}, which must be distinct and below {len(cardinalities)}")
        shape, values, table = functions[kind][number]
        if shape != builder.shape(scope):
            fail(f"a function of shape {shape} is used for variables of {builder.shape(scope)} states")
        builder.check_room(int(np.prod(shape, dtype=np.float64)))
        builder.add(scope, table(shape, values))
    return builder.model()


def _functions(
    group: Any, number: int, fail: Callable[[str], NoReturn]
) -> Iterator[tuple[tuple[int, ...], Array, _TableOf]]:
    """Yield shape, values and table of each function of a kind."""
    if group is None:
        return
    kind = number - _FIRST_KIND
    if kind != 0 and kind not in _KINDS:
        fail(f"functions of kind {number} are not supported; save them as explicit functions")
    indices, values = group["indices"][()].ravel().tolist(), group["values"][()].ravel().astype(np.float64)
    at = start = 0
    while at < len(indices):
        dimension = indices[at] if kind in _WITH_DIMENSION else 2
        at += kind in _WITH_DIMENSION
        shape = tuple(indices[at : at + dimension])
        at += dimension
        count, table = _KINDS.get(kind, (int(np.prod(shape)), lambda shape, v: v.reshape(shape, order="F")))
        yield shape, values[start : start + count], table
        start += count
