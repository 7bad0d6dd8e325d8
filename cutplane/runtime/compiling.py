"""Routines: loops that Python interprets until compiling them by numba saves time.

Compiling a routine takes as long as interpreting it hundreds of times on a small problem. Therefore a routine
is interpreted until its calls have taken a share of the expected time of compilation, and compiled before a
call that would exceed this share. If a process has compiled it before, it is loaded from numba's cache and
never interpreted. The expected time is estimated from the length of the code and the speed of earlier
compilations. With a time limit, a routine is compiled only if this is expected to end before the limit by the
wall clock, or to be faster than one interpreted call. Interpreted and compiled routines return the same
results up to rounding errors. `CUTPLANE_COMPILE=always` in the environment compiles every routine when it is
first called, `CUTPLANE_COMPILE=never` none.
"""

from __future__ import annotations

import math
import os
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np
from numba import njit
from numba.core import event
from numba.core.dispatcher import Dispatcher, OmittedArg
from numba.core.types import unliteral

from cutplane.exceptions import InvalidInputError
from cutplane.runtime.clock import compiled_seconds, go_on, stop
from cutplane.runtime.deadline import patience

SUMS = frozenset({"reassoc", "contract", "nsz"})
"""Options of a routine whose sums may be computed in any order; NaN and infinities keep their meaning."""
NUMBERS = frozenset({"nnan", "nsz"})
"""Options of a routine whose numbers are never NaN."""

VARIABLE = "CUTPLANE_COMPILE"

_SHARE = 0.1
"""Interpreted time before a routine is compiled, relative to the time of compilation; small because about ten
later processes use the compiled code."""
_PER_ELEMENT = 1e-6
"""First guess of seconds per element, because an interpreted operation takes 0.1 us, and an element takes a
few."""
_TRIAL = 1e4
"""Number of elements after which the measured speed of a routine has the same weight as the guess, because
few measurements vary more."""
_PER_BYTE = 6e-4
"""First guess of seconds of compilation per byte of code, because usual machines take so long."""
_SAMPLE = 5e3
"""Number of bytes after which the measured speed of the compiler has the same weight as the guess, because
few measurements vary more."""

_policies: dict[Any, _Policy] = {}
_here = threading.local()


class _Postponed(BaseException):
    """The routine is not in the cache, and must not be compiled yet."""


class _Standstill(event.Listener):
    """A context in which the clock stops while a thread has the compiler's lock or waits for it."""

    def on_start(self, event: Any) -> None:
        stop()

    def on_end(self, event: Any) -> None:
        go_on()


event.register("numba:compiler_lock", _Standstill())


class _Pace:
    """Seconds of compilation per byte of code."""

    seconds = _SAMPLE * _PER_BYTE
    size = _SAMPLE

    @classmethod
    def expected(cls, size: float) -> float:
        return size * cls.seconds / cls.size


def _share() -> float:
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "always", "never"):
        raise InvalidInputError(f"{VARIABLE} must be 'always' or 'never' if it is set, got {wanted!r}.")
    return {"": _SHARE, "always": 0.0, "never": math.inf}[wanted]


share = _share()


def routine(
    function: Callable[..., Any] | None = None,
    *,
    fastmath: frozenset[str] = frozenset(),
    plain: Callable[..., Any] | None = None,
    allocates: bool = True,
    inlined: bool = False,
) -> Any:
    """Turn a function of numbers and arrays into a routine; without a function, return a decorator.

    `fastmath` is `SUMS` or `NUMBERS`; `plain` is called in place of a routine that is interpreted. A routine
    that does not allocate arrays does not count references to its arguments, so that short calls are faster.
    An `inlined` one is copied into its callers, so that named tuples of arrays are arguments without cost.
    """
    if function is None:
        return partial(routine, fastmath=fastmath, plain=plain, allocates=allocates, inlined=inlined)
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    options["_nrt"] = allocates
    options["forceinline"] = inlined
    dispatcher = njit(fastmath=set(fastmath), **options)(function)
    if isinstance(dispatcher, Dispatcher):  # otherwise NUMBA_DISABLE_JIT is set
        _policies[dispatcher] = _Policy(dispatcher, plain or function)
        with suppress(RuntimeError):  # a function outside of files has no cache
            dispatcher.enable_caching()
            _forget_stale_index(dispatcher)
            date_by_callees(dispatcher)
    return dispatcher


def _forget_stale_index(dispatcher: Any) -> None:
    """Let a routine be compiled again if its cache contains types of an earlier version of the package.

    numba reads the types in an index before it tests whether the index is older than the source.
    """
    cache = dispatcher._cache
    load = cache.load_overload

    def load_if_possible(*args: Any) -> Any:
        try:
            return load(*args)
        except (ImportError, AttributeError):
            cache.flush()
            return None

    cache.load_overload = load_if_possible


def date_by_callees(dispatcher: Any) -> None:
    """Let a function be compiled again if a function that it calls, or a constant, has changed.

    Compiled code contains them, but numba compares only the file of the function. For example, after an
    upgrade that corrects a routine, unchanged callers would still run the old routine.
    """
    file = dispatcher._cache._cache_file
    dated = file._source_stamp, _digest(dispatcher.py_func, set())
    file._source_stamp = sha256(repr(dated).encode()).digest()


