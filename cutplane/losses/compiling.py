"""Compiled passes over the examples for any loss.

The functions at the end of this file are patterns. A loss without an outline is compiled into copies of them,
in which `value`, `derivative` and `second_derivative` are the methods of the loss. The prediction of an
example of weight zero is replaced by 0, because no loss overflows there.
"""

from __future__ import annotations

import hashlib
import math
from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import cache
from numbers import Real
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

from cutplane.losses import elementary, inlined, passes
from cutplane.losses.base import ScalarLoss, pieces_of
from cutplane.losses.inlined import INLINE
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import SUMS, date_by_callees, source_hash

_TRIALS = 8
"""Examples at which a compiled loss is compared with its methods, because eight usually have both labels."""
_STEPS = 100
"""Largest number of steps of `dual_prox`, because a hundred halvings reduce 1e16 to 1e-14."""
_CLOSE = 1e-8
"""Relative size of the last Newton step, because the remaining error is about its square."""


class Compiled(NamedTuple):
    """The compiled passes of a loss, and the numbers that they use."""

    numbers: Any
    """The first argument of every pass."""
    passes: Mapping[str, Any]
    """The passes of `cutplane.losses.passes` for a loss with an outline, otherwise copies of the patterns."""
    tag: str | None = ""
    """The suffix of the names of the copies, which is the same in every process; None if there is none."""

    def loop(self, loop: Any) -> Callable[..., Any]:
        """Return a compiled loop with `dual_prox` and `is_settled` of this loss in place of the patterns."""
        used = ((name, self.passes[name]) for name in ("dual_prox", "is_settled"))
        return loop if self.tag == "" else _loop(loop, self.tag, *used)


def compiled(loss: ScalarLoss, y: Array) -> Compiled | None:
    """Return the passes and numbers of a loss; None if it cannot be compiled, or fails a trial at y."""
    phi = pieces_of(loss)
    if phi is not None:
        return Compiled(passes.as_outline(phi, loss.variable == "margin"), vars(passes))
    kind = type(loss)
    smooth = offers(loss, Capability.SECOND_DERIVATIVE)
    methods = (kind.value, kind.derivative, *([kind.second_derivative] if smooth else []))
    if not all(isinstance(method, FunctionType) for method in methods):
        return None
    used = {name for method in methods for name in method.__code__.co_names}
    numbers = {name: getattr(loss, name, None) for name in sorted(used)}
    numbers = {name: number for name, number in numbers.items() if isinstance(number, Real | np.ndarray)}
    code = Compiled(tuple(numbers.values()), *_copies(methods, tuple(numbers)))
    y = y[:_TRIALS].copy()
    meant = [item for method in methods for item in _items_of(method)]
    key = (methods, tuple(numbers), *map(_bits, (*numbers.values(), *meant, y)))
    if key not in _agreeing:
        _agreeing[key] = _agree(code, loss, y)
    return code if _agreeing[key] else None


_agreeing: dict[Any, bool] = {}
"""Whether compiled losses agree with their methods, by everything on which the methods depend."""


@cache
def _copies(methods: tuple[Any, ...], fields: tuple[str, ...]) -> tuple[dict[str, Any], str | None]:
    """Return copies of the patterns for these methods, and their tag; `fields` are their numbers."""
    tag = _tag(methods, fields)
    given = {method.__name__: _scalar(method, fields) for method in methods}
    smooth = "second_derivative" in given
    patterns = values, derivatives, is_settled, *((along, dual_prox) if smooth else ())
    copies = {pattern.__name__: _copy(pattern, given, tag) for pattern in patterns}
    copies["combine"] = passes.combine
    if smooth:
        bent = {"derivative": given["second_derivative"]}
        copies["second_derivatives"] = _copy(derivatives, bent, tag and f"second_{tag}")
    return copies, tag


@cache
def _loop(loop: Any, tag: str | None, *names: tuple[str, Any]) -> Any:
    return _copy(loop.py_func, dict(names), tag)


def _scalar(method: Any, fields: tuple[str, ...]) -> Any:
    """Return a method of a loss as a compiled function of (numbers, t, y)."""
    public = {field: "x" + field for field in fields}  # fields of a named tuple must not start with "_"
    code = method.__code__.replace(
        co_names=tuple(public.get(name, name) for name in method.__code__.co_names)
    )
    renamed = FunctionType(code, method.__globals__, method.__name__, closure=method.__closure__)
    function, fields_of = njit(**INLINE | {"cache": False})(renamed), namedtuple("own", public.values())
    return njit(**INLINE | {"cache": False})(lambda numbers, t, y: function(fields_of(*numbers), t, y))


def _copy(pattern: Any, names: dict[str, Any], tag: str | None) -> Any:
    """Return a compiled copy of a function in which some names are replaced."""
    copy = FunctionType(pattern.__code__, pattern.__globals__ | names, pattern.__name__)
    copy.__module__, copy.__qualname__ = pattern.__module__, f"{pattern.__qualname__}_{tag}"
    dispatcher = njit(cache=tag is not None, nogil=True, error_model="numpy", fastmath=set(SUMS))(copy)
    if tag is not None and isinstance(dispatcher, Dispatcher):
        date_by_callees(dispatcher)
    return dispatcher


