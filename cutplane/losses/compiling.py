"""Losses as compiled code sees them: passes over the examples, and the numbers of a loss that they take."""

from __future__ import annotations

import hashlib
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from numbers import Real
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.core.errors import NumbaError

from cutplane.losses import elementary, passes, smooth_passes
from cutplane.losses.base import ScalarLoss, pieces_of
from cutplane.losses.inlined import INLINE
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array

_OPTIONS: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}
_TRIALS = 8
"""Examples at which the compiled loss is compared with its methods."""


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
        own = ((name, self.passes[name]) for name in ("dual_prox", "is_settled"))
        return loop if self.tag == "" else _loop(loop, self.tag, *own)


def compiled(loss: ScalarLoss, y: Array) -> Compiled | None:
    """Return what compiled code needs of a loss; None if it cannot be compiled, as a trial at y tells."""
    phi = pieces_of(loss)
    if phi is not None:
        return Compiled(passes.as_outline(phi, loss.variable == "margin"), vars(passes))
    kind = type(loss)
    smooth = offers(loss, Capability.SECOND_DERIVATIVE)
    methods = (kind.value, kind.derivative, *([kind.second_derivative] if smooth else []))
    if not all(isinstance(method, FunctionType) for method in methods):
        return None
    used = {name for method in methods for name in method.__code__.co_names}
    own = {name: getattr(loss, name, None) for name in sorted(used)}
    own = {name: number for name, number in own.items() if isinstance(number, Real | np.ndarray)}
    candidate = Compiled(tuple(own.values()), *_copies(methods, tuple(own)))
    y = y[:_TRIALS].copy()
    meant = [item for method in methods for item in _items_of(method)]
    key = (methods, tuple(own), *map(_bits, (*own.values(), *meant, y)))
    return candidate if _agree(_Trial(key, candidate, loss, y)) else None


@cache
def _copies(methods: tuple[Any, ...], fields: tuple[str, ...]) -> tuple[dict[str, Any], str | None]:
    """Return the smooth passes with these methods, which use these numbers of the loss."""
    tag = _tag(methods, fields)
    given = {method.__name__: _scalar(method, fields) for method in methods}
    names = ["values", "derivatives", "is_settled"]
    names += ["along", "dual_prox"] if "second_derivative" in given else []
    copies = {name: _copy(getattr(smooth_passes, name), given, tag) for name in names}
    if "second_derivative" in given:
        bent = {"derivative": given["second_derivative"]}
        copies["second_derivatives"] = _copy(smooth_passes.derivatives, bent, tag and f"second_{tag}")
    return copies, tag


@cache
def _loop(loop: Any, tag: str | None, *names: tuple[str, Any]) -> Any:
    return _copy(loop.py_func, dict(names), tag)


def _scalar(method: Any, fields: tuple[str, ...]) -> Any:
    """Return a method of a loss as a compiled function of (numbers, t, y)."""
    public = {field: "x" + field for field in fields}  # as those of a named tuple must be
    code = method.__code__.replace(
        co_names=tuple(public.get(name, name) for name in method.__code__.co_names)
    )
    renamed = FunctionType(code, method.__globals__, method.__name__, closure=method.__closure__)
    function, own = njit(**INLINE | {"cache": False})(renamed), namedtuple("own", public.values())
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
        meant = _items_of(method)
        if code.co_freevars or not all(_has_a_name(item) for item in (*meant, *code.co_consts)):
            return None
        known += [code.co_code, code.co_consts, code.co_names, code.co_varnames]
        known += [getattr(item, "__name__", item) for item in meant]
    return hashlib.blake2b(repr(known).encode(), digest_size=12).hexdigest()


def _has_a_name(item: Any) -> bool:
    ours = any(item is function for function in vars(elementary).values())
    return ours or isinstance(item, Real | str | ModuleType | None)


def _items_of(method: Any) -> list[Any]:
    """Return what the names of a method stand for outside it."""
    cells = [cell.cell_contents for cell in method.__closure__ or ()]
    return [method.__globals__.get(name) for name in method.__code__.co_names] + cells


def _bits(item: Any) -> Any:
    """Return what tells a number or an array from others, and a function from others."""
    if isinstance(item, Real | np.ndarray):
        array = np.asarray(item)
        return array.shape, array.tobytes()
    return id(item)


@dataclass(frozen=True)
class _Trial:
    """A loss and the first labels; `key` is what the answers depend on."""

    key: tuple[Any, ...]
    candidate: Compiled = field(compare=False)
    loss: ScalarLoss = field(compare=False)
    y: Array = field(compare=False)


@lru_cache(maxsize=256)
def _agree(trial: _Trial) -> bool:
    """Tell whether the passes can be compiled, and give what the methods give."""
    (numbers, run, _), loss, y = trial.candidate, trial.loss, trial.y
    t, ones, found = np.linspace(-2.0, 2.0, y.size), np.ones(y.size), np.empty((2, y.size))
    try:
        run["values"](numbers, t, y, ones, np.arange(y.size + 1), found[0])
        run["derivatives"](numbers, t, y, ones, found[1])
        if "along" in run:
            run["along"](numbers, t, y, y, ones, 0.5)
    except NumbaError:
        return False
    with np.errstate(all="ignore"):
        expected = [loss.value(t, y), loss.derivative(t, y)]
    return np.allclose(found, expected, rtol=1e-9, atol=1e-12, equal_nan=True)
