"""Risks: convex functions given by a first-order oracle."""

from cutplane.risks.affine import AffineRisk
from cutplane.risks.base import Estimate, ImagedRisk, OnDemandRisk, Risk, RoundedTerms
from cutplane.risks.cvxpy import CvxpyRisk
from cutplane.risks.joint import MeasureRisk, RankingRisk
from cutplane.risks.linear import LinearRisk, NoveltyRisk
from cutplane.risks.maximum import Maximum, maximum
from cutplane.risks.multiclass import MulticlassRisk
from cutplane.risks.oracle import OracleRisk, autodiff_risk, risk
from cutplane.risks.ordinal import OrdinalRisk
from cutplane.risks.sums import CompositeObjective, LinearObjective, WeightedSum

__all__ = [
    "AffineRisk",
    "CompositeObjective",
    "CvxpyRisk",
    "Estimate",
    "ImagedRisk",
    "LinearObjective",
    "LinearRisk",
    "Maximum",
    "MeasureRisk",
    "MulticlassRisk",
    "NoveltyRisk",
    "OnDemandRisk",
    "OracleRisk",
    "OrdinalRisk",
    "RankingRisk",
    "Risk",
    "RoundedTerms",
    "WeightedSum",
    "autodiff_risk",
    "maximum",
    "risk",
]
