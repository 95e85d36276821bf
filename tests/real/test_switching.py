"""From the shim to stock CapacityScheduler and back, by the steps of docs/operations.md, with containers running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from defusedxml import ElementTree

from tests.real import spells
from tests.real.apps import App, gpus, on_hosts
from tests.real.changes import LONG, Changes, changing, registered_again
from tests.real.joint import FULL, ServedJoint
from yarn_gpu_sched.embedded import STOCK_SCHEDULER

pytestmark = [pytest.mark.real, pytest.mark.both, pytest.mark.timeout(400), LONG]
SCHEDULER, ADMIN_ENV = "yarn.resourcemanager.scheduler.class", "yarn.nodemanager.admin-env"
BINDING = ("BASH_ENV", "YGS_BINDING_DIR", "YGS_SERVER_GPUS", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
USED = ("gpu-a1", "gpu-a2")
"""The servers that get containers while stock placement places: an operator does it on all."""


@pytest.fixture
def changes(joint: ServedJoint) -> Iterator[Changes]:
    """Let a test change the cluster; it is as it was afterwards."""
    with changing(joint) as them:
        yield them


def without_binding(joint: ServedJoint) -> str:
    """Return the NodeManagers' admin-env without what binds GPUs."""
    site = ElementTree.fromstring((joint.cluster.folder / "servers" / USED[0] / "conf" / "yarn-site.xml").read_text())
    (value,) = [one.findtext("value", "") for one in site.iter("property") if one.findtext("name") == ADMIN_ENV]
    return ",".join(one for one in value.split(",") if one.partition("=")[0] not in BINDING)


def to_stock(joint: ServedJoint, changes: Changes) -> None:
    """Do as docs/operations.md says under "Back to stock placement"."""
    changes.stop("service")
    joint.cluster.configure({ADMIN_ENV: without_binding(joint)})
    changes.restart_servers(*USED)
    joint.cluster.configure({SCHEDULER: STOCK_SCHEDULER})
    changes.odd.update({"rm", *USED})
    changes.restart("rm")
    joint.cluster.await_servers(wait_s=90)


def to_shim(joint: ServedJoint, changes: Changes) -> None:
    """Do as docs/operations.md says under "From stock placement"."""
    joint.cluster.configure({SCHEDULER: None})
    changes.restart("rm")
    joint.cluster.await_servers(wait_s=90)
    joint.cluster.configure({ADMIN_ENV: None})
    changes.restart_servers(*USED)
    changes.start("service")
    changes.odd.clear()
    joint.await_connected(90)


def await_gpus(joint: ServedJoint, gpus: int) -> None:
    """Wait until the ResourceManager counts so many GPUs as allocated."""
    joint.until(lambda: joint.held().gpus, lambda held: held == gpus, f"{gpus} GPUs are allocated")


def running(joint: ServedJoint, folder: Path, app: App, containers: int, *asks: dict[str, object]) -> None:
    """Let an application have its containers, and start their workers."""
    started = len(spells.read(folder))
    app.allocate(*asks)
    app.hold(containers)
    app.launch(joint.worker(folder, "stop"))
    joint.await_started(folder, started + containers)


def placed(joint: ServedJoint, *apps: App) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return where the containers of some jobs are, by the service."""
    return {name: where for app in apps for name, where in joint.placed_now(app.app_id).items()}


def gpus_of(placements: dict[str, tuple[str, tuple[int, ...]]]) -> list[tuple[str, int]]:
    """List all GPUs, each as often as it is held."""
    return sorted((server, index) for server, indices in placements.values() for index in indices)


def test_to_stock_placement_and_back_no_container_is_lost_and_no_gpu_is_counted_twice(
    joint: ServedJoint, workers: Path, changes: Changes
) -> None:
    ours = joint.apps.submit(tags=["gang:4x1"]).register()
    running(joint, workers, ours, 4, on_hosts(4, 1, {"gpu-a1": 2, "gpu-a2": 2}, ["/rack-a"]))
    before = joint.until(lambda: placed(joint, ours), lambda now: len(now) == 4, "the service tells of the gang")

    to_stock(joint, changes)
    await_gpus(joint, 4)
    registered_again(joint, ours)
    stock = joint.apps.submit(tags=["gang:2x2"]).register()
    running(joint, workers, stock, 2, on_hosts(2, 2, {"gpu-a1": 1, "gpu-a2": 1}, ["/rack-a"]))
    await_gpus(joint, 8)

    to_shim(joint, changes)
    await_gpus(joint, 8)
    registered_again(joint, ours)
    registered_again(joint, stock)
    joint.until(lambda: placed(joint, ours), lambda now: now == before, "the GPUs that were told are known again")
    taken = joint.until(lambda: placed(joint, ours, stock), lambda now: len(now) == 6, "the service tells of all six")
    assert len(set(gpus_of(taken))) == 8, "of the others nobody knows which they have; they count as in use"
    rest = joint.apps.submit(tags=["gang:8x1"]).register()
    rest.allocate(gpus(8, 1))
    rest.hold(8)
    joint.placed(rest.app_id, 8)
    assert len(set(gpus_of(placed(joint, ours, stock, rest)))) == 16
    fresh = joint.apps.submit(tags=["gang:1x2"]).register()
    fresh.allocate(gpus(1, 2))
    joint.await_state(fresh.app_id, FULL)

    changes.restart("service")
    joint.await_connected(90)
    joint.until(lambda: len(placed(joint, ours, stock, rest)), lambda now: now == 14, "the service tells of all")
    assert len(set(gpus_of(placed(joint, ours, stock, rest)))) == 16
    assert placed(joint, ours) == before
    assert all(spell.end_s == float("inf") for spell in spells.read(workers).values()), "no container was lost"
    (workers / "stop").touch()
    stock.await_completed(2)
    fresh.hold(1)
    ours.await_completed(4)
