"""Stock MapReduce finishes beside GPU gangs, whatever becomes of the service: its containers ask for no GPU."""

from __future__ import annotations

import pytest

from tests.real import beside
from tests.real.joint import ServedJoint

pytestmark = [pytest.mark.real, pytest.mark.both, pytest.mark.slow, pytest.mark.timeout(400)]


def pi(joint: ServedJoint) -> str:
    jar = joint.cluster.mapreduce_examples_jar
    done = joint.cluster.yarn("jar", jar, "pi", "2", "10", timeout_s=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_mapreduce_finishes_while_a_gang_runs_and_another_waits(joint: ServedJoint) -> None:
    with beside.gangs(joint):
        assert "Estimated value of Pi is 3." in pi(joint)


def test_mapreduce_finishes_while_a_gang_runs_another_waits_and_the_service_is_away(joint: ServedJoint) -> None:
    with beside.gangs(joint), beside.service_away(joint):
        assert "Estimated value of Pi is 3." in pi(joint)
