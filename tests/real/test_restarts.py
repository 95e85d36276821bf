"""The ResourceManager and NodeManagers are restarted: what masters ask again, what is placed when, and what stays."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real import spells
from tests.real.apps import App, AppError, gpus
from tests.real.changes import BOTH_IN_SOAK, Changes, changing, registered_again
from tests.real.joint import ServedJoint
from yarn_gpu_sched.protocol.v1 import reason_pb2

pytestmark = [pytest.mark.real, pytest.mark.timeout(300), *BOTH_IN_SOAK]
GPU_SERVERS = ("gpu-a1", "gpu-a2", "gpu-b1", "gpu-b2")
WINDOW_MS = 15_000
EARLY_MS = 5_000
"""So long before the window's end the service must have tried; a slow machine may ask later than that, or not in it at all."""
EXPIRY, EXPIRY_MS = "yarn.nm.liveness-monitor.expiry-interval-ms", 8000


@pytest.fixture
def changes(joint: ServedJoint) -> Iterator[Changes]:
    """Let a test change the cluster; it is as it was afterwards."""
    with changing(joint) as them:
        yield them


def gang(joint: ServedJoint, containers: int, each: int, *tags: str) -> App:
    """Ask for a gang."""
    app = joint.apps.submit(tags=[f"gang:{containers}x{each}", *tags]).register()
    app.allocate(gpus(containers, each))
    return app


def hosts_of(joint: ServedJoint, app: App, containers: int) -> dict[str, str]:
    """Wait until a gang has so many containers by the service, and return the host of each."""
    return {name: server.partition(":")[0] for name, (server, _) in joint.on_gpus(app.app_id, containers).items()}


def started_ms(joint: ServedJoint) -> int:
    """Return when the ResourceManager was started."""
    return int(joint.cluster.rm_rest("/ws/v1/cluster/info")["clusterInfo"]["startedOn"])


@pytest.mark.both
def test_c12_of_asks_that_are_repeated_only_what_was_lost_is_placed_and_not_before_servers_have_reported(
    joint: ServedJoint, workers: Path, changes: Changes
) -> None:
    app = gang(joint, 4, 2)
    pulled = [str(one["container"]) for one in app.hold(4)]
    hosts = hosts_of(joint, app, 4)
    launched = [next(name for name in pulled if hosts[name] == host) for host in sorted(set(hosts.values()))]
    assert len(launched) == 2, f"two servers hold a gang of 4 x 2: {hosts}"
    app.launch(joint.worker(workers, "stop"), launched)
    joint.await_started(workers, 2)

    joint.cluster.configure({"yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms": str(WINDOW_MS)})
    changes.restart("rm")
    registered_again(joint, app)
    joint.await_connected(90)
    app.allocate(gpus(4, 2))
    early = time.time() * 1000 < started_ms(joint) + WINDOW_MS - EARLY_MS
    new = [str(one["container"]) for one in app.hold(6)]  # counted from the start
    assert time.time() * 1000 >= started_ms(joint) + WINDOW_MS
    if early:
        tried = lambda: joint.counters()["DecisionsNotReady"]  # noqa: E731 - one line, used once
        joint.until(tried, lambda count: count > 0, "it was decided before that, and refused")
    now = hosts_of(joint, app, 4)
    assert set(now) == {*launched, *new}
    assert set(now.values()) == set(hosts.values()), "the new ones are near the old"
    for _ in range(10):
        assert app.allocate()["allocated"] == []
    assert joint.held().gpus == 8
    assert all(spell.end_s == float("inf") for spell in spells.read(workers).values())

    app.allocate(gpus(0, 2))
    (workers / "stop").touch()
    app.await_completed(2)
    app.allocate(gpus(1, 2))
    app.hold(7)
    hosts_of(joint, app, 3)


def test_c05_an_ask_before_any_server_has_registered_waits_and_runs_in_the_same_attempt(
    joint: ServedJoint, changes: Changes
) -> None:
    """On the way, since that needs a resource manager of its own as well: a rack that has changed, and a server that is lost."""
    joint.cluster.configure({"ygs.settle-s": "300", EXPIRY: str(EXPIRY_MS)})
    joint.cluster.change_server("gpu-b1", rack="/rack-a")
    changes.odd.add("rm")
    changes.stop("service", "rm", "cpu-1", *GPU_SERVERS)
    changes.start("service", "rm")
    joint.await_connected(90)
    app = gang(joint, 2, 4, "locality:1")
    sentence = joint.await_state(app.app_id, reason_pb2.WAITING_REASON_CODE_NOT_ASKED)
    assert sentence.startswith("no server has registered with the resource manager yet")
    changes.start("cpu-1")
    late = joint.apps.submit(tags=["gang:2x4"]).register()
    said = joint.until(lambda: refused(late), bool, "whoever asks for GPUs while only cpu-1 has registered is refused")
    assert "InvalidResourceRequestException" in said
    changes.start("gpu-a1", "gpu-b1")
    app.hold(2)  # in one rack, which the two did not share before
    assert app.report()["attempt"].endswith("_000001")
    a_server_of_it_is_lost(joint, changes, app)


def a_server_of_it_is_lost(joint: ServedJoint, changes: Changes, app: App) -> None:
    count = changes.registrations("gpu-a2")
    changes.start("gpu-a2")
    changes.await_registration("gpu-a2", count)
    changes.stop("gpu-b1")
    assert [one["exit"] for one in app.await_completed(1)] == [-100]
    sentence = joint.await_state(app.app_id, reason_pb2.WAITING_REASON_CODE_GANG_DEGRADED)
    assert sentence.startswith("1 of 2 containers of the gang were lost")
    app.allocate(gpus(1, 4))
    app.hold(3)  # counted from the start
    now = hosts_of(joint, app, 2)
    assert set(now.values()) == {"gpu-a1", "gpu-a2"}


def refused(app: App) -> str:
    """Ask for a gang; return what the resource manager says against it, if it does."""
    try:
        app.allocate(gpus(2, 4))
    except AppError as refusal:
        return str(refusal)
    return ""


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_a_node_manager_that_restarts_keeps_its_containers_and_their_gpus(
    joint: ServedJoint, workers: Path, changes: Changes, by: signal.Signals
) -> None:
    app = gang(joint, 4, 3)
    app.hold(4)
    app.launch(joint.worker(workers, "stop"))
    joint.await_started(workers, 4)
    before = joint.placed(app.app_id, 4)
    changes.restart_servers("gpu-a1", by=by)
    other = gang(joint, 4, 1)
    other.hold(4)
    taken = [*before.values(), *joint.placed(other.app_id, 4).values()]
    assert len({(server, index) for server, indices in taken for index in indices}) == 16
    assert joint.placed_now(app.app_id) == before
    assert all(spell.end_s == float("inf") for spell in spells.read(workers).values())
    (workers / "stop").touch()
    app.await_completed(4)
