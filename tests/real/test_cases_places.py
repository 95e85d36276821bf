"""Who goes where, and when: node labels, masters that die or ask for GPUs themselves, changes of mind, of queue and of rank."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tests.real.apps import App, gpus, plain
from tests.real.joint import FULL, ServedJoint
from yarn_gpu_sched.protocol.v1 import reason_pb2

pytestmark = [pytest.mark.real, pytest.mark.both, pytest.mark.timeout(300)]
DEGRADED = reason_pb2.WAITING_REASON_CODE_GANG_DEGRADED
NOT_ASKED = reason_pb2.WAITING_REASON_CODE_NOT_ASKED
HOLD_S = 8


def gang(joint: ServedJoint, containers: int, each: int, **more: object) -> App:
    app = joint.apps.submit(tags=[f"gang:{containers}x{each}"]).register()
    app.allocate(gpus(containers, each, **more))
    return app


# Node labels


@pytest.fixture
def labelled(joint: ServedJoint) -> Iterator[ServedJoint]:
    """Put gpu-a2 into a partition that lends what it does not use, gpu-b2 into one that does not."""
    ids = {view.server.host: view.server.server_id for view in joint.client.servers()}
    lent, owned = ids["gpu-a2"], ids["gpu-b2"]
    rmadmin(joint, "-addToClusterNodeLabels", "lent(exclusive=false),owned(exclusive=true)")
    rmadmin(joint, "-replaceLabelsOnNode", f"{lent}=lent {owned}=owned")
    await_partitions(joint, {"gpu-a2": "lent", "gpu-b2": "owned"})
    yield joint
    joint.clear()
    rmadmin(joint, "-replaceLabelsOnNode", f"{lent} {owned}")
    await_partitions(joint, {})


def rmadmin(joint: ServedJoint, *command: str) -> None:
    done = joint.yarn("rmadmin", *command)
    assert done.returncode == 0, done.stdout


def await_partitions(joint: ServedJoint, expected: dict[str, str]) -> None:
    seen = lambda: {v.server.host: v.server.partition for v in joint.client.servers() if v.server.partition}  # noqa: E731 - one line, used once
    joint.until(seen, lambda now: now == expected, "the service knows the partitions")


def test_a_partition_is_for_those_who_name_it_unless_it_lends_and_then_for_others_last(labelled: ServedJoint) -> None:
    joint = labelled
    first = gang(joint, 2, 4)
    first.hold(2)
    assert joint.hosts(first.app_id, 2) == ["gpu-a1", "gpu-b1"], "before what is lent, what is anybody's"
    borrower = gang(joint, 1, 2)
    borrower.hold(1)
    assert joint.hosts(borrower.app_id, 1) == ["gpu-a2"]
    refused = gang(joint, 1, 4)
    joint.await_state(refused.app_id, FULL)
    lent, owned = gang(joint, 1, 2, label="lent"), gang(joint, 1, 4, label="owned")
    lent.hold(1)
    owned.hold(1)
    assert (joint.hosts(lent.app_id, 1), joint.hosts(owned.app_id, 1)) == (["gpu-a2"], ["gpu-b2"])
    owned.finish()
    joint.until(lambda: joint.client.cluster().used.gpus, lambda used: used == 12, "gpu-b2 is free")
    joint.await_state(refused.app_id, FULL)
    assert joint.placed_now(refused.app_id) == {}, "what is owned is lent to nobody"
    both = joint.apps.submit(tags=["gang:1x4+1"]).register()
    both.allocate(gpus(1, 4, key=1, label="owned"), plain(1, key=2, label="owned"))
    assert {one["server"].split(":")[0] for one in both.hold(2)} == {"gpu-b2"}


# Keep containers across attempts


def await_running(joint: ServedJoint, containers: Collection[str]) -> None:
    """Wait until the resource manager knows that these run: it keeps no others when their master dies, nor shows which do."""
    running = [f"{name} Container Transitioned from ACQUIRED to RUNNING" for name in containers]
    joint.until(joint.rm_log().read_text, lambda log: all(line in log for line in running), f"{containers} run")


def test_a_gang_outlives_its_master_and_the_next_one_asks_only_for_what_is_missing(
    joint: ServedJoint, workers: Path
) -> None:
    app = joint.apps.submit(tags=["gang:4x4"], unmanaged=False, attempts=3, keeps=True).register()
    app.allocate(gpus(4, 4))
    app.hold(4)
    before = joint.on_gpus(app.app_id, 4)
    app.launch(f"bash -c 'while [ ! -e {workers}/$CONTAINER_ID ]; do sleep 0.1; done; exit 3'")
    await_running(joint, before)
    joint.apps.ask("fail_attempt", attempt=app.report()["attempt"])
    app.register(attempt=2)
    attempt = lambda: (joint.view(app.app_id).job.attempt, joint.view(app.app_id).waiting.code)  # noqa: E731 - one line, used once
    joint.until(attempt, (2, 0).__eq__, "its gang runs, whatever became of its master")
    assert joint.on_gpus(app.app_id, 4) == before
    fresh = gang(joint, 1, 4)
    joint.await_state(fresh.app_id, FULL)
    victim = min(before)
    (workers / victim).touch()
    app.await_completed(1)
    assert joint.await_state(app.app_id, DEGRADED).startswith("1 of 4 containers of the gang were lost")
    app.allocate(gpus(1, 4))
    app.hold(5)  # counted from the start, over all attempts
    after = joint.on_gpus(app.app_id, 4)
    assert sorted(where for where in after.values()) == sorted(where for where in before.values())
    assert set(before) - set(after) == {victim}
    assert joint.placed_now(fresh.app_id) == {}
    app.allocate(gpus(1, 4))  # growth, for which there is no room
    joint.await_state(app.app_id, FULL)


def test_a_gang_that_is_not_kept_is_placed_anew_with_the_next_master(joint: ServedJoint, workers: Path) -> None:
    app = joint.apps.submit(tags=["gang:4x4"], unmanaged=False, attempts=2).register()
    app.allocate(gpus(4, 4))
    app.hold(4)
    app.launch(joint.worker(workers, "stop"))
    before = joint.on_gpus(app.app_id, 4)
    joint.apps.ask("fail_attempt", attempt=app.report()["attempt"])
    app.register(attempt=2)
    app.allocate(gpus(4, 4))
    app.hold(8)  # counted from the start, over all attempts
    now = joint.on_gpus(app.app_id, 4)
    assert sorted(server.split(":")[0] for server, _ in now.values()) == ["gpu-a1", "gpu-a2", "gpu-b1", "gpu-b2"]
    assert not set(before) & set(now)


# Masters with GPUs


def test_a_master_with_gpus_is_placed_only_where_its_gang_fits_too(joint: ServedJoint) -> None:
    holder = gang(joint, 2, 4)
    holder.hold(2)
    app = joint.apps.submit(tags=["gang:2x4"], unmanaged=False, am={"gpus": 1})
    sentence = joint.await_state(app.app_id, FULL)
    assert "9 GPUs" in sentence, sentence
    small = gang(joint, 1, 2)
    small.hold(1)
    holder.finish()
    app.register()
    other = gang(joint, 2, 4)
    assert "5 GPUs are free" in joint.await_state(other.app_id, FULL), "what is held for the gang is not free"
    app.allocate(gpus(2, 4))
    app.hold(2)
    assert sorted(len(indices) for _, indices in joint.on_gpus(app.app_id, 3).values()) == [1, 4, 4]
    assert joint.placed_now(other.app_id) == {}


@pytest.fixture
def short_hold(joint: ServedJoint) -> Iterator[ServedJoint]:
    """Let the service hold for a master's gang for a shorter time."""
    joint.cluster.kill("service")
    joint.serve(YGS_GANG_HOLD_S=str(HOLD_S))
    joint.await_connected()
    yield joint
    joint.cluster.kill("service")
    joint.serve()
    joint.await_connected()


