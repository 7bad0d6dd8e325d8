"""The docstring of an estimator, completed by what its bases say about parameters and attributes."""

from __future__ import annotations

import inspect
import re
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)
_HEADING = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


def documented(cls: _Class) -> _Class:
    """Complete the numpydoc sections Parameters and Attributes of a class by those of its bases."""
    head, sections = _sections(cls)
    inherited = [_sections(base)[1] for base in reversed(cls.__mro__)]
    parameters, attributes = (
        {name: text for found in inherited for name, text in _entries(found.get(title, "")).items()}
        for title in ("Parameters", "Attributes")
    )
    sections |= {
        "Parameters": "".join(parameters.get(name, "") for name in inspect.signature(cls).parameters),
        "Attributes": "".join(attributes.values()),
    }
    order = ["Parameters", "Attributes", *sections]
    parts = [f"{title}\n{'-' * len(title)}\n{sections[title].strip()}\n" for title in dict.fromkeys(order)]
    cls.__doc__ = "\n".join([head.strip() + "\n", *parts])
    return cls


def _sections(cls: type) -> tuple[str, dict[str, str]]:
    """Return what comes before the first section of a class's own docstring, and the sections by title."""
    head, *rest = _HEADING.split(inspect.cleandoc(vars(cls).get("__doc__") or ""))
    return head, dict(zip(rest[::2], rest[1::2], strict=True))


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by the names before the colon."""
    entries = (entry.rstrip() + "\n" for entry in _ENTRY.split(section) if entry.strip())
    return {re.split(" :|\n", entry)[0]: entry for entry in entries}