def _tag(methods: tuple[Any, ...], fields: tuple[str, ...]) -> str | None:
    """Return a hash of the compiled code of the methods; None if it depends on objects without a name."""
    hashed: list[Any] = [fields, source_hash(inlined.__file__)]
    for method in methods:
        code = method.__code__
        meant = _items_of(method)
        if code.co_freevars or not all(_has_a_name(item) for item in (*meant, *code.co_consts)):
            return None
        hashed += [code.co_code, code.co_consts, code.co_names, code.co_varnames]
        hashed += [getattr(item, "__name__", item) for item in meant]
    return hashlib.blake2b(repr(hashed).encode(), digest_size=12).hexdigest()


def _has_a_name(item: Any) -> bool:
    ours = any(item is function for function in vars(elementary).values())
    return ours or isinstance(item, Real | str | ModuleType | None)


def _items_of(method: Any) -> list[Any]:
    """Return the global objects and the closure of a method."""
    cells = [cell.cell_contents for cell in method.__closure__ or ()]
    return [method.__globals__.get(name) for name in method.__code__.co_names] + cells


def _bits(item: Any) -> Any:
    """Return a key that is different for different numbers, arrays and functions."""
    if isinstance(item, Real | np.ndarray):
        array = np.asarray(item)
        return array.shape, array.tobytes()
    return id(item)


def _agree(code: Compiled, loss: ScalarLoss, y: Array) -> bool:
    """Tell whether the passes can be compiled and return the same numbers as the methods."""
    t, ones, found = np.linspace(-2.0, 2.0, y.size), np.ones(y.size), np.empty((2, y.size))
    try:
        code.passes["values"](code.numbers, t, y, ones, np.arange(y.size + 1), found[0])
        code.passes["derivatives"](code.numbers, t, y, ones, found[1])
        if "along" in code.passes:
            code.passes["along"](code.numbers, t, y, y, ones, 0.5)
    except NumbaError:
        return False
    with np.errstate(all="ignore"):
        expected = [loss.value(t, y), loss.derivative(t, y)]
    return np.allclose(found, expected, rtol=1e-9, atol=1e-12, equal_nan=True)


def value(numbers, t, y):
    """Return the loss; copies call the loss's method here. `numbers` are the attributes that it uses."""
    return 0.0


def derivative(numbers, t, y):
    """Return the derivative in t; copies call the loss's method here."""
    return 0.0


def second_derivative(numbers, t, y):
    """Return the second derivative in t; copies call the loss's method here."""
    return 0.0


def values(numbers, z, y, weights, edges, out):
    """Set out[k] to the weighted sum of the losses of the predictions z over edges[k] <= i < edges[k + 1]."""
    for k in range(out.shape[0]):
        rows = slice(edges[k], edges[k + 1])
        t, label, c = z[rows], y[rows], weights[rows]
        total = 0.0
        for i in range(c.shape[0]):
            total += c[i] * value(numbers, t[i] if c[i] > 0.0 else 0.0, label[i])
        out[k] = total


def derivatives(numbers, z, y, weights, out):
    """Set out to the weighted derivatives of the losses in the predictions z."""
    for i in range(z.shape[0]):
        out[i] = weights[i] * derivative(numbers, z[i] if weights[i] > 0.0 else 0.0, y[i])


def along(numbers, z0, z1, y, weights, t):
    """Return the first and second derivative in t of the weighted losses of z0 + t (z1 - z0)."""
    slope = curvature = 0.0
    for i in range(z0.shape[0]):
        d = z1[i] - z0[i] if weights[i] > 0.0 else 0.0
        z = z0[i] + t * d if weights[i] > 0.0 else 0.0
        slope += weights[i] * d * derivative(numbers, z, y[i])
        curvature += weights[i] * d * d * second_derivative(numbers, z, y[i])
    return slope, curvature


def dual_prox(numbers, t, y, q, start):
    """Return the derivative of the loss at the r that minimises l(r, y) + (r - t)^2 / (2 q).

    This r is the zero of h(r) = r - t + q l'(r), which lies between any r and r - h(r), because the slope of
    h is at least 1. The search takes Newton steps, and bisects if a Newton step is more than half of the
    previous one. It starts at `start`, or at 0 if the zero may be far from `start`.
    """
    r = start
    u = derivative(numbers, r, y)
    excess = r - t + q * u
    if not abs(excess) <= 1.0 + abs(r):
        r = 0.0
        u = derivative(numbers, r, y)
        excess = r - t + q * u
    low, high = (r - excess, r) if excess > 0.0 else (r, r - excess)
    last = math.inf
    for _ in range(_STEPS):
        step = -excess / (1.0 + q * second_derivative(numbers, r, y))
        if not (abs(step) <= 0.5 * last and low <= r + step <= high):
            step = 0.5 * (low - r + (high - r))
        last = abs(step)
        r += step
        u = derivative(numbers, r, y)
        if last <= _CLOSE * (1.0 + abs(r)):
            break
        excess = r - t + q * u
        if excess > 0.0:
            high = r
        else:
            low = r
    return u


def is_settled(numbers, t, y, reach):
    """Tell whether the derivative is constant at all predictions closer to t than `reach`."""
    return False
