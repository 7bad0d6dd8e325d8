"""Parts of formulas in LaTeX."""

from __future__ import annotations

from typing import Any

import numpy as np


def word(name: str) -> str:
    r"""Return a name in upright letters.

    Examples
    --------
    >>> print(word("my_risk"))
    \mathrm{my\_risk}
    """
    return rf"\mathrm{{{name.replace('_', chr(92) + '_')}}}"


def number(value: Any, symbol: str = "c") -> str:
    r"""Return a number with four digits; `symbol` for a vector, unless it is constant.

    Examples
    --------
    >>> print(number(1e-5), number(0.25), number(np.inf), number(np.arange(3.0), "u"))
    10^{-5} 0.25 \infty u
    """
    if np.size(value) != 1 and not np.all(np.equal(value, np.ravel(value)[0])):
        return symbol
    entry = float(np.ravel(value)[0])
    if np.isinf(entry):
        return r"\infty" if entry > 0 else r"-\infty"
    mantissa, _, power = f"{entry:.4g}".partition("e")
    if not power:
        return mantissa
    return ("" if mantissa == "1" else rf"{mantissa} \cdot ") + f"10^{{{int(power)}}}"


def times(factor: Any, term: str, symbol: str = r"\lambda") -> str:
    """Return a factor times a term; the factor 1 is omitted."""
    written = number(factor, symbol)
    return term if written == "1" else rf"{written} \, {term}"


def minus(x: str, centre: Any) -> str:
    """Return x - c for a nonzero centre c, else x."""
    if centre is None or not np.any(centre):
        return x
    return f"{x} - {number(centre)}"
