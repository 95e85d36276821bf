"""After its start a ResourceManager waits for what its servers still run; until then nothing is committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.apps import Apps
from tests.real.scripted import ScriptedService, Session
from yarn_gpu_sched.embedded import ClusterSpec, EmbeddedCluster
from yarn_gpu_sched.protocol.v1 import ask_pb2, decision_pb2, resource_pb2

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

WAIT_MS = 600_000  # longer than any test: it must not end before the decision comes


@pytest.fixture
def restarted(hadoop: str, classes: Path, tmp_path: Path) -> Iterator[tuple[Session, str]]:
    """Restart a ResourceManager that knows an application; yield the link's session with it, and the application."""
    with ScriptedService() as service:
        spec = ClusterSpec(
            hadoop=hadoop,
            servers=(),
            hdfs=False,
            service_address=service.address,
            settings={"yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms": str(WAIT_MS)},
        )
        with EmbeddedCluster(tmp_path / "cluster", spec) as cluster, Apps(cluster, classes, tmp_path / "apps") as apps:
            app = apps.submit().register()
            cluster.kill("rm")
            before = len(service.sessions)
            cluster.start("rm")
            yield service.session(after=before, wait_s=90), app.app_id


def test_a_decision_before_the_servers_may_have_reported_is_refused_as_not_ready(
    restarted: tuple[Session, str],
) -> None:
    session, app_id = restarted
    assert session.jobs[app_id].recovered
    seat = decision_pb2.Assignment(
        key=ask_pb2.RequestKey(priority=1),
        server_id="gpu-a1:45454",
        resource=resource_pb2.Resource(memory_mb=256, vcores=1),
    )
    outcome = session.outcome(session.place(app_id, 1, [seat]))
    assert outcome.code == decision_pb2.OUTCOME_CODE_NOT_READY, outcome
    assert "waits" in outcome.detail
    assert not outcome.container_ids
    assert len(session.outcomes) == 1
