"""Whatever a monitor sends: what is refused changes nothing, what is believed leaves all laws whole, what is kept is bounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from tests.service.raw_monitor import cards, sample
from tests.service.told_monitors import HOSTS, Monitors, played
from yarn_gpu_sched.protocol.bad_field import BadField
from yarn_gpu_sched.protocol.bounds import MESSAGE_BYTES_MAX
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb
from yarn_gpu_sched.service.monitors.believable import checked_hello, checked_telemetry, impossible

# Messages that may be true, or nearly


def mostly(good: st.SearchStrategy[Any], odd: st.SearchStrategy[Any], times: int = 24) -> st.SearchStrategy[Any]:
    """Draw what is right so many times for each time that it is not."""
    return st.integers(0, times).flatmap(lambda number: good if number else odd)


U32 = mostly(st.sampled_from([0, 1, 90, 100]), st.sampled_from([101, 1 << 22, (1 << 32) - 1]), 6)
U64 = mostly(st.sampled_from([0, 1, 2]), st.sampled_from([10**12, 9_223_372_036_854_775_792, (1 << 64) - 1]), 6)
TEXTS = mostly(
    st.sampled_from(["", "k0", "k1", "k2", "k3", "x", "\x1b[2J"]), st.sampled_from(["x" * 300, "ü" * 200]), 50
)
AGES = mostly(st.sampled_from([0.0, 3.0, 86_400.0]), st.sampled_from([86_401.0, -1.0, math.inf, math.nan]))
SLOTS = mostly(st.integers(0, 3), st.sampled_from([4, 63, 64, (1 << 32) - 1]), 50)
NAMES = mostly(st.sampled_from(["k0", "k1", "k2", "k3"]), st.sampled_from(["", "x" * 257]))


def maybe(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


def of(kind: Callable[..., Message], /, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw a message of a kind."""
    return maybe(**fields).map(lambda some: kind(**some))


PROCESSES = of(
    pb.GpuProcess,
    pid=mostly(st.sampled_from([1, 77, 1 << 22]), st.sampled_from([0, (1 << 22) + 1])),
    memory_mb=U32,
    container_id=TEXTS,
    user=TEXTS,
    command=TEXTS,
)
SAMPLES = of(
    pb.GpuSample,
    slot=SLOTS,
    memory_used_mb=U32,
    memory_total_mb=U32,
    sm_percent=U32,
    memory_percent=U32,
    temperature_c=mostly(st.sampled_from([0, 40, 150]), st.sampled_from([-1, 151, -(1 << 31)])),
    power_w=U32,
    throttle_reasons=mostly(
        st.lists(st.sampled_from(["hw_slowdown", "sw_power_cap"]), max_size=3),
        st.sampled_from([["idle"] * 70, ["x" * 300]]),
    ),
    ecc_corrected=U64,
    ecc_uncorrected=U64,
    processes=mostly(st.lists(PROCESSES, max_size=2), PROCESSES.map(lambda one: [one] * 260)),
    processes_unknown=st.booleans(),
    bad_fields=st.lists(TEXTS, max_size=2) | st.just([f"f{n}" for n in range(64)]),
)
LINKS = of(pb.CardLink, slot=SLOTS, kind=st.integers(0, 9), lanes=mostly(st.integers(0, 64), st.just(65)))
ODD_CARDS = of(
    pb.Card,
    slot=SLOTS,
    uuid=TEXTS,
    index=SLOTS,
    model=TEXTS,
    memory_mb=U32,
    pci_bus_id=TEXTS,
    mig=st.booleans(),
    links=st.lists(LINKS, max_size=3),
)
CARDS = mostly(
    st.integers(0, 5).map(cards)
    | st.integers(1, 4).map(lambda count: cards(count, "other", mig=True))
    | st.lists(LINKS, max_size=3).map(lambda links: cards(links=links))
    | st.just([pb.Card(slot=slot, uuid=f"GPU-s1-{slot}") for slot in (0, 2, 3)]),
    st.lists(ODD_CARDS, max_size=3) | st.just(cards(64)) | st.just(cards(65)),
    4,
)
PORTS = of(
    pb.PortSample,
    device=TEXTS,
    port=U32,
    infiniband=st.booleans(),
    state=TEXTS,
    physical_state=TEXTS,
    rate_gbps=AGES,
    counters=mostly(st.dictionaries(TEXTS, U64, max_size=2), st.just({f"c{n}": n for n in range(130)})),
)
TELEMETRY = maybe(
    dropped=U64,
    age_s=AGES,
    gpus=st.lists(SAMPLES, max_size=3, unique_by=lambda one: one.slot)
    | st.lists(SAMPLES, max_size=2)
    | st.integers(0, 4).map(lambda count: [sample(n) for n in range(count)]),
    failure=st.builds(pb.ReadFailure, kind=mostly(st.integers(1, 5), st.sampled_from([0, 6]), 12), detail=TEXTS),
    cards=CARDS,
    no_cards=mostly(st.just(value=False), st.just(value=True), 8),
    xids=st.lists(of(pb.XidEvent, slot=SLOTS, xid=mostly(st.sampled_from([13, 48, 79]), U32), age_s=AGES), max_size=3),
    host=of(pb.HostSample, cpu_percent=U32, memory_used_mb=U32, ports=st.lists(PORTS, max_size=2)),
    refusals=st.lists(
        of(pb.BindingRefusal, container_id=NAMES, slots=st.lists(SLOTS, max_size=2), detail=TEXTS), max_size=2
    ),
    assigned=st.lists(of(pb.AssignedDevices, container_id=NAMES, slots=st.lists(SLOTS, max_size=3)), max_size=2),
    assigns=st.booleans(),
    checkpointed_container_ids=st.lists(NAMES, max_size=2),
)
HELLOS = maybe(
    agent=TEXTS,
    cards=CARDS,
    simulated=st.booleans(),
    push_every_s=mostly(st.just(5.0), AGES),
    protocol_version=mostly(st.just(1), st.sampled_from([0, 2])),
)


