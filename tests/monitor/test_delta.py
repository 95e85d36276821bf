"""Only what changed is told, whole; what changes a state is told at once."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.monitor.server import gpu, gpus, process, uuid
from yarn_gpu_sched.monitor import messages
from yarn_gpu_sched.monitor.delta import WATCHED_S, Delta, Look
from yarn_gpu_sched.monitor.reading import (
    Failure,
    FailureKind,
    GpuLink,
    GpuReading,
    GpusReading,
    HostReading,
    LinkKind,
    Port,
    Xid,
)
from yarn_gpu_sched.monitor.ring import Ring
from yarn_gpu_sched.monitor.slots import Slots
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb


class Watcher:
    """Looks once a second."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.ring = Ring(64)
        self.slots = Slots(None)
        self.delta = Delta(self.ring, self.slots, 1_024, self.now_s)

    def see(self, *found: GpuReading, failure: Failure | None = None, **more: Any) -> bool:  # noqa: ANN401 - parts of a look
        self.now_s += 1
        reading = GpusReading(gpus=None if failure else tuple(found), failure=failure, xids=more.get("xids", ()))
        if reading.gpus is not None:
            self.slots.place(reading.gpus)
        return self.delta.see(Look(self.now_s, reading, more.get("host")))

    def take(self) -> pb.Telemetry:
        return self.ring.take(self.now_s)


@pytest.fixture
def watcher() -> Watcher:
    """Return one that has told of four GPUs already."""
    made = Watcher()
    made.see(*gpus(4))
    made.take()
    return made


def with_changed(place: int, **fields: Any) -> list[GpuReading]:  # noqa: ANN401 - whatever a reading has
    found = gpus(4)
    found[place] = gpu(place, **fields)
    return found


def test_the_first_look_is_told_whole_and_at_once() -> None:
    watcher = Watcher()
    assert watcher.see(*gpus(4))
    told = watcher.take()
    assert [each.slot for each in told.gpus] == [0, 1, 2, 3]
    assert [each.uuid for each in told.cards] == [uuid(number) for number in range(4)]


def test_nothing_new_is_an_empty_message(watcher: Watcher) -> None:
    assert not watcher.see(*gpus(4))
    assert watcher.take() == pb.Telemetry()


def test_a_changed_gpu_is_told_whole_and_others_not(watcher: Watcher) -> None:
    assert not watcher.see(*with_changed(2, temperature_c=36))
    (told,) = watcher.take().gpus
    assert told == messages.gpu_sample(2, gpu(2, temperature_c=36))
    assert (told.temperature_c, told.memory_total_mb, told.power_w) == (36, 32_768, 56)


def test_a_change_that_is_undone_before_it_was_told_is_told_as_it_is_now(watcher: Watcher) -> None:
    watcher.see(*with_changed(2, temperature_c=36))
    watcher.see(*gpus(4))
    (told,) = watcher.take().gpus
    assert told.temperature_c == 35


@pytest.mark.parametrize(
    "fields",
    [
        {"processes": (process(5),)},
        {"processes": None},
        {"ecc_uncorrected": 1},
        {"bad_fields": ("memory_used_mb",), "memory_used_mb": None},
        {"mig_enabled": True},
        {"memory_used_mb": 1_025},
    ],
)
def test_a_change_of_state_is_told_at_once_and_its_end_too(watcher: Watcher, fields: dict[str, Any]) -> None:
    assert watcher.see(*with_changed(1, **fields))
    told = watcher.take()
    assert [each.slot for each in told.gpus] == [1] or [each.slot for each in told.cards if each.mig] == [1]
    lasting = "bad_fields" in fields
    assert watcher.see(*with_changed(1, **fields)) == lasting
    assert watcher.see(*gpus(4)) == ("ecc_uncorrected" not in fields)
    assert not watcher.see(*gpus(4))


@pytest.mark.parametrize(
    "fields",
    [{"sm_percent": 99}, {"memory_used_mb": 900}, {"ecc_corrected": 5}, {"throttle_reasons": ("sw_power_cap",)}],
)
def test_what_changes_all_the_time_waits(watcher: Watcher, fields: dict[str, Any]) -> None:
    assert not watcher.see(*with_changed(1, **fields))
    assert len(watcher.take().gpus) == 1


def test_processes_that_change_their_memory_alone_wait(watcher: Watcher) -> None:
    watcher.see(*with_changed(1, processes=(process(5, memory_mb=1),)))
    assert not watcher.see(*with_changed(1, processes=(process(5, memory_mb=2),)))
    assert watcher.see(*with_changed(1, processes=(process(6, memory_mb=2),)))


