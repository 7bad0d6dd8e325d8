"""Which of many violated half-spaces to add."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine


def select(normals: Any, violations: Array, cosine: float) -> Array:
    """Return the numbers of deep half-spaces with different directions, deepest first.

    They are taken greedily by their depth, violation / norm of the normal; with each, those are left out
    whose normals have a larger cosine with it. A zero row that is violated is taken first, rows that are not
    violated never (Achterberg 2007, section 3.3.8, doi:10.14279/depositonce-1634).

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.graphical.cycles.cut_selection import select
    >>> select([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]], np.array([3.0, 2.0, 1.0]), 0.9).tolist()
    [0, 2]
    """
    matrix: Any = sparse.csr_array(normals, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    norms = np.sqrt((matrix * matrix).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        depths = violations / norms
    order = np.argsort(-depths, kind="stable")
    order = order[violations[order] > 0.0]
    rows: Any = matrix[order]
    rows.data /= np.repeat(norms[order], np.diff(rows.indptr))
    columns = rows.tocsc()
    kept = _spread(
        (rows.indptr, rows.indices, rows.data), (columns.indptr, columns.indices, columns.data), cosine
    )
    return order[kept]


@routine
def _spread(rows, columns, cosine):
    """Go through unit rows, keep each whose products with the rows kept so far are at most `cosine`.

    The matrix comes twice, as (starts, indices, values) of its rows and of its columns. Each row kept is
    multiplied with those rows only that share a column with it.
    """
    row_starts, row_columns, row_values = rows
    starts, members, values = columns
    n = row_starts.shape[0] - 1
    products = np.zeros(n)
    touched = np.empty(n, np.int64)
    open_rows = np.ones(n, np.bool_)
    kept = np.empty(n, np.int64)
    count = 0
    for row in range(n):
        if not open_rows[row]:
            continue
        kept[count] = row
        count += 1
        n_touched = 0
        for k in range(row_starts[row], row_starts[row + 1]):
            for i in range(starts[row_columns[k]], starts[row_columns[k] + 1]):
                other = members[i]
                if other > row and open_rows[other]:
                    if products[other] == 0.0:
                        touched[n_touched] = other
                        n_touched += 1
                    products[other] += row_values[k] * values[i]
        for i in range(n_touched):
            open_rows[touched[i]] &= products[touched[i]] <= cosine
            products[touched[i]] = 0.0
    return kept[:count]
