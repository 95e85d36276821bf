"""What the monitor of one server is to be told: which containers have which GPUs there, and which are gone.

Kept while no monitor is connected, so that whoever connects learns all of it. Each message has a number. A monitor says which one
it had carried out before it read its GPUs, so a reading is known to be from after a container's end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from yarn_gpu_sched.protocol.bounds import MESSAGE_BYTES_MAX
from yarn_gpu_sched.protocol.v1 import monitor_pb2

ROOM_BYTES = MESSAGE_BYTES_MAX - (1 << 16)
"""What a message has for bindings."""
BINDING_BYTES_MAX = MESSAGE_BYTES_MAX // 2
"""A binding beyond that names no hosts: a gang of so many is not told them this way."""
GONE_A_MESSAGE = 128
ENDED_MAX = 4_096
"""Containers whose end waits to be told or for a reading; beyond that the oldest is forgotten until a monitor connects anew."""


class Orders:
    """Bindings of one server. ``wake`` is set when there is something to send. Lives on the event loop's thread alone."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.sent = 0
        self.turn = 0
        self.bindings: dict[str, monitor_pb2.Binding] = {}
        self._changed: dict[str, None] = {}
        self._gone: dict[str, None] = {}
        self._ended: dict[str, int | None] = {}
        self._all = False

    @property
    def queued(self) -> int:
        """Containers of which the monitor is still to be told."""
        return len(self._changed) + len(self._gone)

    def bind(self, binding: monitor_pb2.Binding) -> None:
        """Make known what a container has; the same again is not told again."""
        container_id = binding.container_id
        if self.bindings.get(container_id) == binding:
            return
        self.bindings[container_id] = binding
        self._gone.pop(container_id, None)
        self._ended.pop(container_id, None)
        self._changed[container_id] = None
        self.wake.set()

    def unbind(self, container_id: str) -> None:
        """Tell that a container is gone; `ended` names it once a reading from after that has come."""
        self.bindings.pop(container_id, None)
        self._changed.pop(container_id, None)
        self._gone[container_id] = None
        self._ended[container_id] = None
        while len(self._ended) > ENDED_MAX:
            eldest = next(iter(self._ended))
            del self._ended[eldest]
            self._gone.pop(eldest, None)  # a monitor that learns of all containers forgets it
        self.wake.set()

    def tell_all(self) -> None:
        """Let the monitor forget whatever is not listed: all containers are known now."""
        self._all = True
        self.wake.set()

    def begin(self, *, complete: bool) -> None:
        """Tell a monitor that has just connected everything, from number 1 on; it is its ``turn`` until the next one."""
        self.sent = 0
        self.turn += 1
        self._changed = dict.fromkeys(self.bindings)
        self._gone |= dict.fromkeys(self._ended)
        self._ended = dict.fromkeys(self._ended)
        self._all = complete
        self.wake.set()

    def next_message(self) -> monitor_pb2.ReportResponse | None:
        """Take the next message; None if there is nothing to tell. The first one always comes."""
        if self.sent and not (self._changed or self._gone or self._all):
            return None
        message = monitor_pb2.ReportResponse(sequence=self.sent + 1)
        whole = self._all and self._fits(self.bindings)
        if whole:
            message.all = True
            message.bindings.extend(self.bindings.values())
            self._changed.clear()
            self._all = False
        else:
            self._add_changed(message)
        gone = list(self._gone)[:GONE_A_MESSAGE]
        message.gone_container_ids.extend(gone)
        for container_id in gone:
            del self._gone[container_id]
            if container_id in self._ended:
                self._ended[container_id] = message.sequence
        self._all = self._all and bool(self._changed)
        self.sent += 1
        return message

    def _add_changed(self, message: monitor_pb2.ReportResponse) -> None:
        left_bytes = ROOM_BYTES
        for container_id in list(self._changed):
            binding = self.bindings[container_id]
            left_bytes -= binding.ByteSize()
            if left_bytes < 0:
                return
            message.bindings.append(binding)
            del self._changed[container_id]

    def _fits(self, bindings: dict[str, monitor_pb2.Binding]) -> bool:
        return sum(one.ByteSize() for one in bindings.values()) <= ROOM_BYTES

    def ended(self, orders_seen: int) -> tuple[str, ...]:
        """Name the containers whose end a monitor had heard of before it read its GPUs, until the engine has been `told`."""
        return tuple(
            container_id for container_id, sent in self._ended.items() if sent is not None and sent <= orders_seen
        )

    def told(self, container_ids: Iterable[str]) -> None:
        """Note that the engine knows of these: they are named no more."""
        for container_id in container_ids:
            self._ended.pop(container_id, None)


def binding_message(
    container_id: str,
    job_id: str,
    slots: Iterable[int],
    *,
    rank: int | None = None,
    hosts: Iterable[str] = (),
    domain: str = "",
    vc: str = "",
) -> monitor_pb2.Binding:
    """Make the message of a container's GPUs and its place among those of its gang."""
    listed = list(hosts)
    message = monitor_pb2.Binding(
        container_id=container_id,
        job_id=job_id,
        slots=slots,
        world_size=len(listed),
        hosts=listed,
        domain=domain,
        virtual_cluster=vc,
    )
    if rank is not None:
        message.rank = rank
    if message.ByteSize() > BINDING_BYTES_MAX:
        message.ClearField("hosts")
    return message
