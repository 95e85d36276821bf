"""From the engine's decisions to messages."""

from yarn_gpu_sched.engine.commands import AnyDecision, PlaceGang, RefuseJob, RequeueJob, StopContainers, WarnJob
from yarn_gpu_sched.protocol.bounds import TEXT_CHARACTERS_MAX
from yarn_gpu_sched.protocol.v1 import decision_pb2, link_pb2

# What the fields of a message cost at most when it is encoded, texts and GPU indices aside.
_DECISION_BYTES_MAX = 160
_ASSIGNMENT_BYTES_MAX = 56
_CONTAINER_ID_BYTES_MAX = 3
_CHARACTER_BYTES_MAX = 4
_GPU_INDEX_BYTES_MAX = 2


def _text_bytes_max(text: str) -> int:
    return len(text) if text.isascii() else _CHARACTER_BYTES_MAX * len(text)


def decision_bytes_max(decision: AnyDecision) -> int:
    """Say how many bytes a decision takes at most when it is encoded, without encoding it."""
    bytes_max = _DECISION_BYTES_MAX + _text_bytes_max(decision.job_id)
    if not isinstance(decision, PlaceGang):
        bytes_max += _text_bytes_max(decision.diagnostics[:TEXT_CHARACTERS_MAX])
        named = () if isinstance(decision, RefuseJob | RequeueJob) else decision.container_ids
        return bytes_max + sum(_CONTAINER_ID_BYTES_MAX + _text_bytes_max(container_id) for container_id in named)
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
    match decision:
        case PlaceGang():
            _fill_place_gang(message.place_gang, decision)
        case RefuseJob():
            message.refuse_job.job_id = decision.job_id
            message.refuse_job.diagnostics = decision.diagnostics[:TEXT_CHARACTERS_MAX]
        case RequeueJob():
            _fill_order(message.requeue_job, decision)
        case WarnJob():
            _fill_order(message.warn_job, decision)
            message.warn_job.container_ids.extend(decision.container_ids)
        case StopContainers():
            _fill_order(message.stop_containers, decision)
            message.stop_containers.container_ids.extend(decision.container_ids)


_OrderMessage = decision_pb2.RequeueJob | decision_pb2.WarnJob | decision_pb2.StopContainers


def _fill_order(message: _OrderMessage, order: RequeueJob | WarnJob | StopContainers) -> None:
    message.job_id = order.job_id
    message.attempt = order.attempt
    message.diagnostics = order.diagnostics[:TEXT_CHARACTERS_MAX]


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
