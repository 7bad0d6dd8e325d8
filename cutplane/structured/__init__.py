"""Structured outputs: labellings of sequences, trees and graphs, learnt with a large margin."""

from cutplane.structured.chain import ChainRisk
from cutplane.structured.example_sum import ExampleSum
from cutplane.structured.features import Factors
from cutplane.structured.likelihood import ChainLogLikelihood
from cutplane.structured.predictions import decode, marginals
from cutplane.structured.risk import StructuredRisk

__all__ = [
    "ChainLogLikelihood",
    "ChainRisk",
    "ExampleSum",
    "Factors",
    "StructuredRisk",
    "decode",
    "marginals",
]
