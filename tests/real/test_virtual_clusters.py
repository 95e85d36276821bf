"""Virtual clusters are YARN's queues: what one does not use another borrows, and what YARN accepted is in force at once."""

from __future__ import annotations

import re
import time
from functools import partial

import pytest

from tests.real.apps import App, AppError, gpus, on_hosts
from tests.real.command_line import ygs
from tests.real.joint import ServedJoint
from tests.real.queues import RELAX_AFTER_S, await_share, keys, of, refresh, refreshed, share
from yarn_gpu_sched.protocol.v1 import reason_pb2

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
FULL = reason_pb2.WAITING_REASON_CODE_CLUSTER_FULL
OVER_QUOTA = reason_pb2.WAITING_REASON_CODE_VC_QUOTA
AT_MAXIMUM = reason_pb2.WAITING_REASON_CODE_VC_MAXIMUM
FRAGMENTED = reason_pb2.WAITING_REASON_CODE_FRAGMENTED
NOT_ASKED = reason_pb2.WAITING_REASON_CODE_NOT_ASKED
SERVERS = ("gpu-a1", "gpu-a2", "gpu-b1", "gpu-b2")


def gang(joint: ServedJoint, queue: str, containers: int, each: int, *tags: str, **more: object) -> App:
    """Let a job ask for a gang."""
    app = joint.apps.submit(tags=[f"gang:{containers}x{each}", *tags], queue=queue).register()
    app.allocate(gpus(containers, each, **more))
    return app


def placed(joint: ServedJoint, queue: str, containers: int, each: int) -> App:
    """Let a gang be placed."""
    app = gang(joint, queue, containers, each)
    app.hold(containers)
    return app


