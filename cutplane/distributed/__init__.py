"""Risks whose examples are on the workers of a Dask cluster."""

from cutplane.distributed.risk import DistributedRisk
from cutplane.distributed.sources import blocks, distribute

__all__ = ["DistributedRisk", "blocks", "distribute"]