def test_what_is_held_for_the_gang_of_a_master_with_gpus_is_given_to_others_when_it_is_not_asked_in_time(
    short_hold: ServedJoint,
) -> None:
    joint = short_hold
    holder = gang(joint, 3, 4)
    holder.hold(3)
    app = joint.apps.submit(tags=["gang:2x4"], unmanaged=False, am={"gpus": 1})
    joint.await_state(app.app_id, FULL)
    other = gang(joint, 3, 3)
    joint.await_state(other.app_id, FULL)
    assert joint.placed_now(app.app_id) == {}, "there is room for the master, and none for its gang beside it"
    holder.finish()
    asked = joint.await_state(app.app_id, NOT_ASKED)
    assert "8 GPUs are held for its gang" in asked
    free = lambda: joint.client.why(other.app_id).waiting.sentence  # noqa: E731 - one line, used once
    joint.until(free, lambda said: "; 7 GPUs are free" in said, "nobody else gets what is held")
    other.hold(3)  # when the hold has ended
    app.register()
    assert [len(indices) for _, indices in joint.on_gpus(app.app_id, 1).values()] == [1]
    app.allocate(gpus(2, 4))
    sentence = joint.await_state(app.app_id, FULL)
    assert "8 GPUs" in sentence, sentence
    other.finish()
    app.hold(2)
    assert sorted(len(indices) for _, indices in joint.on_gpus(app.app_id, 3).values()) == [1, 4, 4]


