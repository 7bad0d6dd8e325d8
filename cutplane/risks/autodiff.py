"""Risks whose subgradients a framework for automatic differentiation computes: torch or jax."""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import getclosurevars
from types import ModuleType
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.validation import Array, as_count
from cutplane.risks.oracle import OracleRisk
from cutplane.runtime.extras import require_extra

Function = Callable[[Any], Any]
Oracle = Callable[[Array], tuple[Any, Any]]


def autodiff_risk(
    function: Function, *, dim: int, framework: str | None = None, blocks: int = 1, infimum: Any = -np.inf
) -> OracleRisk:
    """Turn a convex function of torch or jax into a risk; its subgradients come from the framework.

    The function is given its argument in double precision, and has to answer in it: a gradient of seven
    digits leaves no room for a certificate. At a kink the framework's choice is taken; that of ``abs``,
    ``relu``, ``max`` and their like is a subgradient.

    Parameters
    ----------
    function : callable
        Takes w, a tensor or array of shape (dim,), and returns f(w), of shape (); with several blocks, their
        values, of shape (blocks,). Functions of jax are compiled by ``jax.jit`` if that can be done.
    dim : int
        Number of coordinates of w.
    framework : {"torch", "jax"}, optional
        By default the one whose modules or arrays the function refers to; else the only one that has been
        imported.
    blocks : int, default 1
        Number of functions whose sum is f, each of which gets a cut of its own; their gradients are computed
        in one batch.
    infimum : float or array_like of shape (blocks,), default -inf
        A lower bound of each block over all w, if one is known.

    Returns
    -------
    OracleRisk

    Raises
    ------
    MissingExtraError
        If the framework is not installed; the message is the command that installs it.
    InvalidInputError
        If the framework is not known from the function.
    OracleError
        When the risk is asked: if the function answers in single precision, or not with a tensor that depends
        on w.

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


def _detected(function: Function) -> str:
    found = _referred(function) or {name for name in _ORACLES if name in sys.modules}
    if len(found) != 1:
        raise InvalidInputError(
            f"It is not known whether {getattr(function, '__name__', function)!r} is a function of torch "
            "or of jax: pass framework='torch' or framework='jax'."
        )
    return found.pop()


def _referred(function: Function) -> set[str]:
    """Return the frameworks of the modules, functions and arrays that a Python function refers to."""
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


def _torch_oracle(torch: Any, function: Function, blocks: int) -> Oracle:
    def oracle(x: Array) -> tuple[Any, Any]:
        w = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        with torch.enable_grad():
            try:
                values = function(w)
            except RuntimeError as error:
                raise _explained(error, "dtype" in str(error), "data.double()") from error
            if not isinstance(values, torch.Tensor) or not values.requires_grad:
                raise OracleError(_no_answer("a torch.Tensor", values))
            if values.dtype != torch.float64:
                raise OracleError(_too_short(values.dtype, "data.double()"))
            if blocks == 1:
                (slopes,) = torch.autograd.grad(values.sum(), w, allow_unused=True)
            else:
                basis = torch.eye(blocks, dtype=torch.float64)
                (slopes,) = torch.autograd.grad(values, w, basis, is_grads_batched=True, allow_unused=True)
        if slopes is None:
            raise OracleError(_no_answer("a torch.Tensor", values))
        return values.detach().numpy(), slopes.numpy()

    return oracle


def _jax_oracle(jax: Any, function: Function, blocks: int) -> Oracle:
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
            except jax.errors.ConcretizationTypeError:  # a branch on a value
                compiled = answer
                values, slopes = answer(w)
            except (AttributeError, TypeError) as error:
                raise OracleError(_no_answer("a jax array", error)) from error
            if values.dtype != np.float64:
                raise OracleError(_too_short(values.dtype, "no dtype=float32 inside the function"))
            return np.asarray(values), np.asarray(slopes)

    return oracle


def _no_answer(wanted: str, got: Any) -> str:
    return f"The function must return {wanted} computed from its argument by the framework; got {got!r}."


def _too_short(dtype: Any, remedy: str) -> str:
    return (
        f"The function answers in {dtype}: its digits are too few for a certificate. Compute in double "
        f"precision: {remedy}."
    )


def _explained(error: Exception, is_dtype: bool, remedy: str) -> OracleError:
    hint = f" Its argument has double precision; give its data the same: {remedy}." if is_dtype else ""
    return OracleError(f"The function raised {type(error).__name__}: {error}.{hint}")


_ORACLES = {"torch": _torch_oracle, "jax": _jax_oracle}
