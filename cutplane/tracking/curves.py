"""Losses as curves: the graphs of their subdifferentials."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.exceptions import MissingCapabilityError
from cutplane.losses.base import pieces_of
from cutplane.losses.pieces import Pieces
from cutplane.pieces.validation import Array

_SNAP = 1e-12
"""Distance of a slope from a corner, relative to the steepest corner, that counts as zero, because slopes are
products of multipliers and weights with rounding errors."""


@dataclass(frozen=True, eq=False)
class Curves:
    """The points (z, p) where p is a slope of c_i l(., y_i) at z: a curve for each of m examples.

    Each curve has corners 0, ..., S, and segment s is between corners s and s + 1. A segment is flat if the
    loss is linear there, vertical at a kink, and otherwise oblique; two neighbours are not both flat. The
    first corner is at z = -inf, the last one at inf.

    Attributes
    ----------
    z, p : ndarray of shape (S + 1, m)
        The corners.
    base, ridge : ndarray of shape (S, m)
        z = base + ridge p on segments that are not flat; the ridge of a vertical segment is 0.
    rises : ndarray of bool, shape (S, m)
        Whether a segment is not flat.
    """

    z: Array
    p: Array
    base: Array
    ridge: Array
    rises: Array

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The least and the largest slope of each example."""
        return self.p[0], self.p[-1]

    def snapped(self, p: Array) -> Array:
        """Return slopes; a slope that differs from a corner only by rounding errors is set to it."""
        steepest = np.where(np.isfinite(self.p), np.abs(self.p), 0.0).max(axis=0)
        for corner in self.p:
            p = np.where(np.abs(p - corner) <= _SNAP * steepest, corner, p)
        return p

    def places(self, p: Array) -> tuple[Array, Array]:
        """Return the corners next to the slopes on both sides: the ends of the segment if it is flat."""
        below, reached = (self.p < p).sum(axis=0), (self.p <= p).sum(axis=0)
        at_corner = reached > below
        return np.where(at_corner, below, below - 1), np.where(at_corner, reached - 1, below)


def curves_of(method: str, risk: Any, remedy: str) -> Curves:
    """Return the curves of c_i l(., y_i) for the examples of a risk, or raise `MissingCapabilityError`."""
    phi, y, weights = pieces_of(risk.loss), risk.y, risk.weights
    if phi is None or not phi.domain[0] <= 0.0 <= phi.domain[1]:
        raise MissingCapabilityError(
            f"{method} needs a loss that is linear or quadratic on pieces and has a least value, such as "
            f"Hinge() or Huber(), got {risk.loss!r}. {remedy}"
        )
    z, p, base, ridge = (array[:, np.newaxis] for array in _outline(phi))
    if risk.loss.variable == "margin":
        z, p, base = (np.where(y > 0.0, array, -array[::-1]) for array in (z, p, base))
        ridge = np.where(y > 0.0, ridge, ridge[::-1])
    else:
        z, base = z + y, base + y
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        p = np.where(weights > 0.0, weights * p, 0.0)
        ridge = np.where((ridge > 0.0) & (weights > 0.0), ridge / weights, 0.0)
    if not np.isfinite(ridge).all():
        least = weights[weights > 0.0].min()
        raise MissingCapabilityError(f"{method}: The weight {least:g} of an example is too small; scale it.")
    return Curves(z, p, base, ridge, p[1:] > p[:-1])


def _outline(phi: Pieces) -> tuple[Array, Array, Array, Array]:
    """Return corners and segments of the slope of one function; neighbours that are both flat are merged."""
    edges = [-math.inf, *phi.knots.tolist(), math.inf]
    pieces = list(zip(phi.slopes.tolist(), phi.curvatures.tolist(), strict=True))
    slope, curvature = pieces[0]
    z, p = [-math.inf], [-math.inf if curvature else slope]
    base, ridge = [], []
    flat = False
    for j, (slope, curvature) in enumerate(pieces):
        if j and phi.jumps[j - 1] > 0.0:
            z.append(edges[j])
            p.append(slope + curvature * edges[j])
            base.append(edges[j])
            ridge.append(0.0)
            flat = False
        if edges[j + 1] == edges[j]:
            continue
        if flat and not curvature:
            z[-1] = edges[j + 1]
            continue
        z.append(edges[j + 1])
        p.append(slope + curvature * edges[j + 1] if curvature else p[-1] if j else slope)
        base.append(-slope / curvature if curvature else 0.0)
        ridge.append(1.0 / curvature if curvature else 0.0)
        flat = not curvature
    return np.array(z), np.array(p), np.array(base), np.array(ridge)
