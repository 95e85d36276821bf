"""The lines of those that wait: who is given next, whom a block takes out, and what brings a line back."""

from __future__ import annotations

import random

import pytest

from tests.engine.world import ask, server, worker
from yarn_gpu_sched.engine import queue as queue_module
from yarn_gpu_sched.engine.queue import Queue
from yarn_gpu_sched.engine.waits import Waits
from yarn_gpu_sched.engine.want import JobWant, want_of
from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.gang_tag import GangTag
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server_use import Part
from yarn_gpu_sched.placement import FreeIndex

SMALL, LARGE = ask(1, worker(1)), ask(1, worker(4))
PLAIN = ask(1, Resource(100, 1))


class Lines:
    """A queue over two servers of 4 GPUs, 1,000 MB and 10 vcores; half of that is the GPUs' share."""

    def __init__(self) -> None:
        self.index = FreeIndex()
        self.state = ClusterState(self.index, 0.5)
        self.queue = Queue(self.index, lambda _: 0.0, Waits())
        self.records: dict[str, JobRecord] = {}
        for name in ("s1", "s2"):
            self.state.put_server(server(name, memory_mb=1_000, vcores=20))

    def put(self, job_id: str, *asks: Ask, submitted_s: float | None = None, gang: int = 0) -> None:
        """Let a job ask; it is submitted after those that came before unless said otherwise."""
        record = self.records.get(job_id)
        if record is None:
            at_s = float(len(self.records)) if submitted_s is None else submitted_s
            record = self.records[job_id] = JobRecord(Job(job_id, "root.a", submit_time_s=at_s), 0.0)
        record.gang = GangTag(gang) if gang else None
        record.asks = asks
        self.queue.put(record, want_of(record))
        self.check()

    def check(self) -> None:
        assert list(self.queue.faults()) == []

    def first(self) -> str | None:
        want = self.queue.first()
        return None if want is None else want.job_id

    def block(self, *, for_masters: bool = False) -> str:
        """Let the first one wait; return whose it is."""
        want = self.queue.first()
        assert want is not None
        self.queue.block(want, for_masters=for_masters)
        assert self.queue.is_blocked(want)
        self.check()
        return want.job_id

    def block_all(self) -> list[str]:
        blocked = []
        while self.first() is not None:
            blocked.append(self.block())
        return blocked

    def ready(self) -> list[str]:
        """List whose turn it is, line by line; all are blocked afterwards."""
        self.check()
        return self.block_all()

    def take(self, server_id: str, memory_mb: int, vcores: int, mask: int = 0) -> None:
        with self.state.transaction() as plan:
            assert plan.take(Part(self.state.servers[server_id], memory_mb, vcores, mask, mask.bit_count()))
            plan.commit()

    def give(self, server_id: str, memory_mb: int, vcores: int, mask: int = 0) -> None:
        with self.state.transaction() as plan:
            assert plan.release(Part(self.state.servers[server_id], memory_mb, vcores, mask, mask.bit_count()))
            plan.commit()


@pytest.fixture
def lines() -> Lines:
    return Lines()


def test_the_first_submitted_is_given_until_it_goes_or_its_line_waits(lines: Lines) -> None:
    lines.put("b", SMALL, submitted_s=2.0)
    lines.put("c", LARGE, submitted_s=3.0)
    lines.put("a", SMALL, submitted_s=1.0)
    assert (lines.first(), lines.first()) == ("a", "a")
    lines.put("a")
    assert lines.first() == "b"
    assert lines.block_all() == ["b", "c"]
    assert lines.first() is None


def test_of_equal_times_the_first_by_id(lines: Lines) -> None:
    for name in ("b", "a", "c"):
        lines.put(name, SMALL, submitted_s=1.0)
    assert lines.first() == "a"


def test_equal_wants_stand_in_one_line_which_is_blocked_as_one(lines: Lines) -> None:
    for number in range(5):
        lines.put(f"j{number}", SMALL)
    assert lines.block_all() == ["j0"]
    lines.put("later", SMALL)
    assert lines.first() is None
    assert [job_id for _, job_id in lines.queue.listed()] == ["j0", "j1", "j2", "j3", "j4", "later"]


def test_who_wants_the_same_as_before_keeps_its_place_and_its_line(lines: Lines) -> None:
    lines.put("a", SMALL)
    lines.put("b", SMALL)
    lines.block()
    lines.put("a", ask(7, worker(1)))
    assert lines.first() is None, "still one container of that size"
    want = lines.records["a"].want
    assert isinstance(want, JobWant)
    assert want.members == [(ask(7, worker(1)), 1)]


