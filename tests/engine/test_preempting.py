"""Borrowed jobs are stopped for a gang that is within its quota: when, whom, and what becomes of all of them (law 7)."""

from __future__ import annotations

from tests.engine.reclaims import AFTER_S, GRACE_S, HOLD_S, MIN_RUN_S, Reclaiming, borrowed
from tests.engine.world import ask, server, worker
from yarn_gpu_sched.engine.commands import StopContainers
from yarn_gpu_sched.engine.events import CheckpointReported
from yarn_gpu_sched.model.server import ServerState

BEFORE_S = 0.001


def test_what_was_lent_comes_back_whole_after_the_wait_and_the_grace() -> None:
    world = borrowed()
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S - BEFORE_S)
    assert (world.warned(), world.stopped()) == ([], [])
    world.step(1_000.0 + AFTER_S)
    assert (world.warned(), world.stopped()) == (["a2"], [])
    world.step(1_000.0 + AFTER_S + GRACE_S - BEFORE_S)
    assert world.stopped() == []
    assert "is warned, and stopped in 0 s" in world.why("b1")
    world.step(1_000.0 + AFTER_S + GRACE_S)
    assert world.stopped() == ["a2"]
    assert world.runs("b1")
    assert world.runs("a1")
    view = world.engine.job("a2")
    assert view is not None
    assert [(one.by_job_id, one.by_vc) for one in view.preempted] == [("b1", "root.b")]
    assert view.preempted[0].lost_gpu_s == 4 * (1_000.0 + AFTER_S + GRACE_S - 10.0)
    world.end("a1")
    world.step()
    assert world.runs("a2"), "the victim comes back by itself"


def test_below_the_threshold_nobody_is_stopped_and_at_it_somebody_is() -> None:
    """10 x >= 9 y, in whole numbers: 9 of 10 GPUs are enough, 8 are not."""
    for idle, stopped in ((1, ["a2"]), (2, [])):
        world = Reclaiming(5, 5)
        world.configure("root.a", quota_gpus=5)
        world.configure("root.b", quota_gpus=5)
        world.gang("a1", 5, 1)
        world.step(10.0)
        world.gang("a2", 5 - idle, 1)
        world.step(1_000.0)
        world.gang("b1", 3, 1, "root.b", "locality:0")
        world.step(2_000.0)
        assert world.stopped() == stopped


def test_servers_that_drain_or_are_unhealthy_do_not_count_for_the_threshold() -> None:
    world = borrowed()
    world.change(server("s2", 4, rack="/r0"))
    world.gang("b1", 4, 1, "root.b", "locality:0")
    world.step(1_400.0)
    world.end("b1")
    world.change(server("s2", 4, rack="/r0", state=ServerState.DRAINING))
    world.gang("b2", 4, 1, "root.b")
    world.step(2_000.0)
    assert world.stopped() == ["a2"]


def test_who_is_within_the_quota_is_never_stopped() -> None:
    world = borrowed()
    world.configure("root.a", quota_gpus=8)
    world.configure("root.b", quota_gpus=8)
    world.gang("b1", 4, 1, "root.b")
    world.step(3_000.0)
    assert world.stopped() == []
    preview = world.engine.preempt_preview("b1")
    assert preview is not None
    assert (preview.condition, preview.sentence) == (
        "no_victim",
        "nobody borrows in a queue that would have to give back",
    )


def test_who_would_borrow_itself_takes_nothing_back() -> None:
    world = borrowed()
    world.configure("root.b", quota_gpus=3)
    world.configure("root.c", quota_gpus=0)
    world.gang("b1", 4, 1, "root.b")
    world.gang("c1", 1, 1, "root.c")
    world.step(3_000.0)
    assert world.stopped() == []
    said = {name: world.engine.preempt_preview(name) for name in ("b1", "c1")}
    assert "uses 0 GPUs of its quota of 3, and with 4 more it would borrow itself" in str(said["b1"])
    assert "has no quota, so it may borrow and nothing is taken back for it" in str(said["c1"])


