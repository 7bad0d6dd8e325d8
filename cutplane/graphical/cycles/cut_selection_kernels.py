"""Greedy choice among rows in compiled code; only modules that need numba anyway import this one."""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import routine


@routine
def spread(rows, columns, limit, cosine):
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
    kept = np.empty(min(n, limit), np.int64)
    count = 0
    for row in range(n):
        if count == limit:
            break
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