def test_who_wants_something_else_stands_elsewhere_and_its_line_goes_on_without_it(lines: Lines) -> None:
    lines.put("a", SMALL)
    lines.put("b", SMALL)
    lines.block()
    lines.put("a", LARGE)
    assert lines.first() == "a"
    lines.put("a", SMALL)
    assert lines.first() is None
    lines.put("a")
    lines.put("b")
    assert lines.queue.listed() == []
    lines.put("b", SMALL)
    assert lines.first() == "b", "the line that was blocked has gone"


@pytest.mark.parametrize("kind", ["slots", "gpus", "spare", "masters"])
def test_a_line_that_nobody_stands_in_any_more_waits_for_nothing(lines: Lines, kind: str) -> None:
    asks = {"slots": ask(1, worker(5)), "gpus": LARGE, "spare": PLAIN, "masters": PLAIN}[kind]
    for _ in range(2):
        lines.put("a", asks)
        assert lines.block(for_masters=kind == "masters") == "a"
        lines.put("a")
        assert lines.first() is None
        lines.queue.wake_partition("")
        lines.check()
        assert lines.first() is None


def test_when_gpus_are_freed_those_wake_whose_containers_would_fit_now(lines: Lines) -> None:
    for name in ("s1", "s2"):
        lines.take(name, 0, 0, 0b1111)
    for gpus in (1, 2, 3, 4):
        lines.put(f"j{gpus}", ask(1, worker(gpus)))
    lines.put("two", ask(2, worker(1)), gang=2)
    assert lines.ready() == ["j1", "j2", "j3", "j4", "two"]
    lines.queue.wake_freed("")
    assert lines.ready() == [], "nothing was freed"
    lines.give("s1", 0, 0, 0b1)
    lines.queue.wake_freed("")
    assert lines.ready() == ["j1"]
    lines.take("s1", 0, 0, 0b1)
    lines.give("s1", 0, 0, 0b111)
    lines.queue.wake_freed("p")
    assert lines.ready() == [], "elsewhere"
    lines.queue.wake_freed("")
    assert lines.ready() == ["j1", "j2", "j3", "two"]


def test_who_lacked_no_gpus_wakes_whenever_something_is_freed(lines: Lines) -> None:
    lines.put("memory", ask(1, worker(1, 5_000)))
    lines.put("mixed", ask(1, worker(1), 1), ask(1, worker(2), 2), gang=2)
    assert lines.ready() == ["memory", "mixed"]
    lines.queue.wake_freed("p")
    assert lines.ready() == []
    lines.queue.wake_freed("")
    assert lines.ready() == ["memory", "mixed"]


def test_who_wants_spare_memory_wakes_when_a_server_that_would_serve_was_touched(lines: Lines) -> None:
    lines.take("s1", 400, 1)
    lines.take("s2", 400, 1)
    for memory_mb in (150, 300):
        lines.put(f"j{memory_mb}", ask(1, Resource(memory_mb, 1)))
    assert lines.ready() == ["j150", "j300"]
    assert lines.queue.wake_spare("") is False
    lines.give("s1", 40, 0)
    assert lines.queue.wake_spare("") is False
    assert lines.ready() == []
    lines.give("s1", 60, 0)
    assert lines.queue.wake_spare("") is True
    assert lines.ready() == ["j150"]
    lines.give("s2", 300, 0)
    lines.queue.wake_freed("")
    assert lines.ready() == ["j150", "j300"]
    assert lines.queue.wake_spare("unknown") is False


def test_gpus_that_are_taken_leave_their_share_to_others(lines: Lines) -> None:
    lines.take("s1", 400, 1)
    lines.take("s2", 400, 1)
    lines.put("j", ask(1, Resource(200, 1)))
    assert lines.ready() == ["j"]
    lines.take("s1", 0, 0, 0b1)
    assert lines.queue.wake_spare("") is True
    assert lines.ready() == ["j"]


@pytest.mark.parametrize(
    ("asks", "gang"),
    [((ask(2, Resource(450, 1)),), 2), ((ask(1, Resource(450, 1), 1), ask(1, Resource(460, 1), 2)), 2)],
    ids=["two alike", "two kinds"],
)
def test_a_gang_that_wants_spare_memory_wakes_whatever_was_touched(
    lines: Lines, asks: tuple[Ask, ...], gang: int
) -> None:
    """It is not known which servers together would serve it."""
    lines.take("s1", 100, 1)
    lines.take("s2", 100, 1)
    lines.put("j", *asks, gang=gang)
    assert lines.ready() == ["j"]
    lines.give("s1", 1, 0)
    assert lines.queue.wake_spare("") is True


