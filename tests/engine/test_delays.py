"""How long jobs wait, by cause: fair share, capacity, fragmentation, and what is not the cluster's doing."""

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.views import DelayRow
from yarn_gpu_sched.model.delay import Cause, Delays, size_of
from yarn_gpu_sched.model.job import JobEnd
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.reason import ReasonCode
from yarn_gpu_sched.model.server import ServerState
from yarn_gpu_sched.model.virtual_cluster import QueueCapacity

S = 1_000_000
PHILLY = EngineSettings(policy="philly")


def world_of(*gpus: int, settings: EngineSettings = PHILLY) -> World:
    return World(settings).up(*(server(f"s{place}", count) for place, count in enumerate(gpus)))


def gang(world: World, name: str, containers: int, gpus: int = 1, vc: str = "root.a", **fields: object) -> None:
    world.submit(name, f"gang:{containers}x{gpus}", vc=vc, **fields)
    world.ask(name, ask(containers, worker(gpus)))


def delays(world: World, name: str) -> Delays:
    view = world.engine.job(name, world.now_s)
    assert view is not None
    return view.delays


def history(world: World, name: str) -> list[tuple[ReasonCode, float]]:
    view = world.engine.job(name, world.now_s)
    assert view is not None
    return [(one.code, one.since_s) for one in view.history]


def row(world: World, vc: str, size: str) -> DelayRow:
    (found,) = [one for one in world.engine.delays(now_s=world.now_s) if (one.vc, one.size) == (vc, size)]
    return found


def test_who_starts_at_once_has_waited_for_nothing() -> None:
    world = world_of(4)
    gang(world, "j", 2)
    world.run()
    world.now_s = 50.0
    assert delays(world, "j") == Delays()
    assert history(world, "j") == []
    assert row(world, "root.a", "2-4") == DelayRow("root.a", "2-4", waits=1)


def test_waiting_within_the_quota_for_gpus_that_others_hold_is_capacity_delay() -> None:
    world = world_of(4)
    world.configure("root.a", quota_gpus=4)
    gang(world, "holder", 4, vc="root.b")
    world.run()
    world.now_s = 10.0
    gang(world, "j", 2)
    world.decide()
    world.now_s = 25.0
    assert delays(world, "j") == Delays(capacity_us=15 * S)
    world.end("holder")
    world.run()
    world.now_s = 60.0
    assert delays(world, "j") == Delays(capacity_us=15 * S), "a wait that has ended grows no more"
    assert history(world, "j") == [(ReasonCode.CLUSTER_FULL, 10.0)]
    assert row(world, "root.a", "2-4") == DelayRow("root.a", "2-4", 1, Delays(capacity_us=15 * S), (0, 1, 0, 0))


def test_waiting_over_the_quota_while_too_few_are_free_is_fair_share_delay_and_turns_with_the_quota() -> None:
    world = world_of(4)
    world.configure("root.a", quota_gpus=1)
    gang(world, "holder", 4, vc="root.b")
    world.run()
    gang(world, "j", 2)
    world.decide()
    world.now_s = 5.0
    world.configure("root.a", quota_gpus=2)
    world.now_s = 7.0
    assert delays(world, "j") == Delays(fair_share_us=5 * S, capacity_us=2 * S)
    assert history(world, "j") == [(ReasonCode.VC_QUOTA, 0.0), (ReasonCode.CLUSTER_FULL, 5.0)]


def test_use_of_a_queue_below_the_same_parent_turns_capacity_delay_into_fair_share_delay() -> None:
    world = world_of(8)
    world.configure("root.p", quota_gpus=6, parent=True)
    gang(world, "other", 4, vc="root.z")
    world.run()
    gang(world, "j", 5, vc="root.p.a")
    world.decide()
    world.now_s = 3.0
    gang(world, "sibling", 2, vc="root.p.b")
    world.run()
    world.now_s = 7.0
    assert delays(world, "j") == Delays(fair_share_us=4 * S, capacity_us=3 * S)


@pytest.mark.parametrize("limit", ["maximum", "user"])
def test_waiting_because_a_limit_forbids_is_fair_share_delay_though_gpus_are_free(limit: str) -> None:
    world = world_of(8)
    if limit == "maximum":
        world.configure("root.a", maximum_gpus=4)
    else:
        world.configure("root.a", settings=(("max-gpus-per-user", "4"),))
    gang(world, "first", 4)
    gang(world, "second", 2)
    world.run()
    world.now_s = 9.0
    assert delays(world, "second") == Delays(fair_share_us=9 * S)
    assert history(world, "second") == [
        (ReasonCode.VC_MAXIMUM if limit == "maximum" else ReasonCode.USER_LIMIT, 0.0),
    ]


def test_waiting_though_enough_are_free_is_fragmentation_delay() -> None:
    world = world_of(4, 4)
    for name in ("one", "two"):
        gang(world, name, 1, 3, vc="root.b")
    world.run()
    gang(world, "j", 1, 2)
    world.decide()
    world.now_s = 8.0
    assert delays(world, "j") == Delays(fragmentation_us=8 * S)
    assert history(world, "j") == [(ReasonCode.FRAGMENTED, 0.0)]


