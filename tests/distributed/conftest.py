"""A cluster of two workers for each test module, whose functions are pickled by value."""

import pytest
from clusters import cluster_of


@pytest.fixture(scope="module")
def cluster(request):
    pytest.importorskip("cloudpickle").register_pickle_by_value(request.module)
    with cluster_of(2, processes=getattr(request.module, "PROCESSES", True)) as (cluster, client):
        yield cluster, client


@pytest.fixture(scope="module")
def client(cluster):
    return cluster[1]
