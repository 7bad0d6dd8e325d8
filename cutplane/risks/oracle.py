"""Risks from Python functions that return a value and a subgradient, or that torch or jax differentiate."""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import getclosurevars
from types import ModuleType
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.latex import word
from cutplane.pieces.validation import Array, as_count, as_scalar, as_vector
from cutplane.risks.base import Risk
from cutplane.runtime.extras import require_extra

Oracle = Callable[[Array], tuple[Any, ...]]


class OracleRisk(Risk):
    """f(x), given by a function x -> (value, subgradient).

    Parameters
    ----------
    function : callable
        Takes x, a read-only ndarray of shape (dim,), and returns f(x) and a subgradient of shape (dim,); with
        several blocks, their values, shape (blocks,), and subgradients, shape (blocks, dim). It may also
        return the solution of an inner problem (a sequence of solutions for several blocks); `Result.primal`
        is their average.
    dim : int
        Number of coordinates of x.
    blocks : int, default 1
        Number of functions whose sum is f; a query gives a cut of each function.
    infimum : float or array_like of shape (blocks,), default -inf
        A lower bound of each block over all x, from which a solve starts.

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
                f"infimum must be below inf, got {infimum}; omit it if you have no lower bound."
            )
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        blocks = f", blocks={self.n_blocks}" if self.n_blocks > 1 else ""
        return f"OracleRisk({self.__name__}, dim={self.dim}{blocks})"

    @property
    def infima(self) -> Array:
        return self._infima

    def formula(self, x: str = "x") -> str:
        return f"{word(self.__name__)}({x})"

    def oracle(self, x: Array) -> tuple[Any, ...]:
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
    blocks, infimum : optional
        See `OracleRisk`.

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


def autodiff_risk(
    function: Callable[[Any], Any],
    *,
    dim: int,
    framework: str | None = None,
    blocks: int = 1,
    infimum: Any = -np.inf,
) -> OracleRisk:
    """Turn a convex function of torch or jax into a risk; the framework computes its subgradients.

    Argument and result have double precision, because seven digits are too few for a certificate. At a kink,
    the framework chooses the derivative; it is a subgradient for functions such as ``abs``, ``relu`` and
    ``max``.

    Parameters
    ----------
    function : callable
        Takes w, a tensor or array of shape (dim,), and returns f(w), of shape (); with several blocks, their
        values, of shape (blocks,). Functions of jax are compiled by ``jax.jit`` if possible.
    dim : int
        Number of coordinates of w.
    framework : {"torch", "jax"}, optional
        By default the framework whose modules or arrays the function uses; if it uses none, the only one that
        is imported.
    blocks, infimum : optional
        See `OracleRisk`; the gradients of several blocks are computed in one batch.

    Returns
    -------
    OracleRisk

    Raises
    ------
    MissingExtraError
        If the framework is not installed; the message has the command that installs it.
    InvalidInputError
        If the framework cannot be found from the function.
    OracleError
        When the risk is evaluated, if the function returns single precision, or no tensor that depends on w.

    Examples
    --------
    >>> import cutplane as cut, numpy as np
    >>> import torch                                                         # doctest: +SKIP
    >>> M = torch.tensor(np.eye(3))                                          # doctest: +SKIP
    >>> risk = cut.autodiff_risk(lambda w: torch.logsumexp(M @ w, 0), dim=3)  # doctest: +SKIP
    >>> cut.Problem(risk, cut.L2(0.1)).solve().status                        # doctest: +SKIP
    <Status.OPTIMAL: 'OPTIMAL'>
    """
    if not callable(function):
        raise InvalidInputError(f"function must be a function of torch or jax, got {function!r}.")
    name = _detected(function) if framework is None else framework
    if name not in _ORACLES:
        raise InvalidInputError(f"framework must be 'torch' or 'jax', got {framework!r}.")
    oracle = _ORACLES[name](require_extra(name, name), function, as_count("blocks", blocks))
    oracle.__name__ = getattr(function, "__name__", type(function).__name__)
    return OracleRisk(oracle, dim, blocks, infimum)


def _detected(function: Callable[[Any], Any]) -> str:
    found = _referred(function) or {name for name in _ORACLES if name in sys.modules}
    if len(found) != 1:
        raise InvalidInputError(
            f"Cannot tell whether {getattr(function, '__name__', function)!r} is a function of torch or of "
            "jax: pass framework='torch' or framework='jax'."
        )
    return found.pop()


def _referred(function: Callable[[Any], Any]) -> set[str]:
    """Return the frameworks of the modules, functions and arrays that a Python function uses."""
    try:
        names = getclosurevars(function)
    except TypeError:  # not a Python function
        return set()
    roots = set()
    for value in [*names.globals.values(), *names.nonlocals.values()]:
        is_module = isinstance(value, ModuleType)
        homes = [value.__name__] if is_module else [getattr(value, "__module__", ""), type(value).__module__]
        roots |= {str(home).partition(".")[0] for home in homes}
    return {name for name in _ORACLES if name in roots or f"{name}lib" in roots}


def _torch_oracle(torch: Any, function: Callable[[Any], Any], blocks: int) -> Oracle:
    def oracle(x: Array) -> tuple[Any, Any]:
        w = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        with torch.enable_grad():
            try:
                values = function(w)
            except RuntimeError as error:
                hint = "Its argument has double precision; give its data the same: data.double()."
                shown = f"The function raised RuntimeError: {error}."
                raise OracleError(f"{shown} {hint}" if "dtype" in str(error) else shown) from error
            if not isinstance(values, torch.Tensor) or not values.requires_grad:
                raise _no_answer("a torch.Tensor", values)
            if values.dtype != torch.float64:
                raise _low_precision(values.dtype, "data.double()")
            if blocks == 1:
                (slopes,) = torch.autograd.grad(values.sum(), w, allow_unused=True)
            else:
                basis = torch.eye(blocks, dtype=torch.float64)
                (slopes,) = torch.autograd.grad(values, w, basis, is_grads_batched=True, allow_unused=True)
        if slopes is None:
            raise _no_answer("a torch.Tensor", values)
        return values.detach().numpy(), slopes.numpy()

    return oracle


def _jax_oracle(jax: Any, function: Callable[[Any], Any], blocks: int) -> Oracle:
    def answer(w: Any) -> tuple[Any, Any]:
        if blocks == 1:
            return jax.value_and_grad(lambda at: function(at).sum())(w)
        values, pull_back = jax.vjp(function, w)
        return values, jax.vmap(lambda row: pull_back(row)[0])(jax.numpy.eye(blocks))

    compiled = jax.jit(answer)

    def oracle(x: Array) -> tuple[Any, Any]:
        nonlocal compiled
        with jax.enable_x64(True):
            w = jax.numpy.asarray(x)
            try:
                values, slopes = compiled(w)
            except jax.errors.ConcretizationTypeError:  # the function branches on a value
                compiled = answer
                values, slopes = answer(w)
            except (AttributeError, TypeError) as error:
                raise _no_answer("a jax array", error) from error
            if values.dtype != np.float64:
                raise _low_precision(values.dtype, "no dtype=float32 inside the function")
            return np.asarray(values), np.asarray(slopes)

    return oracle


def _no_answer(wanted: str, got: Any) -> OracleError:
    return OracleError(
        f"The function must return {wanted} computed from its argument by the framework; got {got!r}."
    )


def _low_precision(dtype: Any, remedy: str) -> OracleError:
    return OracleError(
        f"The function returns {dtype}, which has too few digits for a certificate. Compute in double "
        f"precision: {remedy}."
    )


_ORACLES = {"torch": _torch_oracle, "jax": _jax_oracle}
