"""A risk from a function that returns its value and a subgradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.latex import word
from cutplane.pieces.validation import Array, as_count, as_scalar, as_vector
from cutplane.risks.base import Risk

Oracle = Callable[[Array], tuple[Any, ...]]


class OracleRisk(Risk):
    """f(x), known only through a function x -> (value, subgradient).

    Parameters
    ----------
    function : callable
        Takes x, a read-only ndarray of shape (dim,), and returns f(x) and a subgradient of shape (dim,); with
        several blocks, their values, shape (blocks,), and subgradients, shape (blocks, dim). It may return a
        third thing, the solution of its inner problem (with several blocks a sequence of them), whose average
        is `Result.primal`.
    dim : int
        Number of coordinates of x.
    blocks : int, default 1
        Number of functions whose sum is f, each of which gets a cut of its own.
    infimum : float or array_like of shape (blocks,), default -inf
        A lower bound of each block over all x, if one is known: a run starts from it.

    Raises
    ------
    InvalidInputError
        If `function` cannot be called, or another argument is not as above.

    See Also
    --------
    risk : the same as a decorator.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.risks import OracleRisk
    >>> f = OracleRisk(lambda x: (np.abs(x).sum(), np.sign(x)), dim=2, infimum=0.0)
    >>> value, slope = f.oracle(np.array([1.0, -2.0]))
    >>> float(value), slope.tolist()
    (3.0, [1.0, -1.0])
    """

    def __init__(self, function: Oracle, dim: int, blocks: int = 1, infimum: Any = -np.inf) -> None:
        if not callable(function):
            raise InvalidInputError(
                f"function must be a function x -> (value, subgradient), got {type(function).__name__}."
            )
        self.function = function
        self.dim = as_count("dim", dim)
        self.n_blocks = as_count("blocks", blocks)
        if np.ndim(infimum) == 0:
            infimum = np.full(self.n_blocks, as_scalar("infimum", infimum, high_open=True, infinite=True))
        self._infima = as_vector("infimum", infimum, self.n_blocks, finite=False)
        if (self._infima == np.inf).any():
            raise InvalidInputError(
                f"infimum must be below inf, got {infimum}; leave it out if it is not known."
            )
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        blocks = f", blocks={self.n_blocks}" if self.n_blocks > 1 else ""
        return f"OracleRisk({self.__name__}, dim={self.dim}{blocks})"

    @property
    def infima(self) -> Array:
        """A lower bound of each block over all x, shape (n_blocks,)."""
        return self._infima

    def formula(self, x: str = "x") -> str:
        """Return the name of the function, in LaTeX."""
        return f"{word(self.__name__)}({x})"

    def oracle(self, x: Array) -> tuple[Any, ...]:
        """Return what the function returns at x, which it cannot change; the engine checks the answer."""
        point = x.view()
        point.flags.writeable = False
        return self.function(point)


def risk(
    function: Oracle | None = None, /, *, dim: int | None = None, blocks: int = 1, infimum: Any = -np.inf
) -> Callable[[Oracle], OracleRisk]:
    """Turn a function x -> (value, subgradient) into a risk, as a decorator.

    Parameters
    ----------
    dim : int
        Number of coordinates of x.
    blocks : int, default 1
        Number of functions whose sum the risk is; with several, the decorated function returns values of
        shape (blocks,) and subgradients of shape (blocks, dim).
    infimum : float or array_like of shape (blocks,), default -inf
        A lower bound of each block over all x, if one is known.

    Returns
    -------
    callable
        A decorator whose result is an `OracleRisk` f: ``f(x)`` is its value, ``f.function`` the function.

    Raises
    ------
    InvalidInputError
        If the decorator is applied without ``dim``.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cut
    >>> @cut.risk(dim=3)
    ... def largest(x):
    ...     j = int(np.argmax(x))
    ...     return x[j], np.eye(3)[j]
    >>> largest
    OracleRisk(largest, dim=3)
    >>> x = np.array([1.0, 4.0, 2.0])
    >>> value, slope = largest.function(x)
    >>> largest(x), slope.tolist()
    (4.0, [0.0, 1.0, 0.0])
    """
    if function is not None or dim is None:
        raise InvalidInputError(
            "risk needs dim, the number of coordinates of x: write @risk(dim=...), say @risk(dim=X.shape[1])."
        )
    return lambda oracle: OracleRisk(oracle, dim, blocks, infimum)