def test_a_master_with_gpus_and_without_a_tag_is_a_job_of_its_own(joint: ServedJoint) -> None:
    holder = gang(joint, 15, 1)
    holder.hold(15)
    app = joint.apps.submit(unmanaged=False, am={"gpus": 1}).register()
    assert [len(indices) for _, indices in joint.on_gpus(app.app_id, 1).values()] == [1]
    app.allocate(gpus(1))
    joint.await_state(app.app_id, FULL)
    holder.finish()
    app.hold(1)


# Changes of mind


def test_a_job_that_withdraws_its_asks_and_asks_again_keeps_its_place(joint: ServedJoint) -> None:
    holder = gang(joint, 4, 4)
    holder.hold(4)
    first, second = gang(joint, 3, 4), gang(joint, 3, 4)
    for app in (first, second):
        joint.await_state(app.app_id, FULL)
    first.allocate(gpus(0, 4))
    joint.await_state(first.app_id, NOT_ASKED)
    first.allocate(gpus(3, 4))
    joint.await_state(first.app_id, FULL)
    holder.finish()
    first.hold(3)
    assert joint.placed_now(second.app_id) == {}


def test_an_ask_that_is_withdrawn_is_never_met_and_what_shrinks_is_met_in_part(joint: ServedJoint) -> None:
    holder = gang(joint, 4, 4)
    holder.hold(4)
    app = joint.apps.submit().register()
    app.allocate(gpus(4, 4), gpus(2, 2, priority=2))
    joint.await_state(app.app_id, FULL)
    app.allocate(gpus(1, 4), gpus(0, 2, priority=2))
    asked = lambda: joint.client.job(app.app_id).gpus_pending  # noqa: E731 - one line, used once
    joint.until(asked, lambda now: now == 4, "the service knows what is left")
    holder.finish()
    app.hold(1)
    assert app.allocate()["allocated"] == []
    joint.until(asked, lambda now: now == 0, "the service knows that it was met")
    assert [len(indices) for _, indices in joint.on_gpus(app.app_id, 1).values()] == [4]
    assert joint.held().gpus == 4


def test_of_several_priorities_of_one_master_the_first_goes_first(joint: ServedJoint) -> None:
    holder = gang(joint, 3, 4)
    holder.hold(3)
    app = joint.apps.submit().register()
    app.allocate(gpus(1, 4, priority=5, key=1), gpus(1, 3, priority=2, key=2), gpus(1, 2, priority=7, key=3))
    (got,) = app.hold(1)
    assert got["key"] == 2
    holder.finish()
    assert {one["key"] for one in app.hold(3)} == {1, 3}


def test_a_job_that_waits_and_is_moved_is_placed_and_charged_where_it_went(joint: ServedJoint) -> None:
    holder = gang(joint, 4, 4)
    holder.hold(4)
    app = gang(joint, 4, 4)
    joint.await_state(app.app_id, FULL)
    done = joint.yarn("application", "-appId", app.app_id, "-changeQueue", "debounced")
    assert done.returncode == 0, done.stdout
    queue = lambda: joint.client.job(app.app_id).job.virtual_cluster  # noqa: E731 - one line, used once
    joint.until(queue, lambda now: now == "root.debounced", "the service knows the queue")
    holder.finish()
    app.hold(4)
    charged = {"root.default": 0, "root.debounced": 16, "root.small": 0}
    joint.until(joint.gpus_used, charged.__eq__, "all of it is charged there")
