"""Risks whose examples live on the workers of a Dask cluster."""

from cutplane.distributed.blocks import blocks
from cutplane.distributed.distributing import distribute
from cutplane.distributed.risk import DistributedRisk

__all__ = ["DistributedRisk", "blocks", "distribute"]
