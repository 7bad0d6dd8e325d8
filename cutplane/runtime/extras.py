"""Packages that are needed for one purpose only."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cutplane.exceptions import MissingExtraError


def require_extra(module: str, extra: str) -> Any:
    """Import a module that an extra brings.

    Parameters
    ----------
    module : str
        Full name, such as "matplotlib.pyplot".
    extra : str
        The extra of cutplane that installs it.

    Returns
    -------
    module

    Raises
    ------
    MissingExtraError
        If it is not installed; the message is the command that installs it.

    Examples
    --------
    >>> from cutplane.runtime.extras import require_extra
    >>> require_extra("json", "plot").loads("[1, 2]")
    [1, 2]
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingExtraError(
            f'{package} is not installed; install it with: pip install "cutplane[{extra}]"'
        ) from error
