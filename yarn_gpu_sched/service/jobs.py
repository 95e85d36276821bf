"""Serves `JobsService`: reads the engine, changes nothing."""

import grpc

from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.views import JobView
from yarn_gpu_sched.protocol.bounds import MESSAGE_BYTES_MAX, checked_id, checked_text
from yarn_gpu_sched.protocol.convert import (
    BadField,
    delay_row_message,
    job_view_message,
    outlook_message,
    waiting_message,
)
from yarn_gpu_sched.protocol.enums import JOB_STATE_NUMBERS, JOB_STATES, known
from yarn_gpu_sched.protocol.v1 import job_pb2, jobs_pb2
from yarn_gpu_sched.service.clock import Clock
from yarn_gpu_sched.service.pages import fill_page, page_after, page_size
from yarn_gpu_sched.service.refusal import Refusal


class Jobs:
    """The reading half of `JobsService`; watching is in `Watchers`."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    async def list_jobs(self, request: jobs_pb2.ListJobsRequest) -> jobs_pb2.ListJobsResponse:
        """List jobs in order of submission."""
        size = page_size(request.page_size)
        after = page_after(request.page_token)
        if after and self._engine.job(after) is None:
            # Jobs are in order of submission: without the job nobody knows where the page began.
            raise BadField("page_token", request.page_token, "one whose job is still known: list again from the start")
        any_state = request.state == job_pb2.JOB_STATE_UNSPECIFIED
        now_s = self._clock.now_s()
        views, total = self._engine.jobs(
            state=None if any_state else known("state", request.state, JOB_STATES),
            vc=checked_text("virtual_cluster", request.virtual_cluster),
            after=after,
            limit=size + 1,
            now_s=now_s,
        )
        rows, token = fill_page(views, size, lambda view: job_view_message(view, now_s), lambda view: view.job.job_id)
        return jobs_pb2.ListJobsResponse(jobs=rows, next_page_token=token, total_size=total)

    async def get_job(self, request: jobs_pb2.GetJobRequest) -> jobs_pb2.GetJobResponse:
        """Get one job with its containers."""
        view = self._known(request.job_id)
        answer = jobs_pb2.GetJobResponse(job=job_view_message(view, self._clock.now_s()))
        if answer.ByteSize() > MESSAGE_BYTES_MAX:
            raise Refusal(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"the job has {len(view.containers)} containers: more than fit in one message of"
                " 1 MiB; ListJobs shows it without them",
                "ANSWER_TOO_LARGE",
            )
        return answer

    async def get_waiting_reason(self, request: jobs_pb2.GetWaitingReasonRequest) -> jobs_pb2.GetWaitingReasonResponse:
        """Say why a job waits, and what would change that."""
        view = self._known(request.job_id)
        answer = jobs_pb2.GetWaitingReasonResponse(state=JOB_STATE_NUMBERS[view.state])
        waiting = self._engine.waiting(request.job_id)
        if waiting is not None:
            answer.waiting.CopyFrom(waiting_message(waiting))
        outlook = self._engine.outlook(request.job_id, self._clock.now_s())
        if outlook is not None:
            answer.outlook.CopyFrom(outlook_message(outlook))
        return answer

    async def list_delays(self, request: jobs_pb2.ListDelaysRequest) -> jobs_pb2.ListDelaysResponse:
        """List how long jobs waited and why."""
        rows = self._engine.delays(checked_text("virtual_cluster", request.virtual_cluster), self._clock.now_s())
        answer = jobs_pb2.ListDelaysResponse(rows=map(delay_row_message, rows))
        if answer.ByteSize() > MESSAGE_BYTES_MAX:
            sentence = f"the {len(rows)} rows are more than fit in one message of 1 MiB: ask for one virtual cluster"
            raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, sentence, "ANSWER_TOO_LARGE")
        return answer

    def _known(self, job_id: str) -> JobView:
        view = self._engine.job(checked_id("job_id", job_id), self._clock.now_s())
        if view is None:
            raise Refusal(grpc.StatusCode.NOT_FOUND, f"job {job_id!a} is not known", "UNKNOWN_JOB")
        return view
