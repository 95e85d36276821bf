"""What a job must have next, by what it asks, what is under way for it, and what its gang is."""

from __future__ import annotations

import pytest

from tests.engine.world import AM, ask, worker
from yarn_gpu_sched.engine.want import Demand, JobWant, gang_members, single, want_of, whole
from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.gang_tag import GangTag
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.job_record import JobRecord, ask_key
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.placement import Kind

MASTER = ask(1, AM, 0, am=True)
ONE, TWO, PLAIN = ask(3, worker(1), 1), ask(2, worker(2), 2), ask(2, worker(0), 3)
SMALL_ASK = (ONE, 1)


def record(gang: GangTag | None, *asks: Ask, served: int = 0, under_way: tuple[tuple[Ask, int], ...] = ()) -> JobRecord:
    made = JobRecord(Job("j", "root.a"), 0.0)
    made.gang, made.asks, made.served = gang, asks, served
    made.in_flight = {ask_key(one): count for one, count in under_way}
    return made


def told(want: JobWant | None) -> tuple[bool, list[tuple[Ask, int]]] | None:
    return None if want is None else (want.gang, want.members)


@pytest.mark.parametrize(
    ("asks", "under_way", "expected"),
    [
        ((), (), None),
        ((ONE, TWO), (), (False, [(ONE, 1)])),
        ((ONE, TWO), ((ONE, 2),), (False, [(ONE, 1)])),
        ((ONE, TWO), ((ONE, 3),), (False, [(TWO, 1)])),
        ((ONE, TWO), ((ONE, 3), (TWO, 2)), None),
        ((ONE, MASTER), (), (False, [(MASTER, 1)])),
        ((MASTER, ONE), ((MASTER, 1),), (False, [(ONE, 1)])),
    ],
)
def test_a_job_without_a_gang_wants_its_master_then_one_by_one(
    asks: tuple[Ask, ...],
    under_way: tuple[tuple[Ask, int], ...],
    expected: tuple[bool, list[tuple[Ask, int]]] | None,
) -> None:
    assert told(want_of(record(None, *asks, under_way=under_way))) == expected


@pytest.mark.parametrize(
    ("gang", "asks", "served", "members"),
    [
        (GangTag(4), (ONE,), 0, None),
        (GangTag(3), (ONE,), 0, [(ONE, 3)]),
        (GangTag(2), (ONE,), 0, [(ONE, 2)]),
        (GangTag(4), (ONE, TWO), 0, [(ONE, 3), (TWO, 1)]),
        (GangTag(5), (ONE, TWO, PLAIN), 0, [(ONE, 3), (TWO, 2)]),
        (GangTag(6), (ONE, TWO, PLAIN), 0, [(ONE, 3), (TWO, 2), (PLAIN, 1)]),
        (GangTag(4), (MASTER, ONE), 0, None),
        (GangTag(4), (ONE,), 1, [(ONE, 3)]),
        (GangTag(4), (ONE,), 2, [(ONE, 2)]),
        (GangTag(2, 2), (ONE, TWO), 0, [(ONE, 2)]),
        (GangTag(3, 2, 1), (TWO, PLAIN), 0, [(TWO, 2), (PLAIN, 1)]),
        (GangTag(5, 2, 3), (TWO, PLAIN), 0, None),
        (GangTag(5, 2, 3), (TWO, PLAIN), 1, [(TWO, 2), (PLAIN, 2)]),
        (GangTag(5, 2, 3), (TWO, PLAIN), 3, [(TWO, 2)]),
        (GangTag(4, 2, 1), (TWO, PLAIN), 0, None),
        (GangTag(2, 2, 1), (PLAIN, TWO), 0, [(TWO, 1), (PLAIN, 1)]),
        (GangTag(2, 2), (PLAIN, TWO), 0, [(TWO, 2)]),
    ],
)
def test_a_gang_is_taken_from_the_asks_in_key_order_or_not_at_all(
    gang: GangTag, asks: tuple[Ask, ...], served: int, members: list[tuple[Ask, int]] | None
) -> None:
    job = record(gang, *asks, served=served)
    assert gang_members(job) == members
    if MASTER not in asks:
        assert told(want_of(job)) == (None if members is None else (True, members))


def test_what_is_under_way_is_no_member() -> None:
    assert gang_members(record(GangTag(3), ONE, TWO, under_way=((ONE, 2),))) == [(ONE, 1), (TWO, 2)]
    assert gang_members(record(GangTag(3), ONE, TWO, under_way=((ONE, 3),))) is None


def test_a_gang_whose_master_waits_waits_for_it() -> None:
    assert told(want_of(record(GangTag(3), MASTER, ONE))) == (False, [(MASTER, 1)])


def test_a_gang_under_way_is_not_wanted_again_one_that_was_placed_is_followed_by_singles() -> None:
    job = record(GangTag(2), ONE, under_way=((ONE, 1),))
    job.gang_under_way = True
    assert want_of(job) is None
    job.gang_placed, job.gang_under_way = True, False
    assert told(want_of(job)) == (False, [(ONE, 1)])


def test_a_want_tells_all_of_what_it_demands() -> None:
    want = want_of(record(GangTag(5, 2, 3), TWO, PLAIN, served=1))
    assert want is not None
    assert want.demand == Demand("", (Kind(2, 2, 1_024, 1), Kind(2, 0, 1_024, 1)), application_master=False)
    assert (want.job_id, want.vc, want.partition, want.application_master) == ("j", "root.a", "", False)
    assert (want.kinds, want.containers) == (want.demand.kinds, 4)
    assert (want.total, want.demand.gpus) == (Resource(4_096, 4, 4), 4)


def test_a_single_container_demands_what_its_ask_has() -> None:
    demand = single(ask(9, Resource(700, 3, 2), partition="p", am=True), record(None))
    assert demand == Demand("p", (Kind(1, 2, 700, 3),), application_master=True)
    assert (demand.containers, demand.gpus, demand.total) == (1, 2, Resource(700, 3, 2))


def test_asks_of_one_size_are_one_kind_and_the_largest_comes_first() -> None:
    """Equal gangs make equal demands, in whatever order they ask: they wait in one line."""
    sizes = [(ask(1, worker(1), 1, partition="p"), 1), (ask(1, worker(4, 10), 2), 2), (ask(9, worker(1), 3), 4)]
    demand = whole(sizes, record(None))
    assert demand == Demand("p", (Kind(2, 4, 10, 1), Kind(5, 1, 1_024, 1)), application_master=False)
    backwards = [(one.with_count(7), count) for one, count in reversed(sizes)]
    assert whole(backwards, record(None)).kinds == demand.kinds
