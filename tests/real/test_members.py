"""Gangs over several request keys: what a real master gets of each, its members without GPUs among them, and when."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.real.apps import Answer, App, gpus, on_hosts, plain
from tests.real.joint import FULL, ServedJoint
from yarn_gpu_sched.protocol.v1 import container_pb2, reason_pb2

pytestmark = [pytest.mark.real, pytest.mark.both, pytest.mark.timeout(300)]
CPU_HOST, ALL_MB = "cpu-1", 8192
Size = tuple[int, int, int]


def registered(joint: ServedJoint, *tags: str, **more: object) -> App:
    return joint.apps.submit(tags=list(tags), **more).register()


def sizes(reply: Sequence[Answer]) -> list[Size]:
    """Return priority, key and GPUs of each container of a reply."""
    return sorted((one["priority"], one["key"], one["gpus"]) for one in reply)


def await_told(joint: ServedJoint, app: App, containers: int) -> list[container_pb2.Container]:
    """Wait until the service knows of so many containers, and return them."""
    known = lambda: list(joint.view(app.app_id).containers)  # noqa: E731 - one line, used once
    return joint.until(known, lambda now: len(now) == containers, f"the service knows of {containers} containers")


@pytest.fixture
def no_room_without_gpus(joint: ServedJoint) -> None:
    """Let nothing without GPUs be placed by the resource manager itself."""
    filler = registered(joint)
    filler.allocate(on_hosts(1, 0, {CPU_HOST: 1}, ["/rack-a"], memory_mb=ALL_MB))
    filler.hold(1)


@pytest.mark.usefixtures("no_room_without_gpus")
@pytest.mark.parametrize(
    ("workers", "helper"), [((3, 7), (5, 1)), ((1, 1), (1, 2))], ids=["two priorities", "two ids at one priority"]
)
def test_a_gang_of_two_request_keys_comes_in_one_reply(
    joint: ServedJoint, workers: tuple[int, int], helper: tuple[int, int]
) -> None:
    app = registered(joint, "gang:2x2+1")
    app.allocate(gpus(2, 2, priority=workers[0], key=workers[1]))
    waiting = joint.await_state(app.app_id, reason_pb2.WAITING_REASON_CODE_GANG_INCOMPLETE)
    assert "gang:2x2+1" in waiting
    assert joint.placed_now(app.app_id) == {}
    app.allocate(plain(1, priority=helper[0], key=helper[1]))
    assert [sizes(reply) for reply in app.replies(3)] == [[(*workers, 2), (*workers, 2), (*helper, 0)]]
    told = await_told(joint, app, 3)
    keys = sorted((one.key.priority, one.key.allocation_request_id, one.resource.gpus) for one in told)
    assert keys == [(*workers, 2), (*workers, 2), (*helper, 0)]


def test_a_member_without_gpus_is_had_at_once_where_yarn_places_it_and_the_others_together(joint: ServedJoint) -> None:
    holder = registered(joint, "gang:4x4")
    holder.allocate(gpus(4, 4))
    holder.hold(4)
    app = registered(joint, "gang:2x4+1")
    app.allocate(gpus(2, 4, key=1), plain(1, key=2))
    ((helper,),) = app.replies(1)
    assert (sizes([helper]), helper["server"].split(":")[0]) == ([(1, 2, 0)], CPU_HOST)
    joint.await_state(app.app_id, FULL)
    assert app.allocate()["allocated"] == []
    assert [one.container_id for one in await_told(joint, app, 1)] == [helper["container"]]
    holder.finish()
    assert [sizes(reply) for reply in app.replies(2)] == [[(1, 1, 4), (1, 1, 4)]]
    assert app.allocate()["allocated"] == []
    await_told(joint, app, 3)


def test_a_gang_whose_keys_name_two_partitions_is_ended_and_told_so(joint: ServedJoint) -> None:
    done = joint.yarn("rmadmin", "-addToClusterNodeLabels", "lent(exclusive=false)")
    assert done.returncode == 0, done.stdout
    app = registered(joint, "gang:1x4+1")
    app.allocate(gpus(1, 4, key=1, label="lent"), plain(1, key=2))
    ended = joint.until(lambda: joint.app(app.app_id), lambda now: now["state"] == "KILLED", "it is refused")
    assert 'tag "gang:1x4+1": the asks name partitions "lent" and ""; a gang has one' in ended["diagnostics"]


def test_workers_that_a_registered_master_asks_at_priority_0_are_its_gang(joint: ServedJoint) -> None:
    app = registered(joint, "gang:2x4", unmanaged=False)
    app.allocate(gpus(1, 4, priority=0, key=1))
    joint.await_state(app.app_id, reason_pb2.WAITING_REASON_CODE_GANG_INCOMPLETE)
    app.allocate(gpus(2, 4, priority=0, key=1))
    assert [sizes(reply) for reply in app.replies(2)] == [[(0, 1, 4), (0, 1, 4)]]
    masters = sorted((one.resource.gpus, one.application_master) for one in await_told(joint, app, 3))
    assert masters == [(0, True), (4, False), (4, False)]