def test_a_vanished_card_is_told_at_once_and_every_look_for_a_while(watcher: Watcher) -> None:
    without = [gpu(0, 0), gpu(2, 1), gpu(3, 2)]
    assert watcher.see(*without)
    told = watcher.take()
    assert [(card.slot, card.index if card.HasField("index") else None) for card in told.cards] == [
        (0, 0),
        (1, None),
        (2, 1),
        (3, 2),
    ]
    assert not told.gpus
    assert watcher.see(*without)
    watcher.now_s += WATCHED_S
    assert not watcher.see(*without)
    assert watcher.see(*gpus(4))
    assert [each.slot for each in watcher.take().gpus] == [1]


def test_what_waits_of_a_card_that_vanishes_is_not_told(watcher: Watcher) -> None:
    watcher.see(*with_changed(1, sm_percent=50))
    watcher.see(gpu(0, 0), gpu(2, 1), gpu(3, 2))
    assert not watcher.take().gpus


def test_c16_while_gpus_cannot_be_read_each_look_is_told_and_what_was_told_ages(watcher: Watcher) -> None:
    mismatch = Failure(FailureKind.DRIVER_MISMATCH, "Driver/library version mismatch")
    for number in range(1, 4):
        assert watcher.see(failure=mismatch)
        told = watcher.take()
        assert told.failure.kind == pb.READ_FAILURE_KIND_DRIVER_MISMATCH
        assert told.failure.detail == "Driver/library version mismatch"
        assert told.age_s == number
        assert not told.cards
        assert not told.gpus
    assert watcher.see(*gpus(4))
    told = watcher.take()
    assert not told.HasField("failure")
    assert told.age_s == 0


def test_c16_no_gpus_at_all_is_another_thing_than_gpus_that_cannot_be_read(watcher: Watcher) -> None:
    assert watcher.see()
    told = watcher.take()
    assert not told.HasField("failure")
    assert all(not card.HasField("index") for card in told.cards)
    fresh = Watcher()
    assert fresh.see()
    assert fresh.take().no_cards


def test_every_failure_and_every_link_has_its_word_in_the_protocol() -> None:
    for kind in FailureKind:
        assert messages.read_failure(Failure(kind)).kind != pb.READ_FAILURE_KIND_UNSPECIFIED
    slots = Slots(None)
    for link in LinkKind:
        slots.place([gpu(0, links=(GpuLink(uuid(1), link, 2), GpuLink("GPU-elsewhere", link))), gpu(1)])
        card, _ = messages.cards(slots.cards, slots.now, slots.slot)
        (told,) = card.links
        assert (told.slot, pb.LinkKind.Name(told.kind), told.lanes) == (1, f"LINK_KIND_{link.name}", 2)


def test_c17_what_is_not_available_is_absent_and_never_zero(watcher: Watcher) -> None:
    bare = GpuReading(uuid=uuid(1), index=1)
    watcher.see(gpu(0), bare, gpu(2), gpu(3))
    (told,) = watcher.take().gpus
    assert told.processes_unknown
    assert [field.name for field, _ in told.ListFields()] == ["slot", "processes_unknown"]


IMPOSSIBLE = [
    ("memory_used_mb", 9_223_372_036_854_775_792),
    ("sm_percent", 1 << 32),
    ("memory_percent", -1),
    ("power_w", math.nan),
    ("power_w", math.inf),
    ("temperature_c", 1 << 31),
    ("ecc_corrected", 1 << 64),
]


@pytest.mark.parametrize(("field", "value"), IMPOSSIBLE)
def test_c19_what_no_message_can_carry_is_named_and_everything_else_goes_on(
    watcher: Watcher, field: str, value: float
) -> None:
    assert watcher.see(*with_changed(1, **{field: value}))
    (told,) = watcher.take().gpus
    assert list(told.bad_fields) == [field]
    assert field not in [set_field.name for set_field, _ in told.ListFields()]
    assert told.memory_total_mb == 32_768


def test_c19_an_impossible_process_is_left_out_and_named() -> None:
    told = messages.gpu_sample(0, gpu(0, processes=(process(6_498_025_472), process(7), process(-1))))
    assert [each.pid for each in told.processes] == [7]
    assert list(told.bad_fields) == ["processes"]


def test_c19_text_that_is_no_text_is_made_one() -> None:
    told = messages.gpu_sample(0, gpu(0, throttle_reasons=("\udcf8\udcff" + "x" * 1_000,)))
    assert told.throttle_reasons[0].startswith("??x")
    assert len(told.throttle_reasons[0]) == messages.TEXT_CHARACTERS_MAX


