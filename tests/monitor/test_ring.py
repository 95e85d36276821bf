"""What waits is bounded: of samples the newest, of events so many, and what is lost is counted."""

from __future__ import annotations

from tests.monitor.server import gpu
from yarn_gpu_sched.monitor import ring as ring_module
from yarn_gpu_sched.monitor.messages import gpu_sample
from yarn_gpu_sched.monitor.ring import UNSURE_S, Event, Ring
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb


def sample(slot: int, used_mb: int) -> pb.GpuSample:
    return gpu_sample(slot, gpu(slot, memory_used_mb=used_mb))


def xid(at_s: float, number: int = 79, slot: int = 0) -> Event:
    return Event(at_s, pb.XidEvent(slot=slot, xid=number))


def refusal(container_id: str) -> Event:
    return Event(0.0, pb.BindingRefusal(container_id=container_id))


def test_what_is_put_is_told_once() -> None:
    ring = Ring(16)
    ring.put_sample(sample(0, 5))
    ring.put_event(xid(1.0))
    ring.put_event(refusal("c1"))
    ring.put_event(Event(2.0, "c2"))
    ring.put_cards([pb.Card(slot=0, uuid="GPU-a")])
    ring.put_host(pb.HostSample(cpu_percent=3))
    ring.send()
    assert ring.wanted.is_set()
    told = ring.take(4.0)
    assert [each.memory_used_mb for each in told.gpus] == [5]
    assert [(each.xid, each.age_s) for each in told.xids] == [(79, 3.0)]
    assert [each.container_id for each in told.refusals] == ["c1"]
    assert told.checkpointed_container_ids == ["c2"]
    assert [each.uuid for each in told.cards] == ["GPU-a"]
    assert told.host.cpu_percent == 3
    assert not ring.wanted.is_set()
    assert ring.take(5.0) == pb.Telemetry()


def test_samples_that_are_replaced_before_they_are_due_are_no_loss() -> None:
    ring = Ring(16)
    ring.put_sample(sample(0, 5))
    ring.put_sample(sample(0, 6))
    ring.send()
    told = ring.take(0.0)
    assert [each.memory_used_mb for each in told.gpus] == [6]
    assert told.dropped == 0


def test_a_sample_that_is_told_anew_while_it_waits_is_no_loss() -> None:
    ring = Ring(16)
    for _ in range(3):
        ring.put_sample(sample(0, 5))
        ring.send()
    assert (ring.take(0.0).dropped, ring.dropped_total) == (0, 0)


def test_a_sample_that_was_due_and_is_replaced_is_dropped_and_counted() -> None:
    ring = Ring(16)
    for used_mb in range(10):
        ring.put_sample(sample(0, used_mb))
        ring.put_sample(sample(1, used_mb))
        ring.send()
    told = ring.take(0.0)
    assert [(each.slot, each.memory_used_mb) for each in told.gpus] == [(0, 9), (1, 9)]
    assert told.dropped == ring.dropped_total == 18
    assert ring.take(0.0).dropped == 0


def test_of_too_many_events_the_oldest_are_dropped_and_counted_and_samples_stay() -> None:
    ring = Ring(16)
    ring.put_sample(sample(3, 7))
    for number in range(20):
        ring.put_event(xid(number, number))
    assert len(ring) == 17
    told = ring.take(20.0)
    assert [each.xid for each in told.xids] == list(range(4, 20))
    assert told.dropped == 4
    assert len(told.gpus) == 1


def test_c20_events_outlast_samples_of_the_same_gpu_and_two_equal_ones_count_twice() -> None:
    ring = Ring(16)
    ring.put_event(xid(1.0))
    ring.put_event(xid(2.0))
    for used_mb in range(1_000):
        ring.put_sample(sample(0, used_mb))
        ring.send()
    told = ring.take(100.0)
    assert [(each.xid, each.age_s) for each in told.xids] == [(79, 99.0), (79, 98.0)]


