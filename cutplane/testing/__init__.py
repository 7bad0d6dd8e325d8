"""Checks that find mistakes in a piece of a problem before a solve."""

from cutplane.testing.laws import Check, Report
from cutplane.testing.oracles import check_separation, check_structured
from cutplane.testing.pieces import check_regularizer, check_set
from cutplane.testing.risks import check_risk

__all__ = [
    "Check",
    "Report",
    "check_regularizer",
    "check_risk",
    "check_separation",
    "check_set",
    "check_structured",
]
