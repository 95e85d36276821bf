"""Asks of every sort by a real master: named hosts and racks, blacklists, ceilings, priorities, growth, untagged gangs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.apps import App, gpus, on_hosts, pending
from tests.real.joint import FULL, ServedJoint
from yarn_gpu_sched.protocol.v1 import reason_pb2, virtual_cluster_pb2

pytestmark = [pytest.mark.real, pytest.mark.both, pytest.mark.timeout(300)]
CONFINED = reason_pb2.WAITING_REASON_CODE_CONFINED
FILL = (("gpu-a1", 1), ("gpu-a2", 2))  # containers of 2 GPUs


def registered(joint: ServedJoint, *tags: str, **more: object) -> App:
    return joint.apps.submit(tags=list(tags), **more).register()


def test_strict_hosts_hold_it_or_nothing_does(joint: ServedJoint) -> None:
    app = registered(joint, "gang:2x4")
    app.allocate(on_hosts(2, 4, {"gpu-a1": 1, "gpu-b1": 1}, ["/rack-a", "/rack-b"]))
    app.hold(2)
    assert joint.hosts(app.app_id, 2) == ["gpu-a1", "gpu-b1"]
    other = registered(joint, "gang:1x2")
    other.allocate(on_hosts(1, 2, {"gpu-a1": 1}, ["/rack-a"]))
    assert joint.await_state(other.app_id, CONFINED).endswith("but not where it may go: only gpu-a1")
    app.finish()
    other.hold(1)
    assert joint.hosts(other.app_id, 1) == ["gpu-a1"]


def test_a_strict_rack_holds_all_of_it(joint: ServedJoint) -> None:
    app = registered(joint, "gang:2x4")
    app.allocate(gpus(2, 4, places={"/rack-b": 2, "*": 2}, strict=["*"]))
    app.hold(2)
    assert joint.hosts(app.app_id, 2) == ["gpu-b1", "gpu-b2"]


def test_a_preferred_host_is_left_when_it_is_full(joint: ServedJoint) -> None:
    apps = []
    for expected in ("gpu-b2", "gpu-b1"):  # the second stays in the rack of the host that it would have liked
        app = registered(joint, "gang:1x4")
        app.allocate(gpus(1, 4, places={"gpu-b2": 1, "/rack-b": 1, "*": 1}))
        app.hold(1)
        assert joint.hosts(app.app_id, 1) == [expected]
        apps.append(app)


def test_nothing_goes_on_the_blacklist_until_the_master_changes_its_mind(joint: ServedJoint) -> None:
    app = registered(joint, "gang:2x4")
    app.allocate(gpus(2, 4), blacklist=["gpu-a1", "gpu-a2", "gpu-b1"])
    sentence = joint.await_state(app.app_id, CONFINED)
    assert all(host in sentence for host in ("gpu-a1", "gpu-a2", "gpu-b1"))
    app.allocate(unblacklist=["gpu-b1"])
    app.hold(2)
    assert joint.hosts(app.app_id, 2) == ["gpu-b1", "gpu-b2"]


@pytest.mark.parametrize("level", [0, 1])
def test_a_ceiling_keeps_a_gang_in_one_rack(joint: ServedJoint, level: int) -> None:
    app = registered(joint, "gang:3x4", f"locality:{level}", "runtime:600")
    app.allocate(gpus(3, 4))
    sentence = joint.await_state(app.app_id, reason_pb2.WAITING_REASON_CODE_FRAGMENTED)
    assert f"but not at level {level}, " in sentence
    assert sentence.endswith("in one RDMA domain, and it goes to no looser one")
    free = registered(joint, "gang:3x4", "locality:2@0")
    free.allocate(gpus(3, 4))
    free.hold(3)


def test_growth_goes_near_its_gang_where_a_fresh_job_would_not_and_before_one_that_waits_longer(
    joint: ServedJoint,
) -> None:
    fresh = registered(joint, "gang:1x2")  # submitted first
    app = registered(joint, "gang:1")
    app.allocate(on_hosts(1, 1, {"gpu-b1": 1}, ["/rack-b"]))
    app.hold(1)
    others = registered(joint, "gang:3x2")
    others.allocate(*(on_hosts(n, 2, {host: n}, [f"/rack-{host[4]}"], key=key) for key, (host, n) in enumerate(FILL)))
    big = registered(joint, "gang:1x4")
    big.allocate(on_hosts(1, 4, {"gpu-b2": 1}, ["/rack-b"]))
    given = [*others.hold(3), *big.hold(1)]
    app.allocate(gpus(1, 2, key=1))
    app.hold(2)
    assert joint.hosts(app.app_id, 2) == ["gpu-b1", "gpu-b1"], "on gpu-a1 the 2 GPUs that are free are just enough"
    app.allocate(gpus(1, 2, key=2))
    app.hold(3)
    assert joint.hosts(app.app_id, 3) == ["gpu-a1", "gpu-b1", "gpu-b1"], "no more room there"
    for waiting in (fresh, app):
        waiting.allocate(gpus(1, 2, key=3))
        joint.await_state(waiting.app_id, FULL)
    others.allocate(release=[given[0]["container"]])
    app.hold(4)
    joint.await_state(fresh.app_id, FULL)
    assert joint.placed_now(fresh.app_id) == {}


def test_a_job_whose_priority_is_raised_passes_the_others(joint: ServedJoint) -> None:
    holder = registered(joint, "gang:4x4")
    holder.allocate(gpus(4, 4))
    holder.hold(4)
    first, second = (registered(joint, "gang:4x4") for _ in range(2))
    for app in (first, second):
        app.allocate(gpus(4, 4))
        joint.await_state(app.app_id, FULL)
    done = joint.yarn("application", "-appId", second.app_id, "-updatePriority", "5")
    assert done.returncode == 0, done.stdout
    joint.until(lambda: joint.client.job(second.app_id).job.priority, lambda now: now == 5, "the service is told")
    holder.finish()
    second.hold(4)
    assert joint.placed_now(first.app_id) == {}


def test_a_job_that_is_moved_to_another_queue_is_charged_there(joint: ServedJoint) -> None:
    app = registered(joint, "gang:2x2")
    app.allocate(gpus(2, 2))
    app.hold(2)
    done = joint.yarn("application", "-appId", app.app_id, "-changeQueue", "debounced")
    assert done.returncode == 0, done.stdout
    joint.until(
        joint.gpus_used,
        lambda now: now == {"root.default": 0, "root.debounced": 4, "root.small": 0},
        "4 GPUs are charged to the other queue",
    )


def test_untagged_asks_are_a_gang_where_the_queue_debounces(joint: ServedJoint) -> None:
    holder = registered(joint, "gang:3x4")
    holder.allocate(gpus(3, 4))
    holder.hold(3)
    app = registered(joint, queue="debounced")
    for count in (1, 2):
        app.allocate(gpus(count, 4))
        joint.await_state(app.app_id, reason_pb2.WAITING_REASON_CODE_GATHERING)
    joint.await_state(app.app_id, FULL)  # 4 GPUs are free, and both want 8
    assert joint.placed_now(app.app_id) == {}
    holder.finish()
    app.hold(2)


def test_totals_that_double_while_some_of_them_wait_are_served_as_totals(joint: ServedJoint) -> None:
    """As Spark asks with dynamic allocation: 1, 2, 4, 8 that are still wanted, whatever waits of the ask before."""
    holder = registered(joint, "gang:7x2")
    holder.allocate(gpus(7, 2))
    holder.hold(7)
    spark = registered(joint)
    asked = lambda: joint.view(spark.app_id).gpus_pending  # noqa: E731 - one line, used once
    for wanted, had, left in ((1, 1, 0), (2, 2, 1), (4, 2, 4), (8, 2, 8)):
        spark.allocate(gpus(wanted))
        spark.hold(had)
        joint.until(asked, left.__eq__, f"of {wanted} wait {left}")
        assert pending(joint.app(spark.app_id)) == ([(left, 1)] if left else [])
    holder.finish()
    spark.hold(2 + 8)
    assert spark.allocate()["allocated"] == []
    assert joint.held().gpus == 2 + 8


@pytest.fixture
def swapped(joint: ServedJoint) -> Iterator[ServedJoint]:
    """Let one queue debounce, and the one that did so no more, while all goes on."""
    refresh(joint, {"default": "debounce", "debounced": None})
    yield joint
    refresh(joint, {"default": None, "debounced": "debounce"})


def refresh(joint: ServedJoint, gangs: dict[str, str | None]) -> None:
    joint.cluster.configure({f"yarn.scheduler.capacity.root.{queue}.ygs.gang": gang for queue, gang in gangs.items()})
    done = joint.yarn("rmadmin", "-refreshQueues")
    assert done.returncode == 0, done.stdout
    expected = {f"root.{queue}" for queue, gang in gangs.items() if gang}

    def gather() -> set[str]:
        known = (use.virtual_cluster for use in joint.client.virtual_clusters())
        return {one.path for one in known if one.untagged_jobs == virtual_cluster_pb2.UNTAGGED_JOBS_DEBOUNCE}

    joint.until(gather, expected.__eq__, f"{expected} debounces")


def test_a_refresh_of_the_queues_changes_what_becomes_of_untagged_asks(swapped: ServedJoint) -> None:
    joint = swapped
    singly = registered(joint, queue="debounced")
    singly.allocate(gpus(5, 4))  # of which four fit
    singly.hold(4)
    gathers = registered(joint)
    gathers.allocate(gpus(2, 4))
    joint.await_state(gathers.app_id, reason_pb2.WAITING_REASON_CODE_GATHERING)


def test_an_ask_of_another_size_than_the_tag_says_ends_the_application(joint: ServedJoint) -> None:
    app = registered(joint, "gang:2x2")
    app.allocate(gpus(2, 1))
    ended = joint.until(lambda: joint.app(app.app_id), lambda now: now["state"] == "KILLED", "it is refused")
    assert 'tag "gang:2x2" says 2 GPUs a container, an ask has 1' in ended["diagnostics"]


def test_a_decision_that_the_resource_manager_refuses_is_the_reason_and_is_seldom_tried(joint: ServedJoint) -> None:

    def tried() -> int:
        return int(joint.counters().get("DecisionsQueueLimit", 0))

    before = tried()
    app = registered(joint, "gang:1x2", queue="small")
    app.allocate(gpus(1, 2))
    app.hold(1)
    app.allocate(gpus(1, 2, key=1))  # where YARN, and YARN alone, lets a user have one container
    sentence = joint.await_state(app.app_id, reason_pb2.WAITING_REASON_CODE_REFUSED_BY_RM)
    assert "refused the last decision as queue_limit (queue root.small" in sentence
    joint.until(tried, lambda now: now >= before + 5, "it is tried five times, for which 3.1 s must pass")
    other = registered(joint, "gang:3x4")
    other.allocate(gpus(3, 4))
    other.hold(3)
    assert tried() < before + 20


def test_what_stock_placement_puts_on_a_server_without_gpus_is_told_at_once(joint: ServedJoint) -> None:
    holder = registered(joint, "gang:4x4")
    holder.allocate(gpus(4, 4))
    holder.hold(4)
    app = registered(joint, unmanaged=False, am={"memory_mb": 8192})  # so much is free on no server with GPUs
    assert joint.hosts(app.app_id, 1) == ["cpu-1"]
    app.finish()
    joint.placed(app.app_id, 0)
