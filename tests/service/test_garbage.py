"""When garbage is collected: between pieces of work, bounded, and never within a decision."""

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.service import changes
from tests.service.conftest import settled, until
from tests.service.raw_link import RawLink
from yarn_gpu_sched.engine import events
from yarn_gpu_sched.engine.commands import AnyCommand
from yarn_gpu_sched.service import Service
from yarn_gpu_sched.service.garbage import EVENTS_DUE, OBJECTS_DUE, OBJECTS_MAX, Garbage

Link = Callable[[], RawLink]


class Cycle:
    """Something that only the collector can free."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def garbage() -> Iterator[Garbage]:
    one = Garbage()
    one.begin()
    gc.collect()
    yield one
    one.end()
    gc.unfreeze()


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """List the generations that are collected meanwhile."""
    seen: list[int] = []

    def note(phase: str, about: dict[str, Any]) -> None:
        if phase == "start":
            seen.append(about["generation"])

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


def test_what_a_snapshot_left_is_collected_no_more(garbage: Garbage) -> None:
    before = gc.get_freeze_count()
    garbage.freeze()
    assert gc.get_freeze_count() > before


def test_nothing_is_collected_before_it_is_due(garbage: Garbage, collections: list[int]) -> None:
    garbage.applied(EVENTS_DUE - 1)
    garbage.when_idle()
    garbage.between_work()
    assert collections == []


def test_objects_make_it_due(garbage: Garbage, collections: list[int]) -> None:
    cycle = weakref.ref(Cycle())
    kept = [[number] for number in range(OBJECTS_DUE)]
    garbage.when_idle()
    assert (collections, cycle()) == ([0], None)
    assert len(kept) == OBJECTS_DUE


def test_events_make_it_due_once(garbage: Garbage, collections: list[int]) -> None:
    """Objects that take the place of frozen ones are not counted by Python: it would never look at them."""
    cycle = weakref.ref(Cycle())
    garbage.applied(EVENTS_DUE)
    garbage.between_work()
    garbage.between_work()
    assert (collections, cycle()) == ([0], None)


def test_older_generations_follow_as_python_would_have_it(garbage: Garbage, collections: list[int]) -> None:
    for _ in range(150):
        garbage.applied(EVENTS_DUE)
        garbage.when_idle()
    assert [collections.count(generation) for generation in (0, 1, 2)] == [137, 12, 1]


def test_the_whole_heap_is_put_off_while_work_waits_but_not_for_ever(garbage: Garbage, collections: list[int]) -> None:
    def between(times: int) -> None:
        for _ in range(times):
            garbage.applied(EVENTS_DUE)
            garbage.between_work()

    between(1_200)
    assert (collections.count(1), collections.count(2)) == (100, 0)
    between(200)
    assert collections.count(2) == 1


def test_the_automatic_collector_stays_as_the_last_resort(garbage: Garbage, collections: list[int]) -> None:
    assert gc.isenabled()
    kept = [[number] for number in range(OBJECTS_MAX - 1_000)]
    assert collections == []
    kept += [[number] for number in range(2_000)]
    assert collections == [0]
    garbage.end()
    assert gc.get_threshold()[0] < OBJECTS_MAX


class Watched:
    """Spies on a service's engine: how often garbage was collected while it worked, and besides."""

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        self.applying = False
        self.passes = self.within = self.besides = 0
        self._apply = service.engine.apply
        monkeypatch.setattr(service.engine, "apply", self.apply, raising=False)

    def apply(self, event: events.AnyEvent) -> list[AnyCommand]:
        self.applying = True
        self.passes += isinstance(event, events.Pass)
        try:
            return self._apply(event)
        finally:
            self.applying = False

    def note(self, phase: str, _about: dict[str, Any]) -> None:
        if phase == "start":
            self.within += self.applying
            self.besides += not self.applying


@pytest.mark.parametrize("taken_over", [True, False])
async def test_a_service_collects_between_its_decisions(
    service: Service, link: Link, garbage: Garbage, monkeypatch: pytest.MonkeyPatch, *, taken_over: bool
) -> None:
    """Left to Python it is collected while the engine works: then this test would see it."""
    if taken_over:
        service.driver.garbage = garbage
    else:
        garbage.end()
    one = await link().open(changes.server())
    await settled(service)
    watched = Watched(service, monkeypatch)
    gc.callbacks.append(watched.note)
    try:
        for batch in range(20):
            jobs = [changes.job(f"j{batch}-{number}") for number in range(200)]
            asks = [changes.asks(f"j{batch}-{number}") for number in range(200)]
            passes = watched.passes
            await one.batch(*jobs, *asks)
            await until(lambda: watched.passes > passes)  # noqa: B023 - awaited at once
    finally:
        gc.callbacks.remove(watched.note)
    assert (watched.within == 0) is taken_over
    assert watched.besides > 0
    await settled(service)
