"""Typed errors: what the service answered instead of a result, with its rich status.

Source of every one of them is a gRPC status; `from_rpc` is the only place that maps the two.
"""

from __future__ import annotations

from typing import NamedTuple

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped] # ships no py.typed

_RICH_STATUS_KEY = "grpc-status-details-bin"


class FieldViolation(NamedTuple):
    """One field of a request that the service refused, and what would be right."""

    field: str
    description: str


class ServiceError(Exception):
    """The service answered with an error, or not at all.

    ``code`` is the gRPC status, ``message`` the service's sentence, ``status`` the rich status with
    its details, None where the service sent none.
    """

    def __init__(self, code: grpc.StatusCode, message: str, status: status_pb2.Status | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message
        self.status = status

    @property
    def reason(self) -> str:
        """The stable reason of the rich status (google.rpc.ErrorInfo), empty without one."""
        details = error_details_pb2.ErrorInfo()
        for detail in self.status.details if self.status else ():
            if detail.Unpack(details):
                return str(details.reason)
        return ""


class UnavailableError(ServiceError):
    """The service cannot be reached, or is going down. Reads may be repeated."""


class DeadlineError(ServiceError):
    """No answer within the deadline of the call, its repetitions included."""


class NotFoundError(ServiceError):
    """The service knows no such job, server or virtual cluster."""


class InvalidRequestError(ServiceError):
    """The request, or a message on the link, breaks the protocol: ``violations`` name the fields."""

    @property
    def violations(self) -> tuple[FieldViolation, ...]:
        """The fields that were refused, in the service's order; empty if it named none."""
        bad = error_details_pb2.BadRequest()
        for detail in self.status.details if self.status else ():
            if detail.Unpack(bad):
                return tuple(FieldViolation(v.field, v.description) for v in bad.field_violations)
        return ()


class RejectedError(ServiceError):
    """The state forbids it: an older epoch, an ended session, a message out of order."""


class ForbiddenError(ServiceError):
    """The caller may not do that, or the service does not know who it is (docs/security.md)."""


class OverloadedError(ServiceError):
    """A bound was reached: too many watchers, a reader that is too slow, a message too large."""


class LinkLostError(ServiceError):
    """The link's stream ended; registering again opens another. ``__cause__`` says more."""


class LinkFullError(Exception):
    """The link's bounded queue is full; the session was ended and must be registered again."""


_BY_CODE: dict[grpc.StatusCode, type[ServiceError]] = {
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.OUT_OF_RANGE: InvalidRequestError,
    grpc.StatusCode.FAILED_PRECONDITION: RejectedError,
    grpc.StatusCode.ABORTED: RejectedError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: OverloadedError,
    grpc.StatusCode.PERMISSION_DENIED: ForbiddenError,
    grpc.StatusCode.UNAUTHENTICATED: ForbiddenError,
}


def from_rpc(error: grpc.RpcError) -> ServiceError:
    """Return the typed error for what a call raised."""
    call = as_call(error)
    if call is None:
        return ServiceError(grpc.StatusCode.UNKNOWN, str(error))
    code, message = call.code(), call.details() or ""
    return _BY_CODE.get(code, ServiceError)(code, message, _rich_status(call))


def as_call(error: object) -> grpc.Call | None:
    """Return the call that an error of gRPC is at the same time; None for an error without one."""
    return error if isinstance(error, grpc.Call) else None


def _rich_status(call: grpc.Call) -> status_pb2.Status | None:
    for key, value in call.trailing_metadata() or ():
        if key == _RICH_STATUS_KEY and isinstance(value, bytes):
            try:
                return status_pb2.Status.FromString(value)
            except DecodeError:  # whatever it was, the plain status stands
                return None
    return None
