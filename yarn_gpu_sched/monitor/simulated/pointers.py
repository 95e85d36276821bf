"""What `ctypes` hands to a function of a library, seen from the function's side."""

from __future__ import annotations

import ctypes
from typing import Any, Final

HANDLES: Final = 0x10000
"""Address of the first card's handle: nothing is there, and nobody looks."""


def target(reference: Any) -> Any:  # noqa: ANN401 - any structure
    """Return what `byref(x)` refers to."""
    return reference._obj  # noqa: SLF001 - ctypes has no other way to it


def whole(value: Any) -> int:  # noqa: ANN401 - a number or one of ctypes
    """Return a number that is passed as it is, or as one of ctypes."""
    return int(getattr(value, "value", value))


def address(handle: Any) -> int:  # noqa: ANN401 - a pointer of any type
    """Return where a handle points to; 0: nowhere."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def point(handle: Any, where: int) -> None:  # noqa: ANN401 - a pointer of any type
    """Let a handle point somewhere."""
    ctypes.cast(ctypes.pointer(handle), ctypes.POINTER(ctypes.c_void_p)).contents.value = where


def put_text(buffer: Any, value: str, size: Any) -> bool:  # noqa: ANN401 - an array of char, a number
    """Fill a buffer; False if it is too small. Text is Latin-1, so that a scenario can say any bytes."""
    raw = value.encode("latin-1", "replace")
    if len(raw) >= whole(size):
        return False
    buffer.value = raw
    return True


def number_of(handle: Any) -> int:  # noqa: ANN401 - a pointer of any type
    """Return the number of the card that a handle stands for; any number for one that is not ours."""
    return address(handle) - HANDLES
