"""How a call ends when it cannot be served: a status, a sentence, and details for programs."""

import contextlib
from contextvars import ContextVar
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2  # type: ignore[import-untyped] # has no stubs
from grpc import aio
from grpc_status import rpc_status

from yarn_gpu_sched.protocol.convert import BadField

DOMAIN = "yarn-gpu-sched"

_ended_by: ContextVar["Refusal | None"] = ContextVar("ygs_ended_by", default=None)


class Refusal(Exception):  # noqa: N818 - it ends a call, which is not always an error of ours
    """Ends a call with ``code`` and ``sentence``.

    ``reason`` is a constant in capitals (``google.rpc.ErrorInfo``) that programs may rely on;
    ``bad_field`` names what was wrong in the request (``google.rpc.BadRequest``).
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        sentence: str,
        reason: str,
        bad_field: BadField | None = None,
    ) -> None:
        self.code = code
        self.sentence = sentence
        self.reason = reason
        self.bad_field = bad_field
        super().__init__(sentence)

    @staticmethod
    def of(bad: BadField) -> "Refusal":
        """Refuse a request for a bad field in it."""
        return Refusal(grpc.StatusCode.INVALID_ARGUMENT, str(bad), "BAD_FIELD", bad)

    def status(self) -> status_pb2.Status:
        """Build the rich status (``google.rpc.Status``)."""
        details = [_packed(error_details_pb2.ErrorInfo(reason=self.reason, domain=DOMAIN))]
        if self.bad_field is not None:
            violation = error_details_pb2.BadRequest.FieldViolation(
                field=self.bad_field.field, description=str(self.bad_field)
            )
            details.append(_packed(error_details_pb2.BadRequest(field_violations=[violation])))
        code = code_pb2.Code.Value(self.code.name)
        return status_pb2.Status(code=code, message=self.sentence, details=details)


def _packed(detail: error_details_pb2.ErrorInfo | error_details_pb2.BadRequest) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed


async def end_call(context: aio.ServicerContext[Any, Any], refusal: Refusal) -> None:
    """End a call; raises `grpc.aio.AbortError`, which gRPC expects to see.

    A caller that reads nothing may be gone before it could be told.
    """
    _ended_by.set(refusal)
    status = rpc_status.to_status(refusal.status())
    with contextlib.suppress(aio.InternalError):
        await context.abort(status.code, status.details, status.trailing_metadata)


def refusal_of() -> Refusal | None:
    """Return what ended the call that this task serves; None if nothing did."""
    return _ended_by.get()
