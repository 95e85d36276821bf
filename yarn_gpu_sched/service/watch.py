"""Callers that watch jobs.

A watcher holds the ids of jobs that changed since it was last told, each once: a job that changes a
thousand times between two messages is sent once. Both the number of watchers and what each may
leave unread are bounded.
"""

import asyncio

import grpc

from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.views import JobView
from yarn_gpu_sched.protocol.bounds import MESSAGE_BYTES_MAX, checked_text
from yarn_gpu_sched.protocol.convert import job_view_message
from yarn_gpu_sched.protocol.v1 import jobs_pb2
from yarn_gpu_sched.service.clock import Clock
from yarn_gpu_sched.service.handlers import Context, begin_answering
from yarn_gpu_sched.service.refusal import Refusal

WATCHERS_MAX = 64
CHANGED_JOBS_MAX = 65_536
COALESCE_S = 0.1
_PAGE_JOBS = 100


class Watcher:
    """One caller: which jobs, and which of them changed since it was last told."""

    def __init__(self, job_id: str, vc: str, changed_max: int) -> None:
        self.job_id = job_id
        self.ended: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()
        self.wake = asyncio.Event()
        self._vc = vc
        self._changed: dict[str, None] = {}
        self._changed_max = changed_max

    def touched(self, job_id: str) -> None:
        """Remember that a job may have changed."""
        if self.job_id not in ("", job_id) or self.ended.done():
            return
        self._changed[job_id] = None
        self.wake.set()
        if len(self._changed) > self._changed_max:
            self.end(
                Refusal(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    f"{len(self._changed)} changed jobs are unread: watch again, and read faster",
                    "READS_TOO_SLOWLY",
                )
            )

    def wants(self, view: JobView) -> bool:
        """Tell whether a job is one of those that are watched."""
        return self.job_id in ("", view.job.job_id) and self._vc in ("", view.job.vc)

    def take(self) -> list[str]:
        """Take the ids of all jobs that changed, in order of their first change."""
        self.wake.clear()
        changed = list(self._changed)
        self._changed.clear()
        return changed

    def end(self, refusal: Refusal | None) -> None:
        """End the call. The first reason counts."""
        if not self.ended.done():
            self.ended.set_result(refusal)


class Watchers:
    """All callers that watch jobs."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        watchers_max: int = WATCHERS_MAX,
        changed_max: int = CHANGED_JOBS_MAX,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._watchers_max = watchers_max
        self._changed_max = changed_max
        self._watchers: dict[Watcher, None] = {}

    def __len__(self) -> int:
        return len(self._watchers)

    def touched(self, job_id: str) -> None:
        """Tell every watcher that a job may have changed."""
        for watcher in self._watchers:
            watcher.touched(job_id)

    def close(self) -> None:
        """End every call: the service stops."""
        refusal = Refusal(grpc.StatusCode.UNAVAILABLE, "the service stops", "STOPPING")
        for watcher in self._watchers:
            watcher.end(refusal)

    async def watch(self, request: jobs_pb2.WatchJobsRequest, context: Context) -> None:
        """Serve one call of WatchJobs until its caller ends it."""
        checked_text("job_id", request.job_id)
        checked_text("virtual_cluster", request.virtual_cluster)
        if len(self._watchers) >= self._watchers_max:
            raise Refusal(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{self._watchers_max} callers watch already",
                "TOO_MANY_WATCHERS",
            )
        watcher = Watcher(request.job_id, request.virtual_cluster, self._changed_max)
        self._watchers[watcher] = None
        try:
            await begin_answering(context)
            refusal = await self._serve(watcher, context)
        finally:
            del self._watchers[watcher]
        if refusal is not None:
            raise refusal

    async def _serve(self, watcher: Watcher, context: Context) -> Refusal | None:
        telling = asyncio.create_task(self._tell(watcher, context))
        telling.add_done_callback(lambda task: watcher.end(_failure(task)))
        try:
            return await watcher.ended
        finally:
            telling.cancel()

    async def _tell(self, watcher: Watcher, context: Context) -> None:
        await self._tell_all(watcher, context)
        while True:
            await self._pause()
            await watcher.wake.wait()
            for job_id in watcher.take():
                await self._tell_one(watcher, context, job_id)

    async def _tell_all(self, watcher: Watcher, context: Context) -> None:
        if watcher.job_id:
            await self._tell_one(watcher, context, watcher.job_id)
            return
        after = ""
        while True:
            views, _ = self._engine.jobs(after=after, limit=_PAGE_JOBS)
            for view in views:
                await self._tell_one(watcher, context, view.job.job_id)
            if len(views) < _PAGE_JOBS:
                return
            # The last of the page may be forgotten by now; then some are sent twice.
            known = (view.job.job_id for view in reversed(views) if self._engine.job(view.job.job_id) is not None)
            after = next(known, "")

    async def _tell_one(self, watcher: Watcher, context: Context, job_id: str) -> None:
        view = self._engine.job(job_id)
        if view is None or not watcher.wants(view):
            return
        message = jobs_pb2.WatchJobsResponse(job=job_view_message(view, self._clock.now_s()))
        if message.ByteSize() > MESSAGE_BYTES_MAX:
            # One enormous job must not end the watching of all others.
            message.job.ClearField("containers")
        await context.write(message)

    async def _pause(self) -> None:
        over = asyncio.Event()
        timer = self._clock.call_at(self._clock.now_s() + COALESCE_S, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()


def _failure(task: "asyncio.Task[None]") -> Refusal | None:
    error = None if task.cancelled() else task.exception()
    if error is None or isinstance(error, Refusal):
        return error
    return Refusal(grpc.StatusCode.INTERNAL, "the service failed; its log says why", "INTERNAL")
