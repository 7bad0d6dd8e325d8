"""Checks that find a mistake in a piece of a problem before the engine meets it."""

from cutplane.testing.feasible_sets import check_set
from cutplane.testing.regularizers import check_regularizer
from cutplane.testing.report import Check, Report
from cutplane.testing.risks import check_risk
from cutplane.testing.separation import check_separation
from cutplane.testing.structured import check_structured

__all__ = [
    "Check",
    "Report",
    "check_regularizer",
    "check_risk",
    "check_separation",
    "check_set",
    "check_structured",
]
