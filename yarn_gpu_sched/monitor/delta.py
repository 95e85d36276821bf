"""What is new since it was told last: compares each look at the server with the one before, and says whether it may wait.

A GPU that changed in anything is told whole; one that did not is not told. What changes a GPU's state (it vanishes or comes back,
processes come or go, reading it fails or succeeds again, an Xid, an uncorrectable ECC error, an impossible number, MIG, memory that
is let go) is told at once; while something is not as it should be every look is told, so that the listener can count readings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from yarn_gpu_sched.monitor import messages
from yarn_gpu_sched.monitor.reading import GpuReading, GpusReading, HostReading
from yarn_gpu_sched.monitor.ring import Event, Ring
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yarn_gpu_sched.monitor.slots import Slots

XID_MAX = 1_000
"""NVIDIA's list ends far below."""
WATCHED_S = 60.0
"""Seconds for which every look is told after a card vanished or came back."""


class Look(msgspec.Struct, frozen=True):
    """One look at the server: when it began, and what it found. ``host`` None: was not looked at."""

    began_s: float
    gpus: GpusReading
    host: HostReading | None = None


class Delta:
    """Puts what is new into the ring."""

    def __init__(self, ring: Ring, slots: Slots, free_memory_mb_max: int, now_s: float) -> None:
        self._ring = ring
        self._slots = slots
        self._free_memory_mb_max = free_memory_mb_max
        self._samples: dict[int, pb.GpuSample] = {}
        self._cards: list[pb.Card] | None = None
        self._host: pb.HostSample | None = None
        self._watched_until_s = now_s
        ring.read_s = now_s  # as if it had read then: without any reading what is told is that old

    def renew(self) -> None:
        """Tell everything anew: a stream begins."""
        for sample in self._samples.values():
            self._ring.put_sample(sample)
        if self._cards is not None:
            self._ring.put_cards(self._cards)
        if self._host is not None:
            self._ring.put_host(self._host)

    def see(self, look: Look) -> bool:
        """Take a look at the server; tells whether it must be told at once."""
        urgent = self._see_failure(look.gpus)
        if look.gpus.gpus is not None:
            self._ring.read_s = look.began_s
            urgent |= self._see_cards(look.began_s)
            urgent |= self._see_samples(self._slots.now)
        urgent |= self._see_xids(look)
        if look.host is not None:
            self._see_host(look.host)
        return urgent or self._is_wrong(look)

    def see_assigned(self, assigned: Mapping[str, Sequence[int]] | None) -> bool:
        """Take what the NodeManager assigned, by container, None: it assigns nothing itself; tells whether that is new."""
        told = None
        if assigned is not None:
            told = [pb.AssignedDevices(container_id=name, slots=slots) for name, slots in sorted(assigned.items())]
        changed = told != self._ring.assigned
        self._ring.assigned = told
        return changed

    def _is_wrong(self, look: Look) -> bool:
        bad = any(sample.bad_fields for sample in self._samples.values())
        return look.gpus.gpus is None or bad or look.began_s < self._watched_until_s

    def _see_failure(self, gpus: GpusReading) -> bool:
        failure = messages.read_failure(gpus.failure) if gpus.gpus is None and gpus.failure is not None else None
        changed = failure != self._ring.failure
        self._ring.failure = failure
        return changed

    def _see_cards(self, now_s: float) -> bool:
        slots = self._slots
        cards = messages.cards(slots.cards, slots.now, slots.slot)
        if cards == self._cards:
            return False
        if self._cards is not None and _missing(cards) != _missing(self._cards):
            self._watched_until_s = now_s + WATCHED_S
        self._cards = cards
        self._ring.put_cards(cards)
        for slot in self._samples.keys() - slots.now.keys():
            del self._samples[slot]
            self._ring.forget_sample(slot)
        return True

    def _see_samples(self, now: Mapping[int, GpuReading]) -> bool:
        urgent = False
        for slot, gpu in now.items():
            sample, before = messages.gpu_sample(slot, gpu), self._samples.get(slot)
            if sample == before:
                continue
            urgent |= before is None or self._state(sample) != self._state(before) or _rose(before, sample)
            self._samples[slot] = sample
            self._ring.put_sample(sample)
        return urgent

    def _state(self, sample: pb.GpuSample) -> tuple[object, ...]:
        """Return what of a GPU is told at once when it changes."""
        pids = frozenset((process.pid, process.container_id) for process in sample.processes)
        free = sample.memory_used_mb <= self._free_memory_mb_max if sample.HasField("memory_used_mb") else None
        return pids, sample.processes_unknown, tuple(sample.bad_fields), free

    def _see_xids(self, look: Look) -> bool:
        for xid in look.gpus.xids:
            slot = self._slots.slot(xid.uuid)
            if slot is not None and 0 < xid.xid <= XID_MAX:
                self._ring.put_event(Event(look.began_s, pb.XidEvent(slot=slot, xid=xid.xid)))
        return bool(look.gpus.xids)

    def _see_host(self, host: HostReading) -> None:
        told = messages.host_sample(host)
        if told != self._host:
            self._host = told
            self._ring.put_host(told)


def _missing(cards: list[pb.Card]) -> list[int]:
    return [card.slot for card in cards if not card.HasField("index")]


def _rose(before: pb.GpuSample, sample: pb.GpuSample) -> bool:
    return sample.ecc_uncorrected > before.ecc_uncorrected
