"""Values and gradients of cvxpy's atoms on numpy arrays.

`routine` implements the common atoms; other atoms use cvxpy's gradients. In cvxpy 1.9, some of these
gradients are missing or wrong, so that `usable` replaces the atoms:

* `norm_inf` has no gradient, and `quad_over_lin` has none along an axis;
* the gradient of `log_sum_exp` is nan for arguments above 709;
* the gradient of `power` is None at 0, and for the power 1 also below 0;
* the gradient of `sum_largest` is no subgradient at ties if k is not an integer.

The replacements need not follow cvxpy's rules of convexity, because they are evaluated and never solved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from scipy import special

TINY = float(np.finfo(np.float64).tiny)
"""The least positive normal number, added to avoid quotients by zero because it changes no nonnegative float
except 0."""


class Routine(NamedTuple):
    """The value and the reverse-mode derivative of an atom."""

    value: Callable[[Any, list[Any]], Any]
    """(atom, arguments) -> the value, which is not finite outside the domain."""
    pull: Callable[[Any, list[Any], Any, Any], list[Any]]
    """(atom, arguments, value, slope in the value) -> the slope in each argument."""


def routine(atom: Any) -> Routine | None:
    """Return the routine of a common atom; None for other atoms, which use cvxpy's gradients."""
    name, z = type(atom).__name__, atom.args[0]
    if name in _ELEMENTWISE:
        return _ELEMENTWISE[name]
    whole = getattr(atom, "axis", None) is None and not getattr(atom, "keepdims", False)
    suits = {
        "Pnorm": lambda: whole and atom.p == 2,
        "Power": lambda: atom.p.value == 2,
        "sum_largest": lambda: whole and atom.k == math.floor(atom.k),
        "quad_over_lin": lambda: whole and atom.args[1].is_constant(),
        "QuadForm": lambda: z.ndim == 1,
        "log_det": lambda: z.ndim == 2,
        "lambda_max": lambda: z.ndim == 2,
        "normNuc": lambda: z.ndim == 2,
    }
    name = {"PnormApprox": "Pnorm", "PowerApprox": "Power", "power": "Power"}.get(name, name)
    return _OTHERS[name] if name in _OTHERS and suits.get(name, lambda: whole)() else None


def usable(atom: Any) -> Any:
    """Return an expression equal to `atom`, up to rounding, whose `_grad` is a subgradient."""
    replace = _REPLACEMENTS.get(type(atom).__name__)
    return atom if replace is None else replace(atom)


def _of_one(value: Callable[..., Any], pull: Callable[..., Any]) -> Routine:
    """Return the routine of an atom whose arguments except the first are constant."""

    def pulled(atom: Any, args: list[Any], out: Any, bar: Any) -> list[Any]:
        return [pull(atom, args[0], out, bar), *[None] * (len(args) - 1)]

    return Routine(lambda atom, args: value(atom, args[0]), pulled)


def _elementwise(value: Callable[..., Any], slope: Callable[..., Any]) -> Routine:
    return _of_one(value, lambda atom, z, out, bar: bar * slope(atom, z))


def _extreme(choose: Callable[..., Any]) -> Routine:
    """Return the routine of `maximum` or `minimum`; at ties, only the first argument has a nonzero slope."""

    def value(atom: Any, args: list[Any]) -> Any:
        out = args[0]
        for arg in args[1:]:
            out = choose(out, arg)
        return out

    def pull(atom: Any, args: list[Any], out: Any, bar: Any) -> list[Any]:
        bars, rest = [], bar
        for arg in args:
            chosen = arg == out
            bars.append(_summed(np.where(chosen, rest, 0.0), np.shape(arg)))
            rest = np.where(chosen, 0.0, rest)
        return bars

    return Routine(value, pull)


def _summed(bar: Any, shape: tuple[int, ...]) -> Any:
    """Sum over the axes along which an argument of `shape` was broadcast."""
    bar = bar.sum(axis=tuple(range(bar.ndim - len(shape))))
    stretched = tuple(i for i, size in enumerate(shape) if size == 1 and bar.shape[i] != 1)
    return bar.sum(axis=stretched, keepdims=True) if stretched else bar


def _at_entry(z: Any, index: Any, value: Any) -> Any:
    bar = np.zeros(np.shape(z))
    bar.reshape(-1)[index] = value  # a view, because bar is contiguous
    return bar


def _norm_inf_pull(atom: Any, z: Any, out: Any, bar: Any) -> Any:
    index = int(np.argmax(np.abs(z)))
    return _at_entry(z, index, bar * np.sign(np.ravel(z)[index]))


def _log_sum_exp_pull(atom: Any, z: Any, out: Any, bar: Any) -> Any:
    weights = np.exp(z - np.max(z))
    return (bar / weights.sum()) * weights


def _largest(z: Any, k: int) -> Any:
    return np.argpartition(-z, k - 1)[:k] if 0 < k < z.size else np.arange(min(k, z.size))


def _sum_largest(atom: Any, z: Any) -> Any:
    z = np.ravel(z)
    return z[_largest(z, int(atom.k))].sum()


def _quad_over_lin(atom: Any, args: list[Any]) -> Any:
    divisor, z = float(np.reshape(args[1], ())), np.ravel(args[0])
    return z @ z / divisor if divisor > 0 else math.inf


