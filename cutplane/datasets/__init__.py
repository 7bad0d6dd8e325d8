"""Data to try and to measure with: generators, reproducible by a seed, and readers of files."""

from cutplane.datasets.breiman import ringnorm, twonorm, waveform
from cutplane.datasets.files import read_conll, read_multilabel_arff
from cutplane.datasets.planted import planted_dense
from cutplane.datasets.text import newsgroups_like, planted_text

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
