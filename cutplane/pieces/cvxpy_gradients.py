"""Values and gradients of cvxpy's atoms on numpy arrays.

`routine` knows the common atoms. For the others cvxpy has its own rules, which are missing or wrong for
some: as of cvxpy 1.9, `norm_inf` has none and `quad_over_lin` none along an axis; that of `log_sum_exp` is
nan for arguments above 709, that of `power` is None at 0 (for the power 1 also below), and that of
`sum_largest` is no subgradient at ties if k is not an integer. `usable` replaces these. The replacements need
not follow cvxpy's rules of convexity: they are evaluated, never solved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from scipy import special

TINY = float(np.finfo(np.float64).tiny)
"""Added to a nonnegative float, it changes nothing but 0."""


class Routine(NamedTuple):
    """How an atom is evaluated; outside its domain the value is not finite."""

    value: Callable[[Any, list[Any]], Any]
    """The value from the atom and its arguments."""
    pull: Callable[[Any, list[Any], Any, Any], list[Any]]
    """From the atom, its arguments, its value and a slope in its value: the slope in each argument."""


def routine(atom: Any) -> Routine | None:
    """Return the routine of a common atom; None if cvxpy's own rules are to be used."""
    name = type(atom).__name__
    if name in _ELEMENTWISE:
        return _ELEMENTWISE[name]
    value = atom.args[0]
    whole = getattr(atom, "axis", None) is None and not getattr(atom, "keepdims", False)
    if name in _REDUCTIONS and whole:
        return _REDUCTIONS[name]
    if name in ("Pnorm", "PnormApprox") and whole and atom.p == 2:
        return _NORM2
    if name in ("Power", "PowerApprox", "power") and atom.p.value == 2:
        return _SQUARE
    if name == "sum_largest" and whole and atom.k == math.floor(atom.k):
        return _SUM_LARGEST
    if name == "quad_over_lin" and whole and atom.args[1].is_constant():
        return _QUAD_OVER_LIN
    if name == "QuadForm" and value.ndim == 1:
        return _QUAD_FORM
    if name in _SPECTRAL and value.ndim == 2:
        return _SPECTRAL[name]
    return None


def usable(atom: Any) -> Any:
    """Return an expression equal to `atom`, up to rounding, whose `_grad` is a subgradient."""
    replace = _REPLACEMENTS.get(type(atom).__name__)
    return atom if replace is None else replace(atom)


def _elementwise(value: Callable[..., Any], slope: Callable[..., Any]) -> Routine:
    return Routine(
        lambda atom, args: value(atom, args[0]),
        lambda atom, args, out, bar: [bar * slope(atom, args[0])],
    )


def _extreme(choose: Callable[..., Any]) -> Routine:
    """Return the routine of `maximum` or `minimum`: at ties the slope is that of the first argument."""

    def value(atom: Any, args: list[Any]) -> Any:
        out = args[0]
        for arg in args[1:]:
            out = choose(out, arg)
        return out

    def pull(atom: Any, args: list[Any], out: Any, bar: Any) -> list[Any]:
        bars, left = [], bar
        for arg in args:
            chosen = arg == out
            bars.append(_summed(np.where(chosen, left, 0.0), np.shape(arg)))
            left = np.where(chosen, 0.0, left)
        return bars

    return Routine(value, pull)


def _summed(bar: Any, shape: tuple[int, ...]) -> Any:
    """Sum over the axes along which an argument of `shape` was broadcast."""
    bar = bar.sum(axis=tuple(range(bar.ndim - len(shape))))
    stretched = tuple(i for i, size in enumerate(shape) if size == 1 and bar.shape[i] != 1)
    return bar.sum(axis=stretched, keepdims=True) if stretched else bar


def _at_entry(z: Any, index: Any, value: Any) -> Any:
    bar = np.zeros(np.shape(z))
    bar.reshape(-1)[index] = value  # a view: bar is new
    return bar


def _norm_inf_pull(atom: Any, args: list[Any], out: Any, bar: Any) -> list[Any]:
    index = int(np.argmax(np.abs(args[0])))
    return [_at_entry(args[0], index, bar * np.sign(np.ravel(args[0])[index]))]