def test_a_job_that_straddles_the_quota_is_borrowed_whole() -> None:
    world = Reclaiming(4, 4)
    world.configure("root.a", quota_gpus=6)
    world.configure("root.b", quota_gpus=2)
    world.gang("a1", 4, 1)
    world.step(10.0)
    world.gang("a2", 4, 1)
    world.step(1_000.0)
    world.gang("b1", 2, 1, "root.b")
    world.step(2_000.0)
    assert world.stopped() == ["a2"]
    assert world.runs("b1")


def test_nobody_is_stopped_before_it_ran_long_enough() -> None:
    world = Reclaiming(4, 4)
    world.configure("root.a", quota_gpus=4)
    world.configure("root.b", quota_gpus=4)
    world.gang("a1", 4, 1)
    world.step(100.0)
    world.gang("a2", 4, 1)
    world.gang("b1", 4, 1, "root.b")
    world.step(100.0 + MIN_RUN_S - BEFORE_S)
    assert world.warned() == []
    world.step(100.0 + MIN_RUN_S)
    assert world.warned() == ["a2"]


def test_a_job_that_was_stopped_three_times_is_spared() -> None:
    world = borrowed(preempt_min_run_s=0.0)
    for turn in range(5):
        world.gang(f"b{turn}", 4, 1, "root.b")
        world.step(world.now_s + 500.0)
        world.end(f"b{turn}")
        world.step(world.now_s + 500.0)
    assert world.stopped() == ["a2"] * 3
    view = world.engine.job("a2")
    assert view is not None
    assert view.job.attempt == 4


def test_the_last_of_several_is_the_cheapest_by_its_checkpoint() -> None:
    """Of two borrowed jobs of one size the younger has less to lose, until the older reports a checkpoint."""
    for reports, stopped in ((False, "a3"), (True, "a2")):
        world = Reclaiming(4, 4, 4)
        world.configure("root.a", quota_gpus=4)
        world.configure("root.b", quota_gpus=8)
        for name in ("a1", "a2", "a3"):
            world.gang(name, 4, 1)
            world.step(world.now_s + 100.0)
        world.step(1_000.0)
        world.gang("b1", 4, 1, "root.b")
        world.step(1_100.0)
        if reports:
            world.apply(CheckpointReported(now_s=world.now_s, job_id="a2"))
        world.step(1_400.0)
        assert world.stopped() == [stopped]


def test_a_period_of_checkpoints_counts_as_reported() -> None:
    world = Reclaiming(4, 4, 4)
    world.configure("root.a", quota_gpus=4)
    world.configure("root.b", quota_gpus=8)
    for name, tags in (("a1", ()), ("a2", ("checkpoint:50",)), ("a3", ())):
        world.gang(name, 4, 1, "root.a", *tags)
        world.step(world.now_s + 100.0)
    world.step(1_000.0)
    world.gang("b1", 4, 1, "root.b")
    world.step(2_000.0)
    assert world.stopped() == ["a2"]


def test_as_few_as_are_needed_go_and_no_single_container_of_a_gang() -> None:
    """Eight jobs of one GPU and one of eight: the fewest whole jobs that make room where the gang may go."""
    world = Reclaiming(8, 8)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=16)
    world.gang("large", 8, 1)
    for turn in range(8):
        world.gang(f"small{turn}", 1, 1)
    world.step(1_000.0)
    world.gang("b1", 2, 1, "root.b", "locality:0")
    world.step(2_000.0)
    assert len(world.stopped()) == 2
    assert all(name.startswith("small") for name in world.stopped())
    assert world.runs("b1")


