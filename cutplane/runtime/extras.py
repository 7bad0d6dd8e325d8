"""Packages that are needed for one purpose only."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cutplane.exceptions import MissingExtraError


def require_extra(module: str, extra: str) -> Any:
    """Import a module of an extra of cutplane, for example "matplotlib.pyplot" of the extra "plot".

    If it is missing, `MissingExtraError` names the command that installs it.
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
