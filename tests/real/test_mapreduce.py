"""Stock MapReduce finishes beside GPU gangs, whatever becomes of the service: its containers ask for no GPU."""

from __future__ import annotations

import pytest

from tests.real.apps import gpus
from tests.real.joint import ServedJoint
from yarn_gpu_sched.protocol.v1 import reason_pb2

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(400)]


def pi(joint: ServedJoint) -> str:
    jar = joint.cluster.mapreduce_examples_jar
    done = joint.cluster.yarn("jar", jar, "pi", "2", "10", timeout_s=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_mapreduce_finishes_while_a_gang_runs_another_waits_and_the_service_is_away(joint: ServedJoint) -> None:
    running, waiting = (joint.apps.submit(tags=["gang:3x4"]).register() for _ in range(2))
    running.allocate(gpus(3, 4))
    running.hold(3)
    waiting.allocate(gpus(3, 4))
    joint.await_state(waiting.app_id, reason_pb2.WAITING_REASON_CODE_CLUSTER_FULL)
    joint.cluster.kill("service")
    try:
        joint.until(lambda: joint.counters()["Connected"], lambda up: up == 0, "the shim has noticed")
        assert "Estimated value of Pi is 3." in pi(joint)
    finally:
        joint.cluster.start("service")
    joint.await_connected()
    running.finish()
    waiting.hold(3)
