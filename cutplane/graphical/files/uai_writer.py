"""Writing models in the UAI format."""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.files.tokens import PathOrFile
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.validation import Array

_LIMIT = 700.0
"""exp of this, and of minus this, is a normal float."""
_MAX_CONSTANTS = 10_000


def write_uai(model: GraphicalModel, path_or_file: PathOrFile) -> None:
    r"""Write a model to a file in the UAI format, as a Markov network.

    .. math:: \varphi_A(x_A) = e^{-\theta_A(x_A)}

    An energy of +inf becomes a potential of 0. Energies come back from `read_uai` with the relative accuracy
    of a float, and an absolute one of about 1e-16 per factor.

    A factor with energies below -700 or above 700 is shifted to be around 0. The constant, with what factors
    were shifted by, is written as factors of one variable whose potentials are all the same, since few
    programs read factors of no variables: it comes back as part of the unary costs.

    Parameters
    ----------
    model : GraphicalModel
        Its unary costs are written where they are not all 0.
    path_or_file : str, Path, or file object
        A path that ends with ``.gz`` is compressed. A file object may be open for text or for bytes.

    Raises
    ------
    InvalidInputError
        If a float cannot hold the potentials: the energies of one factor differ by more than 1400, or the
        constant is greater than 7e6.

    See Also
    --------
    read_uai : The reverse.

    Examples
    --------
    >>> import io
    >>> from cutplane.graphical import GraphicalModel, read_uai, write_uai
    >>> file = io.StringIO()
    >>> write_uai(GraphicalModel([2, 2], [((0, 1), [[0, float("inf")], [float("inf"), 0]])]), file)
    >>> print(file.getvalue())
    MARKOV
    2
    2 2
    1
    2 0 1
    <BLANKLINE>
    4
    1.0 0.0 0.0 1.0
    <BLANKLINE>
    >>> file = io.StringIO()
    >>> write_uai(GraphicalModel([2], [((0,), [0, 1200])], constant=5000), file)
    >>> round(read_uai(io.StringIO(file.getvalue())).energy([1]), 9)
    6200.0
    """
    scopes, tables, shifts = [], [], [model.constant]
    for scope, table, name in _factors(model):
        shift = _shift(table, name)
        scopes.append(scope)
        tables.append(np.exp(shift - np.ravel(table)))
        shifts.append(shift)
    flat = np.zeros(1) if model.constant == math.inf else _constants(sum(shifts))
    scope = (int(model.cardinalities.argmin()),) if model.n_variables else ()
    size = int(model.cardinalities[scope[0]]) if scope else 1
    scopes += [scope] * flat.size
    tables += [np.full(size, potential) for potential in flat]
    lines = [
        "MARKOV",
        f"{model.n_variables}",
        " ".join(map(str, model.cardinalities.tolist())),
        f"{len(scopes)}",
    ]
    lines += [" ".join(map(str, (len(scope), *scope))) for scope in scopes]
    lines += [""]
    lines += [f"{table.size}\n{' '.join(map(repr, table.tolist()))}" for table in tables]
    _write("\n".join(lines) + "\n", path_or_file)


def _factors(model: GraphicalModel) -> Iterator[tuple[tuple[int, ...], Array, str]]:
    for u in range(model.n_variables):
        if model.unary(u).any():
            yield (u,), model.unary(u), f"the unary costs of variable {u}"
    for a in range(model.n_factors):
        factor = model.factor(a)
        yield factor.variables, factor.table, f"factor {a}, of the variables {factor.variables},"


def _shift(table: Array, name: str) -> float:
    """Return what to subtract from the energies so that their exponentials are floats."""
    finite = table[np.isfinite(table)]
    if not finite.size or np.abs(finite).max() <= _LIMIT:
        return 0.0
    low, high = float(finite.min()), float(finite.max())
    if high - low > 2.0 * _LIMIT:
        raise InvalidInputError(
            f"{name} has energies from {low:g} to {high:g}; a UAI file holds exp(-energy), which is a float "
            f"if they differ by at most {2.0 * _LIMIT:g}. Multiply all energies of the model by "
            f"{2.0 * _LIMIT / (high - low):.2g}, or make the high ones inf."
        )
    return low + 0.5 * (high - low)


def _constants(constant: float) -> Array:
    """Return potentials whose product is exp(-constant)."""
    if abs(constant) > _LIMIT * _MAX_CONSTANTS:
        raise InvalidInputError(
            f"The constant {constant:g} is too large for a UAI file, which holds exp(-energy); at most "
            f"{_LIMIT * _MAX_CONSTANTS:g} is possible. Subtract a constant from the energies."
        )
    count = math.ceil(abs(constant) / _LIMIT)
    return np.full(count, math.exp(-constant / max(count, 1)))


def _write(text: str, path_or_file: PathOrFile) -> None:
    if isinstance(path_or_file, str | os.PathLike):
        data = text.encode()
        if os.fspath(path_or_file).endswith(".gz"):
            data = gzip.compress(data)
        Path(path_or_file).write_bytes(data)
        return
    try:
        path_or_file.write(text)
    except TypeError:
        path_or_file.write(text.encode())
