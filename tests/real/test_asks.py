"""Asks of every sort by a real master: named hosts and racks, blacklists, ceilings, priorities, growth, untagged gangs."""

from __future__ import annotations

import pytest

from tests.real.apps import App, gpus, on_hosts, submitted_to_be_refused
from tests.real.joint import ServedJoint
from yarn_gpu_sched.protocol.v1 import reason_pb2

pytestmark = [pytest.mark.real, pytest.mark.both, pytest.mark.timeout(300)]
CONFINED = reason_pb2.WAITING_REASON_CODE_CONFINED


def registered(joint: ServedJoint, *tags: str, **more: object) -> App:
    return joint.apps.submit(tags=list(tags), **more).register()


def hosts(joint: ServedJoint, app: App, containers: int) -> list[str]:
    """Wait until a job has so many containers, and say where."""
    placed = joint.until(
        lambda: joint.placed(app.app_id), lambda now: len(now) == containers, f"{containers} containers of {app.app_id}"
    )
    return sorted(server.split(":")[0] for server, _ in placed.values())


def test_strict_hosts_hold_it_or_nothing_does(joint: ServedJoint) -> None:
    app = registered(joint, "gang:2x4")
    app.allocate(on_hosts(2, 4, {"gpu-a1": 1, "gpu-b1": 1}, ["/rack-a", "/rack-b"]))
    app.hold(2)
    assert hosts(joint, app, 2) == ["gpu-a1", "gpu-b1"]
    other = registered(joint, "gang:1x2")
    other.allocate(on_hosts(1, 2, {"gpu-a1": 1}, ["/rack-a"]))
    assert joint.await_state(other.app_id, CONFINED).endswith("but not where it may go: only gpu-a1")
    app.finish()
    other.hold(1)
    assert hosts(joint, other, 1) == ["gpu-a1"]


def test_a_strict_rack_holds_all_of_it(joint: ServedJoint) -> None:
    app = registered(joint, "gang:2x4")
    app.allocate(gpus(2, 4, places={"/rack-b": 2, "*": 2}, strict=["*"]))
    app.hold(2)
    assert hosts(joint, app, 2) == ["gpu-b1", "gpu-b2"]


def test_a_preferred_host_is_left_when_it_is_full(joint: ServedJoint) -> None:
    apps = []
    for expected in ("gpu-b2", "gpu-b1"):  # the second stays in the rack of the host that it would have liked
        app = registered(joint, "gang:1x4")
        app.allocate(gpus(1, 4, places={"gpu-b2": 1, "/rack-b": 1, "*": 1}))
        app.hold(1)
        assert hosts(joint, app, 1) == [expected]
        apps.append(app)


def test_nothing_goes_on_the_blacklist_until_the_master_changes_its_mind(joint: ServedJoint) -> None:
    app = registered(joint, "gang:2x4")
    app.allocate(gpus(2, 4), blacklist=["gpu-a1", "gpu-a2", "gpu-b1"])
    sentence = joint.await_state(app.app_id, CONFINED)
    assert all(host in sentence for host in ("gpu-a1", "gpu-a2", "gpu-b1"))
    app.allocate(unblacklist=["gpu-b1"])
    app.hold(2)
    assert hosts(joint, app, 2) == ["gpu-b1", "gpu-b2"]


@pytest.mark.parametrize("ceiling", ["locality:0", "locality:1"])
def test_a_ceiling_keeps_a_gang_in_one_rack(joint: ServedJoint, ceiling: str) -> None:
    app = registered(joint, "gang:3x4", ceiling, "runtime:600")
    app.allocate(gpus(3, 4))
    assert joint.await_state(app.app_id, CONFINED).endswith("in one RDMA domain")
    free = registered(joint, "gang:3x4", "locality:2@0")
    free.allocate(gpus(3, 4))
    free.hold(3)


def test_members_of_several_keys_and_without_gpus_are_one_gang(joint: ServedJoint) -> None:
    app = registered(joint, "gang:2x4+1")
    app.allocate(gpus(2, 4, priority=3, key=7))
    assert "gang:2x4+1" in joint.await_state(app.app_id, reason_pb2.WAITING_REASON_CODE_GANG_INCOMPLETE)
    app.allocate(gpus(1, 0, priority=5, key=1))
    app.hold(3)
    assert len(hosts(joint, app, 3)) == 3


