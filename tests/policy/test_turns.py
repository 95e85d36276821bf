"""Whose turn it is: by submission with and without overtaking, by run time, by what is left, by what was attained."""

from __future__ import annotations

import pytest

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.engine.commands import RequeueJob
from yarn_gpu_sched.policy import preemptive as preemptive_module


class Cluster:
    """Four GPUs on one server, and gangs of one-GPU members; stopped jobs come back as their next attempts at once."""

    def __init__(self, policy: str, *, servers: int = 1) -> None:
        self.world = World(EngineSettings(policy=policy)).up(*(server(f"s{number}") for number in range(servers)))
        self.attempts: dict[str, int] = {}
        self.tags: dict[str, tuple[str, ...]] = {}
        self.gpus: dict[str, int] = {}
        self.stopped: list[tuple[str, str]] = []

    def submit(self, name: str, gpus: int, runtime_s: int | None = None, **fields: object) -> None:
        runtime = () if runtime_s is None else (f"runtime:{runtime_s}",)
        self.tags[name] = (f"gang:{gpus}x1", *runtime)
        self.gpus[name] = gpus
        self.attempts[name] = 0
        self._attempt(name, submit_time_s=float(len(self.gpus)), **fields)

    def _attempt(self, name: str, **fields: object) -> None:
        self.attempts[name] += 1
        attempt = self.attempts[name]
        self.world.submit(name, *self.tags[name], attempt=attempt, **fields)
        self.world.ask(name, ask(self.gpus[name], worker(1)), attempt=attempt)

    def decide(self, now_s: float | None = None) -> list[str]:
        """Decide until nothing more is decided; list who started."""
        world = self.world
        world.now_s = world.now_s if now_s is None else now_s
        started = []
        for _ in range(20):
            world.commands.clear()
            placed = world.decide()
            world.commit(*placed)
            started += [decision.job_id for decision in placed]
            orders = [command for command in world.commands if isinstance(command, RequeueJob)]
            for order in orders:
                self._stop(order)
            if not placed and not orders:
                return started
        raise AssertionError("still deciding")

    def _stop(self, order: RequeueJob) -> None:
        self.stopped.append((order.job_id, order.preempted_by))
        self.world.commit(order)
        view = self.world.engine.job(order.job_id)
        assert view is not None
        self.world.release_all(order.job_id)
        self._attempt(order.job_id, submit_time_s=view.job.submit_time_s)


@pytest.mark.parametrize(
    ("policy", "started"),
    [
        ("fifo", ["a", "c", "d"]),
        ("fifo_strict", ["a"]),
        ("sjf", ["d", "a"]),
        ("srtf", ["d", "a"]),
        ("las", ["a", "c", "d"]),
    ],
)
def test_who_starts_of_those_that_wait(policy: str, started: list[str]) -> None:
    """Of 2, 3, 1 and 1 GPUs, the last one the shortest, the third without a run time, the second longer than the first."""
    cluster = Cluster(policy)
    cluster.submit("a", 2, 50)
    cluster.submit("b", 3, 60)
    cluster.submit("c", 1)
    cluster.submit("d", 1, 10)
    expected = [*started, "c"] if policy in {"sjf", "srtf"} else started
    assert cluster.decide() == expected


def test_nobody_passes_the_first_that_does_not_fit() -> None:
    cluster = Cluster("fifo_strict")
    cluster.submit("a", 3)
    cluster.submit("b", 2)
    assert cluster.decide() == ["a"]
    cluster.submit("c", 1)
    assert cluster.decide() == []
    cluster.world.end("a")
    assert cluster.decide() == ["b", "c"]


def test_whoever_has_priority_goes_before_the_first_that_does_not_fit() -> None:
    cluster = Cluster("fifo_strict")
    cluster.submit("a", 3)
    cluster.submit("b", 2)
    cluster.decide()
    cluster.submit("urgent", 1, priority=1)
    assert cluster.decide() == ["urgent"]


def test_a_driver_does_not_wait_at_once_for_those_that_may_not_pass() -> None:
    cluster = Cluster("fifo_strict")
    cluster.submit("a", 3)
    cluster.submit("b", 2)
    cluster.submit("c", 1)
    cluster.decide()
    assert cluster.world.engine.next_wake_s() is None


# Those that stop running gangs


def test_what_is_left_to_run_decides_who_is_stopped() -> None:
    cluster = Cluster("srtf")
    cluster.submit("long", 3, 1_000)
    cluster.submit("short", 1, 300)
    assert cluster.decide() == ["short", "long"]
    cluster.submit("new", 2, 500)
    assert cluster.decide(100.0) == ["new"]
    assert cluster.stopped == [("long", "new")]
    cluster.submit("later", 1, 201)  # the short one has 200 s left
    assert cluster.decide(100.0) == ["later"]
    assert cluster.stopped == [("long", "new")]


def test_nobody_is_stopped_for_whom_there_is_room() -> None:
    cluster = Cluster("srtf")
    cluster.submit("long", 2, 1_000)
    cluster.decide()
    cluster.submit("new", 2, 10)
    assert cluster.decide(5.0) == ["new"]
    assert cluster.stopped == []


