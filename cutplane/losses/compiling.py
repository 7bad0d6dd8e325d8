"""Losses as compiled code sees them: passes over the examples, and the numbers of a loss that they take."""

from __future__ import annotations

import hashlib
from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import cache
from numbers import Real
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.core.errors import NumbaError

from cutplane.capabilities import Capability, offers
from cutplane.losses import elementary, passes, smooth_passes
from cutplane.losses.base import ScalarLoss, pieces_of
from cutplane.losses.inlined import INLINE

_OPTIONS: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}
_TRIAL = np.linspace(-2.0, 2.0, 8)


class Compiled(NamedTuple):
    """A loss as compiled code sees it.

    Attributes
    ----------
    numbers : tuple
        The first argument of every pass.
    passes : dict of str to callable
        Those of `cutplane.losses.passes` for a loss with an outline, else copies of those of `smooth_passes`.
    tag : str or None
        What the copies are called by, for this loss in every process; None if there is no such name.
    """

    numbers: Any
    passes: Mapping[str, Any]
    tag: str | None = ""

    def loop(self, loop: Any) -> Callable[..., Any]:
        """Return a compiled loop that uses `dual_prox` and `is_settled`, with those of this loss."""
        return loop if self.tag == "" else _copy(loop.py_func, dict(self.passes), self.tag)


def compiled(loss: ScalarLoss) -> Compiled | None:
    """Return what compiled code needs of a loss; None if it cannot be compiled."""
    phi = pieces_of(loss)
    if phi is not None:
        return Compiled(passes.as_outline(phi, loss.variable == "margin"), vars(passes))
    kind = type(loss)
    smooth = offers(loss, Capability.SECOND_DERIVATIVE)
    methods = (kind.value, kind.derivative, *([kind.second_derivative] if smooth else []))
    used = {name for method in methods for name in method.__code__.co_names}
    own = {name: getattr(loss, name, None) for name in sorted(used)}
    own = {name: number for name, number in own.items() if isinstance(number, Real | np.ndarray)}
    copies, tag = _copies(methods, tuple(own))
    candidate = Compiled(tuple(own.values()), copies, tag)
    return candidate if _agree(candidate, loss) else None


@cache
def _copies(methods: tuple[Any, ...], fields: tuple[str, ...]) -> tuple[dict[str, Any], str | None]:
    """Return the smooth passes with these methods, which use these numbers of the loss."""
    tag = _tag(methods, fields)
    given = {method.__name__: _scalar(method, fields) for method in methods}
    names = ["values", "derivatives", "is_settled"]
    if "second_derivative" in given:
        names += ["second_derivatives", "along", "dual_prox"]
    return {name: _copy(getattr(smooth_passes, name), given, tag) for name in names}, tag


def _scalar(method: Any, fields: tuple[str, ...]) -> Any:
    """Return a method of a loss as a compiled function of (numbers, t, y)."""
    function = njit(**INLINE | {"cache": False})(method)
    if not fields:
        return function
    own = namedtuple("own", fields)
    return njit(**INLINE | {"cache": False})(lambda numbers, t, y: function(own(*numbers), t, y))


def _copy(pattern: Any, names: dict[str, Any], tag: str | None) -> Any:
    """Return a compiled copy of a function in which some names stand for others."""
    copy = FunctionType(pattern.__code__, pattern.__globals__ | names, pattern.__name__)
    copy.__module__, copy.__qualname__ = pattern.__module__, f"{pattern.__qualname__}_{tag}"
    return njit(cache=tag is not None, **_OPTIONS)(copy)


def _tag(methods: tuple[Any, ...], fields: tuple[str, ...]) -> str | None:
    """Return a name for all methods that compile to the same code; None if that cannot be told."""
    known: list[Any] = [fields]
    for method in methods:
        code = method.__code__
        meant = [method.__globals__.get(name) for name in code.co_names]
        if code.co_freevars or not all(_has_a_name(item) for item in (*meant, *code.co_consts)):
            return None
        known += [
            code.co_code,
            code.co_consts,
            code.co_names,
            code.co_varnames,
            *(getattr(item, "__name__", item) for item in meant),
        ]
    return hashlib.blake2b(repr(known).encode(), digest_size=12).hexdigest()


def _has_a_name(item: Any) -> bool:
    return item is None or isinstance(item, Real | str | ModuleType) or item in vars(elementary).values()


def _agree(candidate: Compiled, loss: ScalarLoss) -> bool:
    """Tell whether the passes can be compiled, and give what the methods give."""
    y, ones, found = np.sign(_TRIAL), np.ones(_TRIAL.size), np.empty((2, _TRIAL.size))
    numbers, run = candidate.numbers, candidate.passes
    try:
        run["values"](numbers, _TRIAL, y, ones, np.arange(_TRIAL.size + 1), found[0])
        run["derivatives"](numbers, _TRIAL, y, ones, found[1])
        if "along" in run:
            run["along"](numbers, _TRIAL, y, y, ones, 0.5)
    except NumbaError:
        return False
    expected = [loss.value(_TRIAL, y), loss.derivative(_TRIAL, y)]
    return np.allclose(found, expected, rtol=1e-9, atol=1e-12, equal_nan=True)
