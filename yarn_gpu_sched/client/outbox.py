"""What waits to be sent on the link: bounded in changes, handed out in batches that fit a message."""

from __future__ import annotations

import threading
from collections import deque
from itertools import chain
from typing import TYPE_CHECKING

from yarn_gpu_sched.client.errors import LinkFullError
from yarn_gpu_sched.protocol.v1 import link_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BATCH_CHANGES_MAX = 4_096
# The protocol's bound is 1 MiB a message; the rest is room for tags and lengths.
BATCH_BYTES_MAX = 960 * 1024
_CHANGE_OVERHEAD_BYTES = 8


def batches(changes: Iterable[link_pb2.Change]) -> Iterator[link_pb2.Batch]:
    """Yield the changes in their order as batches within the protocol's bounds.

    The last is marked as the snapshot's end; no changes at all are one empty batch. Raises
    ValueError for a change that no message could carry.
    """
    batch, size_bytes = link_pb2.Batch(), 0
    for change in changes:
        change_bytes = _sized(change)
        full = len(batch.changes) >= BATCH_CHANGES_MAX
        if full or size_bytes + change_bytes > BATCH_BYTES_MAX:
            yield batch
            batch, size_bytes = link_pb2.Batch(), 0
        batch.changes.append(change)
        size_bytes += change_bytes
    batch.snapshot_end = True
    yield batch


def _sized(change: link_pb2.Change) -> int:
    size_bytes = change.ByteSize() + _CHANGE_OVERHEAD_BYTES
    if size_bytes > BATCH_BYTES_MAX:
        kind = change.WhichOneof("change")
        raise ValueError(f"a change ({kind}) has {size_bytes} bytes; most are {BATCH_BYTES_MAX}")
    return size_bytes


class Outbox:
    """A queue of changes between those who make them and the stream that sends them.

    When ``changes_max`` changes wait, `put` raises `LinkFullError` and keeps none of what it was
    given: the link then has a gap and only a new registration with its snapshot repairs that.
    """

    def __init__(self, changes_max: int) -> None:
        self._changes_max = changes_max
        self._waiting: deque[tuple[link_pb2.Change, int]] = deque()
        self._closed = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, changes: Iterable[link_pb2.Change]) -> None:
        """Append all of the changes or none. After `close` they are dropped."""
        sized = [(change, _sized(change)) for change in changes]
        with self._changed:
            if self._closed:
                return
            if len(self._waiting) + len(sized) > self._changes_max:
                raise LinkFullError(
                    f"{len(self._waiting)} changes wait to be sent and {len(sized)} more came; "
                    f"most are {self._changes_max}"
                )
            self._waiting.extend(sized)
            self._changed.notify()

    def take(self, wait_s: float) -> link_pb2.Batch | None:
        """Return what waits, at most a message full; an empty batch after ``wait_s`` without any.

        None once the outbox is closed and empty.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, wait_s)
            if not self._waiting and self._closed:
                return None
            return link_pb2.Batch(changes=self._pop_message())

    def _pop_message(self) -> list[link_pb2.Change]:
        taken: list[link_pb2.Change] = []
        left_bytes = BATCH_BYTES_MAX
        while self._waiting and len(taken) < BATCH_CHANGES_MAX:
            change, size_bytes = self._waiting[0]
            if size_bytes > left_bytes:
                break
            self._waiting.popleft()
            taken.append(change)
            left_bytes -= size_bytes
        return taken

    def close(self) -> None:
        """Let `take` hand out what is left and then end. May be called again."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def numbered(
    register: link_pb2.Register,
    snapshot: Iterable[link_pb2.Change],
    outbox: Outbox,
    heartbeat_s: float,
) -> Iterator[link_pb2.ConnectRequest]:
    """Yield a whole session's messages: Register, the snapshot, then batches and heartbeats."""
    first = [link_pb2.ConnectRequest(register=register)]
    state = (link_pb2.ConnectRequest(batch=batch) for batch in batches(snapshot))
    for sequence, message in enumerate(chain(first, state, _changes(outbox, heartbeat_s)), 1):
        message.sequence = sequence
        yield message


def _changes(outbox: Outbox, heartbeat_s: float) -> Iterator[link_pb2.ConnectRequest]:
    while (batch := outbox.take(heartbeat_s)) is not None:
        if batch.changes:
            yield link_pb2.ConnectRequest(batch=batch)
        else:
            yield link_pb2.ConnectRequest(heartbeat=link_pb2.Heartbeat())
