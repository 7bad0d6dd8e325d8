"""Which of many violated half-spaces to add."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cutplane.pieces.parameters import as_matrix
from cutplane.pieces.validation import Array, as_count, as_scalar, as_vector


def select(
    normals: Any, violations: Any, *, max_cuts: int | None = None, max_parallelism: float = 1.0
) -> Array:
    """Choose deep half-spaces with different directions.

    They are taken greedily by their depth, violation / norm of the normal; with each, those are left out
    whose normals have a cosine above `max_parallelism` with it.

    Parameters
    ----------
    normals : sparse array or array_like of shape (t, dim)
        One per row. A zero row that is violated proves that nothing is feasible, and is taken first.
    violations : array_like of shape (t,)
        Those that are not positive are never taken.
    max_cuts : int, optional
        At least 1; default: no limit.
    max_parallelism : float, default 1
        In [0, 1]; 1 leaves none out.

    Returns
    -------
    ndarray of int
        The numbers of the chosen rows, deepest first; equally deep ones in their order.

    Raises
    ------
    InvalidInputError
        If an argument has a wrong shape or range.

    References
    ----------
    .. [1] T. Achterberg, "Constraint Integer Programming", thesis, 2007, section 3.3.8,
       doi:10.14279/depositonce-1634.

    Examples
    --------
    >>> from cutplane.graphical.cycles.cut_selection import select
    >>> select([[1, 0], [1, 0.1], [0, 1]], [3, 2, 1], max_parallelism=0.9).tolist()
    [0, 2]
    """
    matrix: Any = sparse.csr_array(as_matrix("normals", normals), copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    violations = as_vector("violations", violations, matrix.shape[0])
    limit = matrix.shape[0] if max_cuts is None else as_count("max_cuts", max_cuts)
    cosine = as_scalar("max_parallelism", max_parallelism, low=0.0, high=1.0)
    norms = np.sqrt((matrix * matrix).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        depths = violations / norms
    order = np.argsort(-depths, kind="stable")
    order = order[violations[order] > 0.0]
    if cosine == 1.0:
        return order[:limit]
    from cutplane.graphical.cycles.cut_selection_kernels import spread

    rows: Any = matrix[order]
    rows.data /= np.repeat(norms[order], np.diff(rows.indptr))
    columns = rows.tocsc()
    kept = spread(
        (rows.indptr, rows.indices, rows.data), (columns.indptr, columns.indices, columns.data), limit, cosine
    )
    return order[kept]
