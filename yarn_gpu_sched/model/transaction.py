"""Changes of what is in use on servers that can be undone: "what if" and "do it" are one path."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

from yarn_gpu_sched.model.server_use import Part

if TYPE_CHECKING:
    from yarn_gpu_sched.model.cluster import ServerIndex


class Transaction:
    """Takes and frees amounts on servers; leaving it without `commit` undoes all of that.

    A transaction changes servers and the placement index, so a search sees what it did. It does not change jobs' sums: that is
    done by `ClusterState.begin`, once the transaction is committed.
    """

    __slots__ = ("_committed", "_index", "_log")

    def __init__(self, index: "ServerIndex") -> None:
        self._index = index
        self._log: list[tuple[Part, bool]] = []
        self._committed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._committed:
            self.rollback()

    def take(self, part: Part) -> bool:
        """Put a part to use; False, and nothing changes, if the server no longer has it."""
        use, gpus = part.use, part.gpus
        if (
            part.memory_mb > use.memory_free_mb
            or part.vcores > use.vcores_free
            or gpus > use.gpus_free
            or part.mask & ~use.free_mask
            or part.mask.bit_count() != gpus
            or not use.usable
        ):
            return False
        use.take(part.memory_mb, part.vcores, part.mask, gpus)
        self._index.update(use)
        self._log.append((part, True))
        return True

    def release(self, part: Part) -> bool:
        """Free what a part holds; False, and nothing changes, where GPUs are held twice: there nothing can be foretold."""
        if part.use.irregular:
            return False
        part.use.give(part.memory_mb, part.vcores, part.mask, part.gpus)
        self._index.update(part.use)
        self._log.append((part, False))
        return True

    def checkpoint(self) -> int:
        """Name the present point, for `rollback`."""
        return len(self._log)

    def rollback(self, checkpoint: int = 0) -> None:
        """Undo what was done since a checkpoint."""
        while len(self._log) > checkpoint:
            part, taken = self._log.pop()
            change = part.use.give if taken else part.use.take
            change(part.memory_mb, part.vcores, part.mask, part.gpus)
            self._index.update(part.use)

    def commit(self) -> None:
        """Keep what was done."""
        self._committed = True
