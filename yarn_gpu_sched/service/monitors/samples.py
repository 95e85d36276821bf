"""Adds to the health of a server what its monitor last read."""

from __future__ import annotations

from collections.abc import Mapping

from yarn_gpu_sched.protocol.v1 import gpu_pb2
from yarn_gpu_sched.service.monitors.telemetry import HostTelemetry


def add_samples(
    message: gpu_pb2.ServerHealth, telemetry: HostTelemetry, bound_s: Mapping[str, float], now_s: float
) -> None:
    """Add samples with their age, cards, and how long each GPU has not been used by its holder, who has it since ``bound_s``.

    The sample of a GPU of which nothing was told lately is as old as the newest reading: what did not change is not told. Where the
    newest sample was dropped, the one before it ages.
    """
    message.age_s = max(0.0, now_s - telemetry.heard_s)
    message.failure = telemetry.failure or message.failure
    message.simulated = telemetry.simulated
    message.monitor_agent = telemetry.agent
    if telemetry.host_sample is not None:
        message.host_sample.CopyFrom(telemetry.host_sample)
    for gpu in message.gpus:
        card, sample = telemetry.cards.get(gpu.slot), telemetry.samples.get(gpu.slot)
        if card is not None:
            gpu.card.CopyFrom(card)
        if sample is None or telemetry.read_s is None:
            continue
        gpu.sample.CopyFrom(sample.message)
        read_s = sample.read_s if gpu.slot in telemetry.aging else telemetry.read_s
        gpu.sample_age_s = max(0.0, now_s - read_s)
        since_s = telemetry.unused_since_s.get(gpu.slot)
        if since_s is not None and gpu.job_id:
            gpu.idle_s = max(0.0, now_s - max(since_s, bound_s.get(gpu.container_id, since_s)))
