"""Equal expressions with usable gradients, for the atoms whose gradient cvxpy lacks or gets wrong.

As of cvxpy 1.9, `norm_inf` has none and `quad_over_lin` none along an axis; that of `log_sum_exp` is nan for
arguments above 709, that of `power` is None at 0 (for the power 1 also below), and that of `sum_largest` is
no subgradient at ties if k is not an integer. The replacements need not follow cvxpy's rules of convexity:
they are evaluated, never solved.
"""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.atoms.atom import Atom

TINY = float(np.finfo(np.float64).tiny)
"""Added to a nonnegative float, it changes nothing but 0."""


def with_usable_gradients(expression: Any) -> Any:
    """Return an equal expression (up to rounding) whose `grad` is a subgradient where there is one."""
    if not isinstance(expression, Atom):
        return expression
    args = [with_usable_gradients(arg) for arg in expression.args]
    if any(new is not old for new, old in zip(args, expression.args, strict=True)):
        expression = expression.copy(args)
    replace = _REPLACEMENTS.get(type(expression).__name__)
    return expression if replace is None else replace(expression)


def _norm_inf(atom: Any) -> Any:
    return cp.max(cp.abs(atom.args[0]), axis=atom.axis, keepdims=atom.keepdims)


def _log_sum_exp(atom: Any) -> Any:
    arg, axis = atom.args[0], atom.axis
    shifted = arg - cp.max(arg, axis=axis, keepdims=axis is not None)
    return cp.max(arg, axis=axis, keepdims=atom.keepdims) + atom.copy([shifted])


def _sum_largest(atom: Any) -> Any:
    arg, below = atom.args[0], math.floor(atom.k)
    share, options = atom.k - below, atom.get_data()[1:]
    if share == 0.0:
        return atom
    above = share * cp.sum_largest(arg, below + 1, *options)
    return above if below == 0 else above + (1.0 - share) * cp.sum_largest(arg, below, *options)


def _power(atom: Any) -> Any:
    p = atom.p.value
    if p == 1:
        return atom.args[0]
    return atom.copy([atom.args[0] + TINY]) if p > 1 else atom


def _quad_over_lin(atom: Any) -> Any:
    if getattr(atom, "axis", None) is None:
        return atom
    return cp.sum(cp.square(atom.args[0]), axis=atom.axis, keepdims=atom.keepdims) * cp.inv_pos(atom.args[1])


_REPLACEMENTS = {
    "norm_inf": _norm_inf,
    "log_sum_exp": _log_sum_exp,
    "sum_largest": _sum_largest,
    "power": _power,
    "Power": _power,
    "PowerApprox": _power,
    "quad_over_lin": _quad_over_lin,
}