TURNS = st.lists(
    st.tuples(
        st.sampled_from(HOSTS),
        TELEMETRY.map(lambda fields: ("telemetry", fields)) | HELLOS.map(lambda fields: ("hello", fields)),
        st.sampled_from([0.0, 1.0, 1.0, 70.0]),
        st.sampled_from([None, None, "release", "pass"]),
    ),
    min_size=2,
    max_size=12,
)


@fuzzed(150, 4_000)
@given(TURNS)
def test_whatever_a_monitor_tells_all_laws_hold_and_what_is_refused_changes_nothing(
    turns: list[tuple[str, tuple[str, dict[str, Any]], float, str | None]],
) -> None:
    async def play(monitors: Monitors) -> None:
        world = monitors.world
        for host, (what, fields), seconds, beside in turns:
            monitors.clock.advance(seconds)
            world.now_s = monitors.clock.now_s()
            if beside == "pass":
                world.decide()
            elif beside == "release" and (live := sorted(world.engine._core.state.containers)):
                world.release(live[0])
                monitors.fleet._orders[host].unbind(live[0])
            if what == "hello":
                monitors.hello(host, pb.Hello(**{"protocol_version": 1, "host": host, "push_every_s": 5.0, **fields}))
            else:
                telemetry = pb.Telemetry(**{"sequence": monitors.sequences[host] + 1, **fields})
                telemetry.orders_seen = monitors.fleet._orders[host].sent
                await monitors.tell(host, telemetry)

    played(play)


@fuzzed(150, 4_000)
@given(
    st.lists(
        st.binary(max_size=200)
        | st.tuples(TELEMETRY, st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=4)).map(
            lambda drawn: bent(pb.Telemetry(**{"sequence": 1, **drawn[0]}).SerializeToString(), drawn[1])
        ),
        max_size=8,
    )
)
def test_whatever_bytes_come_are_no_message_or_refused_or_believed(messages: list[bytes]) -> None:
    async def play(monitors: Monitors) -> None:
        for data in messages:
            monitors.clock.advance(1.0)
            try:
                telemetry = pb.Telemetry.FromString(data)
            except DecodeError:
                continue
            telemetry.sequence = monitors.sequences["s1"] + 1
            await monitors.tell("s1", telemetry)

    played(play)


