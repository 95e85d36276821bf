"""What is under way is in use at once; outcomes make it live or give it back."""

import pytest

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine.events import OutcomeReported, ResourceManagerLost
from yarn_gpu_sched.model.outcome import OutcomeCode


def asked(*, count: int = 4, gpus: int = 1) -> World:
    world = World().up(server("s1"), server("s2"))
    world.submit("j", f"gang:{count}x{gpus}")
    world.ask("j", ask(count, worker(gpus)))
    return world


def used(world: World) -> int:
    return world.engine.cluster().used.gpus


def test_a_placement_is_in_use_from_the_decision() -> None:
    world = asked()
    world.decide()
    assert used(world) == 4
    (first, second), _ = world.engine.servers()
    assert [gpu.job_id for gpu in first.gpus] == ["j"] * 4
    assert [gpu.container_id for gpu in first.gpus] == [""] * 4
    assert second.used.gpus == 0
    assert world.why("j") == "decided: placed 4 containers with 4 GPUs on 1 server; the commit is awaited"


def test_re_sent_asks_hold_nothing_twice() -> None:
    """C2: ask 4, commit 4; 4 again before the outcome, 0 after it; one exits, 1 is asked: one more."""
    world = asked()
    (placed,) = world.decide()
    world.ask("j", ask(4, worker(1)))
    assert world.decide() == []
    assert used(world) == 4
    world.commit(placed)
    assert world.decide() == []
    world.ask("j")
    assert world.decide() == []
    assert used(world) == 4
    world.release(world.live("j")[0].container_id)
    world.ask("j", ask(1, worker(1)))
    assert [len(one.assignments) for one in world.run()] == [1]
    assert used(world) == 4


def test_a_commit_takes_its_containers_off_the_ask_until_the_truth_comes() -> None:
    world = World().up(server("s1"))
    world.submit("j")
    world.ask("j", ask(3, worker(1)))
    first, *_ = world.decide()
    world.commit(first)
    view = world.engine.job("j")
    assert view is not None
    assert view.gpus_pending == 2
    assert world.decide() == []


def test_a_refused_decision_gives_everything_back_and_backs_off() -> None:
    world = asked()
    (placed,) = world.decide()
    world.refuse(placed)
    assert used(world) == 0
    assert world.decide() == []
    assert world.why("j").startswith("refused_by_rm: the resource manager refused the last decision as no_fit (not so)")
    assert world.engine.next_wake_s() == pytest.approx(0.1)


@pytest.mark.parametrize("codes", [(OutcomeCode.NO_FIT,), (OutcomeCode.NO_FIT, OutcomeCode.QUEUE_LIMIT)])
def test_a_back_off_doubles_to_its_maximum_whatever_the_causes_are(codes: tuple[OutcomeCode, ...]) -> None:
    world = asked()
    pauses = []
    for number in range(12):
        (placed,) = world.decide()
        world.refuse(placed, codes[number % len(codes)])
        wake_s = world.engine.next_wake_s()
        assert wake_s is not None
        pauses.append(round(wake_s - world.now_s, 3))
        world.now_s = wake_s
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0, 30.0]


def refused_for_long() -> World:
    world = asked()
    for code in (OutcomeCode.NO_FIT, OutcomeCode.NO_FIT, OutcomeCode.QUEUE_LIMIT):
        (placed,) = world.decide()
        world.refuse(placed, code)
        world.now_s = world.engine.next_wake_s() or 0.0
    (placed,) = world.decide()
    world.refuse(placed)
    assert world.decide() == []
    return world


def test_a_pause_ends_when_the_job_asks_otherwise() -> None:
    world = refused_for_long()
    world.ask("j", ask(4, worker(1)))
    assert world.decide() == [], "it was only said again"
    world.ask("j", ask(4, worker(1, memory_mb=2048)))
    assert len(world.decide()) == 1
    world = refused_for_long()
    world.ask("j", ask(4, worker(1)), blacklist=("s9",))
    assert len(world.decide()) == 1


