"""Measures of how well scores tell two labels apart, for `MeasureRisk`."""

from cutplane.measures.measures import (
    FBeta,
    Measure,
    PrecisionAt,
    PrecisionRecallBreakEven,
    RecallAt,
    RocArea,
    TableMeasure,
)

__all__ = [
    "FBeta",
    "Measure",
    "PrecisionAt",
    "PrecisionRecallBreakEven",
    "RecallAt",
    "RocArea",
    "TableMeasure",
]