def test_of_an_application_without_a_gang_single_containers_go_the_youngest_first() -> None:
    world = Reclaiming(8)
    world.configure("root.a", quota_gpus=4)
    world.configure("root.b", quota_gpus=4)
    world.singles("plain", 8, 1)
    world.step(1_000.0)
    before = sorted(one.container_id for one in world.live("plain"))
    world.gang("b1", 3, 1, "root.b")
    world.step(2_000.0)
    stopped = [one for one in world.commands if isinstance(one, StopContainers)]
    assert sorted(name for one in stopped for name in one.container_ids) == before[-3:]
    assert world.runs("b1")
    assert len(world.live("plain")) == 5
    view = world.engine.job("plain")
    assert view is not None
    assert len(view.preempted) == 1


def test_what_the_gang_takes_that_is_free_is_held_from_the_beginning() -> None:
    """Nobody else gets it during the grace, and it counts as use of the one for which it is held."""
    world = Reclaiming(5, 5)
    world.configure("root.a", quota_gpus=5)
    world.configure("root.b", quota_gpus=5)
    world.gang("a1", 5, 1)
    world.step(10.0)
    world.gang("a2", 4, 1)
    world.step(1_000.0)
    world.gang("b1", 5, 1, "root.b")
    world.step(1_000.0 + AFTER_S)
    assert world.warned() == ["a2"]
    world.gang("a3", 1, 1)
    assert not world.runs("a3")
    uses = {one.virtual_cluster.path: one.used.gpus for one in world.engine.virtual_clusters()[0]}
    assert uses == {"root.a": 9, "root.b": 1}
    world.step(1_000.0 + AFTER_S + GRACE_S)
    assert world.runs("b1")


def test_who_is_not_needed_any_more_when_the_grace_ends_is_spared() -> None:
    world = borrowed()
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S)
    assert world.warned() == ["a2"]
    world.end("a1")
    world.step(2_000.0)
    assert world.runs("b1")
    assert world.stopped() == []
    assert world.runs("a2")


def test_conditions_are_looked_at_again_when_the_grace_ends() -> None:
    """A quota that was raised meanwhile makes the warned one borrow no more."""
    world = borrowed()
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S)
    assert world.warned() == ["a2"]
    world.configure("root.a", quota_gpus=8)
    world.step(2_000.0)
    assert world.stopped() == []
    assert not world.runs("b1")


def test_a_gang_that_may_not_run_when_the_grace_ends_has_nobody_stopped_and_nothing_held() -> None:
    world = borrowed()
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S)
    assert world.warned() == ["a2"]
    world.configure("root.b", quota_gpus=4, maximum_gpus=3)
    world.step(1_000.0 + AFTER_S + GRACE_S)
    assert world.engine.preemption().plans == ()
    world.step(2_000.0)
    assert world.stopped() == []


def test_a_gang_that_goes_away_spares_who_was_warned_and_leaves_nothing_held() -> None:
    world = borrowed()
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S)
    world.end("b1")
    world.step(2_000.0)
    assert world.stopped() == []
    assert world.engine.preemption().plans == ()


def test_a_victim_that_does_not_die_is_shown_and_the_hold_ends_at_its_bound() -> None:
    world = borrowed()
    world.gang("b1", 4, 1, "root.b")
    stop_s = 1_000.0 + AFTER_S + GRACE_S
    world.step(stop_s, obey=False)
    world.commit(*world.orders())
    world.answered += len(world.orders())
    world.step(stop_s + HOLD_S - BEFORE_S)
    (plan,) = world.engine.preemption().plans
    assert (plan.stage, plan.until_s, [one.job_id for one in plan.victims]) == ("stopping", stop_s + HOLD_S, ["a2"])
    world.step(stop_s + HOLD_S)
    assert world.engine.preemption().plans == ()
    assert not world.runs("b1")


def test_a_victim_that_the_resource_manager_does_not_stop_is_not_tried_again() -> None:
    world = borrowed()
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S + GRACE_S, obey=False)
    world.decline()
    world.step(5_000.0)
    assert world.stopped() == ["a2"]
    assert world.runs("a2")


