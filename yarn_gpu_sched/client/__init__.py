"""The client library for jobs, cluster and the resource-manager side of the link.

`Client` reads; `ResourceManagerLink` lets a program that runs servers without YARN be scheduled;
`FakeResourceManager` is such a program in memory. Errors are subclasses of `ServiceError`. The
messages are the protocol's own (`yarn_gpu_sched.protocol.v1`). A complete example is in
docs/client.md.
"""

from yarn_gpu_sched.client.channel import DEFAULT_TARGET
from yarn_gpu_sched.client.client import Client
from yarn_gpu_sched.client.errors import (
    DeadlineError,
    FieldViolation,
    ForbiddenError,
    InvalidRequestError,
    LinkFullError,
    LinkLostError,
    NotFoundError,
    OverloadedError,
    RejectedError,
    ServiceError,
    UnavailableError,
)
from yarn_gpu_sched.client.fake import FakeResourceManager
from yarn_gpu_sched.client.link import ResourceManagerLink
from yarn_gpu_sched.identity import TlsFiles

__all__ = [
    "DEFAULT_TARGET",
    "Client",
    "DeadlineError",
    "FakeResourceManager",
    "FieldViolation",
    "ForbiddenError",
    "InvalidRequestError",
    "LinkFullError",
    "LinkLostError",
    "NotFoundError",
    "OverloadedError",
    "RejectedError",
    "ResourceManagerLink",
    "ServiceError",
    "TlsFiles",
    "UnavailableError",
]
