"""Data for examples and benchmarks: generators, reproducible by a seed, and readers of files."""

from cutplane.datasets.files import read_conll, read_multilabel_arff
from cutplane.datasets.generators import (
    newsgroups_like,
    planted_dense,
    planted_text,
    ringnorm,
    twonorm,
    waveform,
)

__all__ = [
    "newsgroups_like",
    "planted_dense",
    "planted_text",
    "read_conll",
    "read_multilabel_arff",
    "ringnorm",
    "twonorm",
    "waveform",
]
