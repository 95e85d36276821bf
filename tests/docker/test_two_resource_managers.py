"""The same cluster with two ResourceManagers: one is killed, and the other goes on with all that runs."""

from __future__ import annotations

import subprocess

import pytest

from tests.docker.compose import ROOT, Compose

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
KEPT = "/user/submitter/kept"
BOTH = ("resourcemanager", "resourcemanager2")


@pytest.fixture(scope="module")
def two(compose: Compose) -> Compose:
    """Return the cluster after it was taken down and brought up with two ResourceManagers."""
    compose.inside("client", "hdfs", "dfs", "-put", "-f", "-", KEPT, given="before\n")
    compose.command("down")
    compose.up("--ha")
    return compose


def active(cluster: Compose) -> str:
    """Return which of both is the one that schedules; nothing while neither does."""
    for name in BOTH:
        command = [
            "docker",
            "exec",
            cluster.container(name),
            "curl",
            "-fsS",
            "http://localhost:8088/ws/v1/cluster/info",
        ]
        found = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, cwd=ROOT).stdout
        if '"haState":"ACTIVE"' in found:
            return name
    return ""


def test_what_was_stored_is_there_after_down_and_up(two: Compose) -> None:
    assert two.inside("client", "hdfs", "dfs", "-cat", KEPT) == "before\n"


def test_a_gang_outlives_the_resource_manager_that_placed_it(two: Compose) -> None:
    job = two.hold("2x4", "research")
    two.await_gpus(job, 8)
    before = two.containers(job)
    first = two.until(lambda: active(two), bool, "one of both is active")
    two.kill(first)
    second = two.until(lambda: active(two), lambda name: name not in ("", first), "the other is active")
    two.await_serving()
    two.await_gpus(job, 8)
    assert two.containers(job) == before
    later = two.hold("1x4", "research")
    two.await_gpus(later, 4)
    two.end(job, second)
    two.end(later, second)
    two.start(first)
    two.await_serving()
