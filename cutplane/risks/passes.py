"""Compiled passes over a part of a data matrix, without the interpreter lock and with float64 sums.

A sparse matrix is CSR, or the transpose of CSC. Index arrays and the indices into them are unsigned, because
tests for negative indices would take a third of the time. Row i of a dense matrix is the beginning of
``flat[start + i * stride:]``.

Segment s of a vector is from edges[s] to edges[s + 1]. Each segment has a separate sum, because several
threads add at the same time; a routine computes the sums of the segments `low` to `high`. Coefficient p of
the `add` routines belongs to row p, or to row rows[p] if `rows` is not empty; zero coefficients are skipped.
"""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import SUMS, routine

_LAST = 2.0**-51
"""Rounding error of a sum relative to its absolute terms, because each term has an error of two ulps."""
_unsigned = np.uint64
_ONE = np.uint64(1)


@routine(fastmath=SUMS)
def sparse_dot(data, indices, indptr, v, low, high, out):
    """out[i] = <row i, v> for low <= i < high."""
    for i in range(_unsigned(low), _unsigned(high)):
        total = 0.0
        for k in range(indptr[i], indptr[i + _ONE]):
            total += data[k] * v[indices[k]]
        out[i] = total


@routine(fastmath=SUMS)
def sparse_dot_by_block(data, indices, indptr, v, block_of, low, high, out):
    """out[b, i] = <row i, v> over the columns j with block_of[j] = b, for low <= i < high."""
    totals = np.empty((2, out.shape[0]))  # two sums, because they take half the time of one
    for i in range(_unsigned(low), _unsigned(high)):
        totals[:] = 0.0
        for k in range(indptr[i], indptr[i + _ONE]):
            j = indices[k]
            totals[k & 1, block_of[j]] += data[k] * v[j]
        for b in range(out.shape[0]):
            out[b, i] = totals[0, b] + totals[1, b]


@routine(fastmath=SUMS)
def sparse_add(data, indices, indptr, rows, coefficients, edges, low, high, fresh, out):
    """Add the sum of coefficients times rows over segment s to out[s], which is first set to 0 if `fresh`."""
    for s in range(low, high):
        total = out[s]
        if fresh:
            total[:] = 0.0
        for p in range(_unsigned(edges[s]), _unsigned(edges[s + 1])):
            c = coefficients[p]
            if c != 0.0:
                i = _unsigned(rows[p]) if rows.size else p
                for k in range(indptr[i], indptr[i + _ONE]):
                    total[indices[k]] += c * data[k]


@routine(fastmath=SUMS)
def sparse_squares(data, indices, indptr, by_row, work, low, high, out):
    """Add the squares in row i to out[i] (unless `by_row`, in column j to out[j]) for low <= i < high.

    Entries that are stored several times are added first, in `work`, which is zero before and after.
    """
    for i in range(_unsigned(low), _unsigned(high)):
        for k in range(indptr[i], indptr[i + _ONE]):
            work[indices[k]] += data[k]
        for k in range(indptr[i], indptr[i + _ONE]):
            j = indices[k]
            if by_row:
                out[i] += data[k] * work[j]
            else:
                out[j] += data[k] * work[j]
        for k in range(indptr[i], indptr[i + _ONE]):
            work[indices[k]] = 0.0


@routine(fastmath=SUMS)
def dense_dot(flat, start, stride, v, edges, low, high, first, last, out):
    """out[s, i] = <row i, v> over segment s of the columns, for first <= i < last."""
    full = last - (last - first) % 4
    for s in range(low, high):
        w = v[edges[s] : edges[s + 1]]
        n = w.size
        p = start + first * stride + edges[s]
        for i in range(first, full, 4):
            x0 = flat[p : p + n]
            p += stride
            x1 = flat[p : p + n]
            p += stride
            x2 = flat[p : p + n]
            p += stride
            x3 = flat[p : p + n]
            p += stride
            a = b = c = d = 0.0
            for j in range(n):
                a += x0[j] * w[j]
                b += x1[j] * w[j]
                c += x2[j] * w[j]
                d += x3[j] * w[j]
            out[s, i] = a
            out[s, i + 1] = b
            out[s, i + 2] = c
            out[s, i + 3] = d
        for i in range(full, last):
            x0 = flat[p : p + n]
            p += stride
            a = 0.0
            for j in range(n):
                a += x0[j] * w[j]
            out[s, i] = a


