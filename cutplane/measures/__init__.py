"""Performance measures of scores for two labels, for `MeasureRisk`."""

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