def bent(data: bytes, changes: Sequence[tuple[int, int]]) -> bytes:
    """Change some bytes."""
    found = bytearray(data)
    for place, value in changes:
        if found:
            found[place % len(found)] = value
    return bytes(found)


def test_most_turns_are_believed() -> None:
    """What is drawn above would be worth little if nearly all of it were refused."""
    believed = refused = 0

    @fuzzed(100, 100)
    @given(TELEMETRY)
    def count(fields: dict[str, Any]) -> None:
        nonlocal believed, refused
        try:
            checked_telemetry(pb.Telemetry(**{"sequence": 1, **fields}), 1, 0, range(5))
            believed += 1
        except BadField:
            refused += 1

    count()
    assert min(believed, refused) >= 15, (believed, refused)


BIG = "x" * (MESSAGE_BYTES_MAX - 4_096)
LARGE: dict[str, pb.Telemetry] = {
    "a program's name": pb.Telemetry(gpus=[sample(0, processes=[pb.GpuProcess(pid=1, command=BIG)])]),
    "a user's name": pb.Telemetry(gpus=[sample(0, processes=[pb.GpuProcess(pid=1, user=BIG)])]),
    "a container's name": pb.Telemetry(gpus=[sample(0, processes=[pb.GpuProcess(pid=1, container_id=BIG)])]),
    "a reason": pb.Telemetry(gpus=[sample(0, throttle_reasons=[BIG])]),
    "a field": pb.Telemetry(gpus=[sample(0, bad_fields=[BIG])]),
    "many fields": pb.Telemetry(gpus=[sample(0, bad_fields=["x"] * 10_000)]),
    "a device": pb.Telemetry(host=pb.HostSample(ports=[pb.PortSample(device=BIG)])),
    "a counter": pb.Telemetry(host=pb.HostSample(ports=[pb.PortSample(counters={BIG: 1})])),
    "many counters": pb.Telemetry(host=pb.HostSample(ports=[pb.PortSample(counters={f"c{n}": 1 for n in range(999)})])),
    "a refusal": pb.Telemetry(refusals=[pb.BindingRefusal(container_id="c", detail=BIG)]),
}


@pytest.mark.parametrize("what", LARGE)
def test_nobody_makes_the_service_keep_a_megabyte_a_gpu(what: str) -> None:
    LARGE[what].sequence = 1
    with pytest.raises(BadField):
        checked_telemetry(LARGE[what], 1, 0, range(4))


def test_what_this_protocol_does_not_know_is_not_kept_without_bounds() -> None:
    """Fields of a later version come with the message that they are in."""
    unknown = b"\xfa\x3f" + b"\xff\xff\x3f" + bytes(0xFFFFF)
    odd = pb.Telemetry(sequence=1, gpus=[pb.GpuSample.FromString(unknown)])
    with pytest.raises(BadField):
        checked_telemetry(odd, 1, 0, range(4))
    with pytest.raises(BadField):
        checked_hello(pb.Hello(protocol_version=1, host="s1", push_every_s=5.0, cards=[_with(cards(1)[0], unknown)]))


def _with(card: pb.Card, unknown: bytes) -> pb.Card:
    return pb.Card.FromString(card.SerializeToString() + unknown)


@pytest.mark.parametrize("kind", [0, 6, 1_000])
def test_a_failure_of_no_known_kind_is_refused(kind: int) -> None:
    failure = pb.ReadFailure(detail="so")
    failure.kind = kind  # type: ignore[assignment] # a number that the protocol does not know
    with pytest.raises(BadField, match=r"telemetry\.failure\.kind"):
        checked_telemetry(pb.Telemetry(sequence=1, failure=failure), 1, 0, range(4))


def test_c19_a_count_of_errors_that_no_hardware_can_mean_takes_no_gpu_out() -> None:
    """DCGM's blank, and all bits set."""
    for count in (9_223_372_036_854_775_792, (1 << 64) - 1):
        assert impossible(sample(0, ecc_uncorrected=count)) == "ecc_uncorrected"
        assert impossible(sample(0, ecc_corrected=count)) == "ecc_corrected"
