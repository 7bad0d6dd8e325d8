"""What one random trial found."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """The family of the trial, how its solve ended, and every promise that was broken."""

    family: str
    status: str
    failures: list[str]