@pytest.mark.parametrize(("touched", "woken"), [(1, []), (2, ["j"])])
def test_where_too_many_servers_were_touched_to_be_told_everybody_wakes(
    lines: Lines, monkeypatch: pytest.MonkeyPatch, touched: int, woken: list[str]
) -> None:
    monkeypatch.setattr(queue_module, "TOUCHED_MAX", 2)
    lines.take("s1", 450, 1)
    lines.take("s2", 450, 1)
    lines.put("j", ask(1, Resource(300, 1)))
    lines.block()
    for name in ("s1", "s2")[:touched]:
        lines.take(name, 1, 0)
    assert lines.queue.wake_spare("") is bool(woken)
    assert lines.ready() == woken


def test_nobody_is_watched_for_once_nobody_wants_spare_memory(lines: Lines) -> None:
    partition = lines.index.partition("")
    lines.put("j", PLAIN)
    lines.block()
    assert partition.watched is True
    lines.put("j")
    lines.take("s1", 1, 0)
    assert lines.queue.wake_spare("") is False
    assert partition.watched is False


def test_masters_wake_with_masters_and_with_servers_and_with_nothing_else(lines: Lines) -> None:
    lines.put("m", PLAIN)
    lines.block(for_masters=True)
    lines.give("s1", 0, 0)
    lines.queue.wake_freed("")
    assert lines.first() is None
    lines.queue.wake_masters()
    assert lines.ready() == ["m"]


def test_servers_that_change_wake_all_of_their_partition_and_all_masters(lines: Lines) -> None:
    lines.put("m", PLAIN)
    lines.block(for_masters=True)
    lines.put("slots", ask(1, worker(5)))
    lines.put("gpus", LARGE)
    lines.put("spare", ask(1, Resource(101, 1)))
    lines.put("elsewhere", ask(1, worker(1), partition="p"))
    assert lines.ready() == ["slots", "gpus", "spare", "elsewhere"]
    lines.queue.wake_partition("")
    assert lines.ready() == ["m", "slots", "gpus", "spare"]
    lines.queue.wake_partition("p")
    assert lines.ready() == ["elsewhere"]


def test_clearing_forgets_every_line_and_what_it_waited_for(lines: Lines) -> None:
    for name, one in (("slots", ask(1, worker(5))), ("gpus", LARGE), ("spare", PLAIN), ("ready", SMALL)):
        lines.put(name, one)
    for _ in range(3):
        lines.block()
    lines.queue.clear()
    lines.queue.wake_partition("")
    assert (lines.first(), lines.queue.listed(), list(lines.queue.faults())) == (None, [], [])


def test_a_long_line_whose_jobs_come_and_go_stays_short(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "STALE_MIN", 4)
    lines.put("stays", SMALL, submitted_s=1.0)
    longest = 0
    for number in range(50):
        lines.put(f"goes{number}", SMALL, submitted_s=100.0 - number)
        lines.put(f"goes{number}")
        (line,) = lines.queue._lines.values()
        longest = max(longest, len(line.heap))
    assert longest <= 2 * 2 + 4
    assert lines.first() == "stays"


def test_a_job_that_is_submitted_anew_under_its_name_stands_where_it_belongs(lines: Lines) -> None:
    lines.put("a", SMALL, submitted_s=1.0)
    lines.put("b", SMALL, submitted_s=2.0)
    lines.put("a")
    lines.records["a"].order = (3.0, "a")
    lines.put("a", SMALL)
    assert lines.first() == "b"
    lines.put("b")
    assert lines.first() == "a"


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_the_first_of_the_ready_lines_is_given(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared with a list of all jobs, and a set of the demands that are blocked."""
    monkeypatch.setattr(queue_module, "STALE_MIN", 3)
    rng = random.Random(seed)
    lines = Lines()
    blocked: set[int] = set()
    wants: dict[str, tuple[int, float]] = {}
    for step in range(2_000):
        name = f"j{rng.randint(0, 12):02d}"
        action = rng.random()
        if action < 0.5:
            gpus = rng.randint(5, 8)
            if name not in lines.records:
                lines.put(name, submitted_s=float(rng.randint(0, 4)))
            wants[name] = (gpus, lines.records[name].order[0])
            lines.put(name, ask(1, worker(gpus)))
        elif action < 0.8:
            if wants.pop(name, None):
                lines.put(name)
        elif action < 0.9 and lines.first() is not None:
            blocked.add(wants[lines.block()][0])
        elif step % 3 == 0:
            lines.queue.wake_partition("")
            blocked.clear()
        blocked &= {gpus for gpus, _ in wants.values()}
        ready = sorted((at_s, job_id) for job_id, (gpus, at_s) in wants.items() if gpus not in blocked)
        assert lines.first() == (ready[0][1] if ready else None), f"step {step}"
        lines.check()
