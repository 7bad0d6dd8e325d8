"""Clusters of one thread for each worker."""

from contextlib import contextmanager, suppress

import pytest


@contextmanager
def cluster_of(n_workers, **options):
    distributed = pytest.importorskip("distributed")
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0} | options
    if options.get("processes", True):
        options["env"] = {"CUTPLANE_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with (
        suppress(KeyError),  # of a LocalCluster that is closed after a worker was killed
        distributed.LocalCluster(n_workers=n_workers, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield cluster, client
