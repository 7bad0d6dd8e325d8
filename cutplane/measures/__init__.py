"""Measures of how well scores tell two labels apart, for `MeasureRisk`."""

from cutplane.measures.base import Measure, TableMeasure
from cutplane.measures.roc_area import RocArea
from cutplane.measures.tables import FBeta, PrecisionAt, PrecisionRecallBreakEven, RecallAt

__all__ = [
    "FBeta",
    "Measure",
    "PrecisionAt",
    "PrecisionRecallBreakEven",
    "RecallAt",
    "RocArea",
    "TableMeasure",
]
