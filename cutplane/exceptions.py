"""The errors that cutplane raises. Every message names the object, the wrong value, and a remedy.

A note below the message names a page of the documentation. It is a file in ``docs/_build``, the folder that
``python -m sphinx docs docs/_build`` writes; the environment variable ``CUTPLANE_DOCS`` sets another address.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar


class CutplaneError(Exception):
    """Base class of every error raised by cutplane.

    Attributes
    ----------
    page : str
        The page of the documentation on this kind of error.
    """

    page: ClassVar[str] = "guide/statuses.html#errors"

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.add_note(f"See {os.environ.get('CUTPLANE_DOCS', 'docs/_build').rstrip('/')}/{self.page}")


class InvalidInputError(CutplaneError, ValueError):
    """An argument has a wrong shape, type or value."""


class InfeasibleError(InvalidInputError):
    """No point satisfies the constraints: `Problem.solve` turns it into the status INFEASIBLE."""


class NotConvexError(InvalidInputError):
    """A cvxpy expression or a declared function is not convex."""

    page = "guide/define_your_own.html#a-model-of-cvxpy"


class MissingCapabilityError(CutplaneError, TypeError):
    """A piece of the problem lacks a capability that a method or a master needs."""

    page = "guide/choosing.html#capabilities-of-the-pieces"


class MissingExtraError(CutplaneError, ImportError):
    """An optional package is not installed."""

    page = "guide/getting_started.html"


class BackendError(CutplaneError, RuntimeError):
    """No backend could solve a reduced problem."""

    page = "guide/choosing.html#backends"


class OutOfMemoryError(CutplaneError, MemoryError):
    """Memory ran out; the message has the place, and the size that could not be allocated."""

    result: Any = None
    """The best point found before, with its bounds, as a result of a solve; None if there is none."""

    def __new__(cls, *arguments: Any) -> OutOfMemoryError:
        """Return an instance; without this, MemoryError.__new__ would fail when Dask unpickles the class."""
        return Exception.__new__(cls, *arguments)


class OracleError(CutplaneError, RuntimeError):
    """An oracle raised an exception, or returned something that cannot be used."""

    page = "guide/define_your_own.html#a-risk-in-ten-lines"
    result: Any = None
    """The best point found before, with its bounds, as a result; None if the first query failed."""
