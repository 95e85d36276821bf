"""What is known of cards goes with them: one that is not well stays so in whatever slot it is, and when it comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.gpu_states import begin_anew
from yarn_gpu_sched.engine.health_book import gpu_of
from yarn_gpu_sched.model.health import SLOTS_MAX, GpuRecord, GpuReport, Health, HostRecord, KeptGpu

if TYPE_CHECKING:
    from collections.abc import Sequence


def move(host: HostRecord, reports: Sequence[GpuReport], now_s: float) -> None:
    """Let what is known follow the cards, before a reading is taken in which they may be in other slots."""
    seen = {report.uuid: report.slot for report in reports if report.uuid and report.present}
    said = {report.slot: report.uuid for report in reports if report.uuid}
    for gpu in host.gpus:
        if gpu.uuid and (said.get(gpu.slot, gpu.uuid) != gpu.uuid or seen.get(gpu.uuid, gpu.slot) != gpu.slot):
            host.away[gpu.uuid] = kept(gpu)
            begin_anew(gpu, now_s)
    for uuid, slot in seen.items():
        if uuid in host.away:
            restore(gpu_of(host, slot), host.away.pop(uuid), now_s)
    told = [(uuid, known) for uuid, known in host.away.items() if known.says_something]
    host.away = dict(told[-SLOTS_MAX:])


def kept(gpu: GpuRecord) -> KeptGpu:
    """Return what outlasts a restart of a GPU."""
    return KeptGpu(gpu.slot, gpu.uuid, gpu.sticky, gpu.ecc_acked, gpu.mark)


def restore(gpu: GpuRecord, known: KeptGpu, now_s: float) -> None:
    """Take up what is known of the card in a slot; what was said of whatever card is there stays."""
    gpu.uuid, gpu.sticky = known.uuid, tuple(dict.fromkeys([*gpu.sticky, *known.sticky]))
    gpu.ecc_acked, gpu.mark = known.ecc_acked, known.mark or gpu.mark
    if gpu.sticky:
        gpu.health, gpu.since_s, gpu.good_since_s = Health.QUARANTINED, now_s, None
