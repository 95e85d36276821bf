"""kill -9, while gangs run and while one waits."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real import spells
from tests.real.apps import App, gpus
from tests.real.joint import FULL, ServedJoint

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


@pytest.fixture
def service_back(joint: ServedJoint) -> Iterator[None]:
    """Whatever the test did to the service: let it run when the test is over."""
    yield
    daemons = {daemon.name: daemon for daemon in joint.cluster.status().daemons}
    if not daemons["service"].running:
        joint.cluster.start("service")
    joint.await_connected()


def _gang(joint: ServedJoint, containers: int, each: int) -> App:
    app = joint.apps.submit(tags=[f"gang:{containers}x{each}"]).register()
    app.allocate(gpus(containers, each))
    return app


def _pending(joint: ServedJoint) -> int:
    metrics = joint.cluster.rm_rest("/ws/v1/cluster/metrics")["clusterMetrics"]
    return int(metrics["containersPending"])


@pytest.mark.usefixtures("service_back")
def test_service_killed_running_gangs_go_on_and_nothing_is_placed_until_it_is_back(
    joint: ServedJoint, workers: Path
) -> None:
    running = _gang(joint, 4, 2)
    running.hold(4)
    running.launch(joint.worker(workers, "stop"))
    joint.await_started(workers, 4)
    waiting = _gang(joint, 6, 2)
    joint.await_state(waiting.app_id, FULL)
    placed = joint.placed(running.app_id, 4)
    held = joint.held()

    joint.cluster.kill("service")
    joint.until(lambda: joint.counters()["Connected"], lambda up: up == 0, "the shim has noticed")
    small = _gang(joint, 1, 1)
    joint.until(lambda: _pending(joint), lambda pending: pending == 7, "the RM has the new ask")
    for _ in range(10):
        assert small.allocate()["allocated"] == []
    assert joint.held() == held

    joint.cluster.start("service")
    joint.await_connected()
    assert joint.placed_now(running.app_id) == placed
    small.hold(1)
    assert joint.placed_now(waiting.app_id) == {}
    assert all(spell.end_s == float("inf") for spell in spells.read(workers).values())
    (workers / "stop").touch()
    running.await_completed(4)
    waiting.hold(6)


@pytest.mark.usefixtures("service_back")
def test_a_service_that_is_silent_is_given_up_after_three_seconds_and_taken_back(joint: ServedJoint) -> None:
    sessions = joint.counters()["Sessions"]
    joint.cluster.kill("service", signal.SIGSTOP)
    try:
        joint.until(lambda: joint.counters()["Connected"], lambda up: up == 0, "the shim has noticed", 15)
    finally:
        joint.cluster.kill("service", signal.SIGCONT)
    joint.until(lambda: joint.counters()["Connected"], lambda up: up == 1, "the service is connected again", 30)
    assert joint.counters()["Sessions"] > sessions
    _gang(joint, 2, 2).hold(2)


def test_resource_manager_killed_a_running_gang_keeps_its_gpus(joint: ServedJoint, workers: Path) -> None:
    run = joint.distributed_shell(
        workers,
        "stop",
        *("-appname", "kept", "-num_containers", "4", "-application_tags", "gang:4x2"),
        *("-container_resources", "memory-mb=256,vcores=1,yarn.io/gpu=2"),
    )
    joint.await_started(workers, 4, 120)
    job = next(view.job.job_id for view in joint.client.jobs() if view.job.name == "kept")
    before = joint.placed(job, 5)  # with its master
    epoch = joint.client.cluster().epoch

    joint.cluster.kill("rm")
    joint.until(lambda: joint.client.cluster().connected, lambda up: not up, "the service has noticed")
    joint.cluster.start("rm")
    joint.cluster.await_servers(wait_s=90)
    joint.await_connected()
    assert joint.client.cluster().epoch > epoch
    joint.until(lambda: joint.placed_now(job), lambda now: now == before, f"the GPUs are those of before, {before}")
    assert all(spell.end_s == float("inf") for spell in spells.read(workers).values())

    other = _gang(joint, 4, 2)
    other.hold(4)
    taken = {(server, index) for server, indices in before.values() for index in indices}
    given = {(server, index) for server, indices in joint.placed(other.app_id, 4).values() for index in indices}
    assert not taken & given
    assert len(given) == 8
    (workers / "stop").touch()
    joint.until(lambda: run.exit_code, lambda code: code is not None, "the stock client has ended", 90)
    assert run.exit_code == 0, run.output


@pytest.mark.both
def test_a_master_whose_process_dies_gets_its_gang_whole_in_its_next_attempt(joint: ServedJoint, workers: Path) -> None:
    app = joint.apps.submit(tags=["gang:4x2"], unmanaged=False, attempts=2).register()
    app.allocate(gpus(4, 2))
    app.hold(4)
    app.launch(joint.worker(workers, "stop"))
    before = joint.await_started(workers, 4)
    exit_code_of_the_master(joint, app).write_text("1\n")
    app.register(attempt=2)
    app.allocate(gpus(4, 2))
    new = [str(one["container"]) for one in app.hold(8)]  # counted from the start, over all attempts
    placed = joint.on_gpus(app.app_id, 4)
    assert set(placed) == set(new)
    assert not set(new) & set(before)
    assert len({(server, index) for server, indices in placed.values() for index in indices}) == 8
    app.launch(joint.worker(workers, "stop"), new)
    joint.await_started(workers, 8)
    joint.until(lambda: joint.held().gpus, lambda held: held == 8, "what the dead master had is given back")


def exit_code_of_the_master(joint: ServedJoint, app: App) -> Path:
    """Return where the process of the first attempt's master, see am.sh, waits to be told how to end."""
    (fifo,) = joint.apps.exchange.glob(f"container_*{app.app_id.removeprefix('application_')}_01_*.fifo")
    return fifo
