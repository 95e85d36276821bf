"""Serves `GpuService`: health and use of GPUs, and what operators say of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import grpc
import structlog

from yarn_gpu_sched.engine import Engine, events
from yarn_gpu_sched.engine.views import HostView
from yarn_gpu_sched.model.health import SLOTS_MAX, Mark, MarkAction
from yarn_gpu_sched.protocol.bad_field import BadField
from yarn_gpu_sched.protocol.bounds import (
    CALLER_CHARACTERS_MAX,
    REASON_CHARACTERS_MAX,
    checked_id,
    checked_text,
    one_line,
)
from yarn_gpu_sched.protocol.enums import MARK_ACTIONS, known
from yarn_gpu_sched.protocol.health import host_message
from yarn_gpu_sched.protocol.v1 import gpu_pb2
from yarn_gpu_sched.service.caller import current_call
from yarn_gpu_sched.service.clock import Clock
from yarn_gpu_sched.service.driver import Driver
from yarn_gpu_sched.service.monitors.fleet import Fleet
from yarn_gpu_sched.service.monitors.health_file import HealthKeeper
from yarn_gpu_sched.service.monitors.idle_watch import IdleJobs, IdleWatch
from yarn_gpu_sched.service.monitors.idling import idle_jobs
from yarn_gpu_sched.service.monitors.samples import add_samples
from yarn_gpu_sched.service.pages import fill_page, page_after, page_size
from yarn_gpu_sched.service.refusal import Refusal

CHANGES_MAX = 100
JOBS_MAX = 1_000

_log = structlog.get_logger(__name__)


class Gpus:
    """`GpuService`."""

    def __init__(self, driver: Driver, clock: Clock, fleet: Fleet, keeper: HealthKeeper, idle_watch: IdleWatch) -> None:
        self._driver = driver
        self._engine: Engine = driver.engine
        self._clock = clock
        self._fleet = fleet
        self._keeper = keeper
        self._idle_watch = idle_watch

    async def list_gpus(self, request: gpu_pb2.ListGpusRequest) -> gpu_pb2.ListGpusResponse:
        """List servers with their GPUs in order of their hosts."""
        size = page_size(request.page_size)
        only = self._host(request.host) if request.host else ""
        views, total = self._engine.hosts(after=page_after(request.page_token), limit=size + 1, only=only)
        rows, token = fill_page(views, size, self._row, lambda view: view.host)
        return gpu_pb2.ListGpusResponse(servers=rows, next_page_token=token, total_size=total)

    def _row(self, view: HostView) -> gpu_pb2.ServerHealth:
        now_s = self._clock.now_s()
        message = host_message(view, now_s)
        telemetry = self._fleet.hosts.get(view.host)
        if telemetry is not None:
            add_samples(message, telemetry, self._fleet.bound_s, now_s)
        return message

    async def list_idle(self, _request: gpu_pb2.ListIdleRequest) -> gpu_pb2.ListIdleResponse:
        """List who holds GPUs without using them, the longest first."""
        found = idle_jobs(self._engine, self._fleet, self._clock.now_s())
        for one in found:
            one.warned = one.job_id in self._idle_watch.idle and self._idle_watch.follow is not IdleJobs.SHOW
            one.preemptable = self._idle_watch.idle.get(one.job_id, False)
        return gpu_pb2.ListIdleResponse(
            jobs=found[:JOBS_MAX],
            left_out=max(0, len(found) - JOBS_MAX),
            idle_after_s=self._fleet.idle.after_s,
            idle_below_percent=self._fleet.idle.below_percent,
        )

    async def mark(self, request: gpu_pb2.MarkRequest) -> gpu_pb2.MarkResponse:
        """Drain, undrain, quarantine or acknowledge; or say what that would change."""
        action = known("action", request.action, MARK_ACTIONS)
        host = self._host(checked_id("server", request.server))
        slot = self._slot(host, action, request.gpu)
        why = checked_text("reason", request.reason, REASON_CHARACTERS_MAX).strip()
        by = checked_text("by", request.by, CALLER_CHARACTERS_MAX).strip()
        if not request.dry_run:
            if not why:
                raise BadField("reason", request.reason, f"1 to {REASON_CHARACTERS_MAX} characters that say why")
            if not by:
                raise BadField("by", request.by, f"1 to {CALLER_CHARACTERS_MAX} characters that say who")
        mark = Mark(one_line(why), one_line(by), time.time())
        return await asyncio.shield(self._mark(host, action, slot, mark, dry_run=request.dry_run))

    async def _mark(
        self, host: str, action: MarkAction, slot: int | None, mark: Mark, *, dry_run: bool
    ) -> gpu_pb2.MarkResponse:
        answer = gpu_pb2.MarkResponse()

        def look() -> None:
            answer.changes.extend(self._engine.foretell_mark(host, action, slot)[:CHANGES_MAX])
            answer.job_ids.extend(self._running_on(host, slot)[:JOBS_MAX])

        def make(now_s: float) -> Sequence[events.AnyEvent]:
            look()
            return [events.Marked(now_s=now_s, host=host, action=action, mark=mark, slot=slot)]

        if dry_run:
            look()
            return answer
        before = self._marks(host)
        await self._driver.tell(make)
        current_call().acted(
            action.value, before=before, after=self._marks(host), host=host, gpu=slot, reason=mark.why, by=mark.by
        )
        _log.info("marked", action=action.value, host=host, gpu=slot, why=mark.why, by=mark.by)
        answer.not_kept_because = one_line(await self._keeper.keep())
        answer.kept = not answer.not_kept_because
        return answer

    def _marks(self, host: str) -> dict[str, object]:
        """Say what stands of a server and its GPUs now, for the audit log."""
        views, _ = self._engine.hosts(only=host)
        if not views:
            return {}
        view = views[0]
        return {
            "drained": view.record.drained is not None,
            "gpus": {str(one.gpu.slot): one.gpu.health.value for one in view.gpus},
        }

    def _running_on(self, host: str, slot: int | None) -> list[str]:
        views, _ = self._engine.hosts(only=host)
        gpus = views[0].gpus if views else ()
        return list(dict.fromkeys(one.job_id for one in gpus if one.job_id and slot in (None, one.gpu.slot)))

    def _host(self, name: str) -> str:
        """Find the server that is meant, by its id or its host in any case, short or full."""
        host = self._engine.host_of(name) or self._engine.host_named(name)
        if host:
            return host
        if self._engine.hosts(only=name.lower())[0]:
            return name.lower()
        sentence = f"server {name!a} is not known"
        raise Refusal(grpc.StatusCode.NOT_FOUND, sentence, "UNKNOWN_SERVER")

    def _slot(self, host: str, action: MarkAction, gpu: str) -> int | None:
        if not gpu:
            if action is MarkAction.QUARANTINE:
                raise BadField("gpu", gpu, "the slot or the UUID of the GPU to be taken out")
            return None
        if action in (MarkAction.DRAIN, MarkAction.UNDRAIN):
            raise BadField("gpu", gpu, "empty: a whole server is drained")
        (view,) = self._engine.hosts(only=host)[0]
        for one in view.gpus:
            if gpu in (str(one.gpu.slot), one.gpu.uuid):
                return one.gpu.slot
        right = ", ".join(str(one.gpu.slot) for one in view.gpus[:SLOTS_MAX]) or "there is none"
        raise BadField("gpu", gpu, f"the slot or UUID of a GPU of {host}; slots: {right}")
