"""The errors cutplane raises. Every message names the object, the value that was wrong, and what to do."""

from __future__ import annotations

from typing import Any


class CutplaneError(Exception):
    """Base class of every error raised by cutplane."""


class InvalidInputError(CutplaneError, ValueError):
    """An argument has a wrong shape, type or value."""


class NotConvexError(InvalidInputError):
    """A cvxpy expression or a declared function is not convex."""


class MissingCapabilityError(CutplaneError, TypeError):
    """A method or a master needs something that a piece of the problem does not offer."""


class MissingExtraError(CutplaneError, ImportError):
    """An optional package is not installed."""


class BackendError(CutplaneError, RuntimeError):
    """No backend could solve a reduced problem."""


class OracleError(CutplaneError, RuntimeError):
    """An oracle raised an exception, or answered with something that cannot be used.

    Attributes
    ----------
    result : Result, or that of the special problem, or None
        The best point found before the failure, with its bounds; None if the first query failed.
    """

    result: Any = None
