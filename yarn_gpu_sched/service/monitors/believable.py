"""What of a monitor's messages cannot be true: it changes nothing, and is counted.

A message that contradicts the protocol, or claims what no server has, ends its stream (`BadField`). A number that no hardware can
mean costs the sample of that GPU, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from yarn_gpu_sched.model.health import SLOTS_MAX
from yarn_gpu_sched.protocol.bad_field import BadField
from yarn_gpu_sched.protocol.bounds import AGENT_CHARACTERS_MAX, checked_count, checked_id, checked_text
from yarn_gpu_sched.protocol.v1 import monitor_pb2

PROTOCOL_VERSION = 1
HOST_CHARACTERS_MAX = 253
PUSH_EVERY_MAX_S = 600.0
AGE_MAX_S = 86_400.0
PROCESSES_MAX = 256
XIDS_MAX = 256
XID_MAX = 1_000
CONTAINERS_MAX = 4_096
PORTS_MAX = 64
COUNTERS_MAX = 128
TEXT_MAX = 256
UUID_MAX = 128
PERCENT_MAX = 100
MEMORY_MB_MAX = 1 << 24
"""16 TiB in one GPU."""
POWER_W_MAX = 10_000
TEMPERATURE_MIN_C, TEMPERATURE_MAX_C = 0, 150
PID_MAX = 1 << 22
"""Linux gives no greater number to a process (PID_MAX_LIMIT)."""
LANES_MAX = 64
REASONS_MAX = 64
ECC_MAX = 10**12
CARD_BYTES_MAX = 1 << 13
SAMPLE_BYTES_MAX = 1 << 18
HOST_BYTES_MAX = 1 << 19
"""What is kept of a server is bounded: its cards, a sample of each, and what stands beside them."""


def checked_hello(hello: monitor_pb2.Hello) -> None:
    """Hold the first message of a monitor to the protocol; raises `BadField`."""
    if hello.protocol_version != PROTOCOL_VERSION:
        raise BadField("hello.protocol_version", hello.protocol_version, f"{PROTOCOL_VERSION}")
    host = hello.host
    if not 0 < len(host) <= HOST_CHARACTERS_MAX or not all(c.isalnum() or c in "-._" for c in host):
        raise BadField(
            "hello.host", host, f"a host name of 1 to {HOST_CHARACTERS_MAX} letters, digits, '-', '.' and '_'"
        )
    checked_text("hello.agent", hello.agent, AGENT_CHARACTERS_MAX)
    if not 0 < hello.push_every_s <= PUSH_EVERY_MAX_S:
        raise BadField("hello.push_every_s", hello.push_every_s, f"more than 0, at most {PUSH_EVERY_MAX_S:g}")
    checked_cards("hello.cards", hello.cards)


def checked_cards(field: str, cards: Sequence[monitor_pb2.Card]) -> None:
    """Require at most so many cards, each in a slot and with a UUID of its own, in order of their slots."""
    checked_count(f"{field} (how many)", len(cards), 0, SLOTS_MAX)
    before, uuids, indices = -1, set(), set()
    for card in cards:
        checked_count(f"{field} (bytes)", card.ByteSize(), 0, CARD_BYTES_MAX)
        checked_count(f"{field}.slot", card.slot, before + 1, SLOTS_MAX - 1)
        checked_id(f"{field}.uuid", card.uuid)
        checked_text(f"{field}.uuid", card.uuid, UUID_MAX)
        if card.uuid in uuids:
            raise BadField(f"{field}.uuid", card.uuid, "another one for each card")
        if card.HasField("index"):
            checked_count(f"{field}.index", card.index, 0, SLOTS_MAX - 1)
            if card.index in indices:
                raise BadField(f"{field}.index", card.index, "another one for each card")
            indices.add(card.index)
        checked_text(f"{field}.model", card.model, TEXT_MAX)
        checked_text(f"{field}.pci_bus_id", card.pci_bus_id, TEXT_MAX)
        checked_count(f"{field}.memory_mb", card.memory_mb, 0, MEMORY_MB_MAX)
        checked_count(f"{field}.links (how many)", len(card.links), 0, SLOTS_MAX)
        for link in card.links:
            checked_count(f"{field}.links.slot", link.slot, 0, SLOTS_MAX - 1)
            checked_count(f"{field}.links.lanes", link.lanes, 0, LANES_MAX)
        uuids.add(card.uuid)
        before = card.slot


def checked_telemetry(telemetry: monitor_pb2.Telemetry, sequence: int, orders_sent: int, slots: Iterable[int]) -> None:
    """Hold what a monitor tells to the protocol and to what it has told and been told before; raises `BadField`."""
    if telemetry.sequence != sequence:
        raise BadField("telemetry.sequence", telemetry.sequence, f"{sequence}: one more than the message before")
    _checked_age("telemetry.age_s", telemetry.age_s)
    checked_count("telemetry.orders_seen", telemetry.orders_seen, 0, orders_sent)
    if telemetry.cards:
        checked_cards("telemetry.cards", telemetry.cards)
        if telemetry.no_cards:
            raise BadField("telemetry.no_cards", value=True, right="false where cards are listed")
    known = {card.slot for card in telemetry.cards} or set(slots)
    _checked_samples(telemetry.gpus, set() if telemetry.no_cards else known)
    checked_count("telemetry.xids (how many)", len(telemetry.xids), 0, XIDS_MAX)
    for xid in telemetry.xids:
        _checked_slot("telemetry.xids.slot", xid.slot, known)
        checked_count("telemetry.xids.xid", xid.xid, 1, XID_MAX)
        _checked_age("telemetry.xids.age_s", xid.age_s)
    _checked_containers(telemetry, known)
    _checked_failure(telemetry)
    _checked_host(telemetry.host)


def _checked_failure(telemetry: monitor_pb2.Telemetry) -> None:
    if telemetry.HasField("failure"):
        kinds = monitor_pb2.ReadFailureKind.values()
        checked_count("telemetry.failure.kind", telemetry.failure.kind, 1, max(kinds))
        checked_text("telemetry.failure.detail", telemetry.failure.detail, TEXT_MAX)


def _checked_host(host: monitor_pb2.HostSample) -> None:
    checked_count("telemetry.host (bytes)", host.ByteSize(), 0, HOST_BYTES_MAX)
    checked_count("telemetry.host.ports (how many)", len(host.ports), 0, PORTS_MAX)
    for port in host.ports:
        for field in ("device", "state", "physical_state"):
            checked_text(f"telemetry.host.ports.{field}", getattr(port, field), TEXT_MAX)
        checked_count("telemetry.host.ports.counters (how many)", len(port.counters), 0, COUNTERS_MAX)
        for name in port.counters:
            checked_text("telemetry.host.ports.counters", name, TEXT_MAX)


def _checked_age(field: str, age_s: float) -> None:
    if not (math.isfinite(age_s) and 0 <= age_s <= AGE_MAX_S):
        raise BadField(field, age_s, f"0 to {AGE_MAX_S:g}: nothing was read in the future")


def _checked_slot(field: str, slot: int, known: set[int]) -> None:
    if slot not in known:
        raise BadField(field, slot, f"a slot that has a card: {', '.join(map(str, sorted(known))) or 'there is none'}")


def _checked_samples(samples: Sequence[monitor_pb2.GpuSample], known: set[int]) -> None:
    checked_count("telemetry.gpus (how many)", len(samples), 0, SLOTS_MAX)
    seen = set()
    for sample in samples:
        _checked_slot("telemetry.gpus.slot", sample.slot, known)
        if sample.slot in seen:
            raise BadField("telemetry.gpus.slot", sample.slot, "another one for each sample")
        seen.add(sample.slot)
        _checked_texts(sample)


def _checked_texts(sample: monitor_pb2.GpuSample) -> None:
    checked_count("telemetry.gpus (bytes)", sample.ByteSize(), 0, SAMPLE_BYTES_MAX)
    for name, texts in (("throttle_reasons", sample.throttle_reasons), ("bad_fields", sample.bad_fields)):
        checked_count(f"telemetry.gpus.{name} (how many)", len(texts), 0, REASONS_MAX)
        for text in texts:
            checked_text(f"telemetry.gpus.{name}", text, TEXT_MAX)
    checked_count("telemetry.gpus.processes (how many)", len(sample.processes), 0, PROCESSES_MAX)
    for process in sample.processes:
        for name, text in (
            ("container_id", process.container_id),
            ("user", process.user),
            ("command", process.command),
        ):
            checked_text(f"telemetry.gpus.processes.{name}", text, TEXT_MAX)


def _checked_containers(telemetry: monitor_pb2.Telemetry, known: set[int]) -> None:
    for name, one in (("refusals", telemetry.refusals), ("assigned", telemetry.assigned)):
        checked_count(f"telemetry.{name} (how many)", len(one), 0, CONTAINERS_MAX)
        for each in one:
            checked_id(f"telemetry.{name}.container_id", each.container_id)
            checked_count(f"telemetry.{name}.slots (how many)", len(each.slots), 0, SLOTS_MAX)
            for slot in each.slots:
                _checked_slot(f"telemetry.{name}.slots", slot, known)
    for refusal in telemetry.refusals:
        checked_text("telemetry.refusals.detail", refusal.detail, TEXT_MAX)
    named = telemetry.checkpointed_container_ids
    checked_count("telemetry.checkpointed_container_ids (how many)", len(named), 0, CONTAINERS_MAX)
    for container_id in named:
        checked_id("telemetry.checkpointed_container_ids", container_id)


def impossible(sample: monitor_pb2.GpuSample) -> str:
    """Name the first field of a sample that no hardware can mean; empty if there is none."""
    for field, most in _MOST:
        if getattr(sample, field) > most:  # 0 where it is not available
            return field
    if sample.HasField("temperature_c") and not TEMPERATURE_MIN_C <= sample.temperature_c <= TEMPERATURE_MAX_C:
        return "temperature_c"
    both = sample.HasField("memory_used_mb") and sample.HasField("memory_total_mb")
    if both and sample.memory_used_mb > sample.memory_total_mb:
        return "memory_used_mb"
    if any(not 0 < process.pid <= PID_MAX for process in sample.processes):
        return "processes.pid"
    return ""


def impossible_host(host: monitor_pb2.HostSample) -> str:
    """Name the first field of a server's sample that no hardware can mean; empty if there is none."""
    if host.cpu_percent > PERCENT_MAX:
        return "cpu_percent"
    both = host.HasField("memory_used_mb") and host.HasField("memory_total_mb")
    return "memory_used_mb" if both and host.memory_used_mb > host.memory_total_mb else ""


_MOST: tuple[tuple[str, int], ...] = (
    ("sm_percent", PERCENT_MAX),
    ("memory_percent", PERCENT_MAX),
    ("memory_used_mb", MEMORY_MB_MAX),
    ("memory_total_mb", MEMORY_MB_MAX),
    ("power_w", POWER_W_MAX),
    ("ecc_corrected", ECC_MAX),
    ("ecc_uncorrected", ECC_MAX),
)
