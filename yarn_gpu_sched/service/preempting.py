"""Serves `PreemptionService`: shows what is under way, foretells, and takes an operator's switch and jobs' checkpoints."""

import asyncio
from collections.abc import Sequence

import grpc

from yarn_gpu_sched.engine import events
from yarn_gpu_sched.engine.views import JobView
from yarn_gpu_sched.identity import Role
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.protocol.bad_field import BadField
from yarn_gpu_sched.protocol.bounds import (
    CALLER_CHARACTERS_MAX,
    MESSAGE_BYTES_MAX,
    REASON_CHARACTERS_MAX,
    checked_id,
    checked_text,
    one_line,
)
from yarn_gpu_sched.protocol.convert import preemption_message, preview_message, victim_message
from yarn_gpu_sched.protocol.enums import PREEMPTION_MODE_NUMBERS, PREEMPTION_MODES, known
from yarn_gpu_sched.protocol.fitting import fitting
from yarn_gpu_sched.protocol.v1 import preemption_pb2
from yarn_gpu_sched.service.caller import Call, current_call
from yarn_gpu_sched.service.clock import Clock
from yarn_gpu_sched.service.driver import Driver
from yarn_gpu_sched.service.preemption_switch import PreemptionSwitch
from yarn_gpu_sched.service.refusal import Refusal


class Preempting:
    """See the module."""

    def __init__(self, driver: Driver, clock: Clock, switch: PreemptionSwitch) -> None:
        self._driver = driver
        self._engine = driver.engine
        self._clock = clock
        self._switch = switch

    async def get_preemption(
        self, _request: preemption_pb2.GetPreemptionRequest
    ) -> preemption_pb2.GetPreemptionResponse:
        """Say whether it is armed, and what is under way."""
        answer = preemption_message(self._engine.preemption(), self._clock.now_s())
        answer.mode_of_settings = PREEMPTION_MODE_NUMBERS[self._switch.mode_of_settings]
        answer.keeps_switch = self._switch.keeps
        answer.stopped = self._engine.counters.preempted
        answer.observed = self._engine.counters.observed
        if self._switch.switched is not None:
            switched = self._switch.switched
            answer.switched.reason, answer.switched.by = one_line(switched.why), one_line(switched.by)
            answer.switched.time.FromDatetime(switched.time)
        return answer

    async def set_preemption_mode(
        self, request: preemption_pb2.SetPreemptionModeRequest
    ) -> preemption_pb2.SetPreemptionModeResponse:
        """Switch, or say what that would change."""
        mode = known("mode", request.mode, PREEMPTION_MODES)
        why = checked_text("reason", request.reason, REASON_CHARACTERS_MAX).strip()
        by = checked_text("by", request.by, CALLER_CHARACTERS_MAX)
        if not why and not request.dry_run:
            raise BadField("reason", request.reason, f"1 to {REASON_CHARACTERS_MAX} characters that say why")
        turned = self._switch.foretell(mode) if request.dry_run else await self._switch.turn(mode, why, by)
        spared, left_out = fitting(map(victim_message, turned.spared))
        return preemption_pb2.SetPreemptionModeResponse(
            before=PREEMPTION_MODE_NUMBERS[turned.before],
            after=PREEMPTION_MODE_NUMBERS[mode],
            spared=spared,
            spared_left_out=left_out,
            kept=not request.dry_run and not turned.not_kept,
            not_kept_because=one_line(turned.not_kept),
        )

    async def preview_preemption(
        self, request: preemption_pb2.PreviewPreemptionRequest
    ) -> preemption_pb2.PreviewPreemptionResponse:
        """Say whom a job would have stopped, or why nobody is."""
        preview = self._engine.preempt_preview(checked_id("job_id", request.job_id))
        if preview is None:
            raise _unknown(request.job_id)
        answer = preview_message(preview, self._clock.now_s())
        if answer.ByteSize() > MESSAGE_BYTES_MAX:
            sentence = "who would go and what the gang would get are more than fit in one message of 1 MiB"
            raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, sentence, "ANSWER_TOO_LARGE")
        return answer

    async def report_checkpoint(
        self, request: preemption_pb2.ReportCheckpointRequest
    ) -> preemption_pb2.ReportCheckpointResponse:
        """Note that what a job has done until now is safe, if it still runs when it is this report's turn."""
        job_id = checked_id("job_id", request.job_id)
        _own(self._engine.job(job_id), current_call())
        return await asyncio.shield(self._report(job_id, request))

    async def _report(
        self, job_id: str, request: preemption_pb2.ReportCheckpointRequest
    ) -> preemption_pb2.ReportCheckpointResponse:
        noted: list[int] = []
        call = current_call()

        def make(now_s: float) -> Sequence[events.AnyEvent]:
            view = _own(self._engine.job(job_id), call)
            noted.append(_running(view, request).job.attempt)
            return [events.CheckpointReported(now_s=now_s, job_id=job_id)]

        await self._driver.tell(make)
        call.acted("reported", job_id=job_id, attempt=noted[0])
        return preemption_pb2.ReportCheckpointResponse(attempt=noted[0])


def _own(view: JobView | None, call: Call) -> JobView | None:
    """Require that a submitter speaks of a job of its own user."""
    if (
        view is not None
        and call.identity is not None
        and call.has_role(Role.SUBMITTER)
        and view.job.user != call.identity.name
    ):
        sentence = f"{call.identity} may not speak for jobs of user {view.job.user!a}"
        raise Refusal(grpc.StatusCode.PERMISSION_DENIED, sentence, "OTHER_USER")
    return view


def _running(view: JobView | None, request: preemption_pb2.ReportCheckpointRequest) -> JobView:
    """Require that the attempt of a job runs that reports."""
    if view is None:
        raise _unknown(request.job_id)
    if view.state is not JobState.RUNNING:
        raise _not_running(f"job {request.job_id!a} does not run: it is {view.state.value}")
    if request.attempt not in (0, view.job.attempt):
        raise _not_running(f"attempt {view.job.attempt} of job {request.job_id!a} runs, not attempt {request.attempt}")
    return view


def _unknown(job_id: str) -> Refusal:
    return Refusal(grpc.StatusCode.NOT_FOUND, f"job {job_id!a} is not known", "UNKNOWN_JOB")


def _not_running(sentence: str) -> Refusal:
    return Refusal(grpc.StatusCode.FAILED_PRECONDITION, sentence, "NOT_RUNNING")
