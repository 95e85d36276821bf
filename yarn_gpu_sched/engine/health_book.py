"""What is known of the health of servers and GPUs, by host name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.agenda import Agenda
from yarn_gpu_sched.engine.gpu_states import is_unknown
from yarn_gpu_sched.model.health import SLOTS_MAX, GpuRecord, Health, HostRecord
from yarn_gpu_sched.model.server_use import FIT, Fitness, mask_of

if TYPE_CHECKING:
    from yarn_gpu_sched.model.container import Container

HOSTS_MAX = 65_536
"""Hosts that are remembered; beyond that what is told of new ones is ignored."""


class HealthBook:
    """What is known of hosts; ``agenda``: when time alone changes something of one; ``touched``: of which something changed.

    ``lost`` are containers that their gangs lost on GPUs which are not known to be free yet: their places are held once they are.
    """

    def __init__(self) -> None:
        self.hosts: dict[str, HostRecord] = {}
        self.agenda = Agenda()
        self.touched: dict[str, None] = {}
        self.lost: dict[str, Container] = {}

    def record(self, host: str) -> HostRecord | None:
        """Get what is known of a host, from now on something; None if too many are known."""
        found = self.hosts.get(host)
        if found is None and len(self.hosts) < HOSTS_MAX:
            found = self.hosts[host] = HostRecord(host)
        return found

    def fitness(self, host: str) -> Fitness:
        """Work out what a host's server can do."""
        record = self.hosts.get(host)
        return FIT if record is None else fitness_of(record)


ALL_SLOTS = (1 << SLOTS_MAX) - 1


def gpu_of(record: HostRecord, slot: int) -> GpuRecord:
    """Get what is known of a slot, from now on something; the slots below it are there too."""
    assert 0 <= slot < SLOTS_MAX
    while len(record.gpus) <= slot:
        record.gpus.append(GpuRecord(len(record.gpus)))
    return record.gpus[slot]


def fitness_of(record: HostRecord) -> Fitness:
    """Work out what a server can do of which this is known."""
    if not record.says_something:
        return FIT
    slots = len(record.gpus) if record.slots is None else record.slots
    without_card = 0 if record.slots is None else ~((1 << slots) - 1) & ALL_SLOTS
    sick = without_card | mask_of(tuple(gpu.slot for gpu in record.gpus if gpu.health is not Health.OK))
    busy = mask_of(tuple(gpu.slot for gpu in record.gpus if gpu.out))
    blocked = record.drained is not None or is_unknown(record)
    return Fitness(max(slots, len(record.gpus)), sick, busy, blocked, record.links)