def test_a_pause_ends_when_the_job_is_moved() -> None:
    world = refused_for_long()
    world.submit("j", "gang:4", vc="root.b", submit_time_s=1.0)
    assert len(world.decide()) == 1


def test_refusals_that_were_under_way_together_count_once() -> None:
    world = World().up(server("s1"))
    world.submit("j")
    world.ask("j", ask(4, worker(1)))
    for placed in world.decide():
        world.refuse(placed)
    assert world.engine.next_wake_s() == pytest.approx(0.1)


def test_a_pause_of_one_job_lets_the_others_go_on() -> None:
    world = asked(count=2)
    (placed,) = world.decide()
    world.refuse(placed)
    world.submit("other", "gang:8x1")
    world.ask("other", ask(8, worker(1)))
    assert [one.job_id for one in world.run()] == ["other"]


def test_an_outcome_of_nothing_or_twice_is_ignored() -> None:
    world = asked()
    (placed,) = world.decide()
    world.commit(placed)
    digest = world.engine.digest()
    world.commit(placed)
    world.refuse(placed)
    event = OutcomeReported(now_s=0.0, decision_id=999, code=OutcomeCode.COMMITTED, container_ids=("x",))
    assert world.apply(event) == []
    assert world.engine.digest() == digest


@pytest.mark.parametrize("ids", [(), ("a",), ("a", "b", "c"), ("a", "a", "b", "c")])
def test_a_commit_that_does_not_name_every_container_is_not_believed(ids: tuple[str, ...]) -> None:
    world = asked()
    (placed,) = world.decide()
    world.apply(
        OutcomeReported(now_s=0.0, decision_id=placed.decision_id, code=OutcomeCode.COMMITTED, container_ids=ids)
    )
    assert used(world) == 0


def test_a_container_that_is_seen_before_its_outcome_counts_once() -> None:
    world = asked()
    (placed,) = world.decide()
    world.seen("k0", "j", "s1", worker(1))
    world.commit(placed)
    assert used(world) == 4
    assert [one.container_id for one in world.live("j")] == ["k0", "k1", "k2", "k3"]


def test_losing_the_resource_manager_voids_what_is_under_way() -> None:
    world = asked()
    (placed,) = world.decide()
    world.apply(ResourceManagerLost(now_s=0.0))
    assert used(world) == 0
    assert world.decide() == []
    assert world.why("j").startswith("no_resource_manager")
    world.commit(placed)
    assert used(world) == 0


def test_a_server_that_vanishes_takes_its_part_of_a_decision_along() -> None:
    world = asked(count=8)
    (placed,) = world.decide()
    assert used(world) == 8
    world.remove("s1")
    assert used(world) == 4
    world.commit(placed)
    assert {one.server_id for one in world.live("j")} == {"s2"}
    assert used(world) == 4


def test_a_commit_for_an_attempt_that_was_replaced_holds_its_containers_only() -> None:
    world = asked()
    (placed,) = world.decide()
    world.submit("j", "gang:4x1", attempt=2, submit_time_s=1.0)
    world.ask("j", ask(4, worker(1)), attempt=2)
    world.commit(placed)
    (again,) = world.run()
    assert (again.attempt, len(again.assignments)) == (2, 4)
    assert used(world) == 8


def test_a_container_decided_before_its_job_was_said_to_be_a_gang_counts_for_it() -> None:
    world = World().up(server("s1"))
    world.submit("j", submit_time_s=1.0)
    world.ask("j", ask(1, worker(2)))
    placed = world.decide()
    world.submit("j", "gang:1x2", submit_time_s=1.0)
    world.commit(*placed)
    world.ask("j", ask(1, worker(2)))
    assert [len(one.assignments) for one in world.run()] == [1]
    assert world.engine.audit() == []
