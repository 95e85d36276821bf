"""Servers go, come back, are lost, and change: capacity follows at once, and no GPU is given twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real import spells
from tests.real.apps import App, gpus, on_hosts
from tests.real.changes import BOTH_IN_SOAK, LONG, Changes, changing
from tests.real.joint import FULL, ServedJoint
from yarn_gpu_sched.protocol.v1 import reason_pb2, server_pb2

pytestmark = [pytest.mark.real, pytest.mark.timeout(300), *BOTH_IN_SOAK]
DEGRADED = reason_pb2.WAITING_REASON_CODE_GANG_DEGRADED
EXPIRY_MS = 6000


@pytest.fixture
def changes(joint: ServedJoint) -> Iterator[Changes]:
    """Let a test change the cluster; it is as it was afterwards."""
    with changing(joint) as them:
        yield them


def asking(
    joint: ServedJoint, containers: int, each: int, host: str = "", rack: str = "/rack-a", attempts: int = 1
) -> App:
    """Ask for a gang, anywhere or on one host alone."""
    app = joint.apps.submit(tags=[f"gang:{containers}x{each}"], attempts=attempts).register()
    app.allocate(on_hosts(containers, each, {host: containers}, [rack]) if host else gpus(containers, each))
    return app


def running(
    joint: ServedJoint, containers: int, each: int, host: str = "", rack: str = "/rack-a", attempts: int = 1
) -> App:
    """Place a gang."""
    app = asking(joint, containers, each, host, rack, attempts)
    app.hold(containers)
    return app


def seen(joint: ServedJoint, host: str) -> tuple[str, str, int, int]:
    """Return state, rack, GPUs and GPUs in use of a server, by the service; nothing of one that it does not know."""
    for one in joint.client.servers():
        if one.server.host == host:
            state = server_pb2.ServerState.Name(one.server.state).removeprefix("SERVER_STATE_")
            return state, one.server.rack, one.server.capacity.gpus, one.used.gpus
    return "", "", 0, 0


def await_seen(joint: ServedJoint, host: str, *expected: object) -> None:
    """Wait until the service says so of a server."""
    count = len(expected)
    joint.until(
        lambda: seen(joint, host)[:count], lambda now: now == expected, f"the service says {expected} of {host}", 90
    )


def hosts(joint: ServedJoint, app: App) -> list[str]:
    """Return the hosts on which a job has GPUs, by the service."""
    return sorted(server.partition(":")[0] for server, _ in joint.on_gpus_now(app.app_id).values())


def await_hosts(joint: ServedJoint, app: App, *expected: str) -> None:
    """Wait until a job has GPUs there and nowhere else: a master may hold a container before the service hears of it."""
    joint.until(lambda: hosts(joint, app), lambda now: now == [*expected], f"{app.app_id} has GPUs on {expected}")


def await_lost(app: App, ended: int) -> None:
    """Wait for the end of one more container, which makes so many, and see that it is by no fault of its own."""
    assert [one["exit"] for one in app.await_completed(ended)] == [-100]


# C13 speaks of classes of failure; they come with what sorts failures. Here such an end is told as YARN tells it: exit code -100.
@pytest.mark.both
def test_c13_nothing_new_goes_to_a_server_that_is_decommissioned_and_it_is_usable_at_once_afterwards(
    joint: ServedJoint, workers: Path, changes: Changes
) -> None:
    stays = running(joint, 2, 1, "gpu-a1")
    stays.launch(joint.worker(workers, "stop"))
    joint.await_started(workers, 2)
    for host in ("gpu-b1", "gpu-b2"):
        running(joint, 1, 4, host, "/rack-b")
    goes = running(joint, 1, 4, "gpu-a2")
    changes.exclude("gpu-a2", gracefully=False)  # in the second after that commit: its master has not started it
    assert [one["exit"] for one in goes.await_completed(1)] == [-100], "lost with its server, by no fault of its own"
    await_seen(joint, "gpu-a2", "")
    changes.exclude("gpu-a1", "gpu-a2")
    await_seen(joint, "gpu-a1", "DRAINING", "/rack-a", 4, 2)
    fresh = asking(joint, 2, 1)
    joint.await_state(fresh.app_id, reason_pb2.WAITING_REASON_CODE_UNHEALTHY)
    later = asking(joint, 1, 4, "gpu-a2")
    goes.allocate(on_hosts(1, 4, {"gpu-a2": 1}, ["/rack-a"]))
    assert fresh.allocate()["allocated"] == []

    changes.exclude()
    fresh.hold(2)
    await_hosts(joint, fresh, "gpu-a1", "gpu-a1")  # usable at once
    assert hosts(joint, stays) == ["gpu-a1", "gpu-a1"]
    changes.restart("gpu-a2")  # it ended, or is about to, when it was let go
    goes.hold(2)  # counted from the start
    await_hosts(joint, goes, "gpu-a2")
    assert later.allocate()["allocated"] == [], "what was lost with its server goes before fresh jobs"
    (workers / "stop").touch()
    stays.await_completed(2)


def recommission(changes: Changes, name: str) -> None:
    changes.await_ended(name)
    changes.exclude()
    changes.start(name)


def test_c13_a_gang_runs_on_a_draining_server_and_when_that_goes_is_repaired_elsewhere_or_starts_anew_as_a_whole(
    joint: ServedJoint, workers: Path, changes: Changes
) -> None:
    beside, _ = [running(joint, 1, 4, host, "/rack-b") for host in ("gpu-b1", "gpu-b2")]
    app = running(joint, 2, 3, attempts=2)
    app.launch(joint.worker(workers, "stop"))
    joint.await_started(workers, 2)
    changes.exclude("gpu-a2")
    await_seen(joint, "gpu-a2", "DRAINING", "/rack-a", 4, 3)
    placed = joint.placed(app.app_id, 2)
    assert hosts(joint, app) == ["gpu-a1", "gpu-a2"]
    fresh, later = asking(joint, 1, 1, "gpu-a2"), asking(joint, 2, 3)
    joint.await_state(fresh.app_id, reason_pb2.WAITING_REASON_CODE_CONFINED)
    joint.await_state(later.app_id, FULL)
    assert fresh.allocate()["allocated"] == [], "one of its GPUs is free, and nothing new goes there"
    assert joint.placed_now(app.app_id) == placed
    assert all(spell.end_s == float("inf") for spell in spells.read(workers).values()), "what ran there goes on"

    beside.kill()
    changes.exclude("gpu-a2", timeout_s=1)  # has passed
    await_lost(app, 1)
    sentence = joint.await_state(app.app_id, DEGRADED)
    assert sentence == "1 of 2 containers of the gang were lost; its master asks for no replacement", "no place is held"
    app.allocate(gpus(1, 3))
    app.hold(3)  # counted from the start
    await_hosts(joint, app, "gpu-a1", "gpu-b1")  # repaired elsewhere

    changes.exclude("gpu-a2", "gpu-b1")  # its container there has not been started: YARN does not wait for it
    await_lost(app, 2)
    app.allocate(gpus(1, 3))
    await_hosts(joint, app)  # the rest is freed, for it starts anew as a whole
    app.allocate(gpus(2, 3))
    recommission(changes, "gpu-a2")
    again = [str(one["container"]) for one in app.hold(5)]
    fresh.hold(1)
    await_hosts(joint, app, "gpu-a1", "gpu-a2")
    await_hosts(joint, fresh, "gpu-a2")  # usable at once
    assert later.allocate()["allocated"] == [], "it kept its place in the order"
    app.launch(joint.worker(workers, "stop"), again)
    joint.await_started(workers, 4)


def test_a_server_that_comes_back_with_fewer_gpus_shows_what_is_too_much_and_gets_nothing_new(
    joint: ServedJoint, workers: Path, changes: Changes
) -> None:
    app = running(joint, 3, 1, "gpu-a2")
    app.launch(joint.worker(workers, "stop"))
    joint.await_started(workers, 3)
    placed = joint.placed(app.app_id, 3)
    changes.odd.add("gpu-a2")
    joint.cluster.change_server("gpu-a2", gpus=2)
    changes.restart("gpu-a2")
    await_seen(joint, "gpu-a2", "RUNNING", "/rack-a", 2, 3)
    assert joint.client.cluster().capacity.gpus == 14
    assert joint.placed_now(app.app_id) == placed
    fresh = asking(joint, 1, 1, "gpu-a2")
    joint.await_state(fresh.app_id, reason_pb2.WAITING_REASON_CODE_CONFINED)
    assert fresh.allocate()["allocated"] == []
    joint.cluster.change_server("gpu-a2", gpus=6)
    changes.restart("gpu-a2")
    fresh.hold(1)
    more = running(joint, 1, 2, "gpu-a2")
    held = [joint.placed(one.app_id, containers) for one, containers in ((app, 3), (fresh, 1), (more, 1))]
    taken = [gpu for placed in held for gpu in placed.values()]
    assert sorted(index for _, indices in taken for index in indices) == [0, 1, 2, 3, 4, 5]
    assert all(spell.end_s == float("inf") for spell in spells.read(workers).values())
    (workers / "stop").touch()
    app.await_completed(3)


def a_gang_of_one_rack_takes(joint: ServedJoint, names: list[str]) -> None:
    app = joint.apps.submit(tags=[f"gang:{len(names)}x4", "locality:1"]).register()
    app.allocate(gpus(len(names), 4))
    app.hold(len(names))
    await_hosts(joint, app, *names)
    app.kill()
    joint.await_idle()


@LONG
def test_a_lost_server_leaves_its_gang_degraded_and_what_still_runs_there_keeps_its_gpus_when_it_is_back(
    joint: ServedJoint, workers: Path, changes: Changes
) -> None:
    changes.odd.add("rm")
    joint.cluster.configure({"yarn.nm.liveness-monitor.expiry-interval-ms": str(EXPIRY_MS)})
    joint.cluster.change_server("gpu-b2", rack="/rack-a")
    changes.restart("rm")
    changes.await_back()
    await_seen(joint, "gpu-b2", "RUNNING", "/rack-a", 4, 0)
    a_gang_of_one_rack_takes(joint, ["gpu-a1", "gpu-a2", "gpu-b2"])  # no rack had three servers before

    app = running(joint, 4, 2)
    app.launch(joint.worker(workers, "stop"))
    joint.await_started(workers, 4)
    before = joint.placed(app.app_id, 4)
    lost = hosts(joint, app)[0]
    on_lost = {name for name, (server, _) in before.items() if server.startswith(lost)}
    count = changes.registrations(lost)
    changes.stop(lost)
    ended = app.await_completed(2, timeout_s=60)
    assert {one["container"] for one in ended} == on_lost
    await_seen(joint, lost, "", "", 0, 0)
    assert joint.await_state(app.app_id, DEGRADED).startswith("2 of 4 containers of the gang were lost")
    app.allocate(gpus(2, 2))
    app.hold(6)
    assert lost not in joint.hosts(app.app_id, 4)

    fresh = asking(joint, 1, 4, lost)
    changes.start(lost)
    changes.await_registration(lost, count)
    fresh.hold(1)
    ended_s = [spells.read(workers)[name].end_s for name in sorted(on_lost)]
    assert all(end_s < float("inf") for end_s in ended_s), (
        "what still ran there kept its GPUs until its end was confirmed"
    )
    fresh.launch(joint.worker(workers, "stop"))
    joint.await_started(workers, 5)
    assert not spells.held_twice(spells.read(workers))
    (workers / "stop").touch()
    fresh.await_completed(1)
