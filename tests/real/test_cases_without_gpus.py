"""C26: a cluster that does not know the resource type yarn.io/gpu runs jobs that ask for no GPU, and the service knows them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.real.apps import Apps, plain
from tests.real.joint import ServedJoint, serve
from yarn_gpu_sched.embedded import ClusterSpec, EmbeddedCluster, free_port, shim_jar
from yarn_gpu_sched.protocol.v1 import job_pb2

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(400)]


def test_c26_a_cluster_without_the_resource_type_runs_jobs_that_ask_no_gpu(
    hadoop: str, classes: Path, tmp_path: Path
) -> None:
    address = f"127.0.0.1:{free_port()}"
    spec = ClusterSpec(
        hadoop=hadoop,
        servers=(),
        racks=1,
        cpu_servers=1,
        hdfs=False,
        service_address=address,
        extra_classpath=(Path(shutil.copy(shim_jar(), tmp_path)),),
        settings={"yarn.resource-types": "", "ygs.settle-s": "1"},
    )
    with EmbeddedCluster(tmp_path / "cluster", spec) as cluster, Apps(cluster, classes, tmp_path / "apps") as apps:
        joint = ServedJoint(cluster, apps, tmp_path, address=address)
        serve(cluster, YGS_LISTEN=address)
        joint.await_connected()
        run = apps.begin("run", tags=["gang:2"], asks=[plain(2)], command="true", am_command=apps.am_command)
        app_id = apps.answer(run, "a job without GPUs", 120)["app"]
        ended = lambda: joint.view(app_id).end  # noqa: E731 - one line, used once
        joint.until(ended, lambda end: end == job_pb2.JOB_END_SUCCEEDED, "the service knows that it succeeded")
        assert joint.client.cluster().capacity.gpus == 0
        types = cluster.rm_rest("/ws/v1/cluster/metrics")["clusterMetrics"]["totalClusterResourcesAcrossPartition"]
        names = {one["name"] for one in types["resourceInformations"]["resourceInformation"]}
        assert names == {"memory-mb", "vcores"}, "the cluster knows GPUs after all"
        joint.client.close()
