"""Many applications with masters of their own on few GPUs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real.apps import gpus, plain
from tests.real.joint import ServedJoint
from yarn_gpu_sched.protocol.v1 import job_pb2

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

APPLICATIONS = 40
AM_SHARE = 0.10
SAMPLE_S = 0.2


class _Masters(threading.Thread):
    """Samples, through the service, what masters hold together on servers with GPUs."""

    def __init__(self, joint: ServedJoint) -> None:
        super().__init__(daemon=True)
        self._joint = joint
        self._over = threading.Event()
        self.most = (0, 0, 0)
        self.samples = 0

    def run(self) -> None:
        while not self._over.wait(SAMPLE_S):
            jobs = [view.job.job_id for view in self._joint.client.jobs() if view.used.memory_mb]
            containers = [c for job in jobs for c in self._joint.view(job).containers]
            held = [c for c in containers if c.application_master and c.server_id.startswith("gpu-")]
            now = (len(held), sum(c.resource.memory_mb for c in held), sum(c.resource.vcores for c in held))
            self.most = max(self.most, now)
            self.samples += 1

    def stop(self) -> None:
        self._over.set()
        self.join(timeout=30)


@contextmanager
def _sampled_masters(joint: ServedJoint) -> Iterator[_Masters]:
    masters = _Masters(joint)
    masters.start()
    try:
        yield masters
    finally:
        masters.stop()


def _fill_the_server_without_gpus(joint: ServedJoint) -> None:
    """Else masters go there, by stock placement, and none is left to be limited. The service is quicker: it is stopped."""
    filler = joint.apps.submit(name="filler").register()
    joint.cluster.kill("service", signal.SIGSTOP)
    try:
        filler.allocate(plain(1, memory_mb=joint.cluster.spec.memory_mb))
        filler.hold(1)
    finally:
        joint.cluster.kill("service", signal.SIGCONT)
    assert joint.node("cpu-1")["numContainers"] == 1
    joint.await_connected()


def test_forty_applications_on_sixteen_gpus_never_stall(joint: ServedJoint, workers: Path) -> None:
    _fill_the_server_without_gpus(joint)
    with _sampled_masters(joint) as masters:
        names = _run_all(joint, workers)
    joint.until(
        lambda: {view.job.job_id for view in joint.client.jobs() if view.end == job_pb2.JOB_END_SUCCEEDED},
        lambda succeeded: names <= succeeded,
        "the service counts all of them as succeeded",
    )
    _check_masters(joint, masters)


def _run_all(joint: ServedJoint, workers: Path) -> set[str]:
    """Run the applications, all at once; return their ids when all have ended as they should."""
    command = joint.worker(workers, "0.2")
    runs = [
        joint.apps.begin(
            "run",
            name=f"app-{number}",
            tags=["gang:2x4" if number % 2 else "gang:4x1"],
            asks=[gpus(2, 4) if number % 2 else gpus(4, 1)],
            command=command,
            am_command=joint.apps.am_command,
            timeout_s=200,
        )
        for number in range(APPLICATIONS)
    ]
    ended = [joint.apps.answer(run, "one of forty applications", 220) for run in runs]
    assert all(worker["exit"] == 0 for run in ended for worker in run["completed"]), ended
    return {run["app"] for run in ended}


def _check_masters(joint: ServedJoint, masters: _Masters) -> None:
    servers = [view.server.capacity for view in joint.client.servers() if view.server.capacity.gpus]
    count, memory_mb, vcores = masters.most
    assert count >= 2, f"{masters.samples} samples saw at most {count} masters: the cap was never near"
    assert memory_mb <= AM_SHARE * sum(capacity.memory_mb for capacity in servers)
    assert vcores <= AM_SHARE * sum(capacity.vcores for capacity in servers)