def test_lists_are_bounded() -> None:
    many = gpu(0, processes=tuple(process(pid) for pid in range(2, 1_000)), bad_fields=tuple(map(str, range(99))))
    told = messages.gpu_sample(0, many)
    assert len(told.processes) == 256
    assert len(told.bad_fields) == messages.FIELDS_MAX


def test_c20_xids_are_events_with_a_time_told_at_once(watcher: Watcher) -> None:
    both = (
        Xid(uuid(1), 79, 1),
        Xid(uuid(1), 79, 2),
        Xid("GPU-elsewhere", 48, 3),
        Xid(uuid(1), 0, 4),
        Xid(uuid(1), 1001, 5),
    )
    assert watcher.see(*gpus(4), xids=both)
    watcher.now_s += 2
    told = watcher.take()
    assert [(each.slot, each.xid, each.age_s) for each in told.xids] == [(1, 79, 2.0), (1, 79, 2.0)]
    assert not watcher.see(*gpus(4))
    assert not watcher.take().xids


def test_an_xid_of_a_card_that_vanished_is_of_its_slot(watcher: Watcher) -> None:
    watcher.see(gpu(0, 0), gpu(2, 1), gpu(3, 2), xids=(Xid(uuid(1), 79, 1),))
    assert [each.slot for each in watcher.take().xids] == [1]


def test_the_server_is_told_when_it_changed(watcher: Watcher) -> None:
    port = Port(device="mlx5_0", port=1, infiniband=True, state="ACTIVE", rate_gbps=100.0, counters={"a": 1 << 63})
    host = HostReading(cpu_percent=12.4, memory_used_mb=5, memory_total_mb=10, ports=(port,))
    assert not watcher.see(*gpus(4), host=host)
    told = watcher.take().host
    assert (told.cpu_percent, told.memory_used_mb) == (12, 5)
    assert (told.ports[0].device, told.ports[0].infiniband, told.ports[0].rate_gbps) == ("mlx5_0", True, 100.0)
    assert not told.ports[0].HasField("physical_state")
    assert dict(told.ports[0].counters) == {"a": 1 << 63}
    watcher.see(*gpus(4), host=host)
    assert not watcher.take().HasField("host")


def test_impossible_ports_and_counters_are_left_out() -> None:
    ports = (Port(device="a", port=-1), Port(device="b", port=1, counters={"a": -1, "b": 1 << 64, "c": 3}))
    told = messages.host_sample(HostReading(ports=ports))
    assert [(each.device, dict(each.counters)) for each in told.ports] == [("b", {"c": 3})]


def test_ports_and_their_counters_are_bounded() -> None:
    counters = {str(number): number for number in range(1_000)}
    ports = tuple(Port(device=str(number), port=1, counters=counters) for number in range(1_000))
    told = messages.host_sample(HostReading(ports=ports))
    assert len(told.ports) == messages.PORTS_MAX
    assert all(len(port.counters) == messages.COUNTERS_MAX for port in told.ports)


def test_what_the_node_manager_assigned_is_told_when_it_changes(watcher: Watcher) -> None:
    assert watcher.delta.see_assigned({"c1": (0, 2)})
    assert not watcher.delta.see_assigned({"c1": (0, 2)})
    assert [list(each.slots) for each in watcher.take().assigned] == [[0, 2]]
    assert watcher.delta.see_assigned({})
    told = watcher.take()
    assert told.assigns
    assert not told.assigned
    assert watcher.delta.see_assigned(None)
    assert not watcher.take().assigns


def test_a_new_stream_hears_everything(watcher: Watcher) -> None:
    watcher.see(*with_changed(2, sm_percent=7), host=HostReading(cpu_percent=1.0))
    watcher.take()
    watcher.delta.renew()
    told = watcher.take()
    assert [each.sm_percent for each in told.gpus] == [0, 0, 7, 0]
    assert len(told.cards) == 4
    assert told.HasField("host")


def test_without_any_reading_what_is_told_is_as_old_as_the_monitor() -> None:
    watcher = Watcher()
    watcher.see(failure=Failure(FailureKind.NO_DRIVER))
    assert watcher.take().age_s == 1.0


def test_flapping_processes_tell_at_most_once_a_look(watcher: Watcher) -> None:
    assert all(watcher.see(*with_changed(0, processes=(process(2 + number),))) for number in range(100))
    assert len(watcher.ring) == 1