def _digest(function: Any, known: set[Any]) -> bytes:
    """Return a hash of the sources of all functions that a function calls, and of its global numbers."""
    known.add(function)
    parts: list[Any] = []
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        called = value.py_func if isinstance(value, Dispatcher) else value
        if isinstance(value, int | float):
            parts.append((name, value))
        elif isinstance(called, types.FunctionType) and called not in known:
            parts += [source_hash(called.__code__.co_filename), _digest(called, known)]
    return sha256(repr(parts).encode()).digest()


@cache
def source_hash(path: str) -> bytes:
    """Return a hash of a file; b"" if there is no such file, as for a function of a notebook."""
    with suppress(OSError):
        return sha256(Path(path).read_bytes()).digest()
    return b""


@contextmanager
def compiling_at(other: float) -> Iterator[None]:
    """Set the interpreted seconds per second of compilation before a routine is compiled; 0 is at once."""
    global share
    before, share = share, other
    try:
        yield
    finally:
        share = before


class _Policy:
    """The decision when a routine is compiled.

    numba's dispatcher calls `choose` for types of arguments without compiled code. Compiled code is called
    directly.
    """

    def __init__(self, dispatcher: Any, function: Callable[..., Any]):
        self.dispatcher = dispatcher
        self.source = dispatcher.py_func
        self.function = function
        self.compile = dispatcher._compile_for_args
        self.compiler = dispatcher._compiler.compile
        self.template = dispatcher.get_call_template
        dispatcher.get_call_template = self.without_literals
        dispatcher._compile_for_args = self.choose
        dispatcher._compiler.compile = self.compile_now
        self._start_again()

    def _start_again(self) -> None:
        self.code: int | None = None
        """Bytes of code to compile; None before the search in the cache."""
        self.interpreter: Callable[..., Any] | None = None
        self.seconds = 0.0
        self.elements = 0.0

    def choose(self, *args: Any) -> Callable[..., Any]:
        """Return compiled code for arguments of these types, or `interpret`."""
        size, code = _elements(args), self.code
        if code is None:
            if share > 0.0 and math.isfinite(size):
                _here.postpones = True
                try:
                    return self.compile(*args)
                except _Postponed:
                    pass
                finally:
                    _here.postpones = False
            self.code = code = self._to_compile()
        pace = (self.seconds + _TRIAL * _PER_ELEMENT) / (self.elements + _TRIAL)
        compilation = _Pace.expected(code)
        if self.seconds + size * pace < share * compilation:
            return self.interpret
        if share > 0.0 and size * pace < compilation and patience() < compilation:
            return self.interpret  # because code compiled after the time limit saves nothing
        before = compiled_seconds()
        compiled = self.compile(*args)
        _Pace.seconds += compiled_seconds() - before
        _Pace.size += code
        self._start_again()
        return compiled

    def compile_now(self, *args: Any) -> Any:
        if getattr(_here, "postpones", False):
            raise _Postponed
        return self.compiler(*args)

    def without_literals(self, args: Any, kws: Any) -> Any:
        """Return the code that a compiled caller needs: one version for all constants that it passes."""
        return self.template(tuple(map(unliteral, args)), kws)

    def interpret(self, *args: Any) -> Any:
        """Call the function itself; the routines that it calls are interpreted, too."""
        interpreter = self.interpreter or _interpreted(self.function, {})
        self.interpreter = interpreter
        began = thread_time()
        with np.errstate(all="ignore"):
            answer = interpreter(*map(_numpy, args))
        self.seconds += thread_time() - began
        self.elements += _elements(args)
        return _python(answer)

    def _to_compile(self) -> int:
        """Return the bytes of code of this routine and of its callees that are not compiled."""
        found, stack = set(), [self]
        while stack:
            policy = stack.pop()
            if policy not in found:
                found.add(policy)
                stack += [p for p in _called(policy.source).values() if not p.dispatcher.signatures]
        return sum(len(policy.source.__code__.co_code) for policy in found)


def _called(function: Callable[..., Any]) -> dict[str, _Policy]:
    """Return the routines that a function calls, by name."""
    code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    values = {name: names.get(name) for name in code.co_names} if code else {}
    return {
        name: _policies[value]
        for name, value in values.items()
        if isinstance(value, Dispatcher) and value in _policies
    }


def _interpreted(function: Any, known: dict[Any, Any]) -> Callable[..., Any]:
    """Return the function with the routines that it calls replaced by functions of the same kind."""
    called = _called(function)
    if not called:
        return function
    namespace = dict(function.__globals__)
    known[function] = types.FunctionType(
        function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__
    )
    for name, policy in called.items():
        namespace[name] = known.get(policy.function) or _interpreted(policy.function, known)
    return known[function]


def _elements(args: Any) -> float:
    """Return the number of elements of all arrays; inf if numpy's scalars would be less accurate."""
    size = 0.0
    for value in args:
        if isinstance(value, np.ndarray):
            size += value.size if value.dtype.char not in "ef" else math.inf
        elif isinstance(value, tuple):
            size += _elements(value)
    return size


def _numpy(value: Any) -> Any:
    """Return the value of an argument or a default; a float becomes numpy's, which may be divided by zero."""
    value = value.value if isinstance(value, OmittedArg) else value
    return np.float64(value) if type(value) is float else value


def _python(answer: Any) -> Any:
    """Return numbers as compiled code returns them."""
    if isinstance(answer, np.generic):
        return answer.item()
    if isinstance(answer, tuple):
        values = map(_python, answer)
        return type(answer)(*values) if hasattr(answer, "_fields") else tuple(values)
    return answer