def test_waiting_for_the_own_master_or_the_rest_of_the_gang_is_not_the_clusters_doing() -> None:
    world = world_of(4)
    world.submit("j", "gang:2x1")
    world.now_s = 3.0
    world.ask("j", ask(1, worker(1)))
    world.now_s = 5.0
    world.ask("j", ask(2, worker(1)))
    world.run()
    assert delays(world, "j") == Delays(other_us=5 * S)
    assert history(world, "j") == [(ReasonCode.NOT_ASKED, 0.0), (ReasonCode.GANG_INCOMPLETE, 3.0)]


def test_waiting_for_a_commit_and_in_a_pause_after_a_refusal_is_other_delay() -> None:
    world = world_of(4)
    gang(world, "j", 2)
    (decision,) = world.decide()
    world.now_s = 1.0
    world.refuse(decision, OutcomeCode.NO_FIT)
    world.now_s = 1.05
    assert history(world, "j") == [(ReasonCode.DECIDED, 0.0), (ReasonCode.REFUSED_BY_RM, 1.0)]
    assert delays(world, "j") == Delays(other_us=1_050_000)


def test_masters_at_their_limit_wait_for_other_reasons() -> None:
    world = World(EngineSettings(policy="philly", am_share=0.01)).up(server("s1", memory_mb=65_536))
    for name in ("one", "two", "three"):
        world.submit(name, "gang:1x1")
        world.ask(name, ask(1, AM, 0, am=True))
        world.run()
    world.now_s = 4.0
    assert history(world, "two") == [(ReasonCode.AM_LIMIT, 0.0)]
    assert delays(world, "two").other_us == 4 * S


def test_what_is_counted_is_what_is_so_while_time_passes_not_what_was_so_for_a_moment() -> None:
    world = world_of(4)
    gang(world, "a", 4)
    world.run()
    gang(world, "j", 4)
    world.decide()
    world.now_s = 10.0
    world.end("a")
    gang(world, "b", 4, priority=1)
    world.run()
    world.now_s = 20.0
    assert delays(world, "j").total_us == delays(world, "j").capacity_us == 20 * S
    assert history(world, "j") == [(ReasonCode.CLUSTER_FULL, 0.0)]


