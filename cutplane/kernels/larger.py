"""The larger of two numbers, such that a loop over it is vectorised."""

from __future__ import annotations

from numba import types
from numba.extending import intrinsic

from cutplane.runtime.compiling import routine

_FLAGS = ("nnan", "nsz")


@intrinsic
def _larger(typing_context, x, y):
    def codegen(context, builder, signature, arguments):
        x, y = arguments
        return builder.select(builder.fcmp_ordered(">", x, y, flags=_FLAGS), x, y, flags=_FLAGS)

    return types.float64(types.float64, types.float64), codegen


@routine(plain=max)
def larger(x, y) -> float:
    """Return the larger of two numbers, neither of them NaN; unlike max(x, y) it leaves no branch."""
    return _larger(x, y)  # pyright: ignore[reportCallIssue]
