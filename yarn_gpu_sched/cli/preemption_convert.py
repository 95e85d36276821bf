"""From the protocol's messages of preemption to the documents of `--json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from yarn_gpu_sched.cli import preemption_documents as documents
from yarn_gpu_sched.protocol.v1 import preemption_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

_MODES = {
    number: name.removeprefix("PREEMPTION_MODE_").lower() for name, number in preemption_pb2.PreemptionMode.items()
}
_STAGES = {
    number: name.removeprefix("PREEMPTION_STAGE_").lower() for name, number in preemption_pb2.PreemptionStage.items()
}


def mode_name(mode: preemption_pb2.PreemptionMode.ValueType) -> documents.ModeName:
    """Return whether it is armed; what a newer service may add is unknown."""
    return cast("documents.ModeName", _MODES[mode] if mode in _MODES and mode else "unknown")


def stage_name(stage: preemption_pb2.PreemptionStage.ValueType) -> documents.StageName:
    """Return how far it has come."""
    return cast("documents.StageName", _STAGES[stage] if stage in _STAGES and stage else "unknown")


def preempted_documents(times: Iterable[preemption_pb2.Preempted]) -> tuple[documents.PreemptedDocument, ...]:
    """Return for whom a job was stopped."""
    return tuple(
        documents.PreemptedDocument(one.age_s, one.by_job_id, one.by_virtual_cluster, one.lost_gpu_s) for one in times
    )


def preemption_document(
    answer: preemption_pb2.GetPreemptionResponse, turned: documents.TurnedDocument | None
) -> documents.PreemptionDocument:
    """Return what holds now."""
    switched = answer.switched
    return documents.PreemptionDocument(
        mode=mode_name(answer.mode),
        mode_of_settings=mode_name(answer.mode_of_settings),
        switched=documents.SwitchDocument(switched.reason, switched.by, switched.time.ToJsonString())
        if answer.HasField("switched")
        else None,
        keeps_switch=answer.keeps_switch,
        quiet_for_s=answer.quiet_for_s,
        stopped_last_minute=answer.stopped_last_minute,
        per_minute_max=answer.per_minute_max,
        stopped=answer.stopped,
        observed=answer.observed,
        plans=tuple(map(plan_document, answer.plans)),
        plans_left_out=answer.plans_left_out,
        turned=turned,
    )


def turned_document(answer: preemption_pb2.SetPreemptionModeResponse, *, dry_run: bool) -> documents.TurnedDocument:
    """Return what a switch changed."""
    return documents.TurnedDocument(
        dry_run=dry_run,
        before=mode_name(answer.before),
        after=mode_name(answer.after),
        spared=tuple(map(_victim, answer.spared)),
        spared_left_out=answer.spared_left_out,
        kept=answer.kept,
        not_kept_because=answer.not_kept_because,
    )


def preview_document(job_id: str, answer: preemption_pb2.PreviewPreemptionResponse) -> documents.PreviewDocument:
    """Return whom a job would have stopped."""
    return documents.PreviewDocument(
        job_id=job_id,
        plan=plan_document(answer.plan) if answer.HasField("plan") else None,
        condition=answer.condition,
        sentence=answer.sentence,
        hindrances=tuple(answer.hindrances),
    )


def plan_document(plan: preemption_pb2.PreemptionPlan) -> documents.PlanDocument:
    """Return for whom others are stopped."""
    return documents.PlanDocument(
        job_id=plan.job_id,
        virtual_cluster=plan.virtual_cluster,
        gpus=plan.gpus,
        level=plan.level,
        victims=tuple(map(_victim, plan.victims)),
        servers=tuple(documents.ServerGpusDocument(one.server_id, one.gpus) for one in plan.servers),
        stage=stage_name(plan.stage),
        age_s=plan.age_s,
        left_s=plan.left_s if plan.HasField("left_s") else None,
    )


def _victim(victim: preemption_pb2.PreemptionVictim) -> documents.VictimDocument:
    return documents.VictimDocument(
        job_id=victim.job_id,
        virtual_cluster=victim.virtual_cluster,
        user=victim.user,
        gpus=victim.gpus,
        ran_s=victim.ran_s,
        lost_gpu_s=victim.lost_gpu_s,
        stopped_before=victim.stopped_before,
        container_ids=tuple(victim.container_ids),
    )
