"""What simulated cards look like at an instant."""

from __future__ import annotations

from yarn_gpu_sched.monitor.simulated import scenario as happenings
from yarn_gpu_sched.monitor.simulated.scenario import Busy, Event, Scenario
from yarn_gpu_sched.monitor.simulated.spec import parse
from yarn_gpu_sched.monitor.simulated.state import GpuState, Holder, state_at

CARDS = parse("2xT4")
MINE = Holder(11, "container_e17_7_0001_01_000002", (0,))
OTHERS = Holder(12, "container_e17_7_0002_01_000002", (0, 1))


def first(*events: Event, at_s: float = 10, holders: tuple[Holder, ...] = (), busy: Busy | None = None) -> GpuState:
    scenario = Scenario(events=events, busy=busy or Busy()).ordered()  # type: ignore[arg-type]  # any event is one of them
    return state_at(CARDS, scenario, at_s, holders).gpus[0]


def test_card_that_is_held_is_busy_and_its_processes_share_its_memory() -> None:
    gpu = first(holders=(MINE, OTHERS), busy=Busy(sm_percent=50, memory_percent=10, memory_used_percent=50))
    assert (gpu.sm_percent, gpu.memory_percent, gpu.memory_used_mb) == (50, 10, 7684)
    assert gpu.processes == ((11, 3840), (12, 3840))


def test_use_is_of_a_card_a_job_or_a_container() -> None:
    for event, sm_percent in (
        (happenings.Use(at_s=0, gpu=0, sm_percent=3), 3),
        (happenings.Use(at_s=0, gpu=1, sm_percent=3), 87),
        (happenings.Use(at_s=0, job="application_7_0001", sm_percent=3), 3),
        (happenings.Use(at_s=0, job="application_7_0002", sm_percent=3), 87),
        (happenings.Use(at_s=0, container=MINE.container_id, sm_percent=3), 3),
        (happenings.Use(at_s=0, container=OTHERS.container_id, sm_percent=3), 87),
    ):
        assert first(event, holders=(MINE,)).sm_percent == sm_percent, event


def test_of_two_events_the_later_one_holds_while_it_lasts() -> None:
    events = (happenings.Use(at_s=20, until_s=30, gpu=0, sm_percent=2), happenings.Use(at_s=10, gpu=0, sm_percent=1))
    assert [first(*events, at_s=at_s).sm_percent for at_s in (9.9, 10, 20, 29.9, 30)] == [0, 1, 2, 2, 1]


def test_zombie_keeps_memory_with_or_without_a_process() -> None:
    nobody = first(happenings.Zombie(at_s=0, until_s=20, gpu=0, memory_used_mb=1000))
    somebody = first(happenings.Zombie(at_s=0, gpu=0, memory_used_mb=1000, pid=4711))
    assert (nobody.memory_used_mb, nobody.processes, nobody.sm_percent) == (1004, (), 0)
    assert (somebody.memory_used_mb, somebody.processes) == (1004, ((4711, 1000),))
    gone = first(happenings.Zombie(at_s=0, until_s=20, gpu=0, memory_used_mb=1000), at_s=20)
    assert gone.memory_used_mb == 4


def test_memory_in_use_is_never_more_than_there_is() -> None:
    zombies = [happenings.Zombie(at_s=0, gpu=0, memory_used_mb=10_000)] * 2
    assert first(*zombies).memory_used_mb == CARDS[0].model.memory_mb


def test_errors_add_up_and_stay() -> None:
    events = (
        happenings.Ecc(at_s=1, gpu=0, corrected=2, uncorrected=1),
        happenings.Ecc(at_s=5, gpu=0, corrected=3),
        happenings.Ecc(at_s=5, gpu=1, corrected=100),
    )
    counted = [(gpu.ecc_corrected, gpu.ecc_uncorrected) for gpu in (first(*events, at_s=at_s) for at_s in (0, 2, 9))]
    assert counted == [(0, 0), (2, 1), (5, 1)]


def test_heat_and_throttling_are_told_while_they_last() -> None:
    events = (
        happenings.Hot(at_s=5, until_s=15, gpu=0, temperature_c=91),
        happenings.Throttled(at_s=5, until_s=15, gpu=0, reasons=("hw_slowdown", "hw_thermal_slowdown")),
    )
    hot, cool = first(*events), first(*events, at_s=15)
    assert (hot.temperature_c, hot.throttle_reasons, hot.throttle_bits) == (
        91,
        ("hw_slowdown", "hw_thermal_slowdown"),
        0x48,
    )
    assert (cool.temperature_c, cool.throttle_reasons, cool.throttle_bits) == (34, ("gpu_idle",), 1)
