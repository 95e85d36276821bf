"""Whatever a node monitor sends: it is believed or its stream ends, the engine's laws hold, and nobody else's server changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from tests.engine.monitored import Monitored
from tests.engine.world import ask, worker
from tests.fuzz import fuzzed
from tests.service.raw_monitor import cards
from yarn_gpu_sched.protocol.bad_field import BadField
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb
from yarn_gpu_sched.service.monitors.believable import checked_hello, checked_telemetry
from yarn_gpu_sched.service.monitors.news import news_of
from yarn_gpu_sched.service.monitors.telemetry import HostTelemetry

HOST, OTHER = "s1", "s2"
LIKELY = st.integers(0, 4)
UINT32 = LIKELY | st.integers(0, 200) | st.integers(0, (1 << 32) - 1)
UINT64 = LIKELY | st.integers(0, (1 << 64) - 1)
INT32 = st.integers(-5, 200) | st.integers(-(1 << 31), (1 << 31) - 1)
FLOAT = st.floats(0, 100) | st.floats()
TEXT = st.sampled_from(["", "k0", "k1", "GPU-s1-0", "GPU-b", "hw_slowdown"]) | st.text(
    st.characters(codec="utf-8"), max_size=8
)
NUMBERS: dict[int, st.SearchStrategy[Any]] = {
    1: FLOAT,
    2: FLOAT,
    4: UINT64,
    5: INT32,
    8: st.booleans(),
    9: TEXT,
    13: UINT32,
}
"""By the type of a field, as descriptors number them."""


def messages(kind: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401 - any class of a message
    """Make messages of a kind with any values, likely ones above all."""
    return st.fixed_dictionaries({}, optional={one.name: values(one) for one in kind.DESCRIPTOR.fields}).map(
        lambda fields: kind(**fields)
    )


def values(field: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401 - a descriptor of a field
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return st.dictionaries(TEXT, UINT64, max_size=3)
    if field.message_type is not None:
        one = messages(getattr(pb, field.message_type.name))
    elif field.enum_type is not None:
        one = st.sampled_from([number.number for number in field.enum_type.values])
    else:
        one = NUMBERS[field.type]
    return st.lists(one, max_size=4) if field.is_repeated else one


HELLO = messages(pb.Hello)


MENDS: dict[str, Callable[[pb.Telemetry, int], None]] = {
    "age": lambda told, _: setattr(told, "age_s", told.age_s % 100 if math.isfinite(told.age_s) else 0.0),
    "no cards": lambda told, _: setattr(told, "no_cards", told.no_cards and not told.cards),
    "slots of cards": lambda told, _: each(told.cards, lambda card, place: setattr(card, "slot", place)),
    "names of cards": lambda told, _: each(
        told.cards, lambda card, place: setattr(card, "uuid", f"GPU-{HOST}-{place}")
    ),
    "places of cards": lambda told, _: each(told.cards, lambda card, place: setattr(card, "index", place)),
    "memory of cards": lambda told, _: each(told.cards, lambda card, _: setattr(card, "memory_mb", 16_384)),
    "links": lambda told, _: each(links(told), lambda link, _: setattr(link, "slot", link.slot % 64)),
    "lanes": lambda told, _: each(links(told), lambda link, _: setattr(link, "lanes", link.lanes % 8)),
    "slots of samples": lambda told, slots: each(told.gpus, lambda one, place: setattr(one, "slot", place % slots)),
    "slots of Xids": lambda told, slots: each(told.xids, lambda xid, _: setattr(xid, "slot", xid.slot % slots)),
    "Xids": lambda told, _: each(told.xids, lambda xid, _: setattr(xid, "xid", (13, 48, 79)[xid.xid % 3])),
    "ages of Xids": lambda told, _: each(told.xids, lambda xid, _: setattr(xid, "age_s", 0.5)),
    "containers": lambda told, _: each(of_containers(told), lambda one, _: setattr(one, "container_id", "k0")),
    "slots of containers": lambda told, slots: each(of_containers(told), lambda one, _: wrap(one.slots, slots)),
    "checkpoints": lambda told, _: told.ClearField("checkpointed_container_ids"),
}
"""What most messages are refused for, put right, so that the rest of them is heard."""


def each(some: Iterable[Any], change: Callable[[Any, int], None]) -> None:
    for place, one in enumerate(some):
        change(one, place)


def links(told: pb.Telemetry) -> list[Any]:
    return [link for card in told.cards for link in card.links]


def of_containers(told: pb.Telemetry) -> list[Any]:
    return [*told.refusals, *told.assigned]


def wrap(slots: Any, count: int) -> None:  # noqa: ANN401 - a repeated field
    slots[:] = [slot % count for slot in slots]


def mended(told: pb.Telemetry, left: set[str]) -> pb.Telemetry:
    """Put a message right, but for what is left."""
    for name, mend in MENDS.items():
        if name not in left:
            mend(told, len(told.cards) or 4)
    return told


TELEMETRY = st.builds(
    mended, messages(pb.Telemetry), st.just(set()) | st.sets(st.sampled_from(list(MENDS)), max_size=2)
)


@fuzzed(150, 5_000)
@given(st.lists(TELEMETRY, min_size=1, max_size=6), st.lists(st.floats(0, 100), min_size=6, max_size=6))
def test_any_telemetry_is_believed_or_refused_and_the_laws_hold(told: list[pb.Telemetry], waits_s: list[float]) -> None:
    world = Monitored(HOST, OTHER)
    world.submit("j", "gang:2x1")
    world.ask("j", ask(2, worker(1)))
    world.run()
    known = HostTelemetry(HOST, 512, 5)
    known.begin(pb.Hello(cards=cards(host=HOST)))
    other = world.host(OTHER)
    sequence = 0
    for telemetry, wait_s in zip(told, waits_s, strict=False):
        world.now_s += wait_s
        sequence += 1
        telemetry.sequence = sequence
        telemetry.orders_seen = min(telemetry.orders_seen, 1)
        try:
            checked_telemetry(telemetry, sequence, 1, known.cards)
        except BadField:
            continue
        for event in [*known.take(telemetry, world.now_s, ()), *news_of(world.engine, HOST, telemetry, world.now_s)]:
            world.apply(event)
        world.wait(0.0)
        assert world.engine.audit() == []
        assert len(world.host(HOST).gpus) <= 64
    assert world.host(OTHER).record == other.record
    assert world.engine.cluster().capacity.gpus == 8


@fuzzed(150, 5_000)
@given(HELLO)
def test_any_hello_is_believed_or_refused(hello: pb.Hello) -> None:
    try:
        checked_hello(hello)
    except BadField:
        return
    HostTelemetry(HOST, 512, 5).begin(hello)
