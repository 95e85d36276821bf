"""Replays a record of events."""

from pathlib import Path

import msgspec

from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.events import AnyEvent
from yarn_gpu_sched.journal.entries import FileHead, RecordError, files_of, read_entries

_HEADS = msgspec.msgpack.Decoder(FileHead)
_EVENTS: msgspec.msgpack.Decoder[AnyEvent] = msgspec.msgpack.Decoder(AnyEvent)


class DivergedError(ValueError):
    """A replay came to another state than the engine that wrote the record (law 11)."""


def replay(directory: Path, *, files_max: int | None = None) -> Engine:
    """Replay a record, all of it or its newest ``files_max`` files, to the state after its last event.

    Where a file goes on from the one before, its snapshot is compared with the state that the replay has come to. A file of another
    run, or after a torn one, begins anew from its snapshot. A file that was torn before its snapshot was whole is passed over.
    Raises FileNotFoundError if there is no record, RecordError if a file is none, DivergedError if the states differ.
    """
    files = files_of(directory)
    if files_max is not None:
        files = files[-files_max:] if files_max > 0 else []
    if not files:
        raise FileNotFoundError(f"{directory} holds no record of events")
    replayed = _Replayed()
    for _, path in files:
        replayed.file(path)
    if replayed.engine is None:
        raise RecordError(f"{files[-1][1].name} ends before its snapshot is whole")
    return replayed.engine


class _Replayed:
    """The engine so far, and the head that the next file has if it goes on from here."""

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self._next = FileHead("", 0)

    def file(self, path: Path) -> None:
        """Replay one more file."""
        entries = read_entries(path)
        head_bytes, taken = next(entries, None), next(entries, None)
        if head_bytes is None or taken is None:
            return
        try:
            head = _HEADS.decode(head_bytes)
            engine = Engine.restore(taken)
            if self.engine is not None and head == self._next and self.engine.digest() != engine.digest():
                raise DivergedError(
                    f"{path.name} begins in another state than the replay of the files before it has come to"
                )
            events = head.events_before
            for payload in entries:
                engine.apply(_EVENTS.decode(payload))
                events += 1
        except msgspec.MsgspecError as problem:
            raise RecordError(f"{path.name} holds an entry that cannot be read: {problem}") from problem
        self.engine = engine
        self._next = FileHead(head.run_id, events)
