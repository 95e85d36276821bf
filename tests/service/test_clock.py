"""The clock that ships for tests, and the real one."""

import asyncio

from yarn_gpu_sched.service import FakeClock, LoopClock


def test_callbacks_come_in_order_at_their_own_time() -> None:
    clock = FakeClock(10.0)
    called: list[tuple[str, float]] = []
    for name, when_s in (("c", 13.0), ("a", 11.0), ("b", 11.0), ("late", 20.0)):
        clock.call_at(when_s, lambda name=name: called.append((name, clock.now_s())))  # type: ignore[misc] # a default
    clock.advance(5.0)
    assert called == [("a", 11.0), ("b", 11.0), ("c", 13.0)]
    assert clock.now_s() == 15.0


def test_a_callback_may_ask_for_another_within_the_same_advance() -> None:
    clock = FakeClock()
    called: list[float] = []

    def again() -> None:
        called.append(clock.now_s())
        clock.call_at(clock.now_s() + 1, again)

    clock.call_at(1.0, again)
    clock.advance(3.5)
    assert called == [1.0, 2.0, 3.0]


def test_a_cancelled_callback_is_not_called() -> None:
    clock = FakeClock()
    called: list[int] = []
    clock.call_at(1.0, lambda: called.append(1)).cancel()
    clock.advance(2.0)
    assert called == []


def test_the_past_is_called_at_the_next_advance_and_time_stays() -> None:
    clock = FakeClock(5.0)
    called: list[float] = []
    clock.call_at(1.0, lambda: called.append(clock.now_s()))
    clock.advance(0.0)
    assert called == [5.0]


async def test_the_loop_clock_calls_back_and_never_runs_backwards() -> None:
    clock = LoopClock()
    before_s = clock.now_s()
    called = asyncio.Event()
    clock.call_at(before_s, called.set)
    await asyncio.wait_for(called.wait(), 20)
    assert clock.now_s() >= before_s
