"""Whatever a driver tells, what the monitor makes of it is what the service believes: no reading may end the stream."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from tests.monitor.server import gpu
from yarn_gpu_sched.monitor import messages
from yarn_gpu_sched.monitor.delta import Delta, Look
from yarn_gpu_sched.monitor.plausible import cleaned
from yarn_gpu_sched.monitor.reading import (
    Failure,
    FailureKind,
    GpuLink,
    GpuProcess,
    GpuReading,
    GpusReading,
    HostReading,
    LinkKind,
    Port,
    Xid,
)
from yarn_gpu_sched.monitor.ring import Event, Ring
from yarn_gpu_sched.monitor.slots import Slots
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb
from yarn_gpu_sched.service.monitors.believable import checked_hello, checked_telemetry, impossible

NUMBERS = st.none() | st.integers(-(1 << 63), (1 << 64) - 1) | st.integers(0, 100)
WORDS = st.sampled_from(["", "python", "\x1b[2J", "\ud800\udfff", "x" * 300]) | st.text(max_size=4)
TEXTS = st.none() | WORDS
UUIDS = st.sampled_from([f"GPU-{number}" for number in range(5)]) | WORDS
PROCESSES = st.builds(
    GpuProcess,
    pid=st.integers(-5, 1 << 40),
    memory_mb=NUMBERS,
    container_id=WORDS,
    user=WORDS,
    command=WORDS,
)
LINKS = st.builds(GpuLink, uuid=UUIDS, kind=st.sampled_from(LinkKind), lanes=st.integers(-5, 1 << 40))
GPUS = st.builds(
    GpuReading,
    uuid=UUIDS,
    index=st.integers(-1, 70),
    model=TEXTS,
    pci_bus_id=TEXTS,
    memory_used_mb=NUMBERS,
    memory_total_mb=NUMBERS,
    sm_percent=NUMBERS,
    memory_percent=NUMBERS,
    temperature_c=NUMBERS,
    power_w=st.none() | st.floats(),
    throttle_reasons=st.none() | st.lists(WORDS, max_size=40).map(tuple),
    ecc_corrected=NUMBERS,
    ecc_uncorrected=NUMBERS,
    mig_enabled=st.none() | st.booleans(),
    processes=st.none() | st.lists(PROCESSES, max_size=2).map(tuple),
    links=st.none() | st.lists(LINKS, max_size=4).map(tuple),
)
PORTS = st.builds(
    Port,
    device=WORDS,
    port=st.integers(-5, 1 << 40),
    infiniband=st.none() | st.booleans(),
    state=TEXTS,
    physical_state=TEXTS,
    rate_gbps=st.none() | st.floats(),
    counters=st.dictionaries(WORDS, st.integers(-5, 1 << 70), max_size=3),
)
HOSTS = st.builds(
    HostReading,
    cpu_percent=st.none() | st.floats(),
    memory_used_mb=NUMBERS,
    memory_total_mb=NUMBERS,
    ports=st.lists(PORTS, max_size=3).map(tuple),
)
XIDS = st.lists(st.builds(Xid, uuid=UUIDS, xid=st.integers(-5, 1 << 40), number=st.integers()), max_size=4).map(tuple)
READINGS = st.builds(GpusReading, gpus=st.lists(GPUS, max_size=4).map(tuple), xids=XIDS) | st.builds(
    GpusReading,
    gpus=st.none(),
    failure=st.builds(Failure, kind=st.sampled_from(FailureKind), detail=WORDS),
    xids=XIDS,
)


def as_the_child(reading: GpusReading) -> GpusReading:
    """Return a reading as the child hands it on."""
    if reading.gpus is None:
        return reading
    return GpusReading(gpus=tuple(map(cleaned, reading.gpus)), xids=reading.xids)


@fuzzed(60, 5_000)
@given(
    st.lists(st.tuples(READINGS, st.none() | HOSTS), min_size=1, max_size=4),
    st.floats(0, 1e6),
    st.lists(st.integers(0, 5), max_size=6),
)
def test_c19_no_reading_ends_the_stream(
    looks: list[tuple[GpusReading, HostReading | None]], waits_s: float, begins: list[int]
) -> None:
    ring, slots, now_s = Ring(64), Slots(None), 100.0
    delta = Delta(ring, slots, 512, now_s)
    known: dict[int, pb.Card] = {}
    sequence = 0
    for turn, (reading, host) in enumerate(looks):
        child = as_the_child(reading)
        if child.gpus is not None:
            slots.place(child.gpus)
        delta.see(Look(now_s, child, host))
        now_s += waits_s
        if turn in begins:
            hello = pb.Hello(protocol_version=1, host="gpu1", push_every_s=5)
            hello.cards.extend(messages.cards(slots.cards, slots.now, slots.slot))
            checked_hello(hello)
            known = {card.slot: card for card in hello.cards}
            ring.lost(now_s)
            delta.renew()
            sequence = 0
        ring.send()
        while ring.wanted.is_set():
            sequence += 1
            told = ring.take(now_s)
            told.sequence = sequence
            told = pb.Telemetry.FromString(told.SerializeToString())
            checked_telemetry(told, sequence, 0, known)
            assert [impossible(sample) for sample in told.gpus if impossible(sample)] == []
            known = {card.slot: card for card in told.cards} or known


def test_a_refusal_is_believed() -> None:
    ring, slots = Ring(16), Slots(None)
    slots.place([gpu(0)])
    Delta(ring, slots, 512, 0.0).see(Look(0.0, GpusReading(gpus=(gpu(0),))))
    ring.put_event(Event(0.0, pb.BindingRefusal(container_id="c1", slots=[0], detail="held")))
    told = ring.take(1.0)
    told.sequence = 1
    checked_telemetry(told, 1, 0, ())