def _lambda_max_pull(atom: Any, z: Any, out: Any, bar: Any) -> Any:
    vector = np.linalg.eigh(z)[1][:, -1]
    return bar * np.outer(vector, vector)


def _log_det(atom: Any, z: Any) -> Any:
    if np.linalg.eigvalsh(0.5 * (z + z.T))[0] < 0.0:
        return -math.inf
    sign, value = np.linalg.slogdet(z)
    return value if sign > 0.0 else -math.inf


def _nuclear_pull(atom: Any, z: Any, out: Any, bar: Any) -> Any:
    left, _, right = np.linalg.svd(z, full_matrices=False)
    return bar * (left @ right)


_ELEMENTWISE = {
    "abs": _elementwise(lambda atom, z: np.abs(z), lambda atom, z: np.sign(z)),
    "exp": _elementwise(lambda atom, z: np.exp(z), lambda atom, z: np.exp(z)),
    "log": _elementwise(lambda atom, z: np.log(z), lambda atom, z: 1.0 / z),
    "entr": _elementwise(lambda atom, z: special.entr(z), lambda atom, z: -np.log(z) - 1.0),
    "logistic": _elementwise(lambda atom, z: np.logaddexp(0.0, z), lambda atom, z: special.expit(z)),
    "huber": _elementwise(
        lambda atom, z: 2.0 * special.huber(atom.M.value, z),
        lambda atom, z: 2.0 * np.clip(z, -atom.M.value, atom.M.value),
    ),
    "maximum": _extreme(np.maximum),
    "minimum": _extreme(np.minimum),
}
_OTHERS = {
    "Power": _elementwise(lambda atom, z: np.square(z), lambda atom, z: 2.0 * z),
    "norm1": _of_one(lambda atom, z: np.abs(z).sum(), lambda atom, z, out, bar: bar * np.sign(z)),
    "norm_inf": _of_one(lambda atom, z: np.abs(z).max(), _norm_inf_pull),
    "max": _of_one(lambda atom, z: np.max(z), lambda atom, z, out, bar: _at_entry(z, int(np.argmax(z)), bar)),
    "min": _of_one(lambda atom, z: np.min(z), lambda atom, z, out, bar: _at_entry(z, int(np.argmin(z)), bar)),
    "log_sum_exp": _of_one(lambda atom, z: special.logsumexp(z), _log_sum_exp_pull),
    "Pnorm": _of_one(
        lambda atom, z: np.linalg.norm(np.ravel(z)),
        lambda atom, z, out, bar: (bar / out if out > 0 else 0.0) * z,
    ),
    "sum_largest": _of_one(
        _sum_largest,
        lambda atom, z, out, bar: _at_entry(z, _largest(np.ravel(z), int(atom.k)), bar),
    ),
    "quad_over_lin": Routine(
        _quad_over_lin,
        lambda atom, args, out, bar: [(2.0 * bar / float(np.reshape(args[1], ()))) * args[0], None],
    ),
    "QuadForm": Routine(
        lambda atom, args: args[0] @ (args[1] @ args[0]),
        lambda atom, args, out, bar: [2.0 * bar * (args[1] @ args[0]), None],
    ),
    "log_det": _of_one(_log_det, lambda atom, z, out, bar: bar * np.linalg.inv(z).T),
    "lambda_max": _of_one(
        lambda atom, z: np.linalg.eigvalsh(z)[-1] if (z == z.T).all() else math.inf, _lambda_max_pull
    ),
    "normNuc": _of_one(lambda atom, z: np.linalg.svd(z, compute_uv=False).sum(), _nuclear_pull),
}


def _norm_inf(atom: Any) -> Any:
    return cp.max(cp.abs(atom.args[0]), axis=atom.axis, keepdims=atom.keepdims)


def _log_sum_exp(atom: Any) -> Any:
    arg, axis = atom.args[0], atom.axis
    shifted = arg - cp.max(arg, axis=axis, keepdims=axis is not None)
    exponents = cp.sum(cp.exp(shifted), axis=axis, keepdims=atom.keepdims)
    return cp.max(arg, axis=axis, keepdims=atom.keepdims) + cp.log(exponents)


def _sum_largest_fractional(atom: Any) -> Any:
    arg, below = atom.args[0], math.floor(atom.k)
    share, options = atom.k - below, atom.get_data()[1:]
    if share == 0.0:
        return atom
    above = share * cp.sum_largest(arg, below + 1, *options)
    return above if below == 0 else above + (1.0 - share) * cp.sum_largest(arg, below, *options)


def _power(atom: Any) -> Any:
    p, arg = atom.p.value, atom.args[0]
    if p == 1:
        return arg
    return atom.copy([arg + TINY]) if p > 1 else atom


def _quad_over_lin_axis(atom: Any) -> Any:
    if getattr(atom, "axis", None) is None:
        return atom
    return cp.sum(cp.square(atom.args[0]), axis=atom.axis, keepdims=atom.keepdims) * cp.inv_pos(atom.args[1])


_REPLACEMENTS = {
    "norm_inf": _norm_inf,
    "log_sum_exp": _log_sum_exp,
    "sum_largest": _sum_largest_fractional,
    "power": _power,
    "Power": _power,
    "PowerApprox": _power,
    "quad_over_lin": _quad_over_lin_axis,
}
