"""The shim refuses to start beside settings that would place behind the service's back, with one sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from yarn_gpu_sched.embedded import ClusterError, ClusterSpec, EmbeddedCluster

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

BAD = [
    ("yarn.resourcemanager.placement-constraints.handler", "placement-processor"),
    ("yarn.resourcemanager.opportunistic-container-allocation.enabled", "true"),
    ("yarn.resourcemanager.scheduler.monitor.enable", "true"),
    ("yarn.scheduler.capacity.lazy-preemption-enabled", "true"),
    ("yarn.scheduler.capacity.multi-node-placement-enabled", "true"),
    ("ygs.service-address", "192.0.2.1:7433"),
]
ASYNCHRONOUS = ("yarn.scheduler.capacity.schedule-asynchronously.enable", "true")
ENDS_S_MAX = 60
Ended = tuple[str, str]


def _start(folder: Path, hadoop: str, settings: Mapping[str, str]) -> Ended:
    """Start a ResourceManager; return why it did not come up, empty if it did, and its log."""
    cluster = EmbeddedCluster(folder, ClusterSpec(hadoop=hadoop, servers=(), hdfs=False, settings=settings))
    try:
        cluster.up(ready_s_max=ENDS_S_MAX)
        why = ""
    except ClusterError as error:
        why = str(error)
    log = cluster.logs()["rm"].read_text(errors="replace")
    cluster.down()
    return why, log


@pytest.fixture(scope="module")
def ended(hadoop: str, tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], Future[Ended]]:
    """Start a ResourceManager for each bad setting, two at a time."""
    with ThreadPoolExecutor(2) as threads:
        return {
            (key, value): threads.submit(_start, tmp_path_factory.mktemp("refused") / "rm", hadoop, {key: value})
            for key, value in BAD
        }


@pytest.mark.parametrize(("key", "value"), BAD)
def test_the_resource_manager_does_not_start(
    ended: Mapping[tuple[str, str], Future[Ended]], key: str, value: str
) -> None:
    refused(*ended[key, value].result(timeout=ENDS_S_MAX), key, value)


@pytest.mark.both
def test_asynchronous_placement_that_3_5_takes_for_the_default_is_refused_where_it_is_set(
    hadoop: str, tmp_path: Path
) -> None:
    refused(*_start(tmp_path / "rm", hadoop, dict([ASYNCHRONOUS])), *ASYNCHRONOUS)


def refused(why: str, log: str, key: str, value: str) -> None:
    assert re.match(r"rm ended with exit code [1-9]", why), why or "it came up"
    said = [line for line in log.splitlines() if "GangCapacityScheduler does not start" in line]
    assert said, log[-4000:]
    assert all(f'{key} is "{value}"' in line for line in said), said