def test_a_victim_never_stops_the_one_that_stopped_it() -> None:
    """Each is within its quota in turn, since the quotas move: without the rule they would stop each other for ever."""
    world = borrowed(preempt_min_run_s=0.0, preempt_spare_after=1_000)
    world.gang("b1", 4, 1, "root.b")
    world.step(1_200.0)
    assert world.stopped() == ["a2"]
    world.configure("root.a", quota_gpus=8)
    world.configure("root.b", quota_gpus=0)
    world.step(5_000.0)
    assert world.stopped() == ["a2"]


def test_at_most_so_many_are_stopped_in_a_minute() -> None:
    world = Reclaiming(8, preempt_victims_per_minute=3, preempt_grace_s=0.0)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=8)
    for turn in range(8):
        world.gang(f"a{turn}", 1, 1)
    world.step(1_000.0)
    for turn in range(3):
        world.gang(f"b{turn}", 2, 1, "root.b")
    world.step(1_000.0 + AFTER_S)
    assert len(world.stopped()) == 2
    world.step(1_000.0 + AFTER_S + 60.0 - BEFORE_S)
    assert len(world.stopped()) == 2
    world.step(1_000.0 + AFTER_S + 60.0)
    assert len(world.stopped()) == 4
    world.step(1_000.0 + AFTER_S + 120.0)
    assert len(world.stopped()) == 6


def test_nobody_is_stopped_just_after_the_start() -> None:
    world = Reclaiming(4, preempt_pause_s=900.0, preempt_min_run_s=0.0)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=4)
    world.gang("a1", 4, 1)
    world.gang("b1", 4, 1, "root.b")
    world.step(900.0 - BEFORE_S)
    assert world.warned() == []
    world.step(900.0)
    assert world.warned() == ["a1"]


def test_a_new_session_of_the_resource_manager_spares_who_was_warned() -> None:
    world = borrowed(preempt_pause_s=50.0)
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S)
    assert world.warned() == ["a2"]
    world.up(server("s0"), server("s1"), epoch=2)
    world.step(1_000.0 + AFTER_S + GRACE_S)
    assert world.stopped() == []


def test_below_the_common_queue_all_on_the_victims_way_must_be_above_their_quotas() -> None:
    """`root.p` as a whole uses no more than its quota, so what `root.p.x` has above its own is lent inside it, not to `root.b`."""
    for quota, stopped in ((8, []), (4, ["x2"])):
        world = Reclaiming(4, 4)
        world.configure("root.p", quota_gpus=quota)
        world.configure("root.p.x", quota_gpus=4)
        world.configure("root.p.y", quota_gpus=0)
        world.configure("root.b", quota_gpus=4)
        world.gang("x1", 4, 1, "root.p.x")
        world.step(10.0)
        world.gang("x2", 4, 1, "root.p.x")
        world.step(1_000.0)
        world.gang("b1", 4, 1, "root.b")
        world.step(2_000.0)
        assert world.stopped() == stopped


def test_victims_must_stand_apart_from_the_gang_below_a_common_queue() -> None:
    """Inside `root.p` its queues settle it among themselves, whatever `root.p` has."""
    world = Reclaiming(4, 4)
    world.configure("root.p", quota_gpus=2)
    world.configure("root.p.x", quota_gpus=4)
    world.configure("root.p.y", quota_gpus=4)
    world.gang("x1", 4, 1, "root.p.x")
    world.step(10.0)
    world.gang("x2", 4, 1, "root.p.x")
    world.step(1_000.0)
    world.gang("y1", 4, 1, "root.p.y")
    world.step(2_000.0)
    assert world.stopped() == ["x2"]
    assert world.runs("y1")


def test_only_a_complete_gang_has_others_stopped() -> None:
    world = borrowed()
    world.submit("b1", "gang:4x1", vc="root.b")
    world.ask("b1", ask(3, worker(1)))
    world.step(2_000.0)
    world.ask("b1", ask(4, worker(1)))
    world.step(2_000.0 + AFTER_S - BEFORE_S)
    assert world.warned() == []
    world.step(2_000.0 + AFTER_S)
    assert world.warned() == ["a2"]
