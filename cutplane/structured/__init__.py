"""Structured outputs: labellings of sequences, trees and graphs, learnt with a large margin."""

from cutplane.structured.example_sum import ExampleSum
from cutplane.structured.features import Factors
from cutplane.structured.risk import StructuredRisk

__all__ = ["ExampleSum", "Factors", "StructuredRisk"]