def test_failure_and_assigned_devices_are_told_in_every_message_while_they_last() -> None:
    ring = Ring(16)
    ring.failure = pb.ReadFailure(kind=pb.READ_FAILURE_KIND_TIMED_OUT)
    ring.assigned = [pb.AssignedDevices(container_id="c1", slots=[0])]
    for _ in range(2):
        told = ring.take(0.0)
        assert told.failure.kind == pb.READ_FAILURE_KIND_TIMED_OUT
        assert told.assigns
        assert [each.container_id for each in told.assigned] == ["c1"]
    ring.failure = None
    ring.assigned = None
    told = ring.take(0.0)
    assert not told.HasField("failure")
    assert not told.assigns


def test_c16_while_gpus_cannot_be_read_what_waits_of_them_is_kept() -> None:
    ring = Ring(16)
    ring.put_sample(sample(0, 5))
    ring.put_cards([pb.Card(slot=0, uuid="GPU-a")])
    ring.put_event(xid(0.0))
    ring.failure = pb.ReadFailure(kind=pb.READ_FAILURE_KIND_TIMED_OUT)
    ring.send()
    told = ring.take(1.0)
    assert not told.gpus
    assert not told.cards
    assert [each.xid for each in told.xids] == [79]
    assert not ring.wanted.is_set(), "nothing more can go out now"
    ring.failure = None
    ring.send()
    told = ring.take(2.0)
    assert [each.memory_used_mb for each in told.gpus] == [5]
    assert [each.uuid for each in told.cards] == ["GPU-a"]


def test_an_empty_list_of_cards_is_said() -> None:
    ring = Ring(16)
    ring.put_cards([])
    assert ring.take(0.0).no_cards
    assert not ring.take(0.0).no_cards


def test_events_that_may_not_have_arrived_are_told_again_on_the_next_stream() -> None:
    ring = Ring(16)
    ring.put_event(xid(0.0, 48))
    ring.take(1.0)
    ring.put_event(xid(40.0, 79))
    ring.take(41.0)
    ring.put_event(xid(45.0, 63))
    ring.lost(46.0)
    told = ring.take(50.0)
    assert [(each.xid, each.age_s) for each in told.xids] == [(79, 10.0), (63, 5.0)]


def test_events_count_as_heard_after_a_while() -> None:
    ring = Ring(16)
    ring.put_event(xid(0.0))
    ring.take(0.0)
    ring.lost(UNSURE_S)
    assert not ring.take(UNSURE_S).xids


def test_a_message_never_exceeds_its_bytes_and_the_rest_follows() -> None:
    ring = Ring(16)
    for slot in range(64):
        large = sample(slot, 1)
        for pid in range(256):
            large.processes.add(pid=pid, command="x" * 200)
        ring.put_sample(large)
    ring.send()
    slots: list[int] = []
    while ring.wanted.is_set():
        told = ring.take(0.0)
        assert told.ByteSize() <= ring_module.MESSAGE_BYTES_MAX
        slots += [each.slot for each in told.gpus]
    assert slots == list(range(64))
    assert ring.dropped_total == 0


def test_many_events_go_out_in_several_messages() -> None:
    ring = Ring(2_000)
    for number in range(2_000):
        ring.put_event(xid(0.0, number))
    ring.send()
    numbers: list[int] = []
    while ring.wanted.is_set():
        told = ring.take(0.0)
        assert len(told.xids) <= ring_module.MESSAGE_EVENTS_MAX
        numbers += [each.xid for each in told.xids]
    assert numbers == list(range(2_000))


def test_age_is_that_of_the_newest_reading() -> None:
    ring = Ring(16)
    assert ring.take(7.0).age_s == 0.0
    ring.read_s = 3.0
    assert ring.take(7.0).age_s == 4.0
    ring.put_event(xid(0.0))
    told = ring.take(1e6)
    assert (told.age_s, told.xids[0].age_s) == (86_400, 86_400), "the protocol knows no older ones"
