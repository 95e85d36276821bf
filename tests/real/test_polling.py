"""A master that polls every millisecond sees each gang whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import generator
from tests.real.joint import processes_of, serve
from yarn_gpu_sched.embedded import ClusterSpec, EmbeddedCluster, free_port, shim_jar

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

GANGS, GANG, POLL_US = 500, 8, 1000
SERVERS, SERVER_GPUS = 128, 8  # what a gang held is free after two heartbeats: enough for those of that time


@pytest.fixture
def cluster(hadoop: str, tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """Boot a ResourceManager without servers of its own, and the service."""
    address = f"127.0.0.1:{free_port()}"
    spec = ClusterSpec(hadoop=hadoop, servers=(), hdfs=False, service_address=address, extra_classpath=(shim_jar(),))
    with EmbeddedCluster(tmp_path / "cluster", spec) as cluster:
        serve(cluster, YGS_LISTEN=address)
        yield cluster
    assert not processes_of(tmp_path)


def test_no_poll_ever_sees_a_part_of_a_gang(cluster: EmbeddedCluster) -> None:
    done = generator.run(
        cluster.folder / "conf",
        "watch",
        timeout_s=360,
        servers=SERVERS,
        server_gpus=SERVER_GPUS,
        gangs=GANGS,
        gang=GANG,
        poll_us=POLL_US,
        gap_ms=0,
    )
    seen = f"exit code {done.exit_code}: {done.events}\n{done.complaints[-4000:]}\nlogs: {cluster.logs()}"
    assert done.exit_code == generator.HELD, seen
    assert done.event("watch")["gangs"] == GANGS, seen
    assert done.event("watch")["partial_views"] == 0, seen
