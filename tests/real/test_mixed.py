"""What asks for no GPU on servers with GPUs: helpers and masters never fill the memory that free GPUs will need."""

from __future__ import annotations

import pytest

from tests.real import beside
from tests.real.apps import App, gpus, on_hosts, plain
from tests.real.joint import FULL, ServedJoint
from yarn_gpu_sched.protocol.v1 import reason_pb2

pytestmark = [pytest.mark.real, pytest.mark.both, pytest.mark.timeout(300)]

# A server has 8,192 MB. Nine tenths of a GPU server's are its GPUs' shares, 1,843 MB each; what is left holds one helper.
HELPER_MB, SHARE_MB = 768, 1792
HELPERS = 10 + 4  # on the server without GPUs, and on those with
# Likewise 24 vcores, of which nine tenths are 5.4 a GPU.
HELPER_VCORES, SHARE_VCORES = 3, 5
HELPERS_BY_VCORES = 8 + 4
# A tenth of the GPU servers' memory, 3,276 MB, is for masters.
MASTER_MB, MASTERS = 512, 6


def held(joint: ServedJoint, app: App) -> int:
    return int(joint.app(app.app_id)["runningContainers"])


def await_held(joint: ServedJoint, app: App, containers: int) -> None:
    joint.until(lambda: held(joint, app), lambda now: now == containers, f"{app.app_id} holds {containers}")


@pytest.mark.parametrize(
    ("helper", "on_first", "asked", "worker"),
    [
        (plain(40, HELPER_MB), HELPERS, 40, gpus(16, memory_mb=SHARE_MB)),
        (plain(20, vcores=HELPER_VCORES), HELPERS_BY_VCORES, 20, gpus(16, vcores=SHARE_VCORES)),
    ],
    ids=["memory", "vcores"],
)
def test_helpers_leave_each_free_gpu_its_share(
    joint: ServedJoint, helper: dict[str, object], on_first: int, asked: int, worker: dict[str, object]
) -> None:
    """C28: helpers fill servers with GPUs, and a worker hangs for ever."""
    helpers = joint.apps.submit().register()
    helpers.allocate(helper)
    await_held(joint, helpers, on_first)
    gang = joint.apps.submit(tags=["gang:16x1"]).register()
    gang.allocate(worker)
    gang.hold(16)
    assert held(joint, helpers) == on_first
    gang.finish()
    small = joint.apps.submit(tags=["gang:16x1"]).register()
    small.allocate(gpus(16))
    small.hold(16)
    await_held(joint, helpers, asked)  # GPUs that are in use need no share


@pytest.fixture
def room_for_masters_alone(joint: ServedJoint) -> None:
    """Let all GPUs be in use, and nothing be left on the server without GPUs, where YARN alone places masters."""
    filler = joint.apps.submit().register()
    filler.allocate(on_hosts(16, 0, {"cpu-1": 16}, ["/rack-a"], memory_mb=512))
    filler.hold(16)
    gang = joint.apps.submit(tags=["gang:16x1"]).register()
    gang.allocate(gpus(16))
    gang.hold(16)


@pytest.mark.usefixtures("room_for_masters_alone")
def test_masters_wait_at_their_limit_and_go_in_order(joint: ServedJoint) -> None:
    masters = [joint.apps.submit(unmanaged=False, am={"memory_mb": MASTER_MB}) for _ in range(MASTERS)]
    for app in masters:
        app.register()
    priorities = (0, 5, 0)
    first, urgent, second = (
        joint.apps.submit(unmanaged=False, am={"memory_mb": MASTER_MB}, priority=one) for one in priorities
    )
    for app in (first, urgent, second):
        sentence = joint.await_state(app.app_id, reason_pb2.WAITING_REASON_CODE_AM_LIMIT)
        assert "6 masters of queue root.default hold 3072 MB" in sentence
        assert "of the 3276 MB" in sentence
    for ended, begins in zip(masters, (urgent, first, second), strict=False):
        ended.finish()
        begins.register()


def test_who_waits_for_gpus_that_are_all_in_use_holds_up_nobody_on_a_server_without(joint: ServedJoint) -> None:
    """Stock placement ends a queue's turn at the first ask that is beyond the queue's limit; Hadoop 3.5 sooner than 3.4."""
    holder, waiter = (joint.apps.submit(tags=["gang:4x4"]).register() for _ in range(2))
    for app in (holder, waiter):
        app.allocate(gpus(4, 4))
    holder.hold(4)
    joint.await_state(waiter.app_id, FULL)
    behind = joint.apps.submit().register()
    behind.allocate(on_hosts(1, 0, {"cpu-1": 1}, ["/rack-a"]))
    behind.hold(1)


def test_a_master_that_asks_twice_as_much_each_time_is_served_while_the_service_is_away(joint: ServedJoint) -> None:
    """As Spark asks: 1, 2, 4, 8, each time what is wanted besides; what is idle is released, and asked for again."""
    with beside.gangs(joint), beside.service_away(joint):
        spark = joint.apps.submit().register()
        grown = grows(spark, 0)
        spark.allocate(release=grown)
        await_held(joint, spark, 0)
        grows(spark, len(grown))
        spark.finish()


def grows(spark: App, before: int) -> list[str]:
    """Ask for 1, 2, 4 and 8 more, and hold them; `before`: how many it has had until now."""
    names: list[str] = []
    for more in (1, 2, 4, 8):
        told = spark.allocate(plain(more))["allocated"] + spark.hold(before + len(names) + more)
        names += [container["container"] for container in told]
        assert {container["server"].split(":")[0] for container in told} == {"cpu-1"}
        spark.allocate(plain(0))
    assert len(names) == 15
    return names
