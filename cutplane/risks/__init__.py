"""Risks: convex functions known through a first-order oracle."""

from cutplane.risks.base import ImagedRisk, Risk
from cutplane.risks.combination import WeightedSum
from cutplane.risks.cvxpy import CvxpyRisk
from cutplane.risks.linear import LinearRisk
from cutplane.risks.objective import LinearObjective
from cutplane.risks.oracle import OracleRisk, risk

__all__ = [
    "CvxpyRisk",
    "ImagedRisk",
    "LinearObjective",
    "LinearRisk",
    "OracleRisk",
    "Risk",
    "WeightedSum",
    "risk",
]
