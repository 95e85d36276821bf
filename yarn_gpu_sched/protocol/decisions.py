"""From the engine's decisions to messages."""

from yarn_gpu_sched.engine.commands import PlaceGang, RefuseJob, RequeueJob
from yarn_gpu_sched.protocol.bounds import TEXT_CHARACTERS_MAX
from yarn_gpu_sched.protocol.v1 import decision_pb2, link_pb2

AnyDecision = PlaceGang | RefuseJob | RequeueJob

# What the fields of a message cost at most when it is encoded, texts and GPU indices aside.
_DECISION_BYTES_MAX = 160
_ASSIGNMENT_BYTES_MAX = 56
_CHARACTER_BYTES_MAX = 4
_GPU_INDEX_BYTES_MAX = 2


def _text_bytes_max(text: str) -> int:
    return len(text) if text.isascii() else _CHARACTER_BYTES_MAX * len(text)


def decision_bytes_max(decision: AnyDecision) -> int:
    """Say how many bytes a decision takes at most when it is encoded, without encoding it."""
    bytes_max = _DECISION_BYTES_MAX + _text_bytes_max(decision.job_id)
    if isinstance(decision, RefuseJob | RequeueJob):
        return bytes_max + _text_bytes_max(decision.diagnostics[:TEXT_CHARACTERS_MAX])
    for assignment in decision.assignments:
        bytes_max += (
            _ASSIGNMENT_BYTES_MAX
            + _text_bytes_max(assignment.server_id)
            + _GPU_INDEX_BYTES_MAX * len(assignment.gpu_indices)
        )
    return bytes_max


def add_decision(decisions: link_pb2.Decisions, decision: AnyDecision, session_id: str, epoch: int) -> None:
    """Append one decision of a session to a message, in place."""
    message = decisions.decisions.add(decision_id=decision.decision_id, session_id=session_id, epoch=epoch)
    if isinstance(decision, RefuseJob):
        message.refuse_job.job_id = decision.job_id
        message.refuse_job.diagnostics = decision.diagnostics[:TEXT_CHARACTERS_MAX]
        return
    if isinstance(decision, RequeueJob):
        message.requeue_job.job_id = decision.job_id
        message.requeue_job.attempt = decision.attempt
        message.requeue_job.diagnostics = decision.diagnostics[:TEXT_CHARACTERS_MAX]
        return
    _fill_place_gang(message.place_gang, decision)


def _fill_place_gang(message: decision_pb2.PlaceGang, gang: PlaceGang) -> None:
    message.job_id = gang.job_id
    message.attempt = gang.attempt
    message.level = gang.level
    add = message.assignments.add
    for assignment in gang.assignments:
        one = add(server_id=assignment.server_id, gpu_indices=assignment.gpu_indices)
        # Set in place: an amount or a key handed to add() would be built and then copied.
        one.key.priority = assignment.key.priority
        one.key.allocation_request_id = assignment.key.allocation_request_id
        resource = assignment.resource
        one.resource.memory_mb = resource.memory_mb
        one.resource.vcores = resource.vcores
        one.resource.gpus = resource.gpus
