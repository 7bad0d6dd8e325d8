"""Sums over rows, and which of them are one sum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np
from scipy import sparse

from cutplane.pieces.validation import Array
from cutplane.recognition.curves import Curve, same
from cutplane.recognition.images import Bias, Data, Image


@dataclass(frozen=True, eq=False)
class Rows:
    """sum_i weight_i h(u_i), with u an image, and h a curve or the name of a smooth atom of cvxpy.

    `expression` is the same sum as cvxpy has it.
    """

    function: Curve | str
    image: Image
    weight: Array
    expression: Any

    @property
    def is_linear(self) -> bool:
        """Whether the rows are linear functions."""
        return isinstance(self.function, Curve) and self.function.is_line


def relation(u: Image, v: Image) -> tuple[float, float] | None:
    """Return numbers a and b with v = a u + b in every row, and a not 0; None if there are none."""
    ratio = u.ratio(v)
    if ratio is None or not same(ratio, ratio[0]) or not ratio[0]:
        return None
    rest, size = v.shift - ratio * u.shift, float(np.abs(v.shift).max())
    if not same(rest, rest[0], size):
        return None
    return float(ratio[0]), 0.0 if same(rest[0], 0.0, size) else float(rest[0])


def joined(known: Rows, new: Rows) -> Rows | None:
    """Return the sum of two terms on the same data as one term, if it is one; `new` is the later one."""
    if not (known.image.has_data and new.image.has_data) or not isinstance(new.function, Curve):
        return None
    if isinstance(known.function, str):
        return _folded(known, new)
    lines = relation(known.image, new.image)
    if lines is None:
        return None
    if lines == (1.0, 0.0) and known.function.agrees(new.function):
        total = known.expression + new.expression
        return replace(known, weight=known.weight + new.weight, expression=total)
    if not known.weight.all():
        return None
    factors = new.weight / known.weight
    if not same(factors, factors[0]):
        return None
    curve = known.function.plus(new.function.of(*lines).times(float(factors[0])))
    return replace(known, function=curve, expression=known.expression + new.expression)


def _folded(known: Rows, new: Rows) -> Rows | None:
    """Return ln(1 + exp(u)) - y u, with y = 0 or 1, as ln(1 + exp(+-u))."""
    ratio = known.image.ratio(new.image) if new.is_linear and known.function == "logistic" else None
    if ratio is None or known.image.shift.any() or new.image.shift.any() or not known.weight.all():
        return None
    constant, slope, _ = new.function.coefficients[0] if isinstance(new.function, Curve) else (1.0, 0.0, 0.0)
    y = -new.weight * slope * ratio / known.weight
    labels = np.round(y)
    if constant or not same(y, labels, 1.0) or not np.isin(labels, (0.0, 1.0)).all():
        return None
    image = known.image.times(1.0 - 2.0 * labels)
    return replace(known, image=image, expression=known.expression + new.expression)


def stacked(terms: list[Rows]) -> list[Rows]:
    """Return the terms with those of a single row, as a loop over the examples writes them, in one."""
    groups: list[list[Rows]] = []
    others: list[Rows] = []
    for rows in terms:
        if rows.weight.size > 1 or not all(isinstance(core, Data | Bias) for core, _ in rows.image.parts):
            others.append(rows)
            continue
        group = next((group for group in groups if _is_alike(group[0], rows)), None)
        if group is None:
            groups.append([rows])
        else:
            group.append(rows)
    return [*others, *(group[0] if len(group) == 1 else _stack(group) for group in groups)]


def _is_alike(known: Rows, new: Rows) -> bool:
    """Tell whether two terms of a row each have one function of the same variables."""
    h, k = known.function, new.function
    alike = h.agrees(k) if isinstance(h, Curve) and isinstance(k, Curve) else h is k
    return alike and _variables(known.image) == _variables(new.image)


def _variables(image: Image) -> list[tuple[type, int]]:
    cores: Any = [core for core, _ in image.parts]
    return [(type(core), core.variable.id) for core in cores]


def _stack(group: list[Rows]) -> Rows:
    images = [rows.image for rows in group]
    parts = []
    for i, (core, _) in enumerate(images[0].parts):
        if isinstance(core, Data):
            matrices: Any = [image.parts[i][0] for image in images]
            blocks = [data.X for data in matrices]
            thin = any(sparse.issparse(X) for X in blocks)
            core = Data(sparse.csr_array(sparse.vstack(blocks)) if thin else np.vstack(blocks), core.variable)
        parts.append((core, np.concatenate([image.parts[i][1] for image in images])))
    image = Image(tuple(parts), np.concatenate([image.shift for image in images]))
    weight = np.concatenate([rows.weight for rows in group])
    return Rows(group[0].function, image, weight, cp.sum(cp.hstack([rows.expression for rows in group])))