def test_nobody_is_stopped_for_whom_there_would_still_be_no_room() -> None:
    """On two servers of four, a gang that must be on one, and one GPU held on each by jobs that are to run on."""
    cluster = Cluster("srtf", servers=2)
    cluster.submit("stays", 1, 10)
    cluster.decide()
    cluster.world.seen("other", "stranger", "s1", worker(1))
    cluster.submit("goes", 6, 1_000)
    assert cluster.decide() == ["goes"]
    cluster.world.submit("new", "gang:1x4", "runtime:500", submit_time_s=9.0)
    cluster.world.ask("new", ask(1, worker(4)))
    assert cluster.decide() == []
    assert cluster.stopped == []


def test_of_several_that_may_be_stopped_the_last_in_order_is() -> None:
    cluster = Cluster("srtf")
    for name, runtime_s in (("a", 300), ("b", 400), ("c", 500), ("d", 350)):
        cluster.submit(name, 1, runtime_s)
    cluster.decide()
    cluster.submit("new", 1, 100)
    assert cluster.decide(1.0) == ["new"]
    assert cluster.stopped == [("c", "new")]


def test_attained_service_counts_gpus_and_lasts_over_attempts() -> None:
    cluster = Cluster("las")
    cluster.submit("wide", 4)
    cluster.decide()
    cluster.submit("new", 2)
    assert cluster.decide(899.0) == []  # 3,596 GPU-seconds: still in the first step, and first submitted
    assert cluster.world.engine.next_wake_s() == 900.0
    assert cluster.decide(900.0) == ["new"]
    assert cluster.stopped == [("wide", "new")]
    assert cluster.decide(2_699.0) == []
    assert cluster.world.engine.next_wake_s() == 2_700.0
    assert cluster.decide(2_700.0) == ["wide"]  # both have 3,600 now, and the wide one was first
    assert cluster.stopped == [("wide", "new"), ("new", "wide")]


def test_who_starts_now_is_looked_at_again_when_others_come_before_it() -> None:
    cluster = Cluster("las")
    cluster.submit("wide", 4)
    cluster.submit("new", 2)
    cluster.world.commit(*cluster.world.decide())
    assert cluster.world.engine.next_wake_s() == 900.0


def test_nobody_wakes_for_a_step_after_which_nobody_comes_first() -> None:
    cluster = Cluster("las")
    cluster.submit("first", 2)
    cluster.submit("second", 2)
    cluster.decide()
    cluster.submit("new", 4)
    assert cluster.decide(4_000.0) == ["new"]  # the others have 8,000 GPU-seconds each: two steps
    assert cluster.world.engine.next_wake_s() == 5_800.0


def test_tiresias_has_two_queues_each_in_order_of_submission() -> None:
    cluster = Cluster("tiresias")
    cluster.submit("first", 4)
    cluster.decide()
    cluster.submit("second", 4)
    assert cluster.decide(799.0) == []
    assert cluster.world.engine.next_wake_s() == 800.0
    assert cluster.decide(800.0) == ["second"]
    assert cluster.decide(1_600.0) == ["first"]  # 3,200 GPU-seconds each: both are in the second queue for good
    assert cluster.stopped == [("first", "second"), ("second", "first")]
    assert cluster.decide(10_000.0) == []
    assert cluster.world.engine.next_wake_s() is None


@pytest.mark.parametrize("policy", ["las", "tiresias"])
def test_steps_that_are_reached_between_two_ticks_of_the_clock_end_too(policy: str) -> None:
    """Nobody takes turns without end at a step that is reached at a time that cannot be written exactly."""
    for gpus in range(9, 17):
        cluster = Cluster(policy, servers=4)
        cluster.world.now_s = 1.7e9 + gpus / 7
        cluster.submit("a", gpus)
        cluster.decide()
        cluster.submit("b", gpus)
        cluster.decide()
        for _ in range(10):
            wake_s = cluster.world.engine.next_wake_s()
            if wake_s is None:
                break
            assert wake_s > cluster.world.now_s
            cluster.decide(wake_s)
        assert len(cluster.stopped) == (2 if policy == "tiresias" else 10)


def test_who_is_beyond_so_many_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemptive_module, "LOOKAHEAD", 2)
    cluster = Cluster("srtf")
    cluster.submit("held", 3, 1)
    cluster.decide()
    for name, gpus in (("a", 4), ("b", 4), ("c", 4), ("d", 1)):
        cluster.submit(name, gpus, 100)
    assert cluster.decide() == []
    monkeypatch.setattr(preemptive_module, "LOOKAHEAD", 3)
    assert cluster.decide() == ["d"]


def test_masters_and_single_containers_take_no_turns() -> None:
    cluster = Cluster("srtf")
    cluster.submit("gang", 4, 10)
    cluster.world.submit("other")
    cluster.world.ask("other", ask(1, worker(0), 0, am=True))
    assert cluster.decide() == ["gang", "other"]


def test_an_order_to_stop_that_was_refused_is_given_again_after_a_pause() -> None:
    cluster = Cluster("srtf")
    cluster.submit("long", 4, 1_000)
    cluster.decide()
    cluster.submit("new", 4, 10)
    world = cluster.world
    for pause_s in (0.1, 0.2, 0.4):
        world.commands.clear()
        world.decide()
        (order,) = [command for command in world.commands if isinstance(command, RequeueJob)]
        world.refuse(order)
        assert world.decide() == []
        assert world.engine.next_wake_s() == pytest.approx(world.now_s + pause_s)
        world.now_s += pause_s
    assert cluster.decide() == ["new"]
