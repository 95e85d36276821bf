"""What waits to be told to the service: bounded, whatever becomes of the service.

Of each GPU's samples, of the list of cards and of the server only the newest waits: an older one that should have gone out and did
not is dropped and counted. Events (Xids, containers that were refused, checkpoints) wait each by itself, `events_max` of them, the
oldest dropped and counted. Events that went out on a stream that broke shortly after are told again on the next one, because nobody
knows whether they arrived: a listener may hear an event twice, with its true age, never not at all for that reason.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

MESSAGE_BYTES_MAX = 384 * 1024
"""Most bytes of samples of one message: the protocol's bound is 1 MiB."""
MESSAGE_EVENTS_MAX = 256
AGE_MAX_S = 86_400.0
"""What is older is told as that old: the protocol's bound."""
UNSURE_S = 30.0
"""Seconds after which an event that was sent counts as heard."""


class Event(msgspec.Struct, frozen=True):
    """Something that happened once."""

    at_s: float
    told: pb.XidEvent | pb.BindingRefusal | str
    """A string: the container that wrote a checkpoint."""


class Ring:
    """Takes what is new, hands it out as messages. ``wanted`` is set while a message is due."""

    def __init__(self, events_max: int) -> None:
        self.wanted = asyncio.Event()
        self.dropped_total = 0
        self.read_s: float | None = None
        """When the newest reading began."""
        self.failure: pb.ReadFailure | None = None
        """Why GPUs cannot be read: told in every message."""
        self.assigned: Sequence[pb.AssignedDevices] | None = None
        """Devices that the NodeManager assigned, told in every message; None: it assigns none itself."""
        self._events_max = events_max
        self._dropped = 0
        self._samples: dict[int, pb.GpuSample] = {}
        self._due: set[int] = set()
        self._rest = pb.Telemetry()
        self._events: deque[Event] = deque()
        self._unsure: deque[tuple[float, Event]] = deque(maxlen=events_max)

    def __len__(self) -> int:
        return len(self._samples) + len(self._events)

    def put_sample(self, sample: pb.GpuSample) -> None:
        """Tell of a GPU; what was not told of it yet is forgotten."""
        if sample.slot in self._due and sample != self._samples[sample.slot]:  # the same again is no loss
            self._due.discard(sample.slot)
            self._drop()
        self._samples[sample.slot] = sample

    def forget_sample(self, slot: int) -> None:
        """Do not tell of a GPU that is not there any more."""
        self._samples.pop(slot, None)
        self._due.discard(slot)

    def put_event(self, event: Event) -> None:
        """Tell of something that happened."""
        self._events.append(event)
        while len(self._events) > self._events_max:
            self._events.popleft()
            self._drop()

    def put_cards(self, cards: Sequence[pb.Card]) -> None:
        """Tell which cards there are."""
        del self._rest.cards[:]
        self._rest.cards.extend(cards)
        self._rest.no_cards = not cards

    def put_host(self, host: pb.HostSample) -> None:
        """Tell of the server."""
        self._rest.host.CopyFrom(host)

    def send(self) -> None:
        """Let a message go out as soon as there is a stream, also if there is nothing to tell."""
        self._due.update(self._samples)
        self.wanted.set()

    def lost(self, now_s: float) -> None:
        """Take it that a stream has ended: events that may not have arrived on it are told again on the next one."""
        unsure = [event for sent_s, event in self._unsure if now_s - sent_s < UNSURE_S]
        self._unsure.clear()
        again = self._events
        self._events = deque()
        for event in (*unsure, *again):
            self.put_event(event)

    def take(self, now_s: float) -> pb.Telemetry:
        """Hand out the next message, without its number on the stream."""
        told = pb.Telemetry()
        if self.failure is None:
            # While GPUs cannot be read what waits of them is kept: it comes with the next reading that succeeds.
            told, self._rest = self._rest, told
            self._take_samples(told)
        else:
            told.failure.CopyFrom(self.failure)
        told.dropped, self._dropped = self._dropped, 0
        if self.read_s is not None:
            told.age_s = _age_s(self.read_s, now_s)
        if self.assigned is not None:
            told.assigned.extend(self.assigned)
            told.assigns = True
        self._take_events(told, now_s)
        if (self.failure is not None or not self._due) and not self._events:
            self.wanted.clear()
        return told

    def _take_samples(self, told: pb.Telemetry) -> None:
        size_bytes = 0
        for slot in sorted(self._samples):
            size_bytes += self._samples[slot].ByteSize()
            if told.gpus and size_bytes > MESSAGE_BYTES_MAX:
                break
            told.gpus.append(self._samples.pop(slot))
            self._due.discard(slot)
        self._due &= self._samples.keys()

    def _take_events(self, told: pb.Telemetry, now_s: float) -> None:
        while self._unsure and now_s - self._unsure[0][0] >= UNSURE_S:
            self._unsure.popleft()
        for _ in range(min(len(self._events), MESSAGE_EVENTS_MAX)):
            event = self._events.popleft()
            self._unsure.append((now_s, event))
            _tell(told, event, now_s)

    def _drop(self) -> None:
        self._dropped += 1
        self.dropped_total += 1


def _tell(told: pb.Telemetry, event: Event, now_s: float) -> None:
    if isinstance(event.told, str):
        told.checkpointed_container_ids.append(event.told)
    elif isinstance(event.told, pb.BindingRefusal):
        told.refusals.append(event.told)
    else:
        xid = told.xids.add()
        xid.CopyFrom(event.told)
        xid.age_s = _age_s(event.at_s, now_s)


def _age_s(at_s: float, now_s: float) -> float:
    return min(max(now_s - at_s, 0.0), AGE_MAX_S)