def diagnostics(joint: ServedJoint, app: App) -> str:
    """Return what `yarn application -status` shows as an application's diagnostics."""
    done = joint.yarn("application", "-status", app.app_id)
    assert done.returncode == 0, done.stdout
    found = re.search(r"^\tDiagnostics : (.*)$", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    return found[1]


def move(joint: ServedJoint, app: App, queue: str) -> None:
    """Move an application to another queue, as its owner does."""
    done = joint.yarn("application", "-movetoqueue", app.app_id, "-queue", queue)
    assert done.returncode == 0, done.stdout


def test_a_queue_borrows_what_another_does_not_use_up_to_its_maximum_and_the_other_is_served_next(
    tenants: ServedJoint,
) -> None:
    joint = tenants
    holders = [placed(joint, "a", 1, 4) for _ in range(3)]
    await_share(joint, "root.a", 8, 12, 12, 4)
    more = gang(joint, "a", 1, 4)
    sentence = joint.await_state(more.app_id, AT_MAXIMUM)
    assert sentence == "asks 4 GPUs; queue root.a uses 12 of the 12 GPUs that it may use"
    within = gang(joint, "b", 2, 4)
    assert joint.await_state(within.app_id, FULL).endswith("4 GPUs are free on 1 server")
    holders[0].finish()
    within.hold(2)
    await_share(joint, "root.b", 8, None, 8, 0)
    assert joint.placed_now(more.app_id) == {}, "it was submitted first, and its queue has more than its quota"
    sentence = joint.await_state(more.app_id, OVER_QUOTA)
    assert "queue root.a uses 8 GPUs and its quota is 8, so it would borrow; 0 GPUs are free" in sentence


def test_a_looser_level_comes_when_its_time_has_passed_and_not_before(tenants: ServedJoint) -> None:
    """Two GPUs are free on each server: at the tightest level a gang of four wants one server."""
    joint = tenants
    for host in SERVERS:
        app = joint.apps.submit(tags=["gang:1x2"], queue="b").register()
        app.allocate(on_hosts(1, 2, {host: 1}, [f"/rack-{host[4]}"]))
        app.hold(1)
    asked_at_s = time.monotonic()
    app = gang(joint, "a", 4, 1)
    sentence = joint.await_state(app.app_id, FRAGMENTED)
    assert "8 GPUs are free on 4 servers, but not at level 0, on the fewest servers in one RDMA domain" in sentence
    outlook = joint.client.why(app.app_id).outlook
    assert outlook.next_level == 1
    assert 0 < outlook.relaxes_in_s <= RELAX_AFTER_S
    assert "level 1" in " ".join(outlook.changes)
    assert joint.placed_now(app.app_id) == {}
    app.hold(4)
    waited_s = time.monotonic() - asked_at_s
    assert RELAX_AFTER_S <= waited_s < RELAX_AFTER_S + 20
    assert set(joint.hosts(app.app_id, 4)) in ({"gpu-a1", "gpu-a2"}, {"gpu-b1", "gpu-b2"}), (
        "at level 1 it stays in one domain"
    )
    assert joint.client.job(app.app_id).level == 1


def test_a_refresh_moves_quota_maximum_and_settings_at_once(tenants: ServedJoint) -> None:
    joint = tenants
    placed(joint, "a", 3, 4)
    waits = gang(joint, "a", 1, 4)
    joint.await_state(waits.app_id, AT_MAXIMUM)
    settings = {"a.capacity": of(4), "a.maximum-capacity": of(16), "b.capacity": of(6), "b.maximum-capacity": of(8)}
    refreshed(joint, settings | {"a.ygs.relax-after-s": "0"})
    waits.hold(1)
    await_share(joint, "root.a", 4, 16, 16, 12)
    await_share(joint, "root.b", 6, 8, 0, 0)
    listed = {one["path"]: one["shares"] for one in ygs(joint, "vcs")["virtual_clusters"]}
    assert {path: (one["quota_gpus"], one["maximum_gpus"]) for path, (one,) in listed.items() if path != "root"} == {
        "root.a": (4, 16),
        "root.b": (6, 8),
        "root.default": (0, 16),
    }
    assert settings_of(joint, "root.a") == {"relax-after-s": "0"}


def settings_of(joint: ServedJoint, path: str) -> dict[str, str]:
    """Return what a queue sets, by the service."""
    uses = joint.client.virtual_clusters()
    return next(dict(use.virtual_cluster.settings) for use in uses if use.virtual_cluster.path == path)


def test_what_runs_in_a_queue_that_is_stopped_goes_on_and_what_waits_there_is_placed(tenants: ServedJoint) -> None:
    """YARN lets a queue drain: it takes nobody, and what it has taken it keeps."""
    joint = tenants
    holder = placed(joint, "a", 3, 4)
    waits = gang(joint, "a", 2, 4)
    joint.await_state(waits.app_id, AT_MAXIMUM)
    refreshed(joint, {"a.state": "STOPPED"})
    runs = lambda: {use.virtual_cluster.path: use.virtual_cluster.running for use in joint.client.virtual_clusters()}  # noqa: E731 - one line, used once
    joint.until(runs, lambda now: not now["root.a"] and now["root.b"], "root.a has stopped", 20)
    with pytest.raises(AppError, match="STOPPED"):
        joint.apps.submit(tags=["gang:1x1"], queue="a")
    await_share(joint, "root.a", 8, 12, 12, 12)
    holder.finish()
    waits.hold(2)
    waits.finish()
    refreshed(joint, {"a.state": "RUNNING"})
    joint.until(runs, lambda now: now["root.a"], "root.a runs", 20)
    placed(joint, "a", 2, 4)


def test_a_gang_that_is_moved_takes_its_use_with_it_whether_it_runs_or_waits(tenants: ServedJoint) -> None:
    joint = tenants
    running = placed(joint, "a", 3, 4)
    waits = gang(joint, "a", 1, 4)
    joint.await_state(waits.app_id, AT_MAXIMUM)
    move(joint, waits, "b")
    waits.hold(1)
    await_share(joint, "root.b", 8, None, 4, 0)
    move(joint, running, "b")
    await_share(joint, "root.b", 8, None, 16, 12)
    await_share(joint, "root.a", 8, 12, 0, 0)
    joint.placed(running.app_id, 3)


def test_a_quota_that_falls_below_its_use_while_the_service_is_away_ends_nothing(tenants: ServedJoint) -> None:
    """C9: 8 GPUs are used, the quota falls from 8 to 2, the service comes back: 8 used, all of one gang borrowed, none ended."""
    joint = tenants
    small, large = placed(joint, "a", 1, 2), placed(joint, "a", 3, 2)
    joint.cluster.kill("service")
    refreshed(joint, {"a.capacity": of(2)})
    joint.serve()
    joint.await_connected()
    await_share(joint, "root.a", 2, 12, 8, 6)
    joint.placed(small.app_id, 1)
    joint.placed(large.app_id, 3)
    assert joint.held().gpus == 8


def test_quotas_over_the_cluster_are_in_force_as_yarn_takes_them_and_warned_of(tenants: ServedJoint) -> None:
    """C9: what an administrator promises twice."""
    joint = tenants
    refreshed(joint, {"a.capacity": of(12), "b.capacity": of(12)})
    for path, maximum in (("root.a", 12), ("root.b", None)):
        await_share(joint, path, 12, maximum, 0, 0)
    root = next(one for one in ygs(joint, "vcs")["virtual_clusters"] if one["path"] == "root")
    (warning,) = root["warnings"]
    assert "24 GPUs (root.a 12, root.b 12), and there were never more than 16" in warning
    placed(joint, "a", 3, 4)
    await_share(joint, "root.a", 12, 12, 12, 0)


def test_queues_come_and_go_and_come_again(tenants: ServedJoint) -> None:
    """C9: removed and added again within five seconds; and a queue in which a gang runs gets none below it."""
    joint = tenants
    refreshed(joint, {"queues": "default,a,b,c", "c.capacity": of(4), "c.ygs.max-gpus-per-user": "8"})
    await_share(joint, "root.c", 4, None, 0, 0)
    assert settings_of(joint, "root.c") == {"max-gpus-per-user": "8"}
    placed(joint, "c", 1, 4).finish()
    refreshed(joint, {"c.state": "STOPPED"})
    refreshed(joint, {"queues": "default,a,b", "c.state": None})
    await_share(joint, "root.c", None, None, 0, 0)  # it is still shown for the job that has ended there
    refreshed(joint, {"queues": "default,a,b,c"})
    app = placed(joint, "c", 1, 4)
    await_share(joint, "root.c", 4, None, 4, 0)
    refused = refresh(joint, {"c.queues": "x,y", "c.x.capacity": of(2), "c.y.capacity": of(2)})
    assert refused.returncode != 0, "YARN takes children from no queue that runs applications"
    await_share(joint, "root.c", 4, None, 4, 0)
    joint.placed(app.app_id, 1)
    joint.cluster.configure(keys({"c.queues": None, "c.x.capacity": None, "c.y.capacity": None}))


def test_an_application_that_yarn_does_not_activate_is_told_which_limits_may_be_why(tenants: ServedJoint) -> None:
    """C29: with the default share of a queue for masters, the second one of a small queue waits for ever."""
    joint = tenants
    refreshed(joint, {"b.maximum-am-resource-percent": "0.01"})
    first = joint.apps.submit(unmanaged=False, queue="b").register()
    second = joint.apps.submit(unmanaged=False, queue="b")
    joint.await_state(second.app_id, NOT_ASKED)
    (change,) = joint.client.why(second.app_id).outlook.changes
    assert "root.b" in change
    assert "maximum-am-resource-percent" in change
    assert "AM resource limit exceeded" in diagnostics(joint, second), "YARN's own words stay"
    first.finish()
    second.register()


def test_yarn_shows_why_an_application_waits(tenants: ServedJoint) -> None:
    """One whose master waits, and one whose master runs; and no more when it waits no more."""
    joint = tenants
    holder = placed(joint, "b", 4, 4)
    master = joint.apps.submit(unmanaged=False, queue="a", tags=["gang:1x2"], am={"gpus": 1})
    runs = joint.apps.submit(unmanaged=False, queue="a", tags=["gang:2x2"]).register()
    runs.allocate(gpus(2, 2))
    told = {app: joint.await_state(app.app_id, FULL) for app in (master, runs)}
    for app, sentence in told.items():
        shown = partial(diagnostics, joint, app)
        joint.until(shown, f"waits as cluster_full: {sentence}".__eq__, "YARN is told", 30)
    holder.finish()
    runs.hold(2)
    master.register()
    joint.until(lambda: joint.app(runs.app_id)["diagnostics"], lambda now: not now.strip(), "it waits no more", 30)


# A queue's capacity and maximum that YARN takes, and what the service makes of it: quota, maximum, what it warns of.
TAKEN = [
    ("[memory=0,vcores=0]", "[memory=8192,vcores=24,yarn.io/gpu=4]", (None, 4), ""),
    ("[yarn.io/gpu=8]", None, (8, None), ""),
    ("[memory=50%,vcores=2w,yarn.io/gpu=1]", None, (1, None), ""),
    ("[memory=4096,YARN.IO/GPU=2]", None, (None, None), '"[memory=4096,YARN.IO/GPU=2]": resource type "YARN.IO/GPU"'),
    ("[memory=4Gi,vcores=12,yarn.io/gpu=0]", None, (0, None), ""),
]


def test_capacities_in_words_that_others_got_wrong(tenants: ServedJoint) -> None:
    """C8: what YARN takes is shown as it counts here or warned of, never silently 0; what it refuses changes nothing."""
    joint = tenants
    for capacity, maximum, limits, warned in TAKEN:
        refreshed(joint, {"b.capacity": capacity, "b.maximum-capacity": maximum})
        await_share(joint, "root.b", *limits, 0, 0)
        said = next(use.warnings for use in joint.client.virtual_clusters() if use.virtual_cluster.path == "root.b")
        assert warned in " ".join(said)
        assert bool(said) == bool(warned)
    refused = refresh(joint, {"b.capacity": "[memory=4Gi,yarn.io/gpu=1.5]"})
    assert refused.returncode != 0
    assert share(joint, "root.b") == (0, None, 0, 0)
