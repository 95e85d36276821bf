"""From what the engine shows of preemption to messages. An answer is never larger than a message may be."""

from yarn_gpu_sched.engine import views
from yarn_gpu_sched.model.preemption import Preempted
from yarn_gpu_sched.protocol.bounds import one_line
from yarn_gpu_sched.protocol.enums import PREEMPTION_MODE_NUMBERS, PREEMPTION_STAGE_NUMBERS
from yarn_gpu_sched.protocol.fitting import fitting
from yarn_gpu_sched.protocol.v1 import preemption_pb2

PREEMPTED_MAX = 16
"""The last times that a job was stopped, as told with it."""


def preempted_message(one: Preempted, now_s: float) -> preemption_pb2.Preempted:
    """Convert that a job was stopped."""
    return preemption_pb2.Preempted(
        age_s=max(0.0, now_s - one.at_s),
        by_job_id=one.by_job_id,
        by_virtual_cluster=one.by_vc,
        lost_gpu_s=one.lost_gpu_s,
    )


def victim_message(view: views.VictimView) -> preemption_pb2.PreemptionVictim:
    """Convert who is stopped."""
    return preemption_pb2.PreemptionVictim(
        job_id=view.job_id,
        virtual_cluster=view.vc,
        user=view.user,
        gpus=view.gpus,
        ran_s=max(0.0, view.ran_s),
        lost_gpu_s=max(0.0, view.lost_gpu_s),
        stopped_before=view.stopped_before,
        container_ids=view.container_ids,
    )


def plan_message(view: views.PlanView, now_s: float) -> preemption_pb2.PreemptionPlan:
    """Convert for whom they are stopped."""
    return preemption_pb2.PreemptionPlan(
        job_id=view.job_id,
        virtual_cluster=view.vc,
        gpus=view.gpus,
        level=view.level,
        victims=map(victim_message, view.victims),
        servers=[preemption_pb2.ServerGpus(server_id=server_id, gpus=gpus) for server_id, gpus in view.servers],
        stage=PREEMPTION_STAGE_NUMBERS.get(view.stage, preemption_pb2.PREEMPTION_STAGE_UNSPECIFIED),
        age_s=max(0.0, now_s - view.decided_s),
        left_s=None if view.until_s is None else max(0.0, view.until_s - now_s),
    )


def preemption_message(view: views.PreemptionView, now_s: float) -> preemption_pb2.GetPreemptionResponse:
    """Convert what is under way, as many plans as fit. What only the service knows is left to it."""
    plans, left_out = fitting(plan_message(plan, now_s) for plan in view.plans)
    return preemption_pb2.GetPreemptionResponse(
        mode=PREEMPTION_MODE_NUMBERS[view.mode],
        quiet_for_s=max(0.0, view.quiet_until_s - now_s),
        stopped_last_minute=view.stopped_last_minute,
        per_minute_max=view.per_minute_max,
        plans=plans,
        plans_left_out=left_out,
    )


def preview_message(view: views.PreemptionPreview, now_s: float) -> preemption_pb2.PreviewPreemptionResponse:
    """Convert whom a job would have stopped. Its sentences may quote what came from outside: printable lines."""
    return preemption_pb2.PreviewPreemptionResponse(
        plan=None if view.plan is None else plan_message(view.plan, now_s),
        condition=view.condition,
        sentence=one_line(view.sentence),
        hindrances=map(one_line, view.hindrances),
    )