def test_jobs_of_one_line_have_waited_since_each_of_them_joined() -> None:
    world = world_of(4)
    gang(world, "holder", 4)
    world.run()
    for at_s, name in enumerate("abc"):
        world.now_s = float(at_s)
        gang(world, name, 2)
        world.decide()
    world.now_s = 10.0
    assert [delays(world, name).capacity_us // S for name in "abc"] == [10, 9, 8]
    assert [history(world, name)[0][1] for name in "abc"] == [0.0, 1.0, 2.0]
    waiting = row(world, "root.a", "2-4")
    assert (waiting.waiting, waiting.waiting_delays) == (3, Delays(capacity_us=27 * S))


def test_a_new_attempt_waits_anew_and_the_one_before_is_counted() -> None:
    world = world_of(4)
    gang(world, "holder", 4, vc="root.b")
    world.run()
    gang(world, "j", 2)
    world.decide()
    world.now_s = 5.0
    world.submit("j", "gang:2x1", attempt=2)
    world.now_s = 7.0
    assert delays(world, "j") == Delays(other_us=2 * S)
    assert row(world, "root.a", "2-4").delays == Delays(capacity_us=5 * S)
    view = world.engine.job("j", world.now_s)
    assert view is not None
    assert view.delays_in_all == Delays(capacity_us=5 * S, other_us=2 * S)


def test_a_job_that_ends_while_it_waits_is_counted_at_its_size() -> None:
    world = world_of(4)
    gang(world, "holder", 4, vc="root.b")
    world.run()
    world.submit("j", "gang:3")
    world.ask("j", ask(3, worker(2)))
    world.decide()
    world.now_s = 6.0
    world.end("j", JobEnd.KILLED)
    world.now_s = 8.0
    assert row(world, "root.a", "5-8") == DelayRow("root.a", "5-8", 1, Delays(other_us=6 * S), (0, 0, 0, 1)), (
        "3 x 2 never fits"
    )


def test_a_resource_manager_that_begins_anew_ends_no_wait() -> None:
    world = world_of(4)
    gang(world, "holder", 4, vc="root.b")
    world.run()
    gang(world, "j", 2)
    world.decide()
    world.now_s = 5.0
    world.up(server("s0", 4), epoch=2)
    assert row(world, "root.b", "2-4").waits == 1, "the one that ran does not begin to wait"


def test_servers_that_drain_are_named_where_their_gpus_would_do() -> None:
    world = world_of(4, 4)
    gang(world, "holder", 4, vc="root.b")
    world.run()
    (placed,) = world.places
    idle = ({"s0", "s1"} - {placed.assignments[0].server_id}).pop()
    world.change(server(idle, 4, state=ServerState.DRAINING))
    gang(world, "j", 2)
    world.decide()
    assert world.why("j").startswith("unhealthy: ")
    assert "4 are not given out, because they or their servers are not well, or drain" in world.why("j")
    world.now_s = 2.0
    assert delays(world, "j") == Delays(capacity_us=2 * S)


def test_gpus_that_are_held_for_another_gang_are_named_where_they_would_do() -> None:
    world = world_of(2, 2)
    gang(world, "whole", 2, 2, vc="root.b")
    world.run()
    world.release(world.live("whole")[0].container_id, lost=True)
    gang(world, "j", 2)
    world.decide()
    assert (
        world.why("j") == "held: asks 2 GPUs at once, 2 x 1; 0 GPUs are free on 0 servers, 2 are held for other gangs"
    )
    world.now_s = 3.0
    assert delays(world, "j") == Delays(capacity_us=3 * S)
    gang(world, "larger", 3)
    world.decide()
    assert world.why("larger").startswith("cluster_full: "), "what is held would not be enough"


def test_only_the_last_reasons_are_remembered() -> None:
    world = world_of(4)
    world.configure("root.a", quota_gpus=1)
    gang(world, "holder", 4, vc="root.b")
    world.run()
    gang(world, "j", 2)
    for turn in range(40):
        world.now_s += 1.0
        world.configure("root.a", quota_gpus=1 + turn % 2)
    found = history(world, "j")
    assert len(found) == 16
    assert [at for _, at in found] == [float(at) for at in range(25, 41)]


def test_totals_of_waits_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarn_gpu_sched.engine.waits.ROWS_MAX", 1)
    world = world_of(4)
    for vc in ("root.a", "root.b", "root.c", "root.a"):
        gang(world, f"j{len(world.places)}", 1, vc=vc)
        world.run()
    assert [(one.vc, one.size, one.waits) for one in world.engine.delays()] == [("", "1", 2), ("root.a", "1", 2)]


def test_restored_or_not_delays_and_history_are_the_same() -> None:
    world = world_of(4)
    world.configure("root.a", quota_gpus=1)
    gang(world, "holder", 4, vc="root.b")
    world.run()
    gang(world, "j", 2)
    world.decide()
    for turn in range(30):
        world.now_s += 0.1
        again = Engine.restore(world.engine.snapshot())
        assert again.digest() == world.engine.digest()
        assert again.job("j") == world.engine.job("j")
        if turn % 3 == 0:
            world.engine = again
        world.configure("root.a", quota_gpus=1 + turn % 2)
    assert delays(world, "j").total_us == 3 * S


@pytest.mark.parametrize(
    ("gpus", "size"), [(0, "0"), (1, "1"), (2, "2-4"), (4, "2-4"), (5, "5-8"), (8, "5-8"), (9, ">8")]
)
def test_sizes_are_the_papers(gpus: int, size: str) -> None:
    assert size_of(gpus) == size


def test_the_cause_that_took_longest_is_the_first_of_equal_ones() -> None:
    assert Delays(1, 1, 0, 0).mostly is Cause.FAIR_SHARE
    assert Delays(1, 2, 2, 0).mostly is Cause.CAPACITY
    assert Delays().mostly is None


def test_a_master_waits_for_another_reason_once_its_queue_may_have_one_though_all_masters_hold_as_much_as_before() -> (
    None
):
    world = World(EngineSettings(policy="philly", am_share=0.1)).up(server("s1", memory_mb=10_240, vcores=100))
    for queue in ("a", "b"):
        world.configure(f"root.{queue}", quota_gpus=2)
    world.submit("first", vc="root.a")
    world.ask("first", ask(1, AM, 0, am=True))
    world.submit("workers", vc="root.b")
    world.ask("workers", ask(2, worker(1)))
    world.run()
    world.submit("waits", vc="root.a")
    world.ask("waits", ask(1, worker(3, AM.memory_mb), 0, am=True))
    world.submit("other", vc="root.b")
    world.decide()
    world.audited = False  # who audits looks for reasons before the instant is over
    world.now_s = 10.0
    world.release(next(one.container_id for one in world.engine._core.state.jobs["first"].containers.values()))
    world.ask("other", ask(1, AM, 0, am=True))
    world.decide()
    world.now_s = 20.0
    assert history(world, "waits")[-2:] == [(ReasonCode.AM_LIMIT, 0.0), (ReasonCode.VC_QUOTA, 10.0)]


def test_who_may_not_have_what_another_partition_lends_waits_for_the_rest_from_the_very_instant_of_the_servers() -> (
    None
):
    world = World(PHILLY).up(server("s1"), server("s2"), server("lends", 8, partition="p", lends=True))
    world.configure("root.a", capacities=(QueueCapacity("p", "", "[yarn.io/gpu=0]"),))
    for name, size in (("one", 3), ("two", 3), ("three", 1), ("four", 1)):
        gang(world, name, 1, size, vc="root.b")
    world.run()
    world.now_s = 5.0
    world.audited = False  # who audits looks for reasons before the instant is over
    gang(world, "j", 1, 2)
    world.change(server("s3", 0))
    world.now_s = 10.0
    world.end("one")
    world.now_s = 20.0
    assert history(world, "j") == [(ReasonCode.VC_MAXIMUM, 5.0), (ReasonCode.FRAGMENTED, 10.0)]
