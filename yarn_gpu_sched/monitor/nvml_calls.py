"""How NVML is asked: what an error means, for a value, for a GPU, for all of them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

import pynvml

from yarn_gpu_sched.monitor.reading import Failure, FailureKind

P = ParamSpec("P")
T = TypeVar("T")
Handle = Any
"""A handle of NVML: pynvml has no type for it."""

DETAIL_MAX: Final = 256

_FOR_GOOD: Final = frozenset(
    {pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_NO_PERMISSION}
)
_OF_ALL: Final = {
    pynvml.NVML_ERROR_UNINITIALIZED: FailureKind.UNREADABLE,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: FailureKind.NO_DRIVER,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: FailureKind.NO_DRIVER,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: FailureKind.DRIVER_MISMATCH,
}
"""Errors that speak of the driver, whatever was asked."""
_AT_FIRST: Final = {
    **_OF_ALL,
    pynvml.NVML_ERROR_NOT_FOUND: FailureKind.NO_DEVICES,
    pynvml.NVML_ERROR_GPU_NOT_FOUND: FailureKind.NO_DEVICES,
    pynvml.NVML_ERROR_TIMEOUT: FailureKind.TIMED_OUT,
}
"""Errors when the library is initialised, or asked how many GPUs there are."""


class Judged(Exception):  # noqa: N818 - a name that says what is wrong
    """An answer that has been judged already."""


class GpuLost(Judged):
    """A GPU is not on the bus any more."""


class NotReadable(Judged):
    """None of the GPUs can be read."""

    def __init__(self, failure: Failure) -> None:
        """Say why."""
        super().__init__(failure.detail)
        self.failure = failure


class Passing(Judged):
    """A value could not be read now; it may be another time."""


def ask(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Ask for a value; None if it is not available. `GpuLost`, `NotReadable` where the error is of more than the value."""
    try:
        return ask_or_say(call, *args, **kwargs)
    except Passing:
        return None


def ask_or_say(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Ask as `ask` does, but raise `Passing` where another time may do; None says that there is no such value here."""
    try:
        return call(*args, **kwargs)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise GpuLost from error
        if error.value in _OF_ALL:
            raise NotReadable(_failure(_OF_ALL[error.value], error)) from error
        if error.value in _FOR_GOOD:
            return None
        raise Passing from error
    except Judged:
        raise
    except Exception as error:  # whatever else an answer makes of pynvml is no value
        raise Passing from error


def ask_first(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Ask what must be answered before anything else can be; `NotReadable` if it is not."""
    try:
        return call(*args, **kwargs)
    except pynvml.NVMLError as error:
        raise NotReadable(_failure(_AT_FIRST.get(error.value, FailureKind.UNREADABLE), error)) from error
    except Exception as error:
        detail = f"the driver's library answers what cannot be taken: {error!r}"[:DETAIL_MAX]
        raise NotReadable(Failure(FailureKind.UNREADABLE, detail)) from error


def ask_text(call: Callable[[Handle], str], handle: Handle) -> str | None:
    """Ask for a text. Bytes that are no UTF-8 are replaced; none at all is not available."""

    def replaced() -> str:
        try:
            return call(handle)
        except UnicodeDecodeError as error:
            return error.object.decode(errors="replace")

    return ask_or_say(replaced) or None


def address(handle: Handle) -> int:
    """Return what tells handles apart."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _failure(kind: FailureKind, error: Any) -> Failure:  # noqa: ANN401 - pynvml has no types
    return Failure(kind, f"{_words(error)} (NVML code {error.value})"[:DETAIL_MAX])


def _words(error: Exception) -> str:
    """Return the driver's words for an error: it is asked for those that pynvml does not know, and may fail in that too."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the library answers for the words, too
        return "an error without words"