@routine(fastmath=SUMS)
def dense_add(flat, start, stride, rows, coefficients, edges, low, high, first, last, out):
    """out[s, j] += coefficients times rows over segment s, for first <= j < last."""
    n = last - first
    where = np.zeros(4, np.int64)
    weight = np.zeros(4)
    for s in range(low, high):
        total = out[s, first:last]
        p, stop = edges[s], edges[s + 1]
        while p < stop:
            count = 0
            while count < 4 and p < stop:
                if coefficients[p] != 0.0:
                    where[count] = start + (rows[p] if rows.size else p) * stride + first
                    weight[count] = coefficients[p]
                    count += 1
                p += 1
            if count == 0:
                break
            for k in range(count, 4):
                where[k] = where[0]
                weight[k] = 0.0
            x0, x1 = flat[where[0] : where[0] + n], flat[where[1] : where[1] + n]
            x2, x3 = flat[where[2] : where[2] + n], flat[where[3] : where[3] + n]
            a, b, c, d = weight[0], weight[1], weight[2], weight[3]
            for j in range(n):
                total[j] += (a * x0[j] + b * x1[j]) + (c * x2[j] + d * x3[j])


@routine(fastmath=SUMS)
def sparse_gram(data, indices, indptr, rows, coefficients, out):
    """Add a T such that T + T' is the sum of coefficients_k x_r x_r', with r = rows[k], to out."""
    for k in range(rows.shape[0]):
        begin, end = _unsigned(indptr[rows[k]]), _unsigned(indptr[rows[k] + 1])
        for p in range(begin, end):
            factor = coefficients[k] * data[p]
            row = out[indices[p]]
            row[indices[p]] += 0.5 * factor * data[p]
            for q in range(begin, p):
                row[indices[q]] += factor * data[q]


@routine
def gather(indptr, indices, data, vectors, out):
    """out_i = sum of x_ij vectors_j over the entries of row i."""
    p = vectors.shape[1]
    for i in range(indptr.size - 1):
        out[i, :] = 0.0
        for entry in range(indptr[i], indptr[i + 1]):
            x, j = data[entry], indices[entry]
            for k in range(p):
                out[i, k] += x * vectors[j, k]


@routine
def scatter(indptr, indices, data, vectors, out):
    """out_j += sum of x_ij vectors_i over all rows; zeros in `vectors` are skipped."""
    p = vectors.shape[1]
    support = np.empty(p, np.int64)
    for i in range(indptr.size - 1):
        count = 0
        for k in range(p):
            if vectors[i, k] != 0.0:
                support[count] = k
                count += 1
        for entry in range(indptr[i], indptr[i + 1]):
            x, j = data[entry], indices[entry]
            if 2 * count > p:
                for k in range(p):
                    out[j, k] += x * vectors[i, k]
            else:
                for s in range(count):
                    out[j, support[s]] += x * vectors[i, support[s]]


@routine
def add_exactly(u, edges, sums):
    """Sum each block by Neumaier's summation; a sum below the rounding errors of its terms is set to 0."""
    for k in range(sums.shape[0]):
        for c in range(sums.shape[1]):
            total = rest = size = 0.0
            for i in range(edges[k], edges[k + 1]):
                term = u[i, c]
                after = total + term
                rest += (total - after) + term if abs(total) >= abs(term) else (term - after) + total
                total = after
                size += abs(term)
            total += rest
            sums[k, c] = total if abs(total) > _LAST * size else 0.0


@routine
def changes(u, before, block, rows, differences):
    """Write the rows where u differs from `before`, and the differences.

    Return their number and the number of nonzero u_i, or (1, 0) if there is no room for another block.
    """
    count = needed = 0
    for start in range(0, u.shape[0], block):
        if count + block > rows.shape[0]:
            return 1, 0
        stop = min(start + block, u.shape[0])
        now, then = u[start:stop], before[start:stop]
        for i in range(now.shape[0]):
            difference = now[i] - then[i]
            rows[count] = start + i
            differences[count] = difference
            count += int(difference != 0.0)
            needed += int(now[i] != 0.0)
    return count, needed