def _log_sum_exp_pull(atom: Any, args: list[Any], out: Any, bar: Any) -> list[Any]:
    weights = np.exp(args[0] - np.max(args[0]))
    return [(bar / weights.sum()) * weights]


def _norm2_pull(atom: Any, args: list[Any], out: Any, bar: Any) -> list[Any]:
    return [(bar / out if out > 0 else 0.0) * args[0]]


def _sum_largest(atom: Any, args: list[Any]) -> Any:
    z = np.ravel(args[0])
    return z[_largest(z, int(atom.k))].sum()


def _sum_largest_pull(atom: Any, args: list[Any], out: Any, bar: Any) -> list[Any]:
    return [_at_entry(args[0], _largest(np.ravel(args[0]), int(atom.k)), bar)]


def _largest(z: Any, k: int) -> Any:
    return np.argpartition(-z, k - 1)[:k] if 0 < k < z.size else np.arange(min(k, z.size))


def _quad_over_lin(atom: Any, args: list[Any]) -> Any:
    divisor = float(np.reshape(args[1], ()))
    z = np.ravel(args[0])
    return z @ z / divisor if divisor > 0 else math.inf


def _quad_over_lin_pull(atom: Any, args: list[Any], out: Any, bar: Any) -> list[Any]:
    return [(2.0 * bar / float(np.reshape(args[1], ()))) * args[0], None]


def _lambda_max(atom: Any, args: list[Any]) -> Any:
    z = args[0]
    return np.linalg.eigvalsh(z)[-1] if (z == z.T).all() else math.inf


def _lambda_max_pull(atom: Any, args: list[Any], out: Any, bar: Any) -> list[Any]:
    vector = np.linalg.eigh(args[0])[1][:, -1]
    return [bar * np.outer(vector, vector)]


def _log_det(atom: Any, args: list[Any]) -> Any:
    if np.linalg.eigvalsh(0.5 * (args[0] + args[0].T))[0] < 0.0:
        return -math.inf
    sign, value = np.linalg.slogdet(args[0])
    return value if sign > 0.0 else -math.inf


def _nuclear_pull(atom: Any, args: list[Any], out: Any, bar: Any) -> list[Any]:
    left, _, right = np.linalg.svd(args[0], full_matrices=False)
    return [bar * (left @ right)]


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
_SQUARE = _elementwise(lambda atom, z: np.square(z), lambda atom, z: 2.0 * z)
_REDUCTIONS = {
    "norm1": Routine(
        lambda atom, args: np.abs(args[0]).sum(), lambda atom, args, out, bar: [bar * np.sign(args[0])]
    ),
    "norm_inf": Routine(lambda atom, args: np.abs(args[0]).max(), _norm_inf_pull),
    "max": Routine(
        lambda atom, args: np.max(args[0]),
        lambda atom, args, out, bar: [_at_entry(args[0], int(np.argmax(args[0])), bar)],
    ),
    "min": Routine(
        lambda atom, args: np.min(args[0]),
        lambda atom, args, out, bar: [_at_entry(args[0], int(np.argmin(args[0])), bar)],
    ),
    "log_sum_exp": Routine(lambda atom, args: special.logsumexp(args[0]), _log_sum_exp_pull),
}
_NORM2 = Routine(lambda atom, args: np.linalg.norm(np.ravel(args[0])), _norm2_pull)
_SUM_LARGEST = Routine(_sum_largest, _sum_largest_pull)
_QUAD_OVER_LIN = Routine(_quad_over_lin, _quad_over_lin_pull)
_QUAD_FORM = Routine(
    lambda atom, args: args[0] @ (args[1] @ args[0]),
    lambda atom, args, out, bar: [2.0 * bar * (args[1] @ args[0]), None],
)
_SPECTRAL = {
    "log_det": Routine(_log_det, lambda atom, args, out, bar: [bar * np.linalg.inv(args[0]).T]),
    "lambda_max": Routine(_lambda_max, _lambda_max_pull),
    "normNuc": Routine(lambda atom, args: np.linalg.svd(args[0], compute_uv=False).sum(), _nuclear_pull),
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
