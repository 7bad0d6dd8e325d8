"""Estimators as dataclasses whose docstrings are completed by the docstrings of their bases."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

_Class = TypeVar("_Class", bound=type)
_HEADING = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def estimator(cls: _Class) -> _Class:
    """Make a class a dataclass, and complete its docstring and the docstrings of its public methods.

    Each parameter, attribute, argument and result is described once, in the first class that has it, for
    example `tol` in `CertifiedEstimator` and the argument X of ``fit`` in ``CertifiedEstimator.fit``. A
    derived class describes only its additions and differences.
    """
    made: Any = dataclass(eq=False, repr=False)(cls)
    bases = [base for base in reversed(made.__mro__) if base.__module__.startswith(str(__package__))]
    for name in [name for name in vars(made) if not name.startswith("_")]:
        overridden = [_function(vars(base)[name]) for base in bases if name in vars(base)]
        if all(map(inspect.isfunction, overridden)):
            texts = [function.__doc__ for function in overridden]
            names = inspect.signature(overridden[-1]).parameters
            overridden[-1].__doc__ = _completed(texts, names, {"Returns", "Raises"})
    made._written = made.__doc__
    texts = [vars(base).get("_written", base.__doc__) for base in bases]
    made.__doc__ = _completed(texts, inspect.signature(made).parameters, set())
    return made


def _function(member: Any) -> Any:
    """Return a method, also of one that scikit-learn's `available_if` hides at times."""
    return getattr(member, "fn", member)


def _completed(texts: Sequence[str | None], names: Iterable[str], shared: set[str]) -> str:
    """Return the last docstring with the entries of the others, and with their `shared` sections."""
    sections: dict[str, str] = {}
    entries: dict[str, dict[str, str]] = {"Parameters": {}, "Attributes": {}}
    head, present = "", {}
    for text in texts:
        head, *rest = _HEADING.split(inspect.cleandoc(text or ""))
        present = dict(zip(rest[::2], rest[1::2], strict=True))
        sections |= {title: text for title, text in present.items() if title in shared}
        for title, found in entries.items():
            found |= _entries(present.get(title, ""))
    described = entries["Parameters"]
    sections = {
        "Parameters": "".join(described[name] for name in names if name in described),
        "Attributes": "".join(entries["Attributes"].values()),
        **sections,
        **{title: text for title, text in present.items() if title not in entries},
    }
    parts = [f"{title}\n{'-' * len(title)}\n{text.strip()}\n" for title, text in sections.items() if text]
    return "\n".join([head.strip() + "\n", *parts])


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by the names before the colon."""
    entries = (entry.rstrip() + "\n" for entry in _ENTRY.split(section) if entry.strip())
    return {re.split(" :|\n", entry)[0].lstrip("*"): entry for entry in entries}
