"""Repeating calls that are safe to repeat, within one deadline for all attempts together."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

import grpc
import tenacity

from yarn_gpu_sched.client.errors import UnavailableError, from_rpc

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")

PAUSE_FIRST_S = 0.1
PAUSE_MAX_S = 1.0
ATTEMPT_MIN_S = 0.05


def repeat_read(call: Callable[[float], Answer], *, timeout_s: float, attempts_max: int) -> Answer:
    """Return ``call(seconds left)``, tried again while the service is unavailable.

    Only for calls that change nothing. Raises the `ServiceError` of the last attempt.
    """
    deadline_s = time.monotonic() + timeout_s

    def attempt() -> Answer:
        try:
            return call(max(ATTEMPT_MIN_S, deadline_s - time.monotonic()))
        except grpc.RpcError as error:
            raise from_rpc(error) from error

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(UnavailableError),
        stop=tenacity.stop_after_attempt(attempts_max) | tenacity.stop_before_delay(timeout_s),
        wait=tenacity.wait_exponential(multiplier=PAUSE_FIRST_S, max=PAUSE_MAX_S)
        + tenacity.wait_random(0, PAUSE_FIRST_S),
        reraise=True,
    )
    return retrying(attempt)
