"""Which number of the protocol is which value of the model.

Proto3 passes unknown numbers through, so every number that comes in is looked up here.
"""

from collections.abc import Mapping
from typing import TypeVar

from yarn_gpu_sched.model.health import Health, MarkAction, Telemetry
from yarn_gpu_sched.model.job import JobEnd, JobState
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.model.reason import ReasonCode
from yarn_gpu_sched.model.server import ServerState
from yarn_gpu_sched.protocol.bad_field import BadField
from yarn_gpu_sched.protocol.v1 import (
    decision_pb2,
    gpu_pb2,
    job_pb2,
    preemption_pb2,
    reason_pb2,
    server_pb2,
    virtual_cluster_pb2,
)

Value = TypeVar("Value")

SERVER_STATES: Mapping[int, ServerState] = {
    server_pb2.SERVER_STATE_RUNNING: ServerState.RUNNING,
    server_pb2.SERVER_STATE_DRAINING: ServerState.DRAINING,
    server_pb2.SERVER_STATE_UNHEALTHY: ServerState.UNHEALTHY,
}
UNTAGGED_JOBS: Mapping[int, bool] = {
    virtual_cluster_pb2.UNTAGGED_JOBS_UNSPECIFIED: False,
    virtual_cluster_pb2.UNTAGGED_JOBS_DEBOUNCE: True,
}
JOB_ENDS: Mapping[int, JobEnd] = {
    job_pb2.JOB_END_SUCCEEDED: JobEnd.SUCCEEDED,
    job_pb2.JOB_END_FAILED: JobEnd.FAILED,
    job_pb2.JOB_END_KILLED: JobEnd.KILLED,
}
JOB_STATES: Mapping[int, JobState] = {
    job_pb2.JOB_STATE_PENDING: JobState.PENDING,
    job_pb2.JOB_STATE_RUNNING: JobState.RUNNING,
    job_pb2.JOB_STATE_ENDED: JobState.ENDED,
}
PREEMPTION_MODES: Mapping[int, Mode] = {
    preemption_pb2.PREEMPTION_MODE_OFF: Mode.OFF,
    preemption_pb2.PREEMPTION_MODE_OBSERVE: Mode.OBSERVE,
    preemption_pb2.PREEMPTION_MODE_ON: Mode.ON,
}
OUTCOME_CODES: Mapping[int, OutcomeCode] = {
    number: OutcomeCode[name.removeprefix("OUTCOME_CODE_")]
    for name, number in decision_pb2.OutcomeCode.items()
    if number != decision_pb2.OUTCOME_CODE_UNSPECIFIED
}
REASON_CODES: Mapping[int, ReasonCode] = {
    number: ReasonCode[name.removeprefix("WAITING_REASON_CODE_")]
    for name, number in reason_pb2.WaitingReasonCode.items()
    if number != reason_pb2.WAITING_REASON_CODE_UNSPECIFIED
}

MARK_ACTIONS: Mapping[int, MarkAction] = {
    gpu_pb2.MARK_ACTION_DRAIN: MarkAction.DRAIN,
    gpu_pb2.MARK_ACTION_UNDRAIN: MarkAction.UNDRAIN,
    gpu_pb2.MARK_ACTION_QUARANTINE: MarkAction.QUARANTINE,
    gpu_pb2.MARK_ACTION_ACK: MarkAction.ACK,
}

TELEMETRY_NUMBERS: Mapping[Telemetry, gpu_pb2.TelemetryState.ValueType] = {
    value: gpu_pb2.TelemetryState.Value(f"TELEMETRY_STATE_{value.name}") for value in Telemetry
}
GPU_HEALTH_NUMBERS: Mapping[Health, gpu_pb2.GpuHealth.ValueType] = {
    value: gpu_pb2.GpuHealth.Value(f"GPU_HEALTH_{value.name}") for value in Health
}
SERVER_STATE_NUMBERS: Mapping[ServerState, server_pb2.ServerState.ValueType] = {
    value: server_pb2.ServerState.Value(f"SERVER_STATE_{value.name}") for value in ServerState
}
UNTAGGED_JOBS_NUMBERS: Mapping[bool, virtual_cluster_pb2.UntaggedJobs.ValueType] = {
    False: virtual_cluster_pb2.UNTAGGED_JOBS_UNSPECIFIED,
    True: virtual_cluster_pb2.UNTAGGED_JOBS_DEBOUNCE,
}
JOB_END_NUMBERS: Mapping[JobEnd, job_pb2.JobEnd.ValueType] = {
    value: job_pb2.JobEnd.Value(f"JOB_END_{value.name}") for value in JobEnd
}
JOB_STATE_NUMBERS: Mapping[JobState, job_pb2.JobState.ValueType] = {
    value: job_pb2.JobState.Value(f"JOB_STATE_{value.name}") for value in JobState
}
PREEMPTION_MODE_NUMBERS: Mapping[Mode, preemption_pb2.PreemptionMode.ValueType] = {
    value: preemption_pb2.PreemptionMode.Value(f"PREEMPTION_MODE_{value.name}") for value in Mode
}
PREEMPTION_STAGE_NUMBERS: Mapping[str, preemption_pb2.PreemptionStage.ValueType] = {
    name.removeprefix("PREEMPTION_STAGE_").lower(): number for name, number in preemption_pb2.PreemptionStage.items()
}
REASON_NUMBERS: Mapping[ReasonCode, reason_pb2.WaitingReasonCode.ValueType] = {
    value: reason_pb2.WaitingReasonCode.Value(f"WAITING_REASON_CODE_{value.name}") for value in ReasonCode
}


def known(field: str, number: int, values: Mapping[int, Value]) -> Value:
    """Look a number up; one that is not known, or not set, is a bad field."""
    value = values.get(number)
    if value is None:
        numbers = ", ".join(f"{n} ({str(v).rpartition('.')[2]})" for n, v in values.items())
        raise BadField(field, number, f"one of {numbers}")
    return value
