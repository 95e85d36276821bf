"""Gangs that lose a member on a real cluster: the place is held, the replacement gets it, or the job starts anew as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.apps import App, gpus, on_hosts
from tests.real.joint import ServedJoint
from yarn_gpu_sched.protocol.v1 import reason_pb2

pytestmark = [pytest.mark.real, pytest.mark.both, pytest.mark.timeout(300)]
DEGRADED = reason_pb2.WAITING_REASON_CODE_GANG_DEGRADED


def degraded(joint: ServedJoint, folder: Path, **more: object) -> tuple[App, dict[str, tuple[str, tuple[int, ...]]]]:
    """Run a gang of 4 x 4 GPUs on all servers, and let one of its workers fail."""
    app = joint.apps.submit(tags=["gang:4x4"], **more).register()
    app.allocate(gpus(4, 4))
    app.hold(4)
    workers = joint.on_gpus(app.app_id, 4)
    victim = min(workers)
    app.launch(f"bash -c 'while [ ! -e {folder}/$CONTAINER_ID ]; do sleep 0.1; done; exit 3'")
    (folder / victim).touch()
    app.await_completed(1)
    return app, {victim: workers[victim]}


def test_a_failed_member_is_replaced_where_it_was(joint: ServedJoint, workers: Path) -> None:
    app, lost = degraded(joint, workers)
    ((where, _),) = lost.values()
    sentence = joint.await_state(app.app_id, DEGRADED)
    assert sentence.startswith("1 of 4 containers of the gang were lost; 4 GPUs are held")
    fresh = joint.apps.submit(tags=["gang:1x4"]).register()
    fresh.allocate(gpus(1, 4))
    app.allocate(gpus(1, 4))
    app.hold(5)  # counted from the start
    lost_here = lost.keys()
    now = joint.until(
        lambda: joint.placed_now(app.app_id),
        lambda now: len(now) == 4 and not lost_here & now.keys(),
        "the service tells of the replacement",
    )
    assert where in {server for server, _ in now.values()}
    assert joint.placed_now(fresh.app_id) == {}


def test_a_place_that_nobody_asks_for_is_given_to_others(joint: ServedJoint, workers: Path) -> None:
    app, _ = degraded(joint, workers)
    fresh = joint.apps.submit(tags=["gang:1x4"]).register()
    fresh.allocate(gpus(1, 4))
    fresh.hold(1)
    joint.placed(app.app_id, 3)


@pytest.mark.parametrize(("unmanaged", "attempts"), [(False, 2), (True, 1)])
def test_without_a_replacement_the_job_starts_anew_as_a_whole(
    joint: ServedJoint,
    workers: Path,
    unmanaged: bool,  # noqa: FBT001 # a column of the table
    attempts: int,
) -> None:
    app, _ = degraded(joint, workers, unmanaged=unmanaged, attempts=attempts)
    impossible = on_hosts(1, 4, {"nowhere": 1}, ["/rack-a"], priority=2)
    app.allocate(impossible)
    joint.on_gpus(app.app_id, 0)
    if unmanaged:
        app.allocate(on_hosts(0, 4, {"nowhere": 0}, ["/rack-a"], priority=2))
    else:
        app.register(attempt=2)
    app.allocate(gpus(4, 4))
    app.hold(8)  # counted from the start
    assert [len(indices) for _, indices in joint.on_gpus(app.app_id, 4).values()] == [4] * 4
    assert app.report()["state"] == "RUNNING"


def test_an_application_of_one_attempt_is_not_ended_for_a_lost_member(joint: ServedJoint, workers: Path) -> None:
    app, _ = degraded(joint, workers, unmanaged=False, attempts=1)
    app.allocate(on_hosts(1, 4, {"nowhere": 1}, ["/rack-a"], priority=2))
    refused = "DecisionsInvalid"
    before = joint.counters()[refused]
    joint.until(lambda: joint.counters()[refused], lambda now: now > before, "the order to start anew is refused")
    assert app.report()["state"] == "RUNNING"
    joint.on_gpus(app.app_id, 3)
