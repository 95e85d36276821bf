"""Looks which containers touched their checkpoint files, and tells the engine that their jobs' work is safe.

A bounded number of files is looked at each time, in a thread of its own, so with many containers a touch is seen later.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import structlog

from yarn_gpu_sched.binding.checkpoint_files import CheckpointFiles
from yarn_gpu_sched.engine import events
from yarn_gpu_sched.service.clock import Clock, Timer
from yarn_gpu_sched.service.refusal import Refusal

LOOK_S = 2.0
FILES_MAX = 2_000

Tell = Callable[[Callable[[float], Sequence[events.AnyEvent]]], Awaitable[None]]
"""The driver's: have events applied, with a pass; may raise `Refusal`."""

_log = structlog.get_logger(__name__)


class CheckpointWatch:
    """Knows the job of each container that has a file, and when that was touched."""

    def __init__(self, files: CheckpointFiles, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._tell: Tell | None = None
        self._job_ids: dict[str, str] = {}
        self._seen_ns: dict[str, int] = {}
        self._timer: Timer | None = None
        self._looking: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoints")

    def bind(self, container_id: str, job_id: str) -> None:
        """Look at a container's file from now on."""
        self._job_ids[container_id] = job_id

    def unbind(self, container_id: str) -> None:
        """Look at it no more."""
        self._job_ids.pop(container_id, None)
        self._seen_ns.pop(container_id, None)

    def begin(self) -> None:
        """Forget whose the containers are: a snapshot tells it anew."""
        self._job_ids.clear()

    def end(self) -> None:
        """Forget what was seen of containers that the snapshot did not name."""
        self._seen_ns = {name: at_ns for name, at_ns in self._seen_ns.items() if name in self._job_ids}

    def start(self, tell: Tell) -> None:
        """Look now and every other second until `stop`; what is found is told."""
        self._tell = tell
        self._go_on()

    def _go_on(self) -> None:
        self._timer = self._clock.call_at(self._clock.now_s() + LOOK_S, self._go_on)
        if self._job_ids and (self._looking is None or self._looking.done()):
            self._looking = asyncio.get_running_loop().create_task(self._look())

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _look(self) -> None:
        """Look at the next files in turn."""
        names = list(islice(self._job_ids, FILES_MAX))
        for name in names:
            self._job_ids[name] = self._job_ids.pop(name)
        touched_ns = await asyncio.get_running_loop().run_in_executor(self._thread, self._files.touched_ns, names)
        job_ids = self._news(touched_ns)
        if job_ids and self._tell is not None:
            with contextlib.suppress(Refusal):  # too much waits, or the service stops: the next touch counts
                await self._tell(lambda now_s: _reports(now_s, job_ids))

    def _news(self, touched_ns: Mapping[str, int]) -> list[str]:
        """List the jobs of which a container touched its file since it was looked at last; what a service before saw is no news."""
        job_ids: dict[str, None] = {}
        for name, at_ns in touched_ns.items():
            job_id, before_ns = self._job_ids.get(name), self._seen_ns.get(name)
            if job_id is None:
                continue
            self._seen_ns[name] = at_ns
            if at_ns != before_ns and (before_ns is not None or name in self._files.made):
                job_ids[job_id] = None
        for job_id in job_ids:
            _log.debug("checkpoint_reported", job_id=job_id)
        return list(job_ids)


def _reports(now_s: float, job_ids: Sequence[str]) -> list[events.CheckpointReported]:
    return [events.CheckpointReported(now_s=now_s, job_id=job_id) for job_id in job_ids]