def test_growth_goes_near_its_gang_and_before_fresh_jobs(joint: ServedJoint) -> None:
    app = registered(joint, "gang:1x2")
    app.allocate(gpus(1, 2))
    app.hold(1)
    (home,) = hosts(joint, app, 1)
    holder = registered(joint, "gang:3x4")
    holder.allocate(gpus(3, 4))
    holder.hold(3)
    fresh = registered(joint, "gang:2x2")
    fresh.allocate(gpus(2, 2))
    app.allocate(gpus(1, 2))
    app.hold(2)
    assert hosts(joint, app, 2) == [home, home]
    assert joint.placed(fresh.app_id) == {}


def test_a_job_whose_priority_is_raised_passes_the_others(joint: ServedJoint) -> None:
    holder = registered(joint, "gang:4x4")
    holder.allocate(gpus(4, 4))
    holder.hold(4)
    first, second = (registered(joint, "gang:4x4") for _ in range(2))
    for app in (first, second):
        app.allocate(gpus(4, 4))
        joint.await_state(app.app_id, reason_pb2.WAITING_REASON_CODE_CLUSTER_FULL)
    done = joint.cluster.yarn("application", "-appId", second.app_id, "-updatePriority", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    joint.until(lambda: joint.client.job(second.app_id).job.priority, lambda now: now == 5, "the service is told")
    holder.finish()
    second.hold(4)
    assert joint.placed(first.app_id) == {}


def test_a_job_that_is_moved_to_another_queue_is_charged_there(joint: ServedJoint) -> None:
    app = registered(joint, "gang:2x2")
    app.allocate(gpus(2, 2))
    app.hold(2)
    done = joint.cluster.yarn("application", "-appId", app.app_id, "-changeQueue", "debounced")
    assert done.returncode == 0, done.stdout + done.stderr
    used = lambda: {use.virtual_cluster.path: use.used.gpus for use in joint.client.virtual_clusters()}  # noqa: E731 - one line, used once
    joint.until(
        used,
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
    joint.await_state(app.app_id, reason_pb2.WAITING_REASON_CODE_CLUSTER_FULL)  # 4 GPUs are free, and both want 8
    assert joint.placed(app.app_id) == {}
    holder.finish()
    app.hold(2)


@pytest.mark.parametrize(
    "tag", ["gang:0", "gang:-1", "gang:4x", "gang:99999999999", "locality:1@", "locality:3", "runtime:2h"]
)
def test_a_tag_that_cannot_be_read_ends_the_application_and_is_shown(joint: ServedJoint, tag: str) -> None:
    app_id = submitted_to_be_refused(joint.apps, tag, "mine")
    ended = joint.until(lambda: joint.app(app_id), lambda now: now["state"] == "KILLED", f"{tag} is refused")
    assert f'tag "{tag}"' in ended["diagnostics"]


def test_an_ask_of_another_size_than_the_tag_says_ends_the_application(joint: ServedJoint) -> None:
    app = registered(joint, "gang:2x2")
    app.allocate(gpus(2, 1))
    ended = joint.until(lambda: joint.app(app.app_id), lambda now: now["state"] == "KILLED", "it is refused")
    assert 'tag "gang:2x2" says 2 GPUs a container, an ask has 1' in ended["diagnostics"]


def test_a_decision_that_the_resource_manager_refuses_is_the_reason_and_is_seldom_tried(joint: ServedJoint) -> None:

    def tried() -> int:
        return int(joint.counters().get("DecisionsQueueLimit", 0))

    before = tried()
    app = registered(joint, "gang:1x2", queue="small")  # which may have a tenth of 16 GPUs
    app.allocate(gpus(1, 2))
    sentence = joint.await_state(app.app_id, reason_pb2.WAITING_REASON_CODE_REFUSED_BY_RM)
    assert "refused the last decision as queue_limit (queue root.small" in sentence
    joint.until(tried, lambda now: now >= before + 5, "it is tried five times, for which 3.1 s must pass")
    other = registered(joint, "gang:4x4")
    other.allocate(gpus(4, 4))
    other.hold(4)
    assert tried() < before + 20


def test_what_stock_placement_puts_on_a_server_without_gpus_is_told_at_once(joint: ServedJoint) -> None:
    holder = registered(joint, "gang:4x4")
    holder.allocate(gpus(4, 4))
    holder.hold(4)
    app = registered(joint, unmanaged=False, am={"memory_mb": 8192})  # so much is free on no server with GPUs
    assert hosts(joint, app, 1) == ["cpu-1"]
    app.finish()
    joint.until(lambda: joint.placed(app.app_id), lambda now: not now, "the service is told of its end")
