"""Structured outputs: labellings of sequences, trees and graphs, learnt by large margins or likelihoods."""

from cutplane.structured.alignment import AlignmentRisk, align
from cutplane.structured.chain import ChainLogLikelihood, ChainRisk, decode, marginals
from cutplane.structured.example_sum import ExampleSum, Factors
from cutplane.structured.graph import GraphRisk
from cutplane.structured.hierarchy import Hierarchy
from cutplane.structured.multilabel import MultilabelRisk, best_sets
from cutplane.structured.pairwise import PairwiseRisk
from cutplane.structured.risk import StructuredRisk

__all__ = [
    "AlignmentRisk",
    "ChainLogLikelihood",
    "ChainRisk",
    "ExampleSum",
    "Factors",
    "GraphRisk",
    "Hierarchy",
    "MultilabelRisk",
    "PairwiseRisk",
    "StructuredRisk",
    "align",
    "best_sets",
    "decode",
    "marginals",
]
